package mail

import (
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/publicsuffix"

	"assay/plugins/internal/fingerprint"
	"assay/plugins/internal/generated"
	"assay/plugins/internal/wordlist"
	"assay/registry/expect"
)

func TestListsSearchable(t *testing.T) {
	t.Parallel()
	for name, list := range map[string]string{
		"relays": relays, "services": services, "networks": networks, "vanity": vanity, "typed": typed,
		"Popular": Popular, "slipped": slipped, "realDomains": realDomains, "wrongSuffixes": wrongSuffixes,
	} {
		expect.Equal(t, name, wordlist.Fault(list), "")
	}
}

func TestProviderAndRelay(t *testing.T) {
	t.Parallel()
	for host, want := range map[string][2]string{
		"consultant.com": {"consultant.com", ""}, "mail2norway.com": {"mail2norway.com", ""},
		"box.hushmail.com": {"hushmail.com", ""},
		"mozmail.com":      {"", "mozmail.com"}, "jane.anonaddy.me": {"", "anonaddy.me"},
		"mail2a.com": {}, "sub.example.com": {}, "com": {}, "": {}, "notconsultant.com": {}, "mail2norway.net": {},
		"mail2norway.a.com": {}, "privaterelay.apple.": {},
	} {
		expect.Equal(t, "Provider and Relay of "+host, [2]string{Provider(host), Relay(host)}, want)
	}
}

// TestTyped makes typed.txt of the host's providers and of networks, without short and ordinary names.
func TestTyped(t *testing.T) {
	t.Parallel()
	var names []string
	add := func(domain string) {
		label, _, _ := strings.Cut(domain, ".")
		site, err := publicsuffix.EffectiveTLDPlusOne(domain)
		if err == nil && site == domain && len(label) >= minDoubled {
			names = append(names, domain)
		}
	}
	for line := range strings.Lines(string(expect.Value(os.ReadFile("../../../host/entity/providers.txt"))(t))) {
		words := strings.Fields(line)
		for _, domain := range words[1:] {
			if words[0] != "fastmail" || strings.HasPrefix(domain, "fastmail.") {
				add(domain)
			}
		}
	}
	for _, domain := range strings.Fields(networks) {
		add(domain)
	}
	slices.Sort(names)
	names = slices.Compact(names)
	generated.Check(t, "typed.txt", []byte(strings.Join(names, "\n")+"\n"))
}

func TestFindSlip(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		host, suffix string
		unlisted     bool
		want, how    string
	}{
		"swapped":                       {"gmial.com", "com", false, "gmail.com", "letters ai swapped"},
		"missing":                       {"gmal.com", "com", false, "gmail.com", "i is missing"},
		"extra":                         {"gmaail.com", "com", false, "gmail.com", "extra a"},
		"replaced":                      {"gmaol.com", "com", false, "gmail.com", "o for i"},
		"suffix":                        {"gmail.cm", "cm", false, "gmail.com", ".cm in place of .com"},
		"unlisted suffix":               {"gmail.cmm", "cmm", true, "gmail.com", ".cmm in place of .com"},
		"right":                         {"gmail.com", "com", false, "", ""},
		"regional suffix":               {"yahoo.fr", "fr", false, "", ""},
		"two edits":                     {"gmiall.com", "com", false, "", ""},
		"other first letter":            {"zmail.com", "com", false, "", ""},
		"far first letter":              {"motmail.com", "com", false, "", ""},
		"first letter missing":          {"otmail.com", "com", false, "hotmail.com", "h is missing"},
		"short name under another":      {"gmial.de", "de", false, "", ""},
		"long name under another":       {"hotmial.de", "de", false, "hotmail.de", "letters ai swapped"},
		"digit replaces":                {"l1ve.com", "com", false, "live.com", "the digit 1"},
		"letter replaces in four":       {"love.com", "com", false, "", ""},
		"digit inserted in four":        {"li7ve.com", "com", false, "live.com", "the digit 7"},
		"digit after four":              {"live5.com", "com", false, "", ""},
		"national under its suffix":     {"seznma.cz", "cz", false, "seznam.cz", "letters am swapped"},
		"national under another":        {"seznma.com", "com", false, "", ""},
		"look-alikes of a real domain":  {"ernail.com", "com", false, "", ""},
		"swapped at the start":          {"ornage.fr", "fr", false, "orange.fr", "letters an swapped"},
		"doubled in three":              {"gmxx.de", "de", false, "gmx.de", "extra x"},
		"other letter in three":         {"gmd.de", "de", false, "", ""},
		"next key in a national one":    {"bluewim.ch", "ch", false, "bluewin.ch", "m for n"},
		"national suffix of two labels": {"rogres.co.uk", "co.uk", false, "", ""},
		"Brazilian one":                 {"terrra.com.br", "com.br", false, "terra.com.br", "extra r"},
		"Japanese one":                  {"docmo.ne.jp", "ne.jp", false, "docomo.ne.jp", "o is missing"},
		"wrong national suffix":         {"citromail.hhu", "hhu", true, "citromail.hu", ".hhu in place of .hu"},
		"dot inside":                    {"hot.mail.com", "com", false, "hotmail.com", "a dot inside"},
		"dot inside, other suffix":      {"ya.hoo.de", "de", false, "yahoo.de", "a dot inside"},
		"dot inside an ordinary host":   {"web.mail.com", "com", false, "", ""},
		"www":                           {"www.orange.fr", "fr", false, "orange.fr", "www. in front of it"},
		"www of another":                {"www.example.fr", "fr", false, "", ""},
		"vanity name":                   {"lawyers.com", "com", false, "", ""},
		"real neighbour":                {"usaa.com", "com", false, "", ""},
		"no suffix":                     {"gmail", "", false, "", ""},
		"public suffix":                 {"com", "com", false, "", ""},
	} {
		got := FindSlip(tc.host, tc.suffix, tc.unlisted)
		expect.That(t, got.Meant == tc.want && got.Difference == tc.how, "%s: FindSlip(%s) = %q, %q, want %q, %q", name,
			tc.host, got.Meant, got.Difference, tc.want, tc.how)
	}
}

