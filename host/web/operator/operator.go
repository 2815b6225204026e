// Package operator serves the operator's page: the state of a host and its shared data, for the holder of a token. On
// the page, people also settle reviews that customers request; it changes nothing else. It is rendered on the server
// and needs no scripts.
package operator

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"html/template"
	"io/fs"
	"log/slog"
	"math"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"assay/host/customer/decision"
	"assay/host/entity"
)

// Path is the path of the page. The handler of New serves it and all paths below it.
const Path = "/operator"

// Config configures the page.
type Config struct {
	Token string // opens the page; if empty, the page says how to set it
	// Client returns the address block of a request's client, which limits wrong tokens.
	Client func(*http.Request) netip.Prefix
	// State returns the state to show. It returns soon even if parts of the host are broken.
	State func(ctx context.Context) *State
	// Reviews are settled at Path/reviews; nil: 404.
	Reviews Reviews
	// Explain says why an account's check of a value got its score.
	Explain func(ctx context.Context, account, ref string, e entity.Entity) (*decision.Explanation, error)
	// Look holds console.css and icon.svg, which the page shares with the customers' pages.
	Look   fs.FS
	Logger *slog.Logger
	Now    func() time.Time
}

// page serves the page.
type page struct {
	cfg       Config
	door      *door // nil: no token is set
	templates *template.Template
	files     map[string]file // by path
}

// New returns the handler of the page. It fails if a token is shorter than MinToken, or a file cannot be read.
func New(cfg Config) (http.Handler, error) {
	if err := CheckToken(cfg.Token); err != nil {
		return nil, fmt.Errorf("opening the operator's page: the token is refused: %w", err)
	}
	p := &page{cfg: cfg}
	var err error
	if p.files, err = readFiles(cfg.Look); err != nil {
		return nil, fmt.Errorf("opening the operator's page: %w", err)
	}
	if p.templates, err = parseTemplates(p.files); err != nil {
		return nil, fmt.Errorf("opening the operator's page: %w", err)
	}
	if cfg.Token != "" {
		p.door = newDoor(cfg)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+Path, p.state)
	if cfg.Reviews != nil {
		mux.HandleFunc("GET "+reviewsPath, p.reviews)
		mux.HandleFunc("POST "+reviewsPath+"/{ref}", p.changeReview)
	}
	mux.HandleFunc("POST "+Path+"/signin", p.signIn)
	mux.HandleFunc("POST "+Path+"/signout", p.signOut)
	mux.HandleFunc("GET "+Path+"/", func(w http.ResponseWriter, r *http.Request) {
		p.message(w, r, http.StatusNotFound, "Not found", "There is no such page.")
	})
	for path, f := range p.files {
		mux.HandleFunc("GET "+path, f.serve)
	}
	sameOrigin := http.NewCrossOriginProtection()
	sameOrigin.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.message(w, r, http.StatusForbidden, "Refused", "This form was sent from another site.")
	}))
	protected := sameOrigin.Handler(mux)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", securityPolicy)
		h.Set("Referrer-Policy", "same-origin") // with no-referrer, forms would have the origin "null"
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		if p.door == nil && p.files[r.URL.Path].text == nil {
			p.message(w, r, http.StatusForbidden, "The operator’s page is closed", unset)
			return
		}
		protected.ServeHTTP(w, r)
	}), nil
}

// securityPolicy allows only style sheets and images of this host, nothing inline, and forms that lead to this host.
const securityPolicy = "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; " +
	"frame-ancestors 'none'"

var unset = fmt.Sprintf("It shows the state of this host to the holder of a token. Set `ASSAY_OPERATOR_TOKEN` to a "+
	"random text of at least %d characters, such as the output of `openssl rand -hex 16`, and start the host again.",
	MinToken)

// admits reports whether a request comes from the holder of the token or of a session. If not, it answers the request:
// a browser gets a form.
func (p *page) admits(w http.ResponseWriter, r *http.Request) bool {
	if token, ok := bearer(r); ok {
		ok, wait := p.door.try(r, token)
		if !ok {
			p.refuse(w, r, wait)
		}
		return ok
	}
	if _, until := p.door.session(r); p.cfg.Now().Before(until) {
		return true
	}
	if wantsJSON(r) {
		p.refuse(w, r, 0)
	} else {
		p.render(w, http.StatusOK, "signin", view{"Title": "Sign in"})
	}
	return false
}

