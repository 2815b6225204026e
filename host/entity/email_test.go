package entity

import (
	"strings"
	"testing"

	"assay/registry/expect"
)

func TestEmailFacts(t *testing.T) {
	t.Parallel()
	checkFacts(t, Email, map[string]parsed{
		"as the facts table shows": {"Jane.Doe+shop@googlemail.com", "janedoe@gmail.com", Facts{
			"entity.type": "email", "email.address": "Jane.Doe+shop@googlemail.com", "email.local": "Jane.Doe+shop",
			"email.user": "janedoe", "email.tag": "shop", "email.domain": "gmail.com", "email.provider": "google",
			"domain.ascii": "gmail.com", "domain.registrable": "gmail.com", "domain.name": "gmail"}},
		"plain": {"Info@Sub.Example.co.uk", "info@sub.example.co.uk", Facts{"email.tag": "", "email.provider": "",
			"email.local": "Info", "domain.registrable": "example.co.uk", "domain.subdomain": "sub"}},
		"dots count elsewhere": {"j.d@example.com", "j.d@example.com", nil},
		"plus anywhere":        {"jane+a+b@example.com", "jane@example.com", Facts{"email.tag": "a+b"}},
		"plus in front":        {"+jane@example.com", "+jane@example.com", Facts{"email.tag": ""}},
		"nothing after plus":   {"jane+@example.com", "jane@example.com", Facts{"email.tag": ""}},
		"dot before plus":      {"jane.+x@example.com", "jane@example.com", Facts{"email.tag": "x"}},
		"hyphen at Yahoo": {"jane-shop@yahoo.de", "jane@yahoo.de", Facts{
			"email.tag": "shop", "email.provider": "yahoo"}},
		"hyphen elsewhere": {"jane-shop@example.com", "jane-shop@example.com", Facts{"email.tag": ""}},
		"Fastmail subdomain": {"shop@jane.fastmail.com", "jane@fastmail.com", Facts{
			"email.tag": "shop", "email.user": "jane", "domain.ascii": "fastmail.com"}},
		"quoted at Fastmail": {`"a b"@jane.fastmail.com`, `"a b"@jane.fastmail.com`, nil},
		"Proton alias": {"jane@pm.me", "jane@protonmail.com", Facts{
			"email.address": "jane@pm.me", "email.provider": "proton"}},
		"typo domain not repaired": {"jane@gmai.com", "jane@gmai.com", Facts{"email.provider": ""}},
		"IDN": {"jane@bücher.de", "jane@xn--bcher-kva.de", Facts{
			"email.address": "jane@xn--bcher-kva.de", "domain.unicode": "bücher.de"}},
		"Unicode local":          {"JOSE\u0301@example.com", "josé@example.com", Facts{"email.local": "JOSE\u0301"}},
		"capital by composition": {"\u2126@example.com", "ω@example.com", nil},
		"needless quotes":        {`"Jane.Doe"@gmail.com`, "janedoe@gmail.com", Facts{"email.local": `"Jane.Doe"`}},
		"needed quotes": {`"Jane Doe+x"@example.com`, `"jane doe+x"@example.com`, Facts{
			"email.tag": "", "email.user": `"jane doe+x"`}},
		"loose dots at a network": {"try..this..0511@docomo.ne.jp", `"try..this..0511"@docomo.ne.jp`, Facts{
			"email.local": "try..this..0511"}},
		"the same in quotes":   {`"try..this..0511"@docomo.ne.jp`, `"try..this..0511"@docomo.ne.jp`, nil},
		"dot at the end":       {"Hanako.Y.@EZWEB.ne.jp", `"hanako.y."@ezweb.ne.jp`, nil},
		"plus and loose dots":  {"a..b+c@docomo.ne.jp.", `"a..b+c"@docomo.ne.jp`, Facts{"email.tag": ""}},
		"no loose dots, as is": {"hanako.y@docomo.ne.jp", "hanako.y@docomo.ne.jp", nil},
		"needless escapes":     {`"j\a\@ne"@example.com`, `"ja@ne"@example.com`, nil},
		"all of atext":         {"!#$%&'*/=?^_`{|}~@example.com", "!#$%&'*/=?^_`{|}~@example.com", nil},
		"address of 254": {strings.Repeat("a", 64) + "@" + longName(189), strings.Repeat("a", 64) + "@" +
			longName(189), nil},
	})
}

