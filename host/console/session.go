package console

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/url"
	"time"

	"github.com/gofiber/fiber/v2"

	"assay/host/apikey"
	"assay/host/check"
)

// session is who is signed in, kept in a sealed cookie: the host keeps nothing. Whether the key still stands is asked
// for every page.
type session struct {
	Account string `json:"a"`
	Key     string `json:"k"` // the id of the key that was used to sign in
	CSRF    string `json:"c"` // what every form of this session must carry
	Until   int64  `json:"u"` // Unix seconds

	Plan check.Plan `json:"-"`
}

const (
	sessionLife     = 12 * time.Hour
	sessionContext  = "console session"
	checkoutContext = "console checkout"
	signInsAllowed  = 10 // by one client
	signInsWindow   = 5 * time.Minute
)

// cookieName is that of a cookie. The __Host- prefix makes browsers refuse one that another subdomain set (RFC 6265bis
// section 4.1.3.2); they demand Secure with it.
func (c *Console) cookieName(ctx *fiber.Ctx, name string) string {
	if c.secure(ctx) {
		return "__Host-assay_" + name
	}
	return "assay_" + name
}

func (c *Console) setCookie(ctx *fiber.Ctx, name, context string, v any, until time.Time) error {
	plain, err := json.Marshal(v)
	if err != nil {
		return err
	}
	ctx.Cookie(&fiber.Cookie{
		Name: c.cookieName(ctx, name), Value: base64.RawURLEncoding.EncodeToString(c.cfg.Sealer.Seal(plain, context)),
		Path: "/", Expires: until, HTTPOnly: true, Secure: c.secure(ctx), SameSite: fiber.CookieSameSiteLaxMode,
	})
	return nil
}

// cookie reads what setCookie set. What is not that is as good as none.
func (c *Console) cookie(ctx *fiber.Ctx, name, context string, v any) bool {
	sealed, err := base64.RawURLEncoding.DecodeString(ctx.Cookies(c.cookieName(ctx, name)))
	if err != nil || len(sealed) == 0 {
		return false
	}
	plain, err := c.cfg.Sealer.Open(sealed, context)
	return err == nil && json.Unmarshal(plain, v) == nil
}

func (c *Console) dropCookie(ctx *fiber.Ctx, name string) {
	ctx.Cookie(&fiber.Cookie{
		Name: c.cookieName(ctx, name), Path: "/", Expires: time.Unix(1, 0), HTTPOnly: true, Secure: c.secure(ctx),
		SameSite: fiber.CookieSameSiteLaxMode,
	})
}

// begin signs in the holder of a key, in a session of its own whatever cookie was there before.
func (c *Console) begin(ctx *fiber.Ctx, account, key string) (*session, error) {
	until := c.cfg.Now().Add(sessionLife)
	s := &session{Account: account, Key: key, CSRF: newCSRF(), Until: until.Unix()}
	return s, c.setCookie(ctx, "session", sessionContext, s, until)
}

func newCSRF() string {
	raw := make([]byte, 18)
	rand.Read(raw)
	return base64.RawURLEncoding.EncodeToString(raw)
}

// presented returns the session of a request, whether or not its key still stands, or nil.
func (c *Console) presented(ctx *fiber.Ctx) *session {
	var s session
	if !c.cookie(ctx, "session", sessionContext, &s) || c.cfg.Now().Unix() >= s.Until {
		return nil
	}
	return &s
}

// current returns the session of a request, or nil.
func (c *Console) current(ctx *fiber.Ctx) (*session, error) {
	s := c.presented(ctx)
	if s == nil {
		return nil, nil
	}
	w, cancel := work()
	defer cancel()
	plan, err := c.cfg.Store.SessionPlan(w, s.Account, s.Key)
	if errors.Is(err, apikey.ErrNotFound) {
		return nil, nil
	}
	s.Plan = plan
	return s, err
}

