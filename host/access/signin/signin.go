// Package signin defines how customers open the dashboard: with a sign-in code, or with a link that works once. Both
// begin a session, which the host stores, so that ending one takes effect at once. An API key never begins one. The
// package holds formats and plain types; it stores nothing.
package signin

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"hash/crc32"
	"net/netip"
	"strings"
	"time"

	"assay/host/internal/internet"
)

const (
	// SessionLife is how long a session lasts, however much it is used.
	SessionLife = 12 * time.Hour
	// LinkLife is how long a link works.
	LinkLife = 15 * time.Minute
	// ProofLife is how long after a code or link a session may change how its account is protected.
	ProofLife = 10 * time.Minute
	// RecoveryWait is how long the owner can refuse a recovery address before it signs in.
	RecoveryWait = 72 * time.Hour
)

// Errors of signing in.
var (
	ErrMistyped  = errors.New("this is not a sign-in code: a character is wrong, missing or too many")
	ErrUnknown   = errors.New("there is no such sign-in code or link")
	ErrNoSession = errors.New("there is no such session")
)

// Session is a browser that is signed in.
type Session struct {
	ID       string
	Account  string
	BeganAt  time.Time
	UsedAt   time.Time // to the minute
	ProvedAt time.Time // when a code or link was last presented
	Origin

	// Warnings that every page of the account shows; nil: none.
	RecoversAt        *time.Time // from then on, a new recovery address signs in
	WebhookDisabledAt *time.Time
}

// Origin says where a session is used.
type Origin struct {
	Browser string // as in "Firefox on Linux"
	Network string // the shortened address
}

// Hash is the SHA-256 of a code or token, which is stored in its place. A slow hash would add no protection to 100
// random bits.
type Hash [sha256.Size]byte

// The digits of codes are Crockford's: no letter looks like a digit.
const (
	digits        = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
	secretChars   = 20 // 100 bits
	checksumChars = 4  // 20 bits of a CRC-32
	groupChars    = 4
)

// NewCode returns a new sign-in code, in groups of four characters, and its hash.
func NewCode() (code string, h Hash) {
	secret := make([]byte, secretChars)
	rand.Read(secret)
	for i, b := range secret {
		secret[i] = digits[b%32]
	}
	plain := string(secret) + checksum(string(secret))
	for i := 0; i < len(plain); i += groupChars {
		if i > 0 {
			code += "-"
		}
		code += plain[i : i+groupChars]
	}
	return code, sha256.Sum256([]byte(plain))
}

var readable = strings.NewReplacer("-", "", " ", "", "\t", "", "\r", "", "\n", "", "O", "0", "I", "1", "L", "1")

// ParseCode returns the hash of a code. It ignores case, blanks and hyphens, and reads O as 0, and I and L as 1. ok is
// false if the text is not a code, or is mistyped.
func ParseCode(text string) (h Hash, ok bool) {
	plain := readable.Replace(strings.ToUpper(text))
	if len(plain) != secretChars+checksumChars || strings.Trim(plain, digits) != "" ||
		checksum(plain[:secretChars]) != plain[secretChars:] {
		return Hash{}, false
	}
	return sha256.Sum256([]byte(plain)), true
}

func checksum(secret string) string {
	sum := crc32.ChecksumIEEE([]byte(secret))
	var out [checksumChars]byte
	for i := range out {
		out[i] = digits[sum%32]
		sum /= 32
	}
	return string(out[:])
}

const tokenBytes = 32

// NewToken returns the random token of a new session or link, and its hash.
func NewToken() (token string, h Hash) {
	raw := make([]byte, tokenBytes)
	rand.Read(raw)
	token = base64.RawURLEncoding.EncodeToString(raw)
	return token, sha256.Sum256([]byte(token))
}

// ParseToken returns the hash of a token; ok is false if the format is wrong.
func ParseToken(token string) (h Hash, ok bool) {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(token)
	if err != nil || len(raw) != tokenBytes || len(token) != base64.RawURLEncoding.EncodedLen(tokenBytes) {
		return Hash{}, false
	}
	return sha256.Sum256([]byte(token)), true
}

// FormToken returns the token that every form of a session must contain. It is derived from the session's token, which
// it does not reveal.
func FormToken(token string) string {
	sum := sha256.Sum256([]byte("assay form " + token))
	return base64.RawURLEncoding.EncodeToString(sum[:18])
}

// Parts of User-Agent headers that identify browsers and systems. The first match counts, because browsers also name
// the ones that they resemble.
var (
	browsers = [][2]string{{"Edg", "Edge"}, {"OPR/", "Opera"}, {"Firefox/", "Firefox"}, {"FxiOS/", "Firefox"},
		{"Chrome/", "Chrome"}, {"CriOS/", "Chrome"}, {"Safari/", "Safari"}}
	systems = [][2]string{{"Windows", "Windows"}, {"Android", "Android"}, {"iPhone", "iPhone"}, {"iPad", "iPad"},
		{"Mac OS X", "macOS"}, {"CrOS", "ChromeOS"}, {"Linux", "Linux"}}
)

// NewOrigin returns the origin that a session shows: the families of the browser and of its system, from its
// User-Agent, and the first 24 bits of the client's IPv4 address or 48 of its IPv6 address.
func NewOrigin(userAgent string, client netip.Prefix) Origin {
	o := Origin{Browser: "Unknown browser", Network: "unknown"}
	if browser := find(browsers, userAgent); browser != "" {
		o.Browser = browser
		if system := find(systems, userAgent); system != "" {
			o.Browser += " on " + system
		}
	}
	if client.IsValid() {
		o.Network = internet.Network(client).String()
	}
	return o
}

func find(marks [][2]string, text string) string {
	for _, m := range marks {
		if strings.Contains(text, m[0]) {
			return m[1]
		}
	}
	return ""
}
