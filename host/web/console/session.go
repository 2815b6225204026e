package console

import (
	"cmp"
	"context"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"

	"assay/host/access/apikey"
	"assay/host/access/signin"
	"assay/host/check"
	"assay/host/internal/internet"
	"assay/host/web/refusal"
)

// session is a signed-in browser. The host stores it, and the browser's cookie holds its token.
type session struct {
	signin.Session
	CSRF string // the token that every form of this session must contain
	Plan check.Plan
	key  string // the dashboard acts with this key; "": no key of the account works

	network netip.Prefix // of the request's client
}

const (
	checkoutContext = "console checkout"
	knownContext    = "console known"
	knownLife       = 365 * 24 * time.Hour
	maxKnown        = 4 // accounts besides the last one

	maxSignIns    = 10 // by one client within signInsWindow
	signInsWindow = 5 * time.Minute

	pagePatience = time.Second // for a slot
)

func (s *session) caller() check.Caller {
	return check.Caller{Account: s.Account, Key: s.key, Plan: s.Plan, Network: s.network}
}

// cookieName returns the name of a cookie. The __Host- prefix makes browsers reject cookies that another subdomain set
// (RFC 6265bis section 4.1.3.2); it requires Secure.
func (c *Console) cookieName(ctx *fiber.Ctx, name string) string {
	if c.isSecure(ctx) {
		return "__Host-assay_" + name
	}
	return "assay_" + name
}

// sealCookie sets a cookie that only this host can read.
func (c *Console) sealCookie(ctx *fiber.Ctx, name, context string, v any, until time.Time) error {
	plain, err := json.Marshal(v)
	if err != nil {
		return err
	}
	c.setCookie(ctx, name, base64.RawURLEncoding.EncodeToString(c.cfg.Sealer.Seal(plain, context)), until)
	return nil
}

// setCookie also sets how long the cookie lasts, which does not depend on the browser's clock (RFC 6265, section 5.3).
func (c *Console) setCookie(ctx *fiber.Ctx, name, value string, until time.Time) {
	ctx.Cookie(&fiber.Cookie{
		Name: c.cookieName(ctx, name), Value: value, Path: "/", Expires: until, HTTPOnly: true,
		MaxAge: int(until.Sub(c.cfg.Now()).Seconds()), Secure: c.isSecure(ctx), SameSite: fiber.CookieSameSiteLaxMode,
	})
}

func (c *Console) dropCookie(ctx *fiber.Ctx, name string) {
	c.setCookie(ctx, name, "", time.Unix(1, 0))
}

// cookie reads a cookie that sealCookie set. It reports whether there is one that is valid.
func (c *Console) cookie(ctx *fiber.Ctx, name, context string, v any) bool {
	sealed, err := base64.RawURLEncoding.DecodeString(ctx.Cookies(c.cookieName(ctx, name)))
	if err != nil || len(sealed) == 0 {
		return false
	}
	plain, err := c.cfg.Sealer.Open(sealed, context)
	return err == nil && json.Unmarshal(plain, v) == nil
}

// enterSession gives the browser the token of a session. The browser's previous session ends.
func (c *Console) enterSession(ctx *fiber.Ctx, token string) (*session, error) {
	// find instead of current, which could refuse a customer whose link is already used up.
	before, err := c.find(work(ctx), ctx, ctx.Cookies(c.cookieName(ctx, "session")))
	if err == nil && before != nil {
		err = c.endSession(work(ctx), before.Account, before.ID)
	}
	if err != nil {
		return nil, err
	}
	s, err := c.find(work(ctx), ctx, token)
	if err == nil && s != nil {
		c.setCookie(ctx, "session", token, c.cfg.Now().Add(signin.SessionLife))
		others := slices.DeleteFunc(c.known(ctx), func(a string) bool { return a == s.Account })
		known := append([]string{s.Account}, others[:min(len(others), maxKnown)]...)
		err = c.sealCookie(ctx, "known", knownContext, known, c.cfg.Now().Add(knownLife))
	}
	return s, err
}

// known returns the accounts that this browser has signed in to lately, the last one first.
func (c *Console) known(ctx *fiber.Ctx) (accounts []string) {
	c.cookie(ctx, "known", knownContext, &accounts)
	return accounts
}

