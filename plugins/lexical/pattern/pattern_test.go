package pattern

import (
	"strings"
	"testing"

	"assay/plugins/internal/suffix"
	"assay/registry/expect"
)

func TestBuild(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		host suffix.Host
		want Build
		hex  bool
	}{
		"word": {suffix.Host{Name: "wiese"}, Build{Length: 5, Letters: "wiese"}, false},
		"figures": {suffix.Host{Name: "ab12-3cde"}, Build{Length: 9, Hyphens: 1, Digits: 3, Run: 2, Turns: 2,
			Letters: "cde"}, false},
		"hexadecimal": {suffix.Host{Name: "9f3ac01be47d22"}, Build{Length: 14, Digits: 8, Run: 2, Turns: 8,
			Letters: "ac"}, true},
		"umlaut": {suffix.Host{Name: "m\u00fcller"}, Build{Length: 6, Letters: "ller"}, false},
		"labels": {suffix.Host{Name: "a", Subdomain: "x.y"}, Build{Length: 1, Letters: "a"}, false},
		"labels on a shared host": {suffix.Host{Name: "a", Subdomain: "x.y", Private: true},
			Build{Length: 1, Letters: "a", Labels: 2}, false},
		"www alone": {suffix.Host{Name: "a", Subdomain: "www", Private: true}, Build{Length: 1, Letters: "a"}, false},
		"nothing":   {suffix.Host{}, Build{}, false},
	} {
		got := read(&tt.host)
		expect.Equal(t, name+": Hex()", got.Hex(), tt.hex)
		got.hex, got.consonants = 0, 0
		expect.Equal(t, name+": read", got, tt.want)
	}
	if got := read(&suffix.Host{Name: "aeschtszi-rst"}); got.consonants != 6 {
		t.Errorf("%d consonants in a run, want 6", got.consonants)
	}
}

func TestPosing(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		host suffix.Host
		part string
	}{
		"com inside":        {suffix.Host{Name: "blumen-com-wiese", TLD: "net"}, "com-"},
		"www glued on":      {suffix.Host{Name: "wwwblumen", TLD: "com"}, "www"},
		"www with a hyphen": {suffix.Host{Name: "www-blumen", TLD: "com"}, "www-"},
		"country, risky":    {suffix.Host{Name: "pl-blumen", TLD: "shop"}, "pl-"},
		"country, at home":  {suffix.Host{Name: "de-blumen", TLD: "de"}, ""},
		"com as a label":    {suffix.Host{Name: "wiese", Subdomain: "shop.com", TLD: "net"}, "com."},
		"machine with www":  {suffix.Host{Name: "wiese", Subdomain: "www-1", TLD: "net"}, ""},
		"com alone":         {suffix.Host{Name: "com", TLD: "net"}, ""},
		"delivery network":  {suffix.Host{Name: "www-blumen", Suffix: "cloudfront.net", TLD: "net", Private: true}, ""},
		"country, on a host": {suffix.Host{Name: "pl-blumen", Suffix: "weebly.com", TLD: "com", Private: true},
			"pl-"},
	} {
		var n Name
		n.Read(&tt.host)
		expect.Equal(t, name, n.Posing(), tt.part)
	}
}

func TestWording(t *testing.T) {
	t.Parallel()
	var n Name
	n.Read(&suffix.Host{Name: "my-verify-wallet-verify", Subdomain: "login.verify", Suffix: "com", TLD: "com"})
	var got []string
	for _, w := range n.Words() {
		got = append(got, w.Text)
	}
	if want := "verify wallet login"; strings.Join(got, " ") != want || n.inName != 2 || n.inLeft != 1 || !n.covered {
		t.Errorf("found %q, %d in the name, %d left of it, covered %t; want %q, 2, 1, true", got, n.inName, n.inLeft,
			n.covered, want)
	}
	for i, theme := range []Theme{Credentials, Wallet, Credentials} {
		if !n.Words()[i].Serves(theme) || n.Words()[i].Serves(Pets) {
			t.Errorf("%s does not serve theme %d alone", n.Words()[i].Text, theme)
		}
	}
	expect.Equal(t, "theme", n.Theme(new([Features]int8)), Credentials)
	if n.Read(&suffix.Host{Name: "doubleverify", Suffix: "com", TLD: "com"}); len(n.Words()) != 0 || n.inLeft != 0 {
		t.Errorf("an honest name has the words %v", n.Words())
	}
}

// FuzzFeatures checks that every feature has odds, and that no name exceeds MaxFeatures.
func FuzzFeatures(f *testing.F) {
	f.Add("paypa1-secure-login", "www.com-a", "xyz", false)
	f.Add("9f3ac01be47d22", "xn-a", "weebly.com", true)
	f.Add("m\u00fcller\xff", "", "de", false)
	f.Add(strings.Repeat("login-wallet-pay-gift-tax-job-date-shop-hack-slots-loans-puppy-pills-help-", 4), "a.b.c",
		"top", false)
	rarity := Rarity(strings.Repeat("5", RarityRows*RarityColumns))
	f.Fuzz(func(t *testing.T, name, left, under string, private bool) {
		h := suffix.Host{Name: name, Subdomain: left, Suffix: under, TLD: under[strings.LastIndexByte(under, '.')+1:],
			Private: private}
		var n Name
		n.Read(&h)
		for _, f := range n.Features(&rarity) {
			if low, high := Bounds(int(f.ID)); f.ID <= Bias || int(f.ID) >= Features || f.Part >= Parts || low > high {
				t.Errorf("feature %+v is not one of %d", f, Features)
			}
		}
	})
}
