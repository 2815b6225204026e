package mail

import (
	_ "embed"
	"strings"

	"assay/plugins/internal/fingerprint"
	"assay/sdk"
)

var (
	// listed are mail domains on two or more hand-kept lists of disposable mail, each with the number of all lists that
	// hold it. plugins/internal/train/disposable writes them.
	//
	//go:embed disposable.bin
	listed fingerprint.Set

	// services are disposable mail services that listed lacks, most of them because many people visit their sites. In
	// wordlist form.
	//
	//go:embed services.txt
	services string
)

// Disposable returns the disposable mail service that equals the mail domain host or is a parent of it, or "", and the
// number of lists of disposable mail that hold it, if known. A shared host can be such a service.
func Disposable(c *sdk.Check, host string) (service string, lists int) {
	above := c.Get(sdk.DomainRegistrable)
	if c.Get(sdk.DomainSuffixKind) == "private" {
		above = c.Get(sdk.DomainSuffix)
	}
	for name, found := host, above != ""; found && len(name) >= len(above); _, name, found = strings.Cut(name, ".") {
		if lists := listed.Find(name); lists > 0 {
			return name, lists
		}
	}
	return Listed(services, host), 0
}