// endSession ends a session of an account. It may have ended already.
func (c *Console) endSession(work context.Context, account, id string) error {
	if err := c.cfg.Store.EndSession(work, account, id); !errors.Is(err, signin.ErrNoSession) {
		return err
	}
	return nil
}

func (c *Console) origin(ctx *fiber.Ctx) signin.Origin {
	return signin.NewOrigin(ctx.Get(fiber.HeaderUserAgent), c.cfg.Client(ctx.Context()))
}

// current returns the session of a request, or nil if the customer is not signed in. The look-up takes a slot of the
// client's network, because anybody can make up a token.
func (c *Console) current(ctx *fiber.Ctx) (*session, error) {
	token := ctx.Cookies(c.cookieName(ctx, "session"))
	if token == "" {
		return nil, nil
	}
	release, err := c.cfg.LookUps.Take(internet.Network(c.cfg.Client(ctx.Context())).String())
	if err != nil {
		return nil, err
	}
	defer release()
	work, cancel := pageContext() // error pages are rendered after the request's own context has ended
	defer cancel()
	return c.find(work, ctx, token)
}

// find returns the session of a token, or nil if there is none.
func (c *Console) find(work context.Context, ctx *fiber.Ctx, token string) (*session, error) {
	found, caller, err := c.cfg.Store.Session(work, token, c.origin(ctx).Network)
	if errors.Is(err, signin.ErrNoSession) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &session{Session: found, CSRF: signin.FormToken(token), Plan: caller.Plan, key: caller.Key,
		network: internet.Network(c.cfg.Client(ctx.Context()))}, nil
}

// signedIn registers a page of the dashboard. The page gets the session, and its forms must contain the session's
// token. It takes a slot, for which it waits a little, so that the slow pages of one account leave database connections
// to others.
func (c *Console) signedIn(method, path string, page func(*fiber.Ctx, *session) error) {
	c.signedInWithoutSlot(method, path, func(ctx *fiber.Ctx, s *session) error {
		for patience := time.After(pagePatience); ; {
			release, err := c.cfg.Pages.Take(s.caller().Share())
			if err == nil {
				defer release()
				return page(ctx, s)
			}
			select {
			case <-patience:
				return err
			case <-time.After(pagePatience / 50):
			}
		}
	})
}

// signedInWithoutSlot is signedIn for a page that takes no slot, because it waits for more than the database.
func (c *Console) signedInWithoutSlot(method, path string, page func(*fiber.Ctx, *session) error) {
	c.app.Add(method, path, func(ctx *fiber.Ctx) error {
		s, err := c.current(ctx)
		if err != nil {
			return err
		}
		if s == nil {
			if method == fiber.MethodGet {
				return ctx.Redirect("/signin", fiber.StatusSeeOther)
			}
			return refusal.Page(fiber.StatusForbidden, "You are signed out. Sign in again; nothing was changed.")
		}
		if method == fiber.MethodPost && !s.hasToken(ctx) {
			return errStaleForm
		}
		if method == fiber.MethodPost { // what forms add can be kept for years
			if err := c.cfg.TakeKey(check.Caller{Account: s.Account, Key: s.Account, Plan: s.Plan}); err != nil {
				return err
			}
		}
		if err = page(ctx, s); !errors.Is(err, check.ErrUnauthorized) {
			return err
		}
		keys, err := c.cfg.Store.Keys(work(ctx), s.Account)
		return cmp.Or(err, error(refusal.Page(fiber.StatusForbidden, noKeyText(keys))))
	})
}

// hasToken reports whether a form contains the session's token.
func (s *session) hasToken(ctx *fiber.Ctx) bool {
	return subtle.ConstantTimeCompare([]byte(field(ctx, "csrf")), []byte(s.CSRF)) == 1
}

var (
	errStaleForm = refusal.Page(fiber.StatusForbidden,
		"This form is out of date. Go back, reload the page and try again; nothing was changed.")
	errUsedLink = refusal.Page(fiber.StatusGone,
		"This link was used, or it has expired. A link works once, for 15 minutes.")
)

