package console

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/netip"
	"net/url"
	"os"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/valyala/fasthttp"
	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"assay/host/access/admission"
	"assay/host/audit"
	"assay/host/auditlog"
	"assay/host/check"
	"assay/host/customer/billing"
	"assay/host/customer/feedback"
	"assay/host/customer/webhook"
	"assay/host/entity"
	"assay/host/store"
	"assay/host/store/postgres/postgrestest"
	"assay/host/store/storetest"
	"assay/registry/expect"
)

func TestMain(m *testing.M) {
	storetest.Prepare(func(ctx context.Context, url string) (*store.Store, error) {
		return store.Open(ctx, storeConfig(url))
	})
	os.Exit(postgrestest.Main(m))
}

func storeConfig(url string) store.Config {
	return store.Config{URL: url, Keys: storetest.Ring, Logger: storetest.Discard()}
}

// site is a console that serves on a loopback address.
type site struct {
	*Console
	store         *store.Store
	database, url string
	clock         *expect.Clock
	ledger        func() *store.Ledger
}

// serve starts a console with its own database and the test checkout. change may be nil.
func serve(t *testing.T, change func(*Config)) *site {
	t.Helper()
	s := &site{database: postgrestest.Database(t), clock: expect.NewClock(time.Now())}
	var clients atomic.Uint32
	config := storeConfig(s.database)
	config.Now = s.clock.Now
	s.store = expect.Value(store.Open(t.Context(), config))(t)
	t.Cleanup(func() { _ = s.store.Close() })
	s.ledger = sync.OnceValue(func() *store.Ledger {
		patient := store.LedgerConfig{Patience: time.Minute, Settling: time.Minute, Late: time.Minute}
		return storetest.Close(t, expect.Value(s.store.NewLedger(patient))(t))
	})
	guard := expect.Value(webhook.NewGuard(nil))(t)
	cfg := Config{
		Explainer: explained{s.store}, Receipts: auditlog.Receipts{Store: s.store,
			Signer: audit.NewSigner(audit.KeyName, storetest.Ring.SignSeed)}, Feedback: &feedback.Desk{Store: s.store},
		Downloads: admission.NewShares(2), LookUps: admission.NewShares(64), Pages: admission.NewShares(64),
		Store: s.store, Checker: parser{}, Public: unlimited{s.store}, TakeKey: func(check.Caller) error { return nil },
		Sealer: storetest.Ring, Logger: storetest.Discard(), Now: s.clock.Now,
		Billing: &billing.Billing{Accounts: s.store, Provider: &billing.TestCheckout{Now: s.clock.Now,
			Page: TestCheckoutPath}, Now: s.clock.Now},
		Webhook: func(text string) (string, error) {
			receiver, err := webhook.ParseURL(text)
			return receiver, errors.Join(err, guard.CheckURL(receiver))
		},
		Client: func(ctx *fasthttp.RequestCtx) netip.Prefix {
			if block, err := netip.ParsePrefix(string(ctx.Request.Header.Peek("X-Test-Client"))); err == nil {
				return block
			}
			n := clients.Add(1) // by default, each request comes from another network
			return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(n >> 8), byte(n), 1}), 32)
		},
	}
	if change != nil {
		change(&cfg)
	}
	s.Console = expect.Value(New(cfg))(t)
	listener := expect.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
	server := &fasthttp.Server{Handler: s.Handler(), ReadBufferSize: 8 << 10} // as in host/web/api
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	t.Cleanup(func() {
		// Shutdown alone ends no server that has not begun to serve yet.
		expect.NoError(t, errors.Join(listener.Close(), <-served))
		err := server.Shutdown()
		expect.That(t, err == nil || errors.Is(err, net.ErrClosed), "%v", err)
	})
	s.url = "http://" + listener.Addr().String()
	return s
}

// parser is a checker that only parses. It allows every valid entity.
type parser struct{}

func (parser) Check(_ context.Context, r check.Request) (*check.Decision, error) {
	f := r.Fields[0]
	if _, err := entity.Parse(f.Type, f.Value, "DE"); err != nil {
		return nil, err
	}
	return &check.Decision{
		Fused: check.Fused{Score: 3, Verdict: check.Allow, Signals: []check.Signal{{Text: "nothing but " + f.Value}}},
		Ref:   check.NewRef(), Type: f.Type, Query: f.Value,
	}, nil
}

// hooked is a parser that calls before for each check, which fails with its error.
type hooked struct{ before func(check.Request) error }

func (h *hooked) Check(ctx context.Context, r check.Request) (*check.Decision, error) {
	if err := h.before(r); err != nil {
		return nil, err
	}
	return parser{}.Check(ctx, r)
}

