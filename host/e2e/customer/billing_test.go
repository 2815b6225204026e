package customer

import (
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"regexp"
	"testing"
	"time"

	"github.com/stripe/stripe-go/v85/webhook"

	"assay/host/hosttest"
	"assay/host/store/postgres/postgrestest"
	"assay/registry/expect"
)

// stripeEvent is a payload of Stripe. The checkout and the time are missing.
const stripeEvent = `{"object": "event", "id": %q, "type": %q, "created": %d, "data": {"object": %s}}`

// TestStripeEvents buys a plan from a host whose Stripe sends a forged event and genuine ones. Packages billing and
// store test all kinds of events.
func TestStripeEvents(t *testing.T) {
	t.Parallel()
	checkouts := make(chan string, 1)
	stripe := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/checkout/sessions" {
			checkouts <- r.FormValue("client_reference_id")
			fmt.Fprint(w, `{"id": "cs_1", "object": "checkout.session", "url": "https://stripe.example/cs_1"}`)
			return
		}
		fmt.Fprint(w, `{"object": "list", "data": [{"id": "price_1", "object": "price"}]}`)
	}))
	t.Cleanup(stripe.Close)
	const secret = "whsec_of_the_tests"
	host := hosttest.StartHost(t, hosttest.DataDir(t), postgrestest.Database(t), "--stripe-key=sk_test_1",
		"--stripe-webhook-secret="+secret, "--stripe-url="+stripe.URL)
	browser := &http.Client{Jar: expect.Value(cookiejar.New(nil))(t),
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	response := expect.Value(browser.PostForm(host.URL+"/subscribe", url.Values{"plan": {"pro"}}))(t)
	expect.NoError(t, response.Body.Close())
	expect.Equal(t, "where the customer pays", response.Header.Get("Location"), "https://stripe.example/cs_1")
	checkout := <-checkouts
	done := func() (status int, page string) {
		response := expect.Value(browser.Get(host.URL + "/checkout/done"))(t)
		defer response.Body.Close()
		return response.StatusCode, string(expect.Value(io.ReadAll(response.Body))(t))
	}
	send := func(id, kind, secret, object string) int {
		signed := webhook.GenerateTestSignedPayload(&webhook.UnsignedPayload{Secret: secret, Timestamp: time.Now(),
			Payload: fmt.Appendf(nil, stripeEvent, id, kind, time.Now().Unix(), object)})
		status, _ := hosttest.Send(t, host, "", "POST", "/api/billing/stripe", string(signed.Payload),
			"Stripe-Signature", signed.Header)
		return status
	}
	paid := fmt.Sprintf(`{"object": "checkout.session", "payment_status": "paid", "client_reference_id": %q,
		"customer": "cus_1", "subscription": "sub_1"}`, checkout)
	expect.Equal(t, "status of a forged event", send("evt_1", "checkout.session.completed", "whsec_x", paid), 400)
	status, _ := done()
	expect.Equal(t, "status before the payment", status, 402)
	expect.Equal(t, "status of a payment", send("evt_1", "checkout.session.completed", secret, paid), 200)
	expect.Equal(t, "status of a subscription", send("evt_2", "customer.subscription.created", secret,
		fmt.Sprintf(`{"object": "subscription", "id": "sub_1", "customer": "cus_1", "status": "incomplete",
			"metadata": {"assay_checkout": %q}, "items": {"data": [{"price": {"lookup_key": "assay_pro_9900"}}]}}`,
			checkout)), 200)
	_, page := done()
	key := regexp.MustCompile(`<code id="key">(assay_\w+)</code>`).FindStringSubmatch(page)
	if key == nil {
		t.Fatalf("after the payment: %s", page)
	}
	expect.Equal(t, "status of a check", hosttest.Post(http.DefaultClient, host.URL, key[1], hosttest.FleetBody).Status,
		200)
}