// noKeyText says what to do if no key of an account works.
func noKeyText(keys []apikey.Key) string {
	if slices.ContainsFunc(keys, func(k apikey.Key) bool { return k.State == apikey.Suspended }) {
		return sentence(check.ErrSuspended)
	}
	return "This account has no working key. Create one, or choose a plan first."
}

// rejectCrossSite rejects forms that another site's page sends, even if the customer is not signed in yet. Browsers
// send the relation of the sites (Fetch Metadata) if the connection is secure or local, and otherwise the origin, which
// is "null" for a page in a sandbox. A client that sends neither is not a browser, so it has no cookies to abuse.
func (c *Console) rejectCrossSite(ctx *fiber.Ctx) error {
	if m := ctx.Method(); m == fiber.MethodGet || m == fiber.MethodHead {
		return ctx.Next()
	}
	origin := ctx.Get("Origin")
	foreign := origin == "null"
	if site := ctx.Get("Sec-Fetch-Site"); site != "" {
		foreign = foreign || site != "same-origin" && site != "none"
	} else if origin != "" {
		u, err := url.Parse(origin)
		foreign = err != nil || (u.Host != string(ctx.Request().Host()) && origin != c.cfg.URL)
	}
	if foreign {
		return refusal.Page(fiber.StatusForbidden, "This form was sent from another site. Nothing was changed.")
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

// signIn signs in with a sign-in code.
func (c *Console) signIn(ctx *fiber.Ctx) error {
	var token string
	problem, err := c.enterCode(ctx, func(work context.Context) (err error) {
		token, err = c.cfg.Store.SignInByCode(work, strings.TrimSpace(field(ctx, "code")), c.origin(ctx))
		return err
	})
	if err != nil {
		return err
	}
	if problem != "" {
		return c.render(ctx, "signin", nil, view{"Title": "Sign in", "Errors": map[string]string{"code": problem}})
	}
	if _, err := c.enterSession(ctx, token); err != nil {
		return err
	}
	return ctx.Redirect("/dashboard", fiber.StatusSeeOther)
}

// takeSignIn counts an attempt to sign in. It fails if the client has made too many.
func (c *Console) takeSignIn(ctx *fiber.Ctx) error {
	_, ok, err := c.cfg.Store.Take(work(ctx), "sign-in ", c.cfg.Client(ctx.Context()), maxSignIns, signInsWindow)
	if err == nil && !ok {
		err = refusal.Page(fiber.StatusTooManyRequests,
			"Too many attempts to sign in from your network. Wait five minutes.")
	}
	return err
}

// warn logs an error despite which a page is shown. err may be nil.
func (c *Console) warn(what string, err error) {
	if err != nil {
		c.cfg.Logger.Warn(what, "error", err)
	}
}

// linkForm is the page of a sign-in link. Opening it does not use up the link, because mail scanners open links too.
func (c *Console) linkForm(ctx *fiber.Ctx) error {
	return c.render(ctx, "link", nil, view{"Title": "Sign in", "Token": ctx.Params("token")})
}

// useLink signs in with a link, which then no longer works.
func (c *Console) useLink(ctx *fiber.Ctx) error {
	if err := c.takeSignIn(ctx); err != nil {
		return err
	}
	token, err := c.cfg.Store.UseLink(work(ctx), field(ctx, "token"), c.origin(ctx))
	if errors.Is(err, signin.ErrUnknown) {
		return errUsedLink
	}
	if err == nil {
		_, err = c.enterSession(ctx, token)
	}
	if err != nil {
		return err
	}
	return ctx.Redirect(accountPath, fiber.StatusSeeOther)
}

// signOut ends the session. It also drops the checkout cookie, with which the next person at this browser could get a
// key.
func (c *Console) signOut(ctx *fiber.Ctx) error {
	s, err := c.current(ctx)
	if err != nil {
		return err
	}
	if s != nil {
		if !s.hasToken(ctx) {
			return errStaleForm
		}
		if err := c.endSession(work(ctx), s.Account, s.ID); err != nil {
			return err
		}
	}
	c.dropCookie(ctx, "session")
	c.dropCookie(ctx, "checkout")
	return ctx.Redirect("/", fiber.StatusSeeOther)
}