// state shows the state.
func (p *page) state(w http.ResponseWriter, r *http.Request) {
	if !p.admits(w, r) {
		return
	}
	s := p.cfg.State(r.Context())
	if wantsJSON(r) {
		p.json(w, http.StatusOK, struct {
			Health   Health `json:"health"`
			Headline string `json:"headline"`
			*State
		}{s.Health(), s.Headline(), s})
		return
	}
	p.render(w, http.StatusOK, "state", view{"Title": "Operator", "S": s, "Every": every(r)})
}

// refreshes are the intervals in seconds at which the page loads itself again if the operator asks for it. By default
// it does not, because that would disturb readers, above all those who use screen readers.
var refreshes = []string{"10", "60"}

// every returns the interval that the operator asked for, or "".
func every(r *http.Request) string {
	if seconds := r.URL.Query().Get("every"); slices.Contains(refreshes, seconds) {
		return seconds
	}
	return ""
}

// refuse answers a request without the right token. wait is how long the host compares no tokens of the client.
func (p *page) refuse(w http.ResponseWriter, r *http.Request, wait time.Duration) {
	status, text := http.StatusUnauthorized, "This is not the token of this host. It is in ASSAY_OPERATOR_TOKEN."
	if _, ok := bearer(r); !ok && r.Method != http.MethodPost {
		text = "Send the header Authorization: Bearer TOKEN. The token is in ASSAY_OPERATOR_TOKEN."
	}
	if wait > 0 {
		seconds := max(1, int(math.Ceil(wait.Seconds())))
		w.Header().Set("Retry-After", strconv.Itoa(seconds))
		status, text = http.StatusTooManyRequests, fmt.Sprintf("Too many wrong tokens came from your address. "+
			"Wait %d %s.", seconds, plural(seconds, "second"))
	}
	if wantsJSON(r) {
		if status == http.StatusUnauthorized {
			w.Header().Set("WWW-Authenticate", "Bearer")
		}
		p.json(w, status, map[string]string{"error": text})
		return
	}
	p.render(w, status, "signin", view{"Title": "Sign in", "Error": text})
}

const maxForm = 4 << 10 // bytes

func (p *page) signIn(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	if ok, wait := p.door.try(r, r.PostFormValue("token")); !ok {
		p.cfg.Logger.Warn("a sign-in to the operator's page failed")
		p.refuse(w, r, wait)
		return
	}
	p.cfg.Logger.Info("a user signed in to the operator's page")
	http.SetCookie(w, p.door.begin(r))
	http.Redirect(w, r, Path, http.StatusSeeOther)
}

func (p *page) signOut(w http.ResponseWriter, r *http.Request) {
	http.SetCookie(w, p.door.end(r))
	http.Redirect(w, r, Path, http.StatusSeeOther)
}

// message answers with a short text.
func (p *page) message(w http.ResponseWriter, r *http.Request, status int, title, text string) {
	if wantsJSON(r) {
		p.json(w, status, map[string]string{"error": strings.ReplaceAll(text, "`", "")})
		return
	}
	p.render(w, status, "message", view{"Title": title, "Text": text})
}

// wantsJSON reports whether a client accepts JSON. Browsers do not name it.
func wantsJSON(r *http.Request) bool {
	return strings.Contains(strings.ToLower(r.Header.Get("Accept")), "application/json")
}

func (p *page) json(w http.ResponseWriter, status int, v any) {
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetIndent("", "  ")
	p.send(w, status, "application/json", &text, enc.Encode(v))
}

// render sends a page. It renders the whole page first, so that an error never leaves half a page.
func (p *page) render(w http.ResponseWriter, status int, name string, v view) {
	v["Page"] = name
	var text bytes.Buffer
	p.send(w, status, "text/html; charset=utf-8", &text, p.templates.ExecuteTemplate(&text, name, v))
}

// send sends a text, unless it could not be rendered.
func (p *page) send(w http.ResponseWriter, status int, kind string, text *bytes.Buffer, err error) {
	if err != nil {
		p.cfg.Logger.Error("rendering the operator's page failed", "error", err)
		http.Error(w, "The page could not be rendered. The host's log says why.", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", kind)
	w.WriteHeader(status)
	_, _ = w.Write(text.Bytes())
}
