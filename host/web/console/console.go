// Package console serves the web pages: the landing page with prices and documentation, checkout, and the customer's
// dashboard. Pages are rendered on the server and work without JavaScript, which only adds updates in place.
package console

import (
	"bytes"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	texttemplate "text/template"
	"time"
	"unicode/utf8"

	"github.com/gofiber/fiber/v2"
	"github.com/gofiber/fiber/v2/middleware/compress"
	"github.com/gofiber/fiber/v2/middleware/filesystem"
	"github.com/valyala/fasthttp"

	"assay/docs"
	"assay/host/access/admission"
	"assay/host/check"
	"assay/host/customer/billing"
	"assay/host/customer/decision"
	"assay/host/customer/feedback"
	"assay/host/entity"
	"assay/host/web/refusal"
)

// Checker scores one entity and records the decision. Its errors are those of check.Checker.Check.
type Checker interface {
	Check(ctx context.Context, req check.Request) (*check.Decision, error)
}

// Explainer explains scores; *decision.Explainer implements it.
type Explainer interface {
	// Explain explains a recorded check.
	Explain(ctx context.Context, c check.Caller, ref string, e entity.Entity) (*decision.Explanation, error)
}

// Public limits checks without a key.
type Public interface {
	// Take counts one use by the client. If the client has reached the limit, ok is false and resetAt is when the next
	// use is possible. It returns an *admission.RateError if too many clients use it.
	Take(ctx context.Context, client netip.Prefix) (resetAt time.Time, ok bool, err error)
	// GiveBack uncounts the client's latest use, because its check was refused.
	GiveBack(ctx context.Context, client netip.Prefix) error
	// Caller returns the account that checks without a key are recorded for.
	Caller() check.Caller
}

// Receipts issues receipts of recorded checks; auditlog.Receipts implements it.
type Receipts interface {
	// Receipt returns a check's receipt. Error: feedback.ErrUnknownCheck.
	Receipt(ctx context.Context, c check.Caller, ref string, prove bool) (
		receipt json.RawMessage, proved bool, err error)
}

// Sealer encrypts cookies with a key that neither clients nor the database have. Context separates kinds of cookies.
type Sealer interface {
	Seal(plain []byte, context string) []byte
	Open(sealed []byte, context string) ([]byte, error)
}

// Config configures a console.
type Config struct {
	Store   Store
	Billing *billing.Billing
	Checker Checker
	Public  Public
	Sealer  Sealer
	Mail    Mail // nil: customers have no e-mail addresses. It requires URL, for the links in messages
	// Customers knows the addresses that customers pay with; it may be nil.
	Customers billing.Customers
	// Explainer explains scores, and Feedback takes reports on recorded checks.
	Explainer Explainer
	Feedback  *feedback.Desk
	Receipts  Receipts
	// Downloads limits the downloads of checks that run at once, by account or, for free accounts, by network.
	Downloads *admission.Shares
	// LookUps limits the look-ups of sessions that run at once, by the client's network, and Pages the pages of
	// customers who are signed in, by account or, for free accounts, by network.
	LookUps, Pages *admission.Shares
	// TakeKey counts a request with a key. The forms of an account count as those of a key with the account's ID. It
	// returns an *admission.RateError.
	TakeKey func(check.Caller) error
	// Webhook checks the URL of a webhook and returns its canonical form. Its errors begin with "url: " and are shown
	// to the customer.
	Webhook func(url string) (string, error)
	// Client returns the address block that counts as the client of a request.
	Client func(*fasthttp.RequestCtx) netip.Prefix
	// Shared reports whether that block is a proxy's, so that a limit counts all of its clients as one. nil: never.
	Shared func(*fasthttp.RequestCtx) bool
	URL    string // the host's public URL without a path; if empty, it is derived from each request
	Logger *slog.Logger
	Now    func() time.Time
	// Outage reports whether an error is due to an outage of the database. It may be nil.
	Outage func(error) bool
	HTTPS  bool // the host itself encrypts all connections
	Tax    bool // VAT is added to the prices
	// Links lead to the terms and similar documents. They are in the footer, and those to be accepted also at checkout.
	Links []Link
	// SecurityContact lists the URIs for reports of vulnerabilities; if there are none, there is no security.txt.
	SecurityContact []string
}

