// Package console serves the pages for people: the landing page with prices and documentation, checkout, and the
// customer's dashboard. Everything is rendered here and works without JavaScript, which adds partial updates and plots.
package console

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/gofiber/fiber/v2"
	"github.com/gofiber/fiber/v2/middleware/filesystem"
	"github.com/valyala/fasthttp"

	"assay/host/apikey"
	"assay/host/billing"
	"assay/host/check"
	"assay/host/store"
	"assay/host/webhook"
)

// Checker scores one entity and records the decision. Its errors are those of check.Checker.Check.
type Checker interface {
	Check(ctx context.Context, req check.Request) (*check.Decision, error)
}

// Public limits checks without a key.
type Public interface {
	// Take counts one use by the client and says whether it was within the limit, and when the limit starts anew.
	Take(ctx context.Context, client netip.Prefix) (resetAt time.Time, ok bool, err error)
	Caller() check.Caller
}

// Sealer encrypts cookies with a key that no client and no database has.
type Sealer interface {
	Seal(plain []byte, context string) []byte
	Open(sealed []byte, context string) ([]byte, error)
}

// Config is what a console needs.
type Config struct {
	Store   *store.Store
	Billing *billing.Billing
	Checker Checker
	Public  Public
	Sealer  Sealer
	// Webhook judges a URL that events are to go to, and returns it as it is to be stored.
	Webhook func(url string) (string, error)
	// Client is the address block that stands for the client of a request.
	Client func(*fasthttp.RequestCtx) netip.Prefix
	URL    string // of this host as customers reach it, without a path; "": as the request says
	Logger *slog.Logger
	Now    func() time.Time
}

// pageTimeout bounds the work for one page.
const pageTimeout = 15 * time.Second

// staticAge is how long browsers keep a static file: a year, in seconds. Its address changes with its content.
const staticAge = 365 * 24 * 60 * 60

//go:embed static
var static embed.FS

// Console answers requests for pages.
type Console struct {
	cfg   Config
	app   *fiber.App
	pages *pages
}

// New returns a console. It fails when a page's template does not parse.
func New(cfg Config) (*Console, error) {
	p, err := parsePages()
	if err != nil {
		return nil, fmt.Errorf("reading pages: %w", err)
	}
	c := &Console{cfg: cfg, pages: p}
	c.app = fiber.New(fiber.Config{
		Immutable: true, StrictRouting: true, CaseSensitive: true, DisableStartupMessage: true, ErrorHandler: c.fail,
	})
	files, err := fs.Sub(static, "static")
	if err != nil {
		return nil, fmt.Errorf("reading static files: %w", err)
	}
	c.route(files)
	return c, nil
}

// Handler answers one request.
func (c *Console) Handler() fasthttp.RequestHandler {
	routed := c.app.Handler()
	return func(ctx *fasthttp.RequestCtx) {
		if !slices.Contains(fiber.DefaultMethods, string(ctx.Method())) {
			// fiber would say that the request is malformed
			ctx.Error("There is no such method.", fasthttp.StatusNotImplemented)
			return
		}
		routed(ctx)
	}
}

func (c *Console) route(files fs.FS) {
	c.app.Use(c.headers, vetPath, c.sameOrigin)
	c.app.Use("/static", filesystem.New(filesystem.Config{Root: http.FS(files), MaxAge: staticAge}))

	c.app.Get("/", c.landing)
	c.app.Post("/try", c.try)
	c.app.Get("/docs", c.docs)
	c.app.Post("/subscribe", c.subscribe)
	c.app.Get(testCheckoutPath+":id", c.testCheckout)
	c.app.Post(testCheckoutPath+":id", c.payTest)
	c.app.Add(fiber.MethodGet, donePath, c.done) // not HEAD, which would claim a key and show it to nobody
	c.app.Post("/checkout/reissue", c.reissue)
	c.app.Get("/signin", c.signInForm)
	c.app.Post("/signin", c.signIn)
	c.app.Post("/signout", c.signOut)

	c.signedIn(fiber.MethodGet, "/dashboard", c.overview)
	c.signedIn(fiber.MethodPost, "/dashboard/try", c.tryKeyed)
	c.signedIn(fiber.MethodGet, "/dashboard/checks", c.checks)
	c.signedIn(fiber.MethodGet, "/dashboard/keys", c.keys)
	c.signedIn(fiber.MethodPost, "/dashboard/keys", c.createKey)
	c.signedIn(fiber.MethodPost, "/dashboard/keys/:id/rotate", c.rotateKey)
	c.signedIn(fiber.MethodPost, "/dashboard/keys/:id/revoke", c.revokeKey)
	c.signedIn(fiber.MethodGet, "/dashboard/webhooks", c.webhooks)
	c.signedIn(fiber.MethodPost, "/dashboard/webhooks", c.setEndpoint)
	c.signedIn(fiber.MethodPost, "/dashboard/webhooks/remove", c.removeEndpoint)
	c.signedIn(fiber.MethodPost, "/dashboard/webhooks/secret", c.rotateSecret)
	c.signedIn(fiber.MethodPost, "/dashboard/webhooks/test", c.testEvent)
	c.signedIn(fiber.MethodPost, "/dashboard/webhooks/enable", c.enableEndpoint)
	c.signedIn(fiber.MethodPost, "/dashboard/webhooks/resend", c.resendFailed)
	c.signedIn(fiber.MethodGet, "/dashboard/webhooks/:ref", c.event)
	c.signedIn(fiber.MethodPost, "/dashboard/webhooks/:ref/resend", c.resend)
	c.signedIn(fiber.MethodGet, "/dashboard/privacy", c.privacy)
	c.signedIn(fiber.MethodPost, "/dashboard/privacy", c.findSubject)
	c.signedIn(fiber.MethodPost, "/dashboard/privacy/export", c.exportSubject)
	c.signedIn(fiber.MethodPost, "/dashboard/privacy/erase", c.eraseSubject)
	c.signedIn(fiber.MethodGet, "/dashboard/plan", c.plan)
	c.signedIn(fiber.MethodPost, "/dashboard/plan", c.changePlan)
	c.signedIn(fiber.MethodPost, "/dashboard/plan/cancel", c.cancelPlan)
	c.signedIn(fiber.MethodPost, "/dashboard/plan/resume", c.resumePlan)
	c.signedIn(fiber.MethodPost, "/dashboard/plan/payment", c.changePayment)
}