// unlimited accepts every check without a key.
type unlimited struct{ *store.Store }

func (unlimited) Take(context.Context, netip.Prefix) (time.Time, bool, error) {
	return time.Time{}, true, nil
}
func (u unlimited) Caller() check.Caller { return u.PublicCaller() }

// visitor is a browser without JavaScript. It keeps cookies, follows redirects and submits forms.
type visitor struct {
	*testing.T
	client *http.Client
	header http.Header // of every request
	code   string      // that signs in to the customer's account
	at     page
}

// page is a page that a visitor received.
type page struct {
	*testing.T
	url    *url.URL
	status int
	header http.Header
	body   string
	root   *html.Node
}

func (s *site) visit(t *testing.T) *visitor {
	t.Helper()
	jar := expect.Value(cookiejar.New(nil))(t)
	at := expect.Value(url.Parse(s.url))(t)
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return &visitor{T: t, client: &http.Client{Jar: jar, Transport: transport}, header: http.Header{},
		at: page{T: t, url: at}}
}

// visitLanding returns a visitor of the landing page who has pressed buttons, the first one there.
func (s *site) visitLanding(t *testing.T, buttons ...string) *visitor {
	t.Helper()
	v := s.visit(t)
	v.get("/")
	for _, text := range buttons {
		v.press(text)
	}
	return v
}

// alone returns a copy of the visitor that shares its cookies and does not follow redirects.
func (v *visitor) alone() *visitor {
	client := *v.client
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &visitor{T: v.T, client: &client, header: v.header.Clone(), code: v.code, at: v.at}
}

func (v *visitor) send(method, target, kind, body string) page {
	v.Helper()
	to := expect.Value(v.at.url.Parse(target))(v)
	request := expect.Value(http.NewRequestWithContext(v.Context(), method, to.String(), strings.NewReader(body)))(v)
	request.Header = v.header.Clone()
	if kind != "" {
		request.Header.Set("Content-Type", kind)
	}
	response := expect.Value(v.client.Do(request))(v)
	defer response.Body.Close()
	text := expect.Value(io.ReadAll(response.Body))(v)
	root := expect.Value(html.Parse(bytes.NewReader(text)))(v)
	v.at = page{T: v.T, url: response.Request.URL, status: response.StatusCode, header: response.Header,
		body: string(text), root: root}
	return v.at
}

func (v *visitor) get(path string) page { v.Helper(); return v.send("GET", path, "", "") }

func (v *visitor) post(path string, fields ...string) page {
	v.Helper()
	form := url.Values{}
	for i := 0; i+1 < len(fields); i += 2 {
		form.Set(fields[i], fields[i+1])
	}
	return v.send("POST", path, "application/x-www-form-urlencoded", form.Encode())
}

// follow loads the target of the link with a text.
func (v *visitor) follow(text string) page {
	v.Helper()
	for n := range v.at.root.Descendants() {
		if n.DataAtom == atom.A && words(n) == text {
			return v.get(attribute(n, "href"))
		}
	}
	v.Fatalf("there is no link %q on the page:\n%s", text, words(v.at.root))
	return page{}
}

// submit gets a page and presses a button there.
func (v *visitor) submit(path, button string, typed ...string) page {
	v.Helper()
	v.get(path)
	return v.press(button, typed...)
}

// press submits the first form with a button of that text. typed replace fields, by name.
func (v *visitor) press(text string, typed ...string) page {
	v.Helper()
	for form := range v.at.root.Descendants() {
		if form.DataAtom != atom.Form || !slices.Contains(buttons(form), text) {
			continue
		}
		fields := url.Values{}
		for n := range form.Descendants() {
			unchecked := attribute(n, "type") == "checkbox" && !slices.Contains(n.Attr, html.Attribute{Key: "checked"})
			if name := attribute(n, "name"); n.DataAtom == atom.Input && name != "" && !unchecked {
				fields.Add(name, attribute(n, "value"))
			}
		}
		for i := 0; i < len(typed); i += 2 {
			expect.Must(v, strings.Contains(v.at.body, `name="`+typed[i]+`"`), "the form has no field %s", typed[i])
			fields.Set(typed[i], typed[i+1])
		}
		return v.send("POST", attribute(form, "action"), "application/x-www-form-urlencoded", fields.Encode())
	}
	v.Fatalf("there is no form with a button %q on the page:\n%s", text, words(v.at.root))
	return page{}
}

