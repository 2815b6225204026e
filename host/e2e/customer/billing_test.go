package customer

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stripe/stripe-go/v85/webhook"

	"assay/host/hosttest"
	"assay/host/store/postgres/postgrestest"
	"assay/registry/expect"
)

// stripeServer implements the parts of Stripe's API that a checkout needs: prices and checkout sessions.
type stripeServer struct {
	*httptest.Server
	checkouts chan string // ids of the checkouts of opened sessions
}

func newStripeServer(t *testing.T) *stripeServer {
	s := &stripeServer{checkouts: make(chan string, 10)}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var answer any
		switch r.Method + " " + r.URL.Path {
		case "GET /v1/prices":
			answer = map[string]any{"object": "list",
				"data": []any{map[string]string{"id": "price_1", "object": "price"}}}
		case "POST /v1/checkout/sessions":
			s.checkouts <- r.FormValue("client_reference_id")
			answer = map[string]string{"id": "cs_1", "object": "checkout.session",
				"url": "https://checkout.stripe.com/c/pay/cs_1"}
		default:
			t.Errorf("unexpected request to Stripe: %s %s", r.Method, r.URL.Path)
			http.Error(w, "{}", http.StatusNotFound)
			return
		}
		_ = json.NewEncoder(w).Encode(answer)
	}))
	t.Cleanup(s.Close)
	return s
}

func completed(id, checkout string, at time.Time) stripeEvent {
	return stripeEvent{id, "checkout.session.completed", at, map[string]any{
		"object": "checkout.session", "payment_status": "paid", "client_reference_id": checkout,
		"customer": "cus_" + checkout, "subscription": "sub_" + checkout,
	}}
}

func subscribed(id, checkout, kind, status string, at time.Time) stripeEvent {
	price := map[string]string{"lookup_key": "assay_pro_9900"}
	return stripeEvent{id, "customer.subscription." + kind, at, map[string]any{
		"object": "subscription", "id": "sub_" + checkout, "customer": "cus_" + checkout, "status": status,
		"metadata": map[string]string{"assay_checkout": checkout},
		"items":    map[string]any{"data": []any{map[string]any{"price": price}}},
	}}
}

// sendEvent posts a Stripe event, again after a refusal, as Stripe does. It returns the status of the answer.
func sendEvent(t *testing.T, h *hosttest.HostProcess, e stripeEvent, secret string) int {
	t.Helper()
	signed := webhook.GenerateTestSignedPayload(&webhook.UnsignedPayload{Payload: e.body(t), Secret: secret,
		Timestamp: time.Now()})
	status, text := hosttest.Send(t, h, "", "POST", "/api/billing/stripe", string(signed.Payload),
		"Stripe-Signature", signed.Header)
	if strings.Contains(text, stripeSecret) {
		t.Errorf("answer %q", text)
	}
	return status
}

// buyer is a browser that does not follow redirects.
type buyer struct {
	*testing.T
	client *http.Client
	host   *hosttest.HostProcess
}

func newBuyer(t *testing.T, h *hosttest.HostProcess) *buyer {
	t.Helper()
	jar := expect.Value(cookiejar.New(nil))(t)
	return &buyer{t, &http.Client{Jar: jar,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}, h}
}

func (b *buyer) get(path string) (status int, body string) {
	b.Helper()
	hosttest.UntilAccepted(func() int {
		response, err := b.client.Get(b.host.URL + path)
		status, body = b.read(response, err)
		return status
	})
	return status, body
}

func (b *buyer) read(response *http.Response, err error) (status int, body string) {
	b.Helper()
	expect.NoError(b, err)
	defer response.Body.Close()
	text := expect.Value(io.ReadAll(response.Body))(b)
	return response.StatusCode, string(text)
}

// subscribe begins a checkout of the Pro plan and returns its id.
func (b *buyer) subscribe(s *stripeServer) string {
	b.Helper()
	response, err := b.client.PostForm(b.host.URL+"/subscribe", url.Values{"plan": {"pro"}})
	status, body := b.read(response, err)
	if status != 303 || response.Header.Get("Location") != "https://checkout.stripe.com/c/pay/cs_1" {
		b.Fatalf("subscribing: status %d, location %s: %s", status, response.Header.Get("Location"), body)
	}
	if status, body := b.get("/checkout/done"); status != 402 {
		b.Fatalf("before the payment: status %d, %s", status, body)
	}
	return <-s.checkouts
}

var shownKey = regexp.MustCompile(`<code id="key">(assay_\w+)</code>`)

// TestStripeEvents sends signed, forged and repeated Stripe events to a host.
func TestStripeEvents(t *testing.T) {
	t.Parallel()
	provider := newStripeServer(t)
	host := hosttest.StartHost(t, hosttest.DataDir(t), postgrestest.Database(t), "--dns=off", "--stripe-key=sk_test_1",
		"--stripe-webhook-secret="+stripeSecret, "--stripe-url="+provider.URL)
	now := time.Now()
	b := newBuyer(t, host)
	checkout := b.subscribe(provider)
	paid := completed("evt_paid", checkout, now)
	expect.Equal(t, "status of a forged event", sendEvent(t, host, paid, "whsec_of_another"), 400)
	if status, _ := b.get("/checkout/done"); status != 402 {
		t.Errorf("a forged event counted as a payment: status %d", status)
	}
	for _, e := range []stripeEvent{
		subscribed("evt_created", checkout, "created", "incomplete", now), // in the same second
		paid, paid, // Stripe sends at least once
	} {
		expect.Equal(t, "status of "+e.ID, sendEvent(t, host, e, stripeSecret), 200)
	}
	_, page := b.get("/checkout/done")
	found := shownKey.FindStringSubmatch(page)
	if found == nil {
		t.Fatalf("after the payment: %s", page)
	}
	const iban = `{"iban":"DE89370400440532013000"}`
	if a := hosttest.Post(http.DefaultClient, host.URL, found[1], iban); a.Status != 200 {
		t.Errorf("the key got %+v", a)
	}

	// When a subscription ends, its key ends at once.
	unpaid := subscribed("evt_end", checkout, "updated", "unpaid", now.Add(time.Minute))
	expect.Equal(t, "status of the end", sendEvent(t, host, unpaid, stripeSecret), 200)
	if a := hosttest.Post(http.DefaultClient, host.URL, found[1], `{"domain":"example.com"}`); a.Status != 401 {
		t.Errorf("the key of an unpaid subscription got %+v", a)
	}

	// The number of checkouts is limited by client.
	statuses := map[int]int{}
	for range 15 {
		response, err := b.client.PostForm(host.URL+"/subscribe", url.Values{"plan": {"starter"}})
		status, _ := b.read(response, err)
		statuses[status]++
	}
	expect.NoDiff(t, "statuses of checkouts beside the first", map[int]int{303: 9, 429: 6}, statuses)
}

const stripeSecret = "whsec_of_the_tests"

// stripeEvent is an event sent by Stripe.
type stripeEvent struct {
	ID, kind string
	at       time.Time
	object   map[string]any
}

func (e stripeEvent) body(t *testing.T) []byte {
	t.Helper()
	body, err := json.Marshal(map[string]any{
		"id": e.ID, "object": "event", "type": e.kind, "created": e.at.Unix(),
		"data": map[string]any{"object": e.object},
	})
	expect.NoError(t, err)
	return body
}
