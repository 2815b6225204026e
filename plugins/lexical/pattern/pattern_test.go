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
		"word":        {suffix.Host{Name: "wiese"}, Build{Length: 5, Letters: "wiese"}, false},
		"figures":     {suffix.Host{Name: "ab12-3cde"}, Build{Length: 9, Hyphens: 1, Digits: 3, Letters: "cde"}, false},
		"hexadecimal": {suffix.Host{Name: "9f3ac01be47d22"}, Build{Length: 14, Digits: 8, Letters: "ac"}, true},
		"umlaut":      {suffix.Host{Name: "m\u00fcller"}, Build{Length: 6, Letters: "ller"}, false},
		"nothing":     {suffix.Host{}, Build{}, false},
	} {
		got := read(&tt.host)
		expect.Equal(t, name+": Hex()", got.Hex(), tt.hex)
		got.hex = 0
		expect.Equal(t, name+": read", got, tt.want)
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
		"com further left":  {suffix.Host{Name: "wiese", Subdomain: "blumen-com", TLD: "net"}, "-com"},
		"co and jp":         {suffix.Host{Name: "wiese", Subdomain: "blumen.co.jp", TLD: "net"}, "co.jp"},
		"or-jp in a label":  {suffix.Host{Name: "wiese", Subdomain: "blumen-or-jp", TLD: "net"}, "or-jp"},
		"ne-jp as a label":  {suffix.Host{Name: "wiese", Subdomain: "blumen.ne-jp", TLD: "net"}, "ne-jp"},
		"co and a word":     {suffix.Host{Name: "wiese", Subdomain: "co.shop", TLD: "net"}, ""},
		"a word and jp":     {suffix.Host{Name: "wiese", Subdomain: "blumen-jp.eco-jp.co-op.ne-01", TLD: "net"}, ""},
		"machine with www":  {suffix.Host{Name: "wiese", Subdomain: "www-1", TLD: "net"}, ""},
		"com alone":         {suffix.Host{Name: "com", TLD: "net"}, ""},
		"delivery network":  {suffix.Host{Name: "www-blumen", Suffix: "cloudfront.net", TLD: "net", Private: true}, ""},
		"country, hosted":   {suffix.Host{Name: "pl-blumen", Suffix: "weebly.com", TLD: "com", Private: true}, "pl-"},
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
	if want := "verify wallet login"; strings.Join(got, " ") != want || n.inLeft != 1 || n.Words()[1].At != 10 ||
		n.Words()[2].At != -1 {
		t.Errorf("found %q, %d left of the name, %+v; want %q, 1", got, n.inLeft, n.Words(), want)
	}
	for i, theme := range []Theme{Credentials, Wallet, Credentials} {
		expect.That(t, n.Words()[i].Serves(theme) && !n.Words()[i].Serves(Pets), "%s does not serve theme %d alone",
			n.Words()[i].Text, theme)
	}
	if n.Read(&suffix.Host{Name: "doubleverify", Suffix: "com", TLD: "com"}); len(n.Words()) != 0 || n.inLeft != 0 {
		t.Errorf("an honest name has the words %v", n.Words())
	}
}

func TestPoints(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		host suffix.Host
		want Points
	}{
		"ordinary":              {suffix.Host{Name: "blumenwiese", Subdomain: "shop", TLD: "de"}, Points{}},
		"hexadecimal":           {suffix.Host{Name: "9f3ac01be47d22", TLD: "com"}, Points{Shape: 30}},
		"com inside":            {suffix.Host{Name: "blumen-com-wiese", TLD: "net"}, Points{Address: 8}},
		"com as a label":        {suffix.Host{Name: "wiese", Subdomain: "shop.com", TLD: "net"}, Points{Address: 49}},
		"punycode that is none": {suffix.Host{Name: "xn-wiese", TLD: "com"}, Points{Address: 8}},
		"one bait word left":    {suffix.Host{Name: "wiese", Subdomain: "login", TLD: "de"}, Points{}},
		"two bait words left":   {suffix.Host{Name: "wiese", Subdomain: "login-verify", TLD: "de"}, Points{Bait: 40}},
		"goods, licence needed": {suffix.Host{Name: "viagra-cialis", TLD: "com"}, Points{Bait: 70}},
	} {
		var n Name
		n.Read(&tt.host)
		expect.Equal(t, name, n.Points(), tt.want)
	}
}

// FuzzName checks that no name makes reading fail, and that bait words are where they are said to be.
func FuzzName(f *testing.F) {
	f.Add("paypa1-secure-login", "www.com-a", "xyz", false)
	f.Add("9f3ac01be47d22", "xn-a", "weebly.com", true)
	f.Add("m\u00fcller\xff", "", "de", false)
	f.Add(strings.Repeat("login-wallet-pay-gift-tax-job-date-shop-hack-slots-loans-puppy-pills-help-", 4), "a.b.c",
		"top", false)
	f.Fuzz(func(t *testing.T, name, left, under string, private bool) {
		h := suffix.Host{Name: name, Subdomain: left, Suffix: under, TLD: under[strings.LastIndexByte(under, '.')+1:],
			Private: private}
		var n Name
		n.Read(&h)
		for _, w := range n.Words() {
			expect.That(t, w.At < 0 || strings.HasPrefix(name[w.At:], w.Text), "%q is not at %d of %q", w.Text, w.At,
				name)
		}
		p := n.Points()
		expect.That(t, p.Address >= 0 && p.Shape >= 0 && p.Bait >= 0, "%+v", p)
	})
}
