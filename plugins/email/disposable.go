package main

import (
	_ "embed"
	"strconv"
	"strings"

	"assay/plugins/internal/fingerprint"
	"assay/plugins/internal/mail"
)

var (
	// listed are mail domains on two or more lists of disposable mail that are kept by hand, with the number of all
	// lists that hold them. plugins/internal/train/disposable writes them.
	//
	//go:embed disposable.bin
	listed fingerprint.Set

	// services are disposable mail services that listed lacks, most of them because many people visit their sites. In
	// wordlist form.
	//
	//go:embed services.txt
	services string

	// families are further such services: sites with several hosts in the labelled addresses, all of them disposable.
	// plugins/internal/train/email writes them, in wordlist form.
	//
	//go:embed families.txt
	families string
)

// scoreDisposable reports a host of a disposable mail service, and whether it is one. site is its registrable domain.
func scoreDisposable(a *answer, host, site string) bool {
	for name := host; len(name) >= len(site) && site != ""; {
		if lists := listed.Find(name); lists > 0 {
			a.report(&disposableListed, strconv.Itoa(lists), name)
			return true
		}
		_, parent, found := strings.Cut(name, ".")
		if !found {
			break
		}
		name = parent
	}
	service := mail.Listed(services, host)
	if service == "" {
		service = mail.Listed(families, host)
	}
	if service == "" {
		return false
	}
	a.report(&disposableService, service)
	return true
}
