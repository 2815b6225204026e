package entity

import (
	_ "embed"
	"strings"
)

// aliasDomains maps a mail domain to the provider's main domain for the same mailboxes, as in MaxMind's "Normalizing
// Email Addresses for minFraud". Domains that only share a provider are not aliases: the same name at me.com and
// icloud.com, or at gmx.de and gmx.net, can belong to different people.
var aliasDomains = map[string]string{
	"googlemail.com": "gmail.com",
	"pm.me":          "protonmail.com",
	"proton.me":      "protonmail.com",
	"ya.ru":          "yandex.ru",
	"yandex.by":      "yandex.ru",
	"yandex.com":     "yandex.ru",
	"yandex.kz":      "yandex.ru",
	"yandex.ua":      "yandex.ru",
}

// providerList has the mail domains of large mailbox providers. Each line has the provider's name, the value of
// email.provider, and some of its domains.
//
//go:embed providers.txt
var providerList string

// providers maps a mail domain to the provider's name.
var providers = func() map[string]string {
	domains := map[string]string{}
	for line := range strings.Lines(providerList) {
		words := strings.Fields(line)
		for _, domain := range words[1:] {
			domains[domain] = words[0]
		}
	}
	return domains
}()
