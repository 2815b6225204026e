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
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stripe/stripe-go/v85/webhook"

	"assay/host/hosttest"
	"assay/host/store/postgres/postgrestest"
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

// sendEvent posts a Stripe event, signed with a secret at a time, and returns the status of the answer.
func sendEvent(h *hosttest.HostProcess, t *testing.T, e stripeEvent, secret string, at time.Time) int {
	t.Helper()
	signed := webhook.GenerateTestSignedPayload(&webhook.UnsignedPayload{Payload: e.body(t), Secret: secret,
		Timestamp: at})
	return sendRawEvent(h, t, signed.Payload, signed.Header)
}

// sendRawEvent posts an event again after a refusal, as Stripe does.
func sendRawEvent(h *hosttest.HostProcess, t *testing.T, body []byte, signature string) (status int) {
	t.Helper()
	status, text := hosttest.Send(t, h, "", "POST", "/api/billing/stripe", string(body), "Stripe-Signature", signature)
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
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
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
	if err != nil {
		b.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		b.Fatal(err)
	}
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

// TestStripeEvents sends signed, forged, old, repeated and out-of-order Stripe events to a host.
func TestStripeEvents(t *testing.T) {
	t.Parallel()
	provider := newStripeServer(t)
	host := hosttest.StartHost(t, hosttest.DataDir(t), postgrestest.Database(t), "--dns=off", "--stripe-key=sk_test_1",
		"--stripe-webhook-secret="+stripeSecret, "--stripe-url="+provider.URL)
	now := time.Now()
	b := newBuyer(t, host)
	checkout := b.subscribe(provider)
	paid := completed("evt_paid", checkout, now)
	body := paid.body(t)
	good := webhook.GenerateTestSignedPayload(&webhook.UnsignedPayload{Payload: body, Secret: stripeSecret,
		Timestamp: now}).Header
	for name, status := range map[string]int{
		"unsigned":           sendRawEvent(host, t, body, ""),
		"nonsense":           sendRawEvent(host, t, body, "t=1,v1=00"),
		"of another secret":  sendEvent(host, t, paid, "whsec_of_another", now),
		"signed an hour ago": sendEvent(host, t, paid, stripeSecret, now.Add(-time.Hour)),
		"altered":            sendRawEvent(host, t, []byte(strings.Replace(string(body), "sub_", "sub_x", 1)), good),
	} {
		if status != 400 {
			t.Errorf("event (%s): status %d", name, status)
		}
	}
	if status, _ := b.get("/checkout/done"); status != 402 {
		t.Errorf("a forged event counted as a payment: status %d", status)
	}
	for name, e := range map[string]stripeEvent{
		"an unknown type":            {"evt_other", "invoice.finalized", now, map[string]any{"object": "invoice"}},
		"an unknown checkout":        completed("evt_foreign", "co_of_another_host", now),
		"created in the same second": subscribed("evt_created", checkout, "created", "incomplete", now),
		"paid":                       paid,
	} {
		for range 3 { // Stripe sends at least once
			if status := sendEvent(host, t, e, stripeSecret, now); status != 200 {
				t.Errorf("%s: status %d", name, status)
			}
		}
	}

	var shown, again atomic.Int64
	var key atomic.Pointer[string]
	var wg sync.WaitGroup
	for range 100 {
		wg.Go(func() {
			status, page := b.get("/checkout/done")
			switch found := shownKey.FindStringSubmatch(page); {
			case status == 200 && found != nil:
				shown.Add(1)
				key.Store(&found[1])
			case status == 410 && found == nil:
				again.Add(1)
			default:
				t.Errorf("status %d: %s", status, page)
			}
		})
	}
	wg.Wait()
	if shown.Load() != 1 || again.Load() != 99 {
		t.Fatalf("the key was shown %d times", shown.Load())
	}
	if a := hosttest.Post(http.DefaultClient, host.URL, *key.Load(),
		`{"iban":"DE89370400440532013000"}`); a.Status != 200 {
		t.Errorf("the key got %+v", a)
	}

	// The end of a subscription arrives before the earlier events.
	c := newBuyer(t, host)
	late := c.subscribe(provider)
	for _, e := range []stripeEvent{
		subscribed("evt_l3", late, "deleted", "canceled", now.Add(2*time.Second)),
		completed("evt_l2", late, now.Add(time.Second)),
		subscribed("evt_l1", late, "created", "incomplete", now),
	} {
		if status := sendEvent(host, t, e, stripeSecret, now); status != 200 {
			t.Errorf("%s: status %d", e.ID, status)
		}
	}
	_, page := c.get("/checkout/done")
	found := shownKey.FindStringSubmatch(page)
	if found == nil || !strings.Contains(page, "The subscription has already ended,") {
		t.Fatalf("after the end of the subscription: %s", page)
	}
	if a := hosttest.Post(http.DefaultClient, host.URL, found[1], `{"domain":"example.com"}`); a.Status != 401 {
		t.Errorf("the key of an ended subscription got %+v", a)
	}

	// When a subscription ends, its key ends at once.
	unpaid := subscribed("evt_end", checkout, "updated", "unpaid", now.Add(time.Minute))
	if status := sendEvent(host, t, unpaid, stripeSecret, now); status != 200 {
		t.Errorf("%s: status %d", unpaid.ID, status)
	}
	if a := hosttest.Post(http.DefaultClient, host.URL, *key.Load(), `{"domain":"example.com"}`); a.Status != 401 {
		t.Errorf("the key of an unpaid subscription got %+v", a)
	}
	host.Stop(t, syscall.SIGTERM)
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
	if err != nil {
		t.Fatal(err)
	}
	return body
}