// Link is a link to a document of the operator.
type Link struct {
	Name, URL string
	Accepted  bool // accepted by paying
}

// pageTimeout bounds the work for one page.
const pageTimeout = 15 * time.Second

//go:embed static
var static embed.FS

// Look returns the style sheet console.css and the icon icon.svg, which the operator's page shares.
func Look() (fs.FS, error) { return fs.Sub(static, "static") }

// Console serves pages.
type Console struct {
	cfg     Config
	app     *fiber.App
	letters chan letter                   // to be sent by Run
	pages   map[string]*template.Template // by name; each is the layout with the page's blocks
	texts   *texttemplate.Template        // of messages

	documents []docs.Page
}

// New returns a console. It fails if a page's template or document is malformed.
func New(cfg Config) (*Console, error) {
	pages, err := parsePages()
	if err != nil {
		return nil, fmt.Errorf("reading pages: %w", err)
	}
	if cfg.Mail != nil && cfg.URL == "" {
		// Otherwise the sender of a request could choose the host in somebody else's link.
		return nil, errors.New("sending links by mail requires the public URL")
	}
	texts, err := texttemplate.New("").Funcs(templateFuncs).ParseFS(pageFiles, "pages/mail.txt")
	if err != nil {
		return nil, fmt.Errorf("reading the texts of messages: %w", err)
	}
	documents, err := docs.Pages()
	if err != nil {
		return nil, fmt.Errorf("reading the documentation: %w", err)
	}
	c := &Console{cfg: cfg, pages: pages, texts: texts, documents: documents, letters: make(chan letter, maxMails)}
	c.app = fiber.New(fiber.Config{
		Immutable: true, StrictRouting: true, CaseSensitive: true, DisableStartupMessage: true, ErrorHandler: c.fail,
	})
	files, err := Look()
	if err != nil {
		return nil, fmt.Errorf("reading static files: %w", err)
	}
	c.route(files)
	return c, nil
}

// Handler returns the handler of all pages.
func (c *Console) Handler() fasthttp.RequestHandler {
	routed := c.app.Handler()
	return func(ctx *fasthttp.RequestCtx) {
		if !slices.Contains(fiber.DefaultMethods, string(ctx.Method())) {
			// Fiber would respond with 400.
			ctx.Error("There is no such method.", fasthttp.StatusNotImplemented)
			return
		}
		routed(ctx)
	}
}

