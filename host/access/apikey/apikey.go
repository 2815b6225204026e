// Package apikey generates and parses API keys: "assay_", 32 random characters and a checksum of 6 characters, all base
// 62. Test keys begin with "assay_test_". The prefix lets secret scanners find a leaked key, and the checksum rejects a
// mistyped key without a query. The package also declares the types of issued keys; it does not store them.
package apikey

import (
	"crypto/rand"
	"crypto/sha256"
	"hash/crc32"
	"strings"
)

const (
	prefix        = "assay_"
	testPrefix    = prefix + "test_" // no key without it has a second underscore
	secretChars   = 32               // 190 bits
	checksumChars = 6                // CRC-32 in base 62, as in GitHub's tokens
	digits        = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
)

// Hash is the SHA-256 of a key, which is stored in its place (contract section 2.5). A slow hash would add no
// protection to 190 random bits.
type Hash [sha256.Size]byte

// New returns a new key.
func New() string { return prefix + newSecret() }

// NewTest returns a new test key.
func NewTest() string { return testPrefix + newSecret() }

func newSecret() string {
	secret := make([]byte, 0, secretChars)
	var pool [64]byte
	for len(secret) < secretChars {
		rand.Read(pool[:])
		for _, b := range pool {
			// 248 is the largest multiple of 62 in a byte; larger bytes would make some digits likelier than others.
			if b < 248 && len(secret) < secretChars {
				secret = append(secret, digits[b%62])
			}
		}
	}
	return string(secret) + checksum(string(secret))
}

// Parse returns the hash of a well-formed key; ok is false if the format or the checksum is wrong.
func Parse(key string) (h Hash, ok bool) {
	rest, found := strings.CutPrefix(key, testPrefix)
	if !found {
		rest, found = strings.CutPrefix(key, prefix)
	}
	if !found || len(rest) != secretChars+checksumChars || strings.Trim(rest, digits) != "" {
		return Hash{}, false
	}
	if checksum(rest[:secretChars]) != rest[secretChars:] {
		return Hash{}, false
	}
	return sha256.Sum256([]byte(key)), true
}

// Hint returns the part of a key that may be displayed: its prefix and last four characters.
func Hint(key string) string {
	shown := prefix
	if strings.HasPrefix(key, testPrefix) {
		shown = testPrefix
	}
	return shown + "..." + key[len(key)-4:]
}

func checksum(secret string) string {
	sum := crc32.ChecksumIEEE([]byte(secret))
	var out [checksumChars]byte
	for i := range out {
		out[checksumChars-1-i] = digits[sum%62]
		sum /= 62
	}
	return string(out[:])
}
