// Package apikey makes and reads API keys: "assay_", 32 random characters and a 6 character checksum, all base 62. The
// prefix lets secret scanners find a leaked key, the checksum lets a mistyped one be refused without a query.
package apikey

import (
	"crypto/rand"
	"crypto/sha256"
	"hash/crc32"
	"strings"
)

const (
	prefix        = "assay_"
	secretChars   = 32 // 190 bits
	checksumChars = 6  // CRC-32 in base 62, as GitHub's tokens carry it
	digits        = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
)

// Pattern is the regular expression that secret scanners may look for.
const Pattern = `assay_[0-9A-Za-z]{38}`

// Hash is what is stored of a key: its SHA-256 (spec section 2.5). A slow hash would add nothing against 190 random
// bits.
type Hash [sha256.Size]byte

// New returns a new key.
func New() string {
	secret := make([]byte, 0, secretChars)
	var pool [64]byte
	for len(secret) < secretChars {
		rand.Read(pool[:])
		for _, b := range pool {
			// 248 is the largest multiple of 62 in a byte: beyond it a digit would be likelier than others.
			if b < 248 && len(secret) < secretChars {
				secret = append(secret, digits[b%62])
			}
		}
	}
	return prefix + string(secret) + checksum(string(secret))
}

// Parse returns the hash of a well-formed key; ok is false when the form or the checksum is wrong.
func Parse(key string) (h Hash, ok bool) {
	rest, found := strings.CutPrefix(key, prefix)
	if !found || len(rest) != secretChars+checksumChars || strings.Trim(rest, digits) != "" {
		return Hash{}, false
	}
	if checksum(rest[:secretChars]) != rest[secretChars:] {
		return Hash{}, false
	}
	return sha256.Sum256([]byte(key)), true
}

// Hint is what may be shown of a key later: its prefix and last four characters.
func Hint(key string) string { return prefix + "..." + key[len(key)-4:] }

func checksum(secret string) string {
	sum := crc32.ChecksumIEEE([]byte(secret))
	var out [checksumChars]byte
	for i := range out {
		out[checksumChars-1-i] = digits[sum%62]
		sum /= 62
	}
	return string(out[:])
}