// securityPolicy allows this host's own files only, nothing inline, and forms that lead here or to Stripe's pages.
const securityPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self' https://checkout.stripe.com https://billing.stripe.com; base-uri 'none'; frame-ancestors 'none'"

func (c *Console) headers(ctx *fiber.Ctx) error {
	ctx.Set("Content-Security-Policy", securityPolicy)
	ctx.Set("Referrer-Policy", "no-referrer")
	ctx.Set("Cross-Origin-Opener-Policy", "same-origin")
	if c.secure(ctx) {
		ctx.Set("Strict-Transport-Security", "max-age=31536000")
	}
	return ctx.Next()
}

// vetPath refuses paths whose parts cannot be anything's name, before they reach the database.
func vetPath(ctx *fiber.Ctx) error {
	if path := ctx.Request().URI().PathOriginal(); !utf8.Valid(path) || bytes.IndexByte(path, 0) >= 0 {
		return fiber.ErrNotFound
	}
	return ctx.Next()
}

// pageError is an error that has a page of its own. Its text is for the person.
type pageError struct {
	status int
	text   string
}

func (e *pageError) Error() string { return e.text }

// fail answers with a page that says what went wrong; no other place does. The text of what is not known here is kept
// from the person.
func (c *Console) fail(ctx *fiber.Ctx, err error) error {
	var page *pageError
	var routing *fiber.Error
	switch {
	case errors.As(err, &page):
	case errors.As(err, &routing) && routing.Code == fiber.StatusMethodNotAllowed:
		page = &pageError{routing.Code, "This page cannot be asked for in that way. Go back and try again."}
	case errors.As(err, &routing) && routing.Code < fiber.StatusInternalServerError:
		page = &pageError{fiber.StatusNotFound, "There is no such page."}
	case errors.Is(err, apikey.ErrNotFound):
		page = &pageError{fiber.StatusNotFound, sentence(apikey.ErrNotFound)}
	case errors.Is(err, webhook.ErrNoEvent):
		page = &pageError{fiber.StatusNotFound, sentence(webhook.ErrNoEvent)}
	default:
		c.cfg.Logger.Error("page failed", "route", ctx.Route().Path, "error", err)
		page = &pageError{fiber.StatusInternalServerError, "The fault is on our side. Please try again in a minute."}
	}
	ctx.Status(page.status)
	if ctx.Get("HX-Request") != "" {
		// Only a part of a page that stays is replaced.
		if partial(ctx, "tried") {
			return c.part(ctx, "tried", nil, view{"Error": page.text})
		}
		ctx.Set("HX-Reswap", "none")
	}
	var s *session
	if page.status < fiber.StatusInternalServerError { // else the database may not answer
		s, _ = c.current(ctx)
	}
	return c.render(ctx, "error", s, view{"Title": page.title(), "Text": page.text})
}

// title is the heading above the text.
func (e *pageError) title() string {
	switch {
	case e.status >= fiber.StatusInternalServerError:
		return "Something went wrong"
	case e.status == fiber.StatusNotFound || e.status == fiber.StatusGone:
		return "Not found"
	case e.status == fiber.StatusTooManyRequests:
		return "Too many attempts"
	}
	return "That did not work"
}

// sentence is an error's text as a sentence.
func sentence(err error) string {
	text := err.Error()
	return strings.ToUpper(text[:1]) + text[1:] + "."
}

// work bounds what a page does; fiber's own context has no deadline.
func work() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), pageTimeout)
}

// secure says whether the customer's connection is encrypted: the operator says so, or the proxy in front. That header
// is believed from anybody, since it only ever makes that client's own cookies stricter.
func (c *Console) secure(ctx *fiber.Ctx) bool {
	first, _, _ := strings.Cut(ctx.Get("X-Forwarded-Proto"), ",")
	return strings.HasPrefix(c.cfg.URL, "https://") || strings.EqualFold(strings.TrimSpace(first), "https")
}

// url is an absolute address of a page of this host.
func (c *Console) url(ctx *fiber.Ctx, path string) string {
	if c.cfg.URL != "" {
		return c.cfg.URL + path
	}
	scheme := "http://"
	if c.secure(ctx) {
		scheme = "https://"
	}
	return scheme + string(ctx.Request().Host()) + path
}
