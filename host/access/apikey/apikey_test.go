package apikey_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"net/netip"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp/cmpopts"

	"assay/host/access/apikey"
	"assay/registry/expect"
)

const (
	digits  = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	fixed   = "assay_0123456789ABCDEFGHIJKLMNOPQRSTUV1ggZdL" // checksum by Python's zlib.crc32
	keySize = len(fixed)
	// hashed is the SHA-256 of fixed, by Python's hashlib.
	hashed = "ea7149269af162c9b3db7bd98515e85edbe6c5aa93d90b31c722f5acddd4fae5"
)

var whole = regexp.MustCompile(`^assay_(test_)?[0-9A-Za-z]{38}$`)

func TestNew(t *testing.T) {
	t.Parallel()
	const n = 20_000
	seen := make(map[string]bool, n)
	var counts [32]map[byte]int
	for i := range counts {
		counts[i] = map[byte]int{}
	}
	for range n {
		key := apikey.New()
		hash, ok := apikey.Parse(key)
		expect.Must(t, ok && hash == sha256.Sum256([]byte(key)) && whole.MatchString(key),
			"Parse(%q) = %x, %t for a new key", key, hash, ok)
		expect.Must(t, !seen[key], "New returned the key %q twice", key)
		seen[key] = true
		for i := range counts {
			counts[i][key[len("assay_")+i]]++
		}
	}
	// Chi-squared over 62 digits has a mean of 61 and a standard deviation of 11. A byte modulo 62 without rejection
	// would give about 280 in a sample of this size, and a missing digit 320.
	for i, count := range counts {
		sum, mean := 0.0, float64(n)/float64(len(digits))
		for _, d := range []byte(digits) {
			sum += math.Pow(float64(count[d])-mean, 2) / mean
		}
		expect.That(t, sum <= 200, "the digits at position %d have a chi-squared of %.0f, want at most 200", i, sum)
	}
}

func TestParse(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, key string
		ok        bool
	}{
		{"valid", fixed, true},
		{"a test key", "assay_test_" + strings.TrimPrefix(fixed, "assay_"), true},
		{"test twice", "assay_test_test_" + strings.TrimPrefix(fixed, "assay_"), false},
		{"checksum with leading digits", "assay_000000000000000000000000000000002wjyrI", true},
		{"no prefix", strings.TrimPrefix(fixed, "assay_"), false},
		{"another product's prefix", "sk_live" + fixed[5:], false},
		{"trailing newline", fixed + "\n", false},
		// Correct checksums of invalid characters.
		{"a space inside", "assay_0123456789ABCDEFGHIJKLMNOPQRSTU 4CO1W6", false},
		{"letters beyond ASCII", "assay_" + strings.Repeat("é", 16) + "1pRNV2", false},
	} {
		hash, ok := apikey.Parse(c.key)
		expect.Equal(t, c.name+": valid", ok, c.ok)
		expect.That(t, ok || hash == (apikey.Hash{}), "%s: an invalid key has a hash", c.name)
	}
	hash, _ := apikey.Parse(fixed)
	expect.Equal(t, "the key's hash", hex.EncodeToString(hash[:]), hashed)
}

func TestTestKeys(t *testing.T) {
	t.Parallel()
	key := apikey.NewTest()
	_, ok := apikey.Parse(key)
	expect.That(t, ok && strings.HasPrefix(key, "assay_test_") && whole.MatchString(key), "a new test key is %q", key)
	for key, want := range map[string]string{fixed: "assay_...gZdL", key: "assay_test_..." + key[len(key)-4:]} {
		expect.Equal(t, "the hint", apikey.Hint(key), want)
	}
}

func TestParseRejectsMistypedKeys(t *testing.T) {
	t.Parallel()
	passed, tried := 0, 0
	for _, key := range []string{fixed, apikey.New(), apikey.New(), apikey.New()} {
		for i := range keySize {
			for c := range 256 { // the 61 other digits, and every other byte
				if byte(c) == key[i] {
					continue
				}
				tried++
				if _, ok := apikey.Parse(key[:i] + string([]byte{byte(c)}) + key[i+1:]); ok {
					passed++
				}
			}
			_, ok := apikey.Parse(key[:i] + key[i+1:])
			expect.That(t, !ok, "%s is accepted without character %d", key, i)
			if i > 0 && key[i] != key[i-1] {
				_, ok := apikey.Parse(key[:i-1] + string([]byte{key[i], key[i-1]}) + key[i+1:])
				expect.That(t, !ok, "%s is accepted with the characters %d and %d swapped", key, i-1, i)
			}
		}
	}
	expect.That(t, passed == 0 && tried == 4*keySize*255, "%d of %d keys with one wrong character are accepted", passed,
		tried)
}

