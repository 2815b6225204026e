package main

import (
	_ "embed"
	"strconv"

	"assay/plugins/internal/mail"
)

// families are disposable mail services beyond those of package mail: sites with several hosts in the labelled
// addresses, all of them disposable. plugins/internal/train/email writes them, in wordlist form.
//
//go:embed families.txt
var families string

// scoreDisposable reports a host of a disposable mail service, and whether it is one.
func scoreDisposable(a *answer, host string) bool {
	service, lists := mail.Disposable(a.check, host)
	if service == "" {
		service = mail.Listed(families, host)
	}
	switch {
	case lists > 0:
		a.report(&disposableListed, strconv.Itoa(lists), service)
	case service != "":
		a.report(&disposableService, service)
	}
	return service != ""
}