func (c *Console) route(files fs.FS) {
	c.app.Use(bound, c.setHeaders, rejectBadPath, c.rejectCrossSite, compress.New(compress.Config{
		Next: holdsSecrets, Level: compress.LevelBestSpeed, // a flood must not cost much
	}))
	c.app.Use("/static", cacheNamed, filesystem.New(filesystem.Config{Root: http.FS(files)}))

	c.app.Get("/favicon.ico", favicon) // browsers request it without a page
	c.app.Get("/.well-known/security.txt", c.securityText)

	c.app.Get("/", c.landing)
	c.app.Post("/try", c.try)
	c.app.Get("/docs", c.guide)
	c.app.Get("/docs/:page", c.guide)
	c.app.Get("/docs/:page/:part", c.guide)
	c.app.Post("/subscribe", c.subscribe)
	c.app.Get(TestCheckoutPath+":id", func(ctx *fiber.Ctx) error {
		return c.showTestCheckout(ctx, nil, billing.Card{})
	})
	c.app.Post(TestCheckoutPath+":id", c.payTest)
	c.app.Add(fiber.MethodGet, donePath, c.done) // not HEAD, which would claim a key without showing it
	c.app.Post("/checkout/reissue", c.reissue)
	c.app.Get("/signin", c.signInForm)
	c.app.Post("/signin", c.signIn)
	c.app.Get(LinkPath+":token", c.linkForm)
	c.app.Post("/signin/link", c.useLink)
	c.app.Post("/signout", c.signOut)

	c.signedIn(fiber.MethodGet, "/dashboard", c.overview)
	c.signedInWithoutSlot(fiber.MethodPost, "/dashboard/try", c.tryKeyed)
	c.signedIn(fiber.MethodGet, "/dashboard/checks", c.checks)
	c.signedIn(fiber.MethodPost, "/dashboard/checks", c.checks)
	c.signedIn(fiber.MethodGet, "/dashboard/checks/export", c.exportChecks)
	c.signedIn(fiber.MethodGet, "/dashboard/usage", c.usage)
	c.signedIn(fiber.MethodGet, "/dashboard/checks/:ref", c.check)
	c.signedIn(fiber.MethodGet, "/dashboard/checks/:ref/receipt", c.receipt)
	c.signedInWithoutSlot(fiber.MethodPost, "/dashboard/checks/:ref/explain", c.explain)
	c.signedIn(fiber.MethodPost, "/dashboard/checks/:ref/feedback", c.reportCheck)
	c.signedIn(fiber.MethodPost, "/dashboard/checks/:ref/review", c.askReview)
	c.signedIn(fiber.MethodGet, "/dashboard/keys", plain(c.showKeys))
	c.signedIn(fiber.MethodPost, "/dashboard/keys", c.createKey)
	c.signedIn(fiber.MethodPost, "/dashboard/keys/:id/rotate", c.rotateKey)
	c.signedIn(fiber.MethodPost, "/dashboard/keys/:id/revoke", c.revokeKey)
	c.routeWebhooks()
	c.signedIn(fiber.MethodGet, "/dashboard/overrides", plain(c.showOverrides))
	c.signedIn(fiber.MethodPost, "/dashboard/overrides", c.addOverride)
	c.signedIn(fiber.MethodPost, "/dashboard/overrides/:id/remove", c.removeOverride)
	c.signedIn(fiber.MethodGet, "/dashboard/privacy", plain(c.showPrivacy))
	c.signedIn(fiber.MethodPost, "/dashboard/privacy", c.findSubject)
	c.signedIn(fiber.MethodPost, "/dashboard/privacy/export", c.exportSubject)
	c.signedIn(fiber.MethodPost, "/dashboard/privacy/erase", c.proved(c.eraseSubject))
	c.signedIn(fiber.MethodPost, "/dashboard/privacy/download", c.downloadExport)
	c.routeAccount()
	c.signedIn(fiber.MethodGet, "/dashboard/plan", c.plan)
	c.signedInWithoutSlot(fiber.MethodPost, "/dashboard/plan", c.limited("plan change ", maxPlanChanges, c.changePlan))
	c.signedInWithoutSlot(fiber.MethodGet, "/dashboard/plan/change", c.limited("quote ", maxQuotes, c.planChange))
	c.signedInWithoutSlot(fiber.MethodPost, "/dashboard/plan/cancel", c.limited("end ", maxPlanChanges, c.cancelPlan))
	c.signedInWithoutSlot(fiber.MethodPost, "/dashboard/plan/payment", // the provider's page has an address too
		c.proved(c.limited("payment page ", maxPlanChanges, c.changePayment)))
}

// securityPolicy allows only files of this host, nothing inline, and forms that lead to this host or to Stripe's pages.
const securityPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self' https://checkout.stripe.com https://billing.stripe.com; base-uri 'none'; frame-ancestors 'none'"

func (c *Console) setHeaders(ctx *fiber.Ctx) error {
	ctx.Set("Content-Security-Policy", securityPolicy)
	ctx.Set("Referrer-Policy", "same-origin") // with no-referrer, our forms would have the origin "null"
	ctx.Set("Cross-Origin-Opener-Policy", "same-origin")
	if c.isSecure(ctx) {
		ctx.Set("Strict-Transport-Security", "max-age=31536000")
	}
	return ctx.Next()
}

// rejectBadPath rejects paths that the database could not store, because no id or reference contains such bytes.
func rejectBadPath(ctx *fiber.Ctx) error {
	if path := ctx.Request().URI().PathOriginal(); !utf8.Valid(path) || bytes.IndexByte(path, 0) >= 0 {
		return fiber.ErrNotFound
	}
	return ctx.Next()
}

