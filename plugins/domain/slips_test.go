package main

import (
	"strings"
	"testing"

	"assay/host/entity"
	"assay/plugins/internal/brand"
	"assay/registry/expect"
	"assay/registry/layertest"
	"assay/sdk"
)

// keyboards holds the neighbours of each key on the layouts that dnstwist knows.
var keyboards = [...]map[byte]string{
	{'1': "2q", '2': "3wq1", '3': "4ew2", '4': "5re3", '5': "6tr4", '6': "7yt5", '7': "8uy6", '8': "9iu7", '9': "0oi8",
		'0': "po9", 'q': "12wa", 'w': "3esaq2", 'e': "4rdsw3", 'r': "5tfde4", 't': "6ygfr5", 'y': "7uhgt6",
		'u': "8ijhy7", 'i': "9okju8", 'o': "0plki9", 'p': "lo0", 'a': "qwsz", 's': "edxzaw", 'd': "rfcxse",
		'f': "tgvcdr", 'g': "yhbvft", 'h': "ujnbgy", 'j': "ikmnhu", 'k': "olmji", 'l': "kop", 'z': "asx", 'x': "zsdc",
		'c': "xdfv", 'v': "cfgb", 'b': "vghn", 'n': "bhjm", 'm': "njk"},
	{'q': "12wa", 'w': "3esaq2", 'e': "4rdsw3", 'r': "5tfde4", 't': "6zgfr5", 'z': "7uhgt6", 'u': "8ijhz7",
		'i': "9okju8", 'o': "0plki9", 'p': "lo0", 'a': "qwsy", 's': "edxyaw", 'd': "rfcxse", 'f': "tgvcdr",
		'g': "zhbvft", 'h': "ujnbgz", 'y': "asx", 'x': "ysdc"},
	{'a': "2zq1", 'z': "3esqa2", 'e': "4rdsz3", 'q': "zswa", 's': "edxwqz", 'm': "lp", 'w': "sxq", 'x': "wsdc"},
}

// lookalikes holds the ASCII spellings that look like a letter.
var lookalikes = map[byte][]string{
	'0': {"o"}, '1': {"l", "i"}, '3': {"8"}, '6': {"9"}, '8': {"3"}, '9': {"6"}, 'b': {"d", "lb"}, 'c': {"e"},
	'd': {"b", "cl", "dl"}, 'e': {"c"}, 'g': {"q"}, 'h': {"lh"}, 'i': {"1", "l"}, 'k': {"lc"}, 'l': {"1", "i"},
	'm': {"n", "nn", "rn"}, 'n': {"m", "r"}, 'o': {"0"}, 'q': {"g"}, 'u': {"v"}, 'v': {"u"}, 'w': {"vv"},
}

// slipsOf returns the names that one slip makes of name, by kind, as dnstwist's permutations of these kinds do.
func slipsOf(name string) map[string][]string {
	slips, seen := map[string][]string{}, map[string]bool{name: true}
	add := func(kind, slip string) {
		if !seen[slip] && strings.Trim(slip, "-") == slip {
			seen[slip] = true
			slips[kind] = append(slips[kind], slip)
		}
	}
	for i := range len(name) {
		before, letter, after := name[:i], name[i:i+1], name[i+1:]
		add("omission", before+after)
		add("repetition", before+letter+letter+after)
		if after != "" {
			add("transposition", before+after[:1]+letter+after[1:])
		}
		for _, twin := range lookalikes[name[i]] {
			add("look-alike", before+twin+after)
		}
		for _, keys := range keyboards {
			for k := range len(keys[name[i]]) {
				key := keys[name[i]][k : k+1]
				add("neighbouring key", before+key+after)
				if after != "" {
					add("insertion", before+key+letter+after)
					add("insertion", before+letter+key+after)
				}
			}
		}
		if i > 0 {
			add("hyphen", before+"-"+letter+after)
		}
	}
	for _, pair := range [][2]string{{"rn", "m"}, {"cl", "d"}} {
		for i := range name {
			if rest, ok := strings.CutPrefix(name[i:], pair[0]); ok {
				add("look-alike", name[:i]+pair[1]+rest)
			}
		}
	}
	return slips
}

// A brand is coined if its kind says so, and its key is long and no ordinary word with a letter in front, as icloud is.
func isCoined(b *brand.Brand) bool {
	return b.Kind() == brand.Coined && len(b.Key) >= coinedLetters && keyEditLimit(b.Key) > 0 && !isOrdinary(b.Key)
}