func FuzzParse(f *testing.F) {
	for _, key := range []string{fixed, "", "assay_", fixed + "0", "assay_" + strings.Repeat("!", 32) + "06StgT"} {
		f.Add(key)
	}
	f.Fuzz(func(t *testing.T, key string) {
		hash, ok := apikey.Parse(key)
		expect.That(t, !ok || whole.MatchString(key) && hash == sha256.Sum256([]byte(key)), "%q is accepted as %x", key,
			hash)
	})
}

func TestParseScopes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, given, err string
		want             []apikey.Scope
	}{
		{"none", "", "", nil},
		{"one", "events", "", []apikey.Scope{apikey.ScopeEvents}},
		{"in another order, twice", "privacy check privacy", "",
			[]apikey.Scope{apikey.ScopeCheck, apikey.ScopePrivacy}},
		{"all", "check batch events feedback overrides privacy", "", apikey.Scopes()},
		{"unknown", "check admin",
			`unknown scope "admin"; the scopes are check, batch, events, feedback, overrides and privacy`, nil},
		{"upper case", "Check", `unknown scope "Check"`, nil},
	} {
		got, err := apikey.ParseScopes(strings.Fields(c.given))
		expect.NoDiff(t, c.name, c.want, got)
		expect.Outcome(t, c.name, err, c.err)
	}
}

func TestLimitsPermit(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		limits apikey.Limits
		want   string
	}{
		"no limits":             {apikey.Limits{}, "check batch events feedback overrides privacy"},
		"one scope":             {apikey.Limits{Scopes: []apikey.Scope{apikey.ScopeEvents}}, "events"},
		"a test key":            {apikey.Limits{Test: true}, "check batch"},
		"a test key for checks": {apikey.Limits{Test: true, Scopes: []apikey.Scope{apikey.ScopeCheck}}, "check"},
		"a test key for events": {apikey.Limits{Test: true, Scopes: []apikey.Scope{apikey.ScopeEvents}}, ""},
	} {
		var got []string
		for _, s := range apikey.Scopes() {
			if c.limits.Permits(s) {
				got = append(got, string(s))
			}
		}
		expect.Equal(t, name+": permits", strings.Join(got, " "), c.want)
	}
}

func TestLimitsAdmit(t *testing.T) {
	t.Parallel()
	type testCase struct {
		networks, addr string
		want           bool
	}
	expect.Each(t, map[string]testCase{
		"no list":                      {"", "192.0.2.7", true},
		"no list, no address":          {"", "", true},
		"a list, no address":           {"0.0.0.0/0 ::/0", "", false},
		"the last of a network":        {"192.0.2.0/25", "192.0.2.127", true},
		"the next network":             {"192.0.2.0/25", "192.0.2.128", false},
		"the next IPv6 network":        {"2001:db8::/32", "2001:db9::1", false},
		"the second of two":            {"192.0.2.0/24 2001:db8::/32", "2001:db8::1", true},
		"IPv4 is not in ::/0":          {"::/0", "192.0.2.7", false},
		"an address as IPv6 writes it": {"::ffff:192.0.2.7", "192.0.2.7", true},
	}, func(t *testing.T, c testCase) {
		networks := expect.Value(apikey.ParseNetworks(strings.Fields(c.networks)))(t)
		addr, _ := netip.ParseAddr(c.addr)
		expect.Equal(t, "admitted", (apikey.Limits{Networks: networks}).Admits(addr), c.want)
	})
}

func TestParseNetworks(t *testing.T) {
	t.Parallel()
	var many []string
	for i := range apikey.MaxNetworks {
		many = append(many, fmt.Sprintf("10.%d.0.0/16", i))
	}
	for name, c := range map[string]struct {
		given, want []string
		err         string
	}{
		"none":                {},
		"both forms, twice":   {[]string{"192.0.2.7", "::1", "192.0.2.7/32"}, []string{"192.0.2.7/32", "::1/128"}, ""},
		"the most":            {many, many, ""},
		"one more":            {append(many, "10.99.0.0/16"), nil, "at most 50 networks"},
		"no address":          {[]string{"office"}, nil, `"office" is neither an address nor a network`},
		"too long a prefix":   {[]string{"192.0.2.0/33"}, nil, "is neither"},
		"a zone":              {[]string{"fe80::1%eth0"}, nil, "is neither"},
		"IPv4 mapped, prefix": {[]string{"::ffff:192.0.2.0/120"}, nil, "is neither"},
		"address and length":  {[]string{"192.0.2.7/24"}, nil, "the network is 192.0.2.0/24, the address 192.0.2.7"},
	} {
		got, err := apikey.ParseNetworks(c.given)
		var texts []string
		for _, p := range got {
			texts = append(texts, p.String())
		}
		expect.NoDiff(t, name, c.want, texts, cmpopts.EquateEmpty())
		expect.Outcome(t, name, err, c.err)
	}
}
