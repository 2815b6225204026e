package apikey_test

import (
	"crypto/sha256"
	"encoding/hex"
	"math"
	"regexp"
	"strings"
	"testing"

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

var whole = regexp.MustCompile(`^` + apikey.Pattern + `$`)

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
		{"empty", "", false},
		{"no prefix", strings.TrimPrefix(fixed, "assay_"), false},
		{"another product's prefix", "sk_live" + fixed[5:], false},
		{"one character short", fixed[:keySize-1], false},
		{"one character long", fixed + "0", false},
		{"trailing newline", fixed + "\n", false},
		// Correct checksums of invalid characters.
		{"punctuation", "assay_" + strings.Repeat("!", 32) + "06StgT", false},
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
			if _, ok := apikey.Parse(key[:i] + key[i+1:]); ok {
				t.Errorf("%s is accepted without character %d", key, i)
			}
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
