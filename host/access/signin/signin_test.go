package signin_test

import (
	"net/netip"
	"regexp"
	"strings"
	"testing"

	"assay/host/access/signin"
	"assay/registry/expect"
)

var whole = regexp.MustCompile(`^([0-9A-HJKMNP-TV-Z]{4}-){5}[0-9A-HJKMNP-TV-Z]{4}$`)

func TestNewCode(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for range 10_000 {
		code, want := signin.NewCode()
		got, ok := signin.ParseCode(code)
		expect.Must(t, ok && got == want && whole.MatchString(code) && !seen[code],
			"ParseCode(%q) = %x, %t; the code's hash is %x", code, got, ok, want)
		seen[code] = true
	}
}

// fixed never changes, so that the tests try the same texts in every run. Its checksum is by Python's zlib.crc32.
const fixed = "0123-4567-89AB-CDEF-GHJK-3TWJ"

func TestParseCode(t *testing.T) {
	t.Parallel()
	want, ok := signin.ParseCode(fixed)
	expect.Must(t, ok, "%q does not parse", fixed)
	for name, text := range map[string]string{
		"lower case": strings.ToLower(fixed), "without hyphens": strings.ReplaceAll(fixed, "-", ""),
		"with blanks": " " + strings.ReplaceAll(fixed, "-", "  ") + "\n", "O for 0": "O" + fixed[1:],
		"L for 1": strings.Replace(fixed, "1", "l", 1), "I for 1": strings.Replace(fixed, "1", "I", 1),
		"hyphens anywhere": fixed[:2] + "-" + fixed[2:],
	} {
		got, ok := signin.ParseCode(text)
		expect.That(t, ok && got == want, "%s: ParseCode(%q) = %x, %t", name, text, got, ok)
	}
	for name, text := range map[string]string{
		"empty": "", "too short": fixed[1:], "too long": fixed + "0", "twice": fixed + fixed,
		"a letter that no code has": "U" + fixed[1:],
		"an API key":                "assay_0123456789ABCDEFGHIJKLMNOPQRSTUV1ggZdL",
		"other scripts":             strings.Repeat("０", 24),
	} {
		hash, ok := signin.ParseCode(text)
		expect.That(t, !ok && hash == (signin.Hash{}), "%s: ParseCode(%q) accepts it", name, text)
	}
}

// TestParseCodeFindsTypos tries every wrong character and every pair of swapped characters.
func TestParseCodeFindsTypos(t *testing.T) {
	t.Parallel()
	plain := strings.ReplaceAll(fixed, "-", "")
	tried := 0
	for i := range len(plain) {
		for _, c := range "0123456789ABCDEFGHJKMNPQRSTVWXYZ" {
			if byte(c) == plain[i] {
				continue
			}
			tried++
			_, ok := signin.ParseCode(plain[:i] + string(c) + plain[i+1:])
			expect.That(t, !ok, "%s with %c at %d is accepted", plain, c, i)
		}
		if i > 0 && plain[i] != plain[i-1] {
			_, ok := signin.ParseCode(plain[:i-1] + string([]byte{plain[i], plain[i-1]}) + plain[i+1:])
			expect.That(t, !ok, "%s with the characters %d and %d swapped is accepted", plain, i-1, i)
		}
	}
	expect.Equal(t, "texts that were tried", tried, 24*31)
}

func TestTokens(t *testing.T) {
	t.Parallel()
	token, want := signin.NewToken()
	got, ok := signin.ParseToken(token)
	expect.That(t, ok && got == want, "ParseToken(%q) = %x, %t", token, got, ok)
	for _, text := range []string{"", "x", token[1:], token + "A", token[:42] + "!", token[:20] + "\n" + token[20:],
		strings.Repeat("é", 21)} {
		_, ok := signin.ParseToken(text)
		expect.That(t, !ok, "ParseToken accepts %q", text)
	}
	form := signin.FormToken(token)
	expect.That(t, len(form) == 24 && !strings.Contains(token, form), "the token of forms is %q", form)
}

func TestNewOrigin(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, agent, client, browser, network string }{
		{"Firefox", "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0", "192.0.2.77/32",
			"Firefox on Linux", "192.0.2.0/24"},
		{"Chrome", "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) " +
			"Chrome/142.0.0.0 Safari/537.36", "2001:db8:1:2::/64", "Chrome on Windows", "2001:db8:1::/48"},
		{"Edge", "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/537.36 (KHTML, like Gecko) " +
			"Chrome/142.0.0.0 Safari/537.36 Edg/142.0.0.0", "192.0.2.77/32", "Edge on macOS", "192.0.2.0/24"},
		{"Safari", "Mozilla/5.0 (iPhone; CPU iPhone OS 18_6 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) " +
			"Version/18.6 Mobile/15E148 Safari/604.1", "10.0.0.0/8", "Safari on iPhone", "10.0.0.0/8"},
		{"hostile", "<script>alert(1)</script>", "", "Unknown browser", "unknown"},
		{"none", "", "", "Unknown browser", "unknown"},
	} {
		client, _ := netip.ParsePrefix(test.client)
		got := signin.NewOrigin(test.agent, client)
		expect.That(t, got.Browser == test.browser && got.Network == test.network, "%s: NewOrigin = %+v", test.name,
			got)
	}
}