// TestSlipsAreFindings counts the slips of coined brands that are findings, of each kind and of each brand.
func TestSlipsAreFindings(t *testing.T) {
	t.Parallel()
	found, all := map[string]int{}, map[string]int{}
	for i := range brand.Count() {
		b := brand.At(i)
		if !isCoined(b) {
			continue
		}
		mine, total := 0, 0
		for kind, slips := range slipsOf(b.Key) {
			for k, slip := range slips {
				if (k+i)%6 != 0 {
					continue // a sample
				}
				all[kind]++
				total++
				if sdk.Run(Score, facts(t, entity.Domain, slip+".com")).Score >= reviewPoints {
					found[kind]++
					mine++
				}
			}
		}
		want := 80
		if from, to := distinctive(b.Key); to-from < min(minDistinctive, len(b.Key)) {
			want = 33 // most slips in the few letters beside bank are the names of other banks
		}
		expect.That(t, mine*100 >= total*want, "%s: %d of %d slips are findings, want %d%%", b.Key, mine, total, want)
	}
	for kind, slips := range all {
		t.Logf("%s: %d of %d slips are findings", kind, found[kind], slips)
		expect.That(t, found[kind]*100 >= slips*90, "%s: %d of %d slips are findings, want 90%%", kind, found[kind],
			slips)
	}
}

// TestSlipsInLongerNames checks disguises and slips in parts of names, and honest names that resemble them.
func TestSlipsInLongerNames(t *testing.T) {
	t.Parallel()
	for code, names := range map[string]string{
		"domain:homograph:brand": "ḍhl.com dhḷ.de ıng.de іпԍ.com ṅ26.com hsbć.com gļs.com okẋ.com ẹbay.com dкb.de",
		"domain:brand:typo": "meta-mosk.com face-boook.com coin-bsae.com insta-garm.com net-filx.com netfilx-tv.com " +
			"get-legder.com telegarm-web.org kralken-app.com upphold.net exoduss-wallet.com blockchian-id.com",
		"domain:brand:missing_dot": "paypalcom.school-host.com wwwpaypal.example-host.com ledgercom.school-host.com " +
			"facebookcom.pages-srv.org coinbase-com.abc-host.com www-netflix.web-srv.net",
		"domain:brand:combined": "dhlpaket24.com dhlzoll.com hsbcsecure.com okxwallet.com amexlogin.com " +
			"my-uspsredelivery.com glspaket.com upspaket.com irsrefund.com spk-vorgang.net",
		"": "über.com vísa.is méta.fr níké.hu ticketing-client.com repairs-help.com startups-login.com groupspay.com " +
			"accounting.by imports-ltd.com starto.jp mi-journey.jp dt-internet.de ing.de upsidewallet.com",
	} {
		for name := range strings.FieldsSeq(names) {
			got := ""
			for _, s := range sdk.Run(Score, facts(t, entity.Domain, name)).Signals {
				if s.Points >= reviewPoints {
					got = s.Code
					break
				}
			}
			expect.That(t, got == code, "%s has the finding %q, want %q", name, got, code)
		}
	}
}

// TestLabelledSlips counts the honest names that are findings: slips and disguises, and all kinds together.
func TestLabelledSlips(t *testing.T) {
	t.Parallel()
	type row struct {
		Value, Source string
		Label         int
	}
	names, slips, findings := 0, 0, 0
	layertest.Rows(t, "train_domains_pool.jsonl.gz", func(row row) {
		e, err := entity.Parse(entity.Domain, row.Value, "")
		if row.Label != 0 || err != nil || row.Source == "v2fly_brands" { // brands register slips of their names
			return
		}
		names++
		result := sdk.Run(Score, sdk.Facts(e.Facts))
		if result.Score < reviewPoints {
			return
		}
		findings++
		switch code := result.Signals[0].Code; {
		case code == texts[codeAddressInside].name, code == texts[codeBaitWords].name,
			code == texts[codeCombined].name, code == texts[codeSubdomain].name:
		default:
			slips++
		}
	})
	t.Logf("of %d honest names, %d are slips of a brand, and %d have a finding", names, slips, findings)
	expect.That(t, names >= 100_000 && slips*1000 <= names*2 && findings*1000 <= names*3,
		"of %d honest names, %d are slips of a brand and %d have a finding, want at most 0.2%% and 0.3%%", names, slips,
		findings)
}