// fail renders the page for any error of a handler. Unexpected errors are logged and not shown to the customer.
func (c *Console) fail(ctx *fiber.Ctx, err error) error {
	var page *refusal.Refusal
	var routing *fiber.Error
	switch {
	case errors.As(err, &page):
	case errors.As(err, &routing) && routing.Code == fiber.StatusMethodNotAllowed:
		page = refusal.Page(routing.Code, "This address does not accept that kind of request. Go back and try again.")
	case errors.As(err, &routing) && routing.Code < fiber.StatusInternalServerError:
		page = refusal.Page(fiber.StatusNotFound, "There is no such page.")
	case c.cfg.Outage != nil && c.cfg.Outage(err):
		c.cfg.Logger.Debug("page refused", "request_id", requestID(ctx), "route", ctx.Route().Path, "error", err)
		page = refusal.Page(fiber.StatusServiceUnavailable,
			"The database is not available at the moment. Please try again in a minute.")
	case refusal.Of(err) != nil:
		page = refusal.Page(refusal.Of(err).Status, textOf(err))
	default:
		c.cfg.Logger.Error("page failed", "request_id", requestID(ctx), "route", ctx.Route().Path, "error", err)
		page = refusal.Page(fiber.StatusInternalServerError, "The fault is on our side. Please try again in a minute.")
	}
	if page.Retry() {
		ctx.Set(fiber.HeaderRetryAfter, "1")
	}
	ctx.Status(page.Status)
	ctx.Context().SetUserValue(errorText{}, page.Text)
	var s *session
	if page.Status < fiber.StatusInternalServerError { // after an unexpected error the database may be unreachable
		s, _ = c.current(ctx)
	}
	return c.render(ctx, "error", s, view{"Title": title(page), "Text": page.Text, "Request": requestID(ctx)})
}

// errorText is the key of a response's user value that holds the text of its error page.
type errorText struct{}

// ErrorText returns the text of the error page that a request was answered with, or "".
func ErrorText(ctx *fasthttp.RequestCtx) string {
	text, _ := ctx.UserValue(errorText{}).(string)
	return text
}

// plain returns the handler that shows a page without the outcome of a form.
func plain(show func(*fiber.Ctx, *session, view) error) func(*fiber.Ctx, *session) error {
	return func(ctx *fiber.Ctx, s *session) error { return show(ctx, s, view{}) }
}

// requestID returns the id that the server gave to a request.
func requestID(ctx *fiber.Ctx) string { return ctx.GetRespHeader("X-Request-Id") }

// title returns the heading above the text.
func title(r *refusal.Refusal) string {
	switch {
	case r.Status >= fiber.StatusInternalServerError:
		return "Something went wrong"
	case r.Status == fiber.StatusNotFound || r.Status == fiber.StatusGone:
		return "Not found"
	case r.Status == fiber.StatusTooManyRequests:
		return "Too many attempts"
	}
	return "That did not work"
}

// sentence returns an error's text as a sentence.
func sentence(err error) string { return capitalize(err.Error()) + "." }

// pageContext returns a context that bounds the work for a page; fiber's own context has no deadline.
func pageContext() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), pageTimeout)
}

// bound bounds the work for a request, whose handlers get the context from work.
func bound(ctx *fiber.Ctx) error {
	bounded, cancel := pageContext()
	defer cancel()
	ctx.SetUserContext(bounded)
	return ctx.Next()
}

func work(ctx *fiber.Ctx) context.Context { return ctx.UserContext() }

// isSecure reports whether the customer's connection is encrypted: by this host, as configured by the operator, or as
// reported by a proxy. Any client may send the proxy's header, because it can only make that client's own cookies
// stricter.
func (c *Console) isSecure(ctx *fiber.Ctx) bool {
	first, _, _ := strings.Cut(ctx.Get("X-Forwarded-Proto"), ",")
	return c.cfg.HTTPS || strings.HasPrefix(c.cfg.URL, "https://") ||
		strings.EqualFold(strings.TrimSpace(first), "https")
}

// url returns the absolute URL of a page of this host.
func (c *Console) url(ctx *fiber.Ctx, path string) string {
	if c.cfg.URL != "" {
		return c.cfg.URL + path
	}
	scheme := "http://"
	if c.isSecure(ctx) {
		scheme = "https://"
	}
	return scheme + string(ctx.Request().Host()) + path
}