func buttons(form *html.Node) (texts []string) {
	for n := range form.Descendants() {
		if n.DataAtom == atom.Button {
			texts = append(texts, words(n))
		}
	}
	return texts
}

func attribute(n *html.Node, name string) string {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}

// words returns the text of a node with single spaces.
func words(n *html.Node) string {
	var b strings.Builder
	for d := range n.Descendants() {
		if d.Type == html.TextNode && d.Parent.DataAtom != atom.Script {
			b.WriteString(d.Data)
		}
	}
	return strings.Join(strings.Fields(b.String()), " ")
}

// first returns the first element with an attribute, or an empty one.
func (p page) first(name, value string) *html.Node {
	for n := range p.root.Descendants() {
		if slices.Contains(n.Attr, html.Attribute{Key: name, Val: value}) {
			return n
		}
	}
	return &html.Node{}
}

// text returns the text of the element with an id, or "".
func (p page) text(id string) string { return words(p.first("id", id)) }

// problem returns the id of the first field that is marked as invalid, and its error.
func (p page) problem() (field, text string) {
	n := p.first("aria-invalid", "true")
	described, _, _ := strings.Cut(attribute(n, "aria-describedby"), " ")
	return attribute(n, "id"), p.text(described)
}

// is checks the status of a page, and that it contains texts.
func (p page) is(status int, texts ...string) {
	p.Helper()
	lacks := func(text string) bool { return !strings.Contains(words(p.root), text) }
	expect.Must(p, p.status == status && !slices.ContainsFunc(texts, lacks), "%s: status %d, want %d and %q:\n%s",
		p.url, p.status, status, texts, words(p.root))
}

func (v *visitor) is(status int, texts ...string) { v.Helper(); v.at.is(status, texts...) }

// lacks checks that the current page has none of these texts.
func (v *visitor) lacks(texts ...string) {
	v.Helper()
	for _, text := range texts {
		expect.That(v, !strings.Contains(v.at.body, text), "%s contains %q:\n%s", v.at.url, text, words(v.at.root))
	}
}

// token returns the token in the forms of the visitor's session.
func (p page) token() string { return attribute(p.first("name", "csrf"), "value") }

// cookies returns the cookies that the page set, by name.
func (p page) cookies() map[string]*http.Cookie {
	set := map[string]*http.Cookie{}
	for _, c := range (&http.Response{Header: p.header}).Cookies() {
		set[c.Name] = c
	}
	return set
}

// card is a card of the test checkout, as fields of its form.
var card = []string{"number", "4242424242424242", "expiry", "12/40", "cvc", "123", "name", "Jane Doe"}

// customer returns a visitor who has subscribed to a plan, is signed in and knows the sign-in code, and the key.
func (s *site) customer(t *testing.T, plan string) (*visitor, string) {
	t.Helper()
	v := s.visitLanding(t)
	if plan == "free" {
		v.press("Get a free key")
	} else {
		v.press("Subscribe to " + strings.ToUpper(plan[:1]) + plan[1:])
		v.press("Subscribe", card...)
	}
	v.is(200, "This is your API key.")
	key := v.at.text("key")
	v.code = v.at.text("code")
	v.get("/dashboard").is(200, "This month")
	return v, key
}

// TestConsole runs the tests that can share a console: each has accounts of its own, and none changes the clock.
func TestConsole(t *testing.T) {
	t.Parallel()
	serve(t, nil).share(t, testForgedForms, testCheckPage, testHostileText, testStaticFiles, testOtherMethods,
		testWithoutJavaScript, testKeyWithLimits, testKeyFormErrors, testOverridesPage, testOverridesPageErrors,
		testListPages, testDocsOfLayers, testUpdatedParts, testErrorPages, testPrivacyPage, testPrivacyPageErrors,
		testLargeSubjectPage, testFavicon, testSecondTestPayment, testChangePlan, testCheckoutForm, testTestMode,
		testNoMail, testUsagePage, testCompression, testShownOnce, testSignInWithKey, testDownloadsAreLimited,
		testFigures)
}

// TestCheckout runs the tests that share a console whose payments are confirmed later.
func TestCheckout(t *testing.T) {
	t.Parallel()
	serve(t, useLateProvider).share(t, testCheckoutsInSeveralTabs, testSecondSubscription,
		testSubscriptionEndedBeforeSuccessPage, testChangePayment)
}

func (s *site) share(t *testing.T, tests ...func(*testing.T, *site)) {
	t.Helper()
	for _, test := range tests {
		_, name, _ := strings.Cut(runtime.FuncForPC(reflect.ValueOf(test).Pointer()).Name(), ".test")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, s)
		})
	}
}
