package operator

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"golang.org/x/time/rate"

	"assay/host/internal/lru"
)

// MinToken is the minimum length of a token in bytes. Random letters and digits of this length have more than 80 bits.
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

// How many wrong tokens a client may present at once, and how often one more. A client is an address block, so that
// none locks out the others. With a token of MinToken random letters and digits, guessing is hopeless at any rate; the
// limit also protects weaker tokens.
const (
	wrongTokens = 10
	wrongEvery  = 10 * time.Second
)

// Sessions and clients that a host remembers. Only holders of the token begin sessions.
const (
	maxSessions = 1000
	maxClients  = 10_000
)

type hash = [sha256.Size]byte

// door decides who may see the page. Sessions are in memory, because the page must work while the database is down; so
// a session belongs to one host, and a restart ends all of them.
type door struct {
	token    hash                                    // so that comparing takes constant time
	sessions *lru.Cache[hash, time.Time]             // when each ends
	wrong    *lru.Cache[netip.Prefix, *rate.Limiter] // counts the wrong tokens of each client
	client   func(*http.Request) netip.Prefix
	now      func() time.Time
}

func newDoor(cfg Config) *door {
	return &door{token: sha256.Sum256([]byte(cfg.Token)), client: cfg.Client, now: cfg.Now,
		sessions: lru.New[hash, time.Time](maxSessions, maxSessions),
		wrong:    lru.New[netip.Prefix, *rate.Limiter](maxClients, maxClients)}
}

// try compares a token. If the client sent too many wrong ones, it does not, and returns how long to wait.
func (d *door) try(r *http.Request, token string) (ok bool, wait time.Duration) {
	now, client := d.now(), d.client(r)
	wrong, known := d.wrong.Get(client)
	if !known {
		wrong = rate.NewLimiter(rate.Every(wrongEvery), wrongTokens)
		d.wrong.Put(client, wrong, 1)
	}
	attempt := wrong.ReserveN(now, 1)
	if wait = attempt.DelayFrom(now); wait > 0 {
		attempt.CancelAt(now)
		return false, wait
	}
	sum := sha256.Sum256([]byte(strings.TrimSpace(token)))
	if subtle.ConstantTimeCompare(sum[:], d.token[:]) != 1 {
		return false, 0
	}
	attempt.CancelAt(now) // a correct token is not counted
	return true, 0
}

// session returns the session of a request, and when it ends. For an unknown or ended session, until is in the past.
func (d *door) session(r *http.Request) (id hash, until time.Time) {
	cookie, err := r.Cookie(cookieName)
	if err != nil {
		return hash{}, time.Time{}
	}
	id = sha256.Sum256([]byte(cookie.Value))
	until, _ = d.sessions.Get(id)
	return id, until
}

// begin begins a session and returns its cookie.
func (d *door) begin(r *http.Request) *http.Cookie {
	c := d.cookie(r)
	c.Value, c.MaxAge = rand.Text(), int(sessionLife.Seconds())
	d.sessions.Put(sha256.Sum256([]byte(c.Value)), d.now().Add(sessionLife), 1)
	return c
}

// end ends the session of a request and returns a cookie that removes it from the browser.
func (d *door) end(r *http.Request) *http.Cookie {
	if id, until := d.session(r); !until.IsZero() {
		d.sessions.Put(id, time.Time{}, 1)
	}
	return d.cookie(r)
}

// cookie returns a cookie that removes the session from the browser. The path keeps it from the other servers of the
// machine: cookies do not distinguish ports.
func (d *door) cookie(r *http.Request) *http.Cookie {
	return &http.Cookie{Name: cookieName, Path: Path, HttpOnly: true, Secure: isSecure(r),
		SameSite: http.SameSiteStrictMode, MaxAge: -1}
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