// TestRarePairs checks that names of people in many languages have few rare pairs of letters.
func TestRarePairs(t *testing.T) {
	t.Parallel()
	for names, many := range map[string]bool{
		"krzysztof.brzeczyszczykiewicz rhydderch.llwyd jschwarzschmid vlk.smrt nguyenphuonganh xkcdwtf " +
			"wickramasinghe.pathiranage szczepanski.kw mhoffmann jkowalczyk ": false, // and ""
		"jhuqc35mvfu kvjxqz asdkjhqwe": true,
	} {
		for _, name := range strings.Split(names, " ") {
			n := RarePairs(name)
			expect.That(t, (n >= 3) == many, "%s has %d rare pairs, want 3 or more: %v", name, n, many)
		}
	}
}

// TestListed checks the form of the listed domains' file, and that no provider is in it.
func TestListed(t *testing.T) {
	t.Parallel()
	if n := listed.Len(); n < 30000 || len(listed) > 200<<10 || len(listed) != len(fingerprint.Encode(nil))+4*n {
		t.Errorf("%d domains in %d bytes, want 30,000 or more in at most 200 KiB, 4 bytes for each", n, len(listed))
	}
	for domain, want := range map[string]bool{
		"sharklasers.com": true, "0815.ru": true, "gishpuppy.com": true, "gmail.com": false, "gmial.com": false,
		"aol.com": false, "docomo.ne.jp": false, "duck.com": false, "snkmail.com": false, "anonaddy.me": false,
		"consultant.com": false, "uni-heidelberg.de": false, "us.to": false, "vodafonegroup.com": false,
	} {
		if lists := listed.Find(domain); lists > 0 != want || want && lists < 2 {
			t.Errorf("%s is on %d lists, want any: %v", domain, lists, want)
		}
	}
}

// TestOnOneList checks that no disposable service is a provider or a relay too.
func TestOnOneList(t *testing.T) {
	t.Parallel()
	for _, host := range strings.Fields(services) {
		expect.That(t, Provider(host) == "" && Relay(host) == "", "%s is on two lists", host)
		expect.That(t, listed.Find(host) <= 0, "%s needs no line of its own: the fingerprints have it", host)
	}
}

func TestIsRandom(t *testing.T) {
	t.Parallel()
	for local, want := range map[string]bool{
		"xkqzvwpt9283471": true, "qzjxvkwh": true, "bvxqkzmjw": true, "wqxkjz8830214": true, "zxqvkjp102938": true,
		"x8k2p9q4zw": false, "krzysztofbrzeczyszczykiewicz": false, "hrbrmstr": false, "szczepanskikw": false,
		"xkcdwtf": false, "hjqzx": false, "wqxkjz.meier": false, "jqzx.8830214": false, "anna9283471": false,
		"9283471": false, "": false, "мария": false,
	} {
		expect.Equal(t, "IsRandom of "+local, IsRandom(local), want)
	}
}

func TestDisposableWord(t *testing.T) {
	t.Parallel()
	for labels, want := range map[string]string{
		"temporalemail": "temporalemail", "mailtemporal": "mailtemporal", "10minemail": "10minemail",
		"dispoemail": "dispoemail", "my-tempmail-2": "tempmail", "60-minuten-mail": "60minutenmail",
		"mails-jetables": "mailsjetable", "wegwerfadresse": "wegwerfadress", "correodesechable": "correodesechable",
		"mailprovvisoria24": "mailprovvisoria", "emaildescartavel": "maildescartavel", "inbox.trashinbox": "trashinbox",
		"gecicieposta": "gecicieposta", "vremennaya-pochta": "vremennayapochta", "engangsemail": "engangsemail",
		"adresse-jetable": "adressejetable", "pochtanachas24": "pochtanachas", "slask-mail": "", "24hourpostage": "",
		"contempopostal": "", "tempepostal": "", "tempopostale": "", "1daypostage": "",
		"postatemporanea":    "postatemporanea",
		"tijdelijkmailadres": "tijdelijkmail", "email10min": "mail10min", "mail2temp": "", "mailtemp7": "mailtemp",
		"fake-inbox": "fakeinbox", "get.throwaway-email": "throwawayemail", "yopmail4u": "yopmail",
		"templemail": "", "mailtemplates": "", "contemporaryposters": "", "htmlemailtemplates": "",
		"10minuteschool": "",
		"mailcatcher":    "", "maildroppa": "", "disposable-gloves": "", "fake-fur": "", "firstmail": "", "dropbox": "",
		"email-brastemp": "", "temporary-staffing": "", "fastmail": "", "24hour-fitness": "", "": "", "mail": "",
	} {
		expect.Equal(t, "the word in "+labels, DisposableWord(labels), want)
	}
}
