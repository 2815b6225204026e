package customer

import (
	"cmp"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stripe/stripe-go/v85/webhook"

	"assay/host/hosttest"
	"assay/registry/expect"
)

// stripeServer answers a host as Stripe does, for one customer. Packages billing and store test more of it.
type stripeServer struct {
	sync.Mutex
	forms   []url.Values // of the checkouts
	expired int
	paid    bool
	plan    string
	id      string // of the subscription, if it is not sub_1
	pending bool
	calls   []string
}

func (s *stripeServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.Lock()
	defer s.Unlock()
	_ = r.ParseForm()
	s.calls = append(s.calls, r.Method+" "+r.URL.Path)
	switch {
	case r.URL.Path == "/v1/checkout/sessions":
		s.forms = append(s.forms, r.PostForm)
		fmt.Fprintf(w, `{"id": "cs_%d", "object": "checkout.session", "url": "https://stripe.example/cs_%d"}`,
			len(s.forms), len(s.forms))
	case strings.HasSuffix(r.URL.Path, "/expire"):
		s.expired++
		fmt.Fprint(w, `{"object": "checkout.session", "status": "expired"}`)
	case strings.HasPrefix(r.URL.Path, "/v1/checkout/sessions/"):
		status := map[bool]string{false: "open", true: "complete"}[s.paid]
		fmt.Fprintf(w, `{"object": "checkout.session", "status": %q, "subscription": "sub_1"}`, status)
	case r.URL.Path == "/v1/invoices/create_preview":
		fmt.Fprint(w, `{"object": "invoice", "amount_due": 8212}`)
	case strings.HasPrefix(r.URL.Path, "/v1/subscriptions/"):
		pending := "null"
		if r.Method == http.MethodPost {
			s.pending = r.PostForm.Get("payment_behavior") == "pending_if_incomplete"
			if s.pending { // the card is declined
				pending = `{"expires_at": 1}`
			}
		}
		now := time.Now()
		fmt.Fprintf(w, `{"object": "subscription", "id": %q, "customer": "cus_1", "status": "active",
			"metadata": {"assay_checkout": %q}, "pending_update": %s, "latest_invoice": {"id": "in_1",
			"hosted_invoice_url": "https://stripe.example/in_1"}, "items": {"data": [{"id": "si_1",
			"price": {"lookup_key": "assay_%s_1900"}, "current_period_start": %d, "current_period_end": %d}]}}`,
			cmp.Or(s.id, "sub_1"), s.forms[len(s.forms)-1].Get("client_reference_id"), pending, s.plan, now.Unix(),
			now.AddDate(0, 1, 0).Unix())
	default:
		fmt.Fprint(w, `{"object": "list", "data": [{"id": "price_1", "object": "price"}]}`)
	}
}

// browser is a browser that follows no redirects.
type browser struct {
	*testing.T
	*http.Client
	url string
}

func (b browser) do(method, path string, form url.Values) (status int, location, page string) {
	b.Helper()
	request := expect.Value(http.NewRequestWithContext(b.Context(), method, b.url+path,
		strings.NewReader(form.Encode())))(b)
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	response := expect.Value(b.Do(request))(b)
	defer response.Body.Close()
	return response.StatusCode, response.Header.Get("Location"), string(expect.Value(io.ReadAll(response.Body))(b))
}

var shownKey = regexp.MustCompile(`<code id="key">(assay_\w+)</code>`)

const stripeSecret = "whsec_of_the_tests"

// testStripe buys a plan from a host whose Stripe sends no event: it asks when the browser returns, and closes the
// other checkout. Another customer's payment is known by its event, unless that is forged.
func testStripe(t *testing.T, s *service) {
	stripe := s.stripe
	browse := func() browser {
		return browser{t, &http.Client{Jar: expect.Value(cookiejar.New(nil))(t),
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}, s.URL}
	}
	b := browse()
	for _, plan := range []string{"pro", "starter"} {
		status, location, _ := b.do("POST", "/subscribe", url.Values{"plan": {plan}})
		expect.That(t, status == 303 && strings.HasPrefix(location, "https://stripe.example/cs_"), "%d %s", status,
			location)
	}
	form := stripe.forms[1]
	expect.That(t, stripe.expired == 1 && form.Get("automatic_tax[enabled]") == "true" &&
		strings.Contains(form.Get("custom_text[submit][message]"), "[Terms](https://a.example/terms)"),
		"%d checkouts were closed; the second one is %v", stripe.expired, form)
	status, _, _ := b.do("GET", "/checkout/done", nil)
	expect.Equal(t, "status before the payment", status, 402)
	stripe.becomes(func() { stripe.paid = true })
	var key []string
	expect.Until(t, "the key", func() bool {
		_, _, page := b.do("GET", "/checkout/done", nil)
		key = shownKey.FindStringSubmatch(page)
		return key != nil
	})
	checked := hosttest.Post(http.DefaultClient, s.URL, key[1], hosttest.FleetBody)
	expect.Equal(t, "status of a check", checked.Status, 200)

	_, _, page := b.do("GET", "/dashboard/plan/change?plan=pro", nil)
	expect.That(t, strings.Contains(page, "€82.12"), "the page does not say what is due: %s", page)
	token := regexp.MustCompile(`name="csrf" value="([^"]+)"`).FindStringSubmatch(page)
	status, _, page = b.do("POST", "/dashboard/plan", url.Values{"csrf": {token[1]}, "plan": {"pro"}})
	expect.That(t, status == 402 && stripe.pending && strings.Contains(page, `href="https://stripe.example/in_1"`),
		"a declined card: %d, %s", status, page)
	_, _, page = b.do("GET", "/dashboard/plan", nil)
	expect.That(t, strings.Contains(page, "You are on <b>Starter</b>"), "after a declined card: %s", page)

	stripe.becomes(func() { stripe.paid, stripe.pending, stripe.id = false, false, "sub_2" })
	another := browse()
	another.do("POST", "/subscribe", url.Values{"plan": {"starter"}})
	send := func(secret string) int {
		signed := webhook.GenerateTestSignedPayload(&webhook.UnsignedPayload{Secret: secret, Timestamp: time.Now(),
			Payload: fmt.Appendf(nil, `{"object": "event", "id": "evt_1", "type": "checkout.session.completed",
				"created": %d, "data": {"object": {"object": "checkout.session", "subscription": "sub_2"}}}`,
				time.Now().Unix())})
		status, _ := hosttest.Send(t, s.HostProcess, "", "POST", "/api/billing/stripe", string(signed.Payload),
			"Stripe-Signature", signed.Header)
		return status
	}
	expect.Equal(t, "status of a forged event", send("whsec_x"), 400)
	status, _, _ = another.do("GET", "/checkout/done", nil)
	expect.Equal(t, "status before the payment", status, 402)
	expect.Equal(t, "status of a payment", send(stripeSecret), 200)
	expect.Equal(t, "status of its repetition", send(stripeSecret), 200)
	stripe.becomes(func() { stripe.calls = nil })
	_, _, page = another.do("GET", "/checkout/done", nil)
	expect.That(t, shownKey.MatchString(page) && len(stripe.calls) == 0, "after the payment, calls %v: %s",
		stripe.calls, page)
}

// becomes changes what Stripe answers.
func (s *stripeServer) becomes(change func()) {
	s.Lock()
	defer s.Unlock()
	change()
}
