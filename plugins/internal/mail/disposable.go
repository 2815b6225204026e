package mail

import (
	_ "embed"
	"strings"

	"assay/plugins/internal/fingerprint"
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

// Disposable returns the disposable mail service that equals host or is a parent of it, or "", and the number of lists
// of disposable mail that hold it, if known. site is the registrable domain of host.
func Disposable(host, site string) (service string, lists int) {
	for name, found := host, site != ""; found && len(name) >= len(site); _, name, found = strings.Cut(name, ".") {
		if lists := listed.Find(name); lists > 0 {
			return name, lists
		}
	}
	return Listed(services, host), 0
}
