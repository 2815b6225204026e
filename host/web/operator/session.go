package operator

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"golang.org/x/time/rate"
)

// MinToken is the least number of bytes in a token: one of random letters and digits then has more than 80 bits.
const MinToken = 16

// CheckToken returns an error if a token is not empty and too short, or has blanks around it, which would be lost on
// the way from a file through a form.
func CheckToken(token string) error {
	switch {
	case token == "":
		return nil
	case len(token) < MinToken:
		return fmt.Errorf("it must have at least %d characters", MinToken)
	case strings.TrimSpace(token) != token:
		return errors.New("it must not begin or end with a blank")
	}
	return nil
}

const (
	sessionLife = 12 * time.Hour
	cookieName  = "assay_operator"
)

// Wrong tokens that all clients together may present at once, and how often one more. With a token of MinToken random
// letters and digits, guessing is hopeless at any rate; the limit also protects weaker tokens.
const (
	wrongTokens = 10
	wrongEvery  = 10 * time.Second
)

// door decides who may see the page.
type door struct {
	token [sha256.Size]byte // its hash, so that comparing takes constant time
	keys  func() [][]byte   // of sessions; they depend on the token, so another token ends them
	wrong *rate.Limiter     // counts the wrong tokens of all clients
	now   func() time.Time
}

func newDoor(token string, keys func() [][]byte, now func() time.Time) *door {
	derived := func() (derived [][]byte) {
		for _, key := range keys() {
			mac := hmac.New(sha256.New, key)
			mac.Write([]byte("sessions of token " + token))
			derived = append(derived, mac.Sum(nil))
		}
		return derived
	}
	return &door{token: sha256.Sum256([]byte(token)), keys: derived, now: now,
		wrong: rate.NewLimiter(rate.Every(wrongEvery), wrongTokens)}
}

// try compares a token. If too many were wrong, it does not, and returns how long to wait.
func (d *door) try(token string) (ok bool, wait time.Duration) {
	now := d.now()
	attempt := d.wrong.ReserveN(now, 1)
	if wait = attempt.DelayFrom(now); wait > 0 {
		attempt.CancelAt(now)
		return false, wait
	}
	hash := sha256.Sum256([]byte(strings.TrimSpace(token)))
	if subtle.ConstantTimeCompare(hash[:], d.token[:]) != 1 {
		return false, 0
	}
	attempt.CancelAt(now) // a right token costs nothing
	return true, 0
}

// sign returns the value of a session's cookie: when it ends, and an HMAC of that.
func (d *door) sign(until time.Time) string { return signed(d.keys()[0], until) }

func signed(key []byte, until time.Time) string {
	end := binary.BigEndian.AppendUint64(nil, uint64(until.Unix()))
	mac := hmac.New(sha256.New, key)
	mac.Write(end)
	return base64.RawURLEncoding.EncodeToString(mac.Sum(end))
}

// session reports whether a request has the cookie of a session that has not ended.
func (d *door) session(r *http.Request) bool {
	cookie, err := r.Cookie(cookieName)
	if err != nil {
		return false
	}
	value, err := base64.RawURLEncoding.DecodeString(cookie.Value)
	if err != nil || len(value) != 8+sha256.Size {
		return false
	}
	until := time.Unix(int64(binary.BigEndian.Uint64(value)), 0)
	return d.now().Before(until) && slices.ContainsFunc(d.keys(), func(key []byte) bool {
		return hmac.Equal([]byte(signed(key, until)), []byte(cookie.Value))
	})
}

// cookie returns the cookie of a new session, or one that ends it in the browser if until is zero. The path keeps it
// from the other servers of the machine: cookies do not distinguish ports.
func (d *door) cookie(r *http.Request, until time.Time) *http.Cookie {
	c := &http.Cookie{Name: cookieName, Path: Path, HttpOnly: true, Secure: isSecure(r),
		SameSite: http.SameSiteStrictMode, MaxAge: -1}
	if !until.IsZero() {
		c.Value, c.MaxAge = d.sign(until), int(sessionLife.Seconds())
	}
	return c
}

// isSecure reports whether the operator's connection is encrypted. Any client may send the proxy's header, because it
// can only make that client's own cookie stricter.
func isSecure(r *http.Request) bool {
	first, _, _ := strings.Cut(r.Header.Get("X-Forwarded-Proto"), ",")
	return r.TLS != nil || strings.EqualFold(strings.TrimSpace(first), "https")
}

// bearer returns the token in a request's Authorization header.
func bearer(r *http.Request) (token string, ok bool) {
	scheme, token, found := strings.Cut(r.Header.Get("Authorization"), " ")
	return token, found && strings.EqualFold(scheme, "Bearer")
}
