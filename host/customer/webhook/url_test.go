package webhook

import (
	"strings"
	"testing"

	"assay/registry/expect"
)

func TestParseURL(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"https://example.com/hook?a=1&b":    "https://example.com/hook?a=1&b",
		"HTTPS://EXAMPLE.com./x":            "https://example.com/x",
		"https://bücher.example/ä":          "https://xn--bcher-kva.example/%C3%A4",
		"http://[::1]:80/x":                 "http://[::1]:80/x",
		"https://１２７.０.０.１/":                "https://127.0.0.1/",
		"https://127.0.0.1./":               "https://127.0.0.1/",
		"https://[::FFFF:127.0.0.1]":        "https://[::ffff:127.0.0.1]",
		"https://a.example/%0a%5c?x=%23":    "https://a.example/%0a%5c?x=%23",
		"https://localhost:8443/":           "https://localhost:8443/", // valid; its address is checked when dialled
		"https://example.com/a/../b//c?q=/": "https://example.com/a/../b//c?q=/",
	} {
		got, err := ParseURL(text)
		expect.That(t, err == nil && got == want, "%s: %q, %v, want %q", text, got, err, want)
	}
	for text, want := range map[string]string{
		"":                                 "begin with https",
		"example.com":                      "begin with https",
		"ftp://example.com":                "begin with https",
		"javascript:alert(1)":              "begin with https",
		"https:example.com":                "has no host",
		"https://":                         "has no host",
		"https://:443/":                    "has no host",
		"https://good@127.0.0.1/":          "user",
		"https://127.0.0.1#@good.example/": "fragment",
		"https://good.example\\@127.0.0.1": "backslash",
		"https://exam\tple.com":            "control",
		"https://example.com/\nX: y":       "control",
		" https://example.com":             "white space",
		"https://example.com/\u0085":       "control",
		"https://2130706433/":              "standard notation",
		"https://0x7f000001/":              "standard notation",
		"https://0x7f.1/":                  "standard notation",
		"https://127.1/":                   "standard notation",
		"https://example.0x7f/":            "standard notation",
		"https://１２７.１/":                   "standard notation",
		"https://127.0.0.1.5/":             "standard notation",
		"https://0177.0.0.1/":              "standard notation",
		"https://127.0.0.08/":              "standard notation",
		"https://256.256.256.256/":         "standard notation",
		"https://[fe80::1%25eth0]/":        "zone",
		"https://[::1/":                    "not a URL",
		"https://" + strings.Repeat("a", 64) + ".example/": "name",
		"https://example..com":                             "name",
		"https://exam_ple!.com":                            "name",
		"https://example.com:0/":                           "port",
		"https://example.com:65536/":                       "port",
		"https://example.com:/":                            "port",
		"https://example.com:0443/":                        "port",
		"https://example.com:x/":                           "not a URL",
		"https://" + strings.Repeat("a", 63) + ".example/" + strings.Repeat("b", 3<<10): "more than 2048",
	} {
		got, err := ParseURL(text)
		expect.That(t, err != nil && strings.HasPrefix(err.Error(), "url: ") && strings.Contains(err.Error(), want),
			"%s: %q, %v, want an error with %q", text, got, err, want)
	}
}

func TestCheckURL(t *testing.T) {
	t.Parallel()
	strict, permissive := newGuard(t), newGuard(t, "127.0.0.0/8")
	for text, test := range map[string]struct{ strict, permissive bool }{
		"https://example.com:8443/":      {true, true},
		"https://8.8.8.8/":               {true, true},
		"https://[2606:4700::1111]/":     {true, true},
		"http://example.com/":            {false, true}, // its address may be allowed
		"https://example.com:9000/":      {false, true},
		"https://localhost/":             {false, true},
		"https://redis/":                 {false, true},
		"https://printer.local/":         {false, true},
		"https://metadata.goog.internal": {false, true},
		"http://127.0.0.1:8080/":         {false, true},
		"http://10.0.0.1/":               {false, false},
		"https://169.254.169.254/":       {false, false},
		"https://[::ffff:10.0.0.1]/":     {false, false},
		"https://[::ffff:127.0.0.1]/":    {false, true},
		"https://１９２.168.0.1/":           {false, false},
		"https://8.8.8.8:22/":            {false, false},
		"http://8.8.8.8/":                {false, false},
		"http://8.8.8.8:443/":            {false, false},
		"https://user@example.com/":      {false, false},
	} {
		if err := strict.CheckURL(text); (err == nil) != test.strict {
			t.Errorf("%s without allowed networks: %v, want accepted: %v", text, err, test.strict)
		}
		if err := permissive.CheckURL(text); (err == nil) != test.permissive {
			t.Errorf("%s with an allowed network: %v, want accepted: %v", text, err, test.permissive)
		}
	}
}

// A parsed URL parses to itself, and is the one that net/http calls.
func FuzzParseURL(f *testing.F) {
	for _, text := range []string{"https://example.com/hook?a=1", "http://[::1]:80", "https://１２７.０.０.１",
		"https://a@b#c", "https://0x7f.1\\", "https://bücher.example./%zz"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		once, err := ParseURL(text)
		if err != nil {
			return
		}
		if twice, err := ParseURL(once); err != nil || twice != once {
			t.Errorf("%q was parsed as %q, and that as %q, %v", text, once, twice, err)
		}
		expect.That(t, !strings.ContainsAny(once, " \t\r\n\\@#") || strings.Contains(text, "@"), "%q was parsed as %q",
			text, once)
		u, err := parseURL(once)
		expect.Must(t, err == nil && u.User == nil, "%q: %v", once, err)
		expect.That(t, !strings.ContainsFunc(u.Host, func(r rune) bool { return r > '~' || r <= ' ' }),
			"%q has the host %q", text, u.Host)
	})
}