func TestEmailRefused(t *testing.T) {
	t.Parallel()
	checkRefused(t, Email, map[string]refused{
		"no @":                  {"example.com", "", "no '@'"},
		"two @":                 {"a@b@example.com", "", "more than one '@'"},
		"no local":              {"@example.com", "", "nothing before"},
		"no domain":             {"jane@", "", "no domain after"},
		"two dots at the end":   {"jane@example.com..", "", "empty label"},
		"local of 65 bytes":     {strings.Repeat("ü", 33) + "@example.com", "", "longer than 64"},
		"over 64 in lower case": {strings.Repeat("Ⱥ", 32) + "@example.com", "", "in lower case"},
		"tag over 64":           {"a+" + strings.Repeat("b", 63) + "@example.com", "", "longer than 64 bytes"},
		"tagged, 255":           {"a+" + strings.Repeat("b", 62) + "@" + longName(190), "", "longer than 254"},
		"over 254 in lower case": {strings.Repeat("Ⱥ", 20) + "@" + longName(213), "",
			"longer than 254 bytes in lower case"},
		"grapheme joiner":           {"ja\u034fne@example.com", "", "character U+034F"},
		"over 64 after the alias":   {strings.Repeat("Ⱥ", 30) + "@pm.me", "", "in lower case"},
		"leading dot":               {".jane@example.com", "", "starts or ends with a dot"},
		"two dots":                  {"ja..ne@example.com", "", "two in a row"},
		"only dots at a network":    {"...@docomo.ne.jp", "", "starts or ends with a dot"},
		"dot in front at a network": {".jane@docomo.ne.jp", "", "starts or ends with a dot"},
		"comma at a network":        {"ja..n,e@docomo.ne.jp", "", "must be quoted"},
		"space":                     {"ja ne@example.com", "", "contains a space"},
		"semicolon look":            {"ja\u037ene@example.com", "", "must be quoted"}, // composes to ';'
		"display name":              {"Jane <jane@example.com>", "", "display name"},
		"comment":                   {"jane(work)@example.com", "", "comment"},
		"domain comment":            {"jane@example.com(work)", "", "comment"},
		"IPv4 literal":              {"jane@[192.0.2.1]", "", "IP address instead of a domain"},
		"bare IPv4":                 {"jane@192.0.2.1", "", "domain that is an IP address"},
		"zero width space":          {"ja\u200bne@example.com", "", "character U+200B"},
		"open quotes":               {`"jane@example.com`, "", "quotes that do not enclose"},
		"empty quotes":              {`""@example.com`, "", "nothing between"},
		"quote inside":              {`ja"ne@example.com`, "", "must be quoted"},
	})
}

func TestProvidersAreDomains(t *testing.T) {
	t.Parallel()
	for domain := range providers {
		expect.Equal(t, "provider domain", expect.Value(Parse(Domain, domain, ""))(t).Value, domain)
	}
	for from, to := range aliasDomains {
		expect.That(t, providers[from] != "" && providers[from] == providers[to],
			"%s (provider %q) is an alias of %s (provider %q)", from, providers[from], to, providers[to])
	}
}

func FuzzEmail(f *testing.F) {
	for _, s := range []string{"Jane.Doe+shop@googlemail.com", `"a b"@example.com`, "shop@jane.fastmail.com",
		"j-x@yahoo.fr",
		"用户@例え.jp", "\u2126@example.com", "İ@example.com", "e.\u0301@gmail.com", "a.+b@x.de", `"\"\\"@x.de`, "a@b@c.de",
		".+@x.de", `"john..smith"@gmail.com`, `"."@gmail.com`, `".j+x"@gmail.com`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, raw string) { checkParse(t, Email, raw, "") })
}