// signedIn registers a page of the dashboard: it is given the session, and what it posts must carry the session's
// token.
func (c *Console) signedIn(method, path string, page func(*fiber.Ctx, *session) error) {
	c.app.Add(method, path, func(ctx *fiber.Ctx) error {
		s, err := c.current(ctx)
		if err != nil {
			return err
		}
		if s == nil {
			// htmx, which follows other redirects by itself, would put that page into this one
			ctx.Set("HX-Redirect", "/signin")
			if method == fiber.MethodGet && ctx.Get("HX-Request") == "" {
				return ctx.Redirect("/signin", fiber.StatusSeeOther)
			}
			return &pageError{fiber.StatusForbidden, "You are signed out. Sign in again; nothing was changed."}
		}
		if method == fiber.MethodPost && !s.sent(ctx) {
			return errStaleForm()
		}
		return page(ctx, s)
	})
}

// sent says whether a form carries the session's token.
func (s *session) sent(ctx *fiber.Ctx) bool {
	return subtle.ConstantTimeCompare([]byte(field(ctx, "csrf")), []byte(s.CSRF)) == 1
}

func errStaleForm() error {
	return &pageError{fiber.StatusForbidden,
		"This form is out of date. Go back, reload the page and try again; nothing was changed."}
}

// sameOrigin refuses what another site's page posts, also where nobody is signed in yet. Browsers say where a request
// comes from (Fetch Metadata), but only where the connection is secure or local; else they name the origin, or "null"
// because of our Referrer-Policy (Fetch standard, section 3.1). What says neither is no browser, and has no cookies to
// abuse.
func (c *Console) sameOrigin(ctx *fiber.Ctx) error {
	if m := ctx.Method(); m == fiber.MethodGet || m == fiber.MethodHead {
		return ctx.Next()
	}
	foreign := false
	if site := ctx.Get("Sec-Fetch-Site"); site != "" {
		foreign = site != "same-origin" && site != "none"
	} else if origin := ctx.Get("Origin"); origin == "null" {
		foreign = c.secure(ctx)
	} else if origin != "" {
		u, err := url.Parse(origin)
		foreign = err != nil || (u.Host != string(ctx.Request().Host()) && origin != c.cfg.URL)
	}
	if foreign {
		return &pageError{fiber.StatusForbidden, "This form was sent from another site. Nothing was changed."}
	}
	return ctx.Next()
}

// signInForm shows the form to sign in.
func (c *Console) signInForm(ctx *fiber.Ctx) error {
	if s, err := c.current(ctx); err != nil {
		return err
	} else if s != nil {
		return ctx.Redirect("/dashboard", fiber.StatusSeeOther)
	}
	return c.render(ctx, "signin", nil, view{"Title": "Sign in"})
}

func (c *Console) signIn(ctx *fiber.Ctx) error {
	again := func(status int, text string) error {
		ctx.Status(status)
		return c.render(ctx, "signin", nil, view{"Title": "Sign in", "Error": text})
	}
	w, cancel := work()
	defer cancel()
	if _, ok, err := c.cfg.Store.Take(w, "sign-in ", c.cfg.Client(ctx.Context()), signInsAllowed,
		signInsWindow); err != nil {
		return err
	} else if !ok {
		return again(fiber.StatusTooManyRequests, "Too many attempts to sign in from here. Wait five minutes.")
	}
	key, err := c.cfg.Store.SignIn(w, field(ctx, "key"))
	if errors.Is(err, check.ErrUnauthorized) {
		return again(fiber.StatusUnauthorized,
			"This is not a key that works: look for missing or extra characters. A revoked key cannot sign in.")
	}
	if err != nil {
		return err
	}
	if _, err := c.begin(ctx, key.Account, key.ID); err != nil {
		return err
	}
	return ctx.Redirect("/dashboard", fiber.StatusSeeOther)
}

// signOut leaves nothing behind by which the next at this browser could come by a key.
func (c *Console) signOut(ctx *fiber.Ctx) error {
	if s := c.presented(ctx); s != nil && !s.sent(ctx) {
		return errStaleForm()
	}
	c.dropCookie(ctx, "session")
	c.dropCookie(ctx, "checkout")
	return ctx.Redirect("/", fiber.StatusSeeOther)
}
