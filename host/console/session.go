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

// session is a signed-in customer. It is kept in an encrypted cookie and not on the host; every page checks that the
// key is still valid.
type session struct {
	Account string `json:"a"`
	Key     string `json:"k"` // the id of the key that signed in
	CSRF    string `json:"c"` // the token that every form of this session must contain
	Until   int64  `json:"u"` // Unix seconds

	Plan check.Plan `json:"-"`
}

const (
	sessionLife     = 12 * time.Hour
	sessionContext  = "console session"
	checkoutContext = "console checkout"

	maxSignIns    = 10 // by one client within signInsWindow
	signInsWindow = 5 * time.Minute
)

func (s *session) caller() check.Caller {
	return check.Caller{Account: s.Account, Key: s.Key, Plan: s.Plan}
}

// cookieName returns the name of a cookie. The __Host- prefix makes browsers reject cookies that another subdomain set
// (RFC 6265bis section 4.1.3.2); it requires Secure.
func (c *Console) cookieName(ctx *fiber.Ctx, name string) string {
	if c.isSecure(ctx) {
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
		Path: "/", Expires: until, HTTPOnly: true, Secure: c.isSecure(ctx), SameSite: fiber.CookieSameSiteLaxMode,
	})
	return nil
}

// cookie reads a cookie that setCookie set. It reports whether there is one that is valid.
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
		Name: c.cookieName(ctx, name), Path: "/", Expires: time.Unix(1, 0), HTTPOnly: true, Secure: c.isSecure(ctx),
		SameSite: fiber.CookieSameSiteLaxMode,
	})
}

// startSession signs in a key. The session is always new, even if the request has one already.
func (c *Console) startSession(ctx *fiber.Ctx, account, key string) (*session, error) {
	until := c.cfg.Now().Add(sessionLife)
	s := &session{Account: account, Key: key, CSRF: newCSRF(), Until: until.Unix()}
	return s, c.setCookie(ctx, "session", sessionContext, s, until)
}

func newCSRF() string {
	raw := make([]byte, 18)
	rand.Read(raw)
	return base64.RawURLEncoding.EncodeToString(raw)
}

// cookieSession returns the session in a request's cookie, or nil. Its key may be revoked.
func (c *Console) cookieSession(ctx *fiber.Ctx) *session {
	var s session
	if !c.cookie(ctx, "session", sessionContext, &s) || c.cfg.Now().Unix() >= s.Until {
		return nil
	}
	return &s
}

// current returns the session of a request, or nil if the customer is not signed in.
func (c *Console) current(ctx *fiber.Ctx) (*session, error) {
	s := c.cookieSession(ctx)
	if s == nil {
		return nil, nil
	}
	work, cancel := pageContext()
	defer cancel()
	plan, err := c.cfg.Store.SessionPlan(work, s.Account, s.Key)
	if errors.Is(err, apikey.ErrNotFound) {
		return nil, nil
	}
	s.Plan = plan
	return s, err
}

// signedIn registers a page of the dashboard. The page gets the session, and its forms must contain the session's
// token.
func (c *Console) signedIn(method, path string, page func(*fiber.Ctx, *session) error) {
	c.app.Add(method, path, func(ctx *fiber.Ctx) error {
		s, err := c.current(ctx)
		if err != nil {
			return err
		}
		if s == nil {
			if method == fiber.MethodGet {
				return ctx.Redirect("/signin", fiber.StatusSeeOther)
			}
			return &pageError{fiber.StatusForbidden, "You are signed out. Sign in again; nothing was changed."}
		}
		if method == fiber.MethodPost && !s.hasToken(ctx) {
			return errStaleForm()
		}
		return page(ctx, s)
	})
}

// hasToken reports whether a form contains the session's token.
func (s *session) hasToken(ctx *fiber.Ctx) bool {
	return subtle.ConstantTimeCompare([]byte(field(ctx, "csrf")), []byte(s.CSRF)) == 1
}

func errStaleForm() error {
	return &pageError{fiber.StatusForbidden,
		"This form is out of date. Go back, reload the page and try again; nothing was changed."}
}

func errKeyEnded() error {
	return &pageError{fiber.StatusForbidden, "The key that you signed in with is no longer valid. Sign in again."}
}

// rejectCrossSite rejects forms that another site's page sends, even if the customer is not signed in yet. Browsers
// send the relation of the sites (Fetch Metadata) if the connection is secure or local. Otherwise they send the origin,
// or "null" because of our Referrer-Policy (Fetch standard, section 3.1). A client that sends neither is not a browser,
// so it has no cookies to abuse.
func (c *Console) rejectCrossSite(ctx *fiber.Ctx) error {
	if m := ctx.Method(); m == fiber.MethodGet || m == fiber.MethodHead {
		return ctx.Next()
	}
	foreign := false
	if site := ctx.Get("Sec-Fetch-Site"); site != "" {
		foreign = site != "same-origin" && site != "none"
	} else if origin := ctx.Get("Origin"); origin == "null" {
		foreign = c.isSecure(ctx)
	} else if origin != "" {
		u, err := url.Parse(origin)
		foreign = err != nil || (u.Host != string(ctx.Request().Host()) && origin != c.cfg.URL)
	}
	if foreign {
		return &pageError{fiber.StatusForbidden, "This form was sent from another site. Nothing was changed."}
	}
	return ctx.Next()
}

func (c *Console) signInForm(ctx *fiber.Ctx) error {
	if s, err := c.current(ctx); err != nil {
		return err
	} else if s != nil {
		return ctx.Redirect("/dashboard", fiber.StatusSeeOther)
	}
	return c.render(ctx, "signin", nil, view{"Title": "Sign in"})
}

func (c *Console) signIn(ctx *fiber.Ctx) error {
	refuse := func(status int, text string) error {
		ctx.Status(status)
		return c.render(ctx, "signin", nil, view{"Title": "Sign in", "Error": text})
	}
	work, cancel := pageContext()
	defer cancel()
	if _, ok, err := c.cfg.Store.Take(work, "sign-in ", c.cfg.Client(ctx.Context()), maxSignIns,
		signInsWindow); err != nil {
		return err
	} else if !ok {
		return refuse(fiber.StatusTooManyRequests, "Too many attempts to sign in from your network. Wait five minutes.")
	}
	key, err := c.cfg.Store.SignIn(work, field(ctx, "key"))
	if errors.Is(err, check.ErrUnauthorized) {
		return refuse(fiber.StatusUnauthorized,
			"This API key does not work. Look for missing or extra characters. A revoked key cannot sign in.")
	}
	if err != nil {
		return err
	}
	if _, err := c.startSession(ctx, key.Account, key.ID); err != nil {
		return err
	}
	return ctx.Redirect("/dashboard", fiber.StatusSeeOther)
}

// signOut also drops the checkout cookie, with which the next person at this browser could get a key.
func (c *Console) signOut(ctx *fiber.Ctx) error {
	if s := c.cookieSession(ctx); s != nil && !s.hasToken(ctx) {
		return errStaleForm()
	}
	c.dropCookie(ctx, "session")
	c.dropCookie(ctx, "checkout")
	return ctx.Redirect("/", fiber.StatusSeeOther)
}
