package billing

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stripe/stripe-go/v85"
	"github.com/stripe/stripe-go/v85/webhook"
	"golang.org/x/time/rate"

	"assay/host/check"
	"assay/registry/expect"
)

const signingSecret = "whsec_of_the_tests"

// startStripe starts stripe-mock, which validates requests and responds like Stripe's API, and returns its URL.
func startStripe(t *testing.T) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "stripe-mock")
	tools := expect.Value(filepath.Abs("../../../.ci/tools/go.mod"))(t)
	build := exec.CommandContext(t.Context(), "go", "build", "-modfile="+tools, "-o", binary,
		"github.com/stripe/stripe-mock")
	if out, err := build.CombinedOutput(); err != nil {
		t.Skipf("building stripe-mock (go build -modfile=.ci/tools/go.mod), which needs the network once: %v\n%s",
			err, out)
	}
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), binary, "-http-addr", "127.0.0.1:0",
		"-https-addr", "127.0.0.1:0") // otherwise it listens on a port of its own, which another test may have
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out := expect.Value(cmd.StdoutPipe())(t)
	cmd.Stderr = t.Output()
	started, ended := make(chan error), make(chan struct{})
	go func() {
		runtime.LockOSThread() // Linux kills the program when the thread that started it ends
		started <- cmd.Start()
		<-ended
	}()
	expect.NoError(t, <-started)
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait(); close(ended) })
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if _, addr, ok := strings.Cut(lines.Text(), "HTTP at address: "); ok {
			go func() {
				for lines.Scan() { // so that stripe-mock never blocks on writing
				}
			}()
			return "http://" + addr
		}
	}
	t.Fatal("stripe-mock did not print its address")
	return ""
}

func TestStripe(t *testing.T) {
	t.Parallel()
	s := NewStripe("sk_test_123", signingSecret, startStripe(t))
	expect.That(t, s.Test() && !NewStripe("sk_live_123", "", "").Test(),
		"Test does not distinguish test keys from live keys")
	ctx := t.Context()
	s.Tax, s.Note = true, "By paying you accept the [terms](https://a.example/terms)."
	page, err := s.Checkout(ctx, Checkout{ID: "co_1", Plan: "pro"}, "https://a.example/back", "https://a.example/no")
	expect.That(t, err == nil && strings.HasPrefix(page.URL, "https://") && page.ID != "" && page.Customer != "",
		"checkout: %+v, %v", page, err)
	for _, ask := range []func(context.Context, string) (string, error){s.Paid, s.Close} {
		expect.NoError(t, expect.ErrorOf(ask(ctx, page.ID)))
	}
	sub := Subscription{ID: "sub_1", Customer: "cus_1", Plan: "starter", Status: Active}
	for _, offer := range check.Plans() {
		changed, err := s.Change(ctx, sub, offer)
		var unpaid *UnpaidError // stripe-mock's subscription always has an update that is not paid
		expect.That(t, (err == nil || offer.Cents > 0 && errors.As(err, &unpaid)) &&
			changed.ID == "sub_1" && changed.Status == Active && !changed.PaidUntil.IsZero(),
			"changing to %s: %+v, %v", offer.Name, changed, err)
	}
	pro, _ := OfferOf("pro")
	expect.Value(s.Due(ctx, sub, pro))(t)
	expect.Equal(t, "cancelled", expect.Value(s.Cancel(ctx, sub))(t).ID, "sub_1")
	portal := expect.Value(s.Portal(ctx, sub, "https://a.example/plan"))(t)
	expect.That(t, strings.HasPrefix(portal, "https://"), "portal: %q", portal)
	for range 2 { // it can be repeated
		expect.NoError(t, s.Refund(ctx, sub))
	}
	expect.Value(s.CustomerAddress(ctx, "cus_1"))(t) // stripe-mock's customer has none
	ids := expect.Value(s.CustomersOf(ctx, "jane@example.org"))(t)
	expect.That(t, len(ids) > 0 && ids[0] != "", "customers: %q", ids)
}

// Every payment of a second subscription is refunded, unless it was.
func TestStripeRefund(t *testing.T) {
	t.Parallel()
	type answer struct {
		status  int
		body    string
		want    error
		refunds int
	}
	expect.Each(t, map[string]answer{
		"new":        {http.StatusOK, `{"id": "re_1"}`, nil, 2},
		"made":       {http.StatusBadRequest, `{"error": {"code": "charge_already_refunded"}}`, nil, 2},
		"impossible": {http.StatusBadRequest, `{"error": {"code": "charge_disputed"}}`, ErrUnavailable, 1},
	}, func(t *testing.T, c answer) {
		refunds := 0
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch r.URL.Path {
			case "/v1/invoices":
				_, _ = w.Write([]byte(`{"data": [{"id": "in_1"}]}`))
			case "/v1/invoice_payments":
				_, _ = w.Write([]byte(`{"data": [{"id": "inpay_1", "payment": {"payment_intent": "pi_1"}},
					{"id": "inpay_2", "payment": {}}, {"id": "inpay_3", "payment": {"payment_intent": "pi_3"}}]}`))
			case "/v1/refunds":
				refunds++
				w.WriteHeader(c.status)
				_, _ = w.Write([]byte(c.body))
			default:
				_, _ = w.Write([]byte(`{"id": "sub_1"}`))
			}
		}))
		defer server.Close()
		err := NewStripe("sk_test_123", signingSecret, server.URL).Refund(t.Context(), Subscription{ID: "sub_1"})
		expect.Error(t, "refunding", err, c.want)
		expect.Equal(t, "refunds", refunds, c.refunds)
	})
}

// Calls beyond the rate wait, as long as their context lasts.
func TestPacedCalls(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(server.Close)
	client := http.Client{Transport: &paced{rate.NewLimiter(rate.Every(time.Hour), 1)}}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for i, waits := range []bool{false, true} {
		response, err := client.Do(expect.Value(http.NewRequestWithContext(ctx, http.MethodGet, server.URL, nil))(t))
		expect.That(t, (err != nil) == waits, "call %d: %v", i, err)
		if err == nil {
			expect.NoError(t, response.Body.Close())
		}
	}
}

func TestStripeUnreachable(t *testing.T) {
	t.Parallel()
	s := NewStripe("sk_test_123", signingSecret, "http://127.0.0.1:1")
	_, err := s.Checkout(t.Context(), Checkout{ID: "co_1", Plan: "pro"}, "https://a.example", "https://a.example")
	expect.Error(t, "a checkout", err, ErrUnavailable)
	expect.Error(t, "customers", expect.ErrorOf(s.CustomersOf(t.Context(), "jane@example.org")), ErrUnavailable)
}

// signed returns an event from testdata and its signature.
func signed(t *testing.T, file string, at time.Time, secret string) (body []byte, signature string) {
	t.Helper()
	body = expect.Value(os.ReadFile(filepath.Join("testdata", file)))(t)
	p := webhook.GenerateTestSignedPayload(&webhook.UnsignedPayload{Payload: body, Secret: secret, Timestamp: at})
	return p.Payload, p.Header
}

func TestStripeEvents(t *testing.T) {
	t.Parallel()
	s := NewStripe("sk_test_123", signingSecret, "")
	of := Event{Subscription: "sub_1"}
	for name, want := range map[string]Event{"checkout_completed.json": of, "subscription_updated.json": of,
		"subscription_deleted.json": of, "invoice_paid.json": {}, "charge_failed.json": {Decline: &Decline{ID: "ch_1",
			Customer: "cus_1", Card: "Xt5EWLLDS7FJjR1c", At: time.Unix(1_800_000_000, 0).UTC()}}} {
		body, signature := signed(t, name, time.Now(), signingSecret)
		expect.NoDiff(t, name, want, expect.Value(s.Event(body, signature))(t))
	}
}

// TestStripeSubscription converts subscriptions of the API. The plan that was paid last is served.
func TestStripeSubscription(t *testing.T) {
	t.Parallel()
	start, end := time.Unix(1_800_000_000, 0).UTC(), time.Unix(1_802_678_400, 0).UTC()
	keeps := fmt.Sprintf(`"assay_keeps": "pro until %d"`, end.Unix())
	type testCase struct {
		status, price, metadata, more string
		want                          Subscription
	}
	pro := Subscription{Plan: "pro", Status: Active, PaidUntil: end}
	starter, downgraded, declined, ending, ended, unpaid := pro, pro, pro, pro, pro, pro
	starter.Plan, downgraded.NextPlan = "starter", "starter"
	declined.Status, declined.PaidUntil = PastDue, start
	ending.NextPlan, ending.EndsAt = "free", end
	ended.NextPlan, ended.EndsAt, ended.Status, unpaid.Status = "free", end, Canceled, Canceled
	expect.Each(t, map[string]testCase{
		"active":                      {"active", "pro_9900", "", "", pro},
		"trial":                       {"trialing", "pro_9900", "", "", pro},
		"an upgrade that is not paid": {"active", "starter_1900", "", `"pending_update": {"expires_at": 1}`, starter},
		"a downgrade":                 {"active", "starter_1900", keeps, "", downgraded},
		"a downgrade of the period before": {"active", "starter_1900",
			fmt.Sprintf(`"assay_keeps": "pro until %d"`, start.Unix()), "", starter},
		"a declined renewal": {"past_due", "pro_9900", "", "", declined},
		"back to free":       {"active", "pro_9900", `"assay_then": "free"`, `"cancel_at": 1802678400`, ending},
		"back on free":       {"canceled", "pro_9900", `"assay_then": "free"`, `"ended_at": 1802678400`, ended},
		"never paid":         {"incomplete_expired", "pro_9900", "", "", unpaid},
		"another price":      {"active", "", "", "", Subscription{Status: Active, PaidUntil: end}},
	}, func(t *testing.T, test testCase) {
		var current stripe.Subscription
		metadata, more := `"assay_checkout": "co_1"`, ""
		if test.metadata != "" {
			metadata += ", " + test.metadata
		}
		if test.more != "" {
			more = ", " + test.more
		}
		expect.NoError(t, json.Unmarshal(fmt.Appendf(nil, `{"id": "sub_1", "customer": "cus_1", "status": %q,
			"metadata": {%s}, "items": {"data": [{"id": "si_1", "price": {"lookup_key": "assay_%s"},
			"current_period_start": %d, "current_period_end": %d}]}%s}`, test.status, metadata, test.price,
			start.Unix(), end.Unix(), more), &current))
		test.want.ID, test.want.Customer, test.want.Checkout, test.want.Provider = "sub_1", "cus_1", "co_1", "stripe"
		test.want.item = "si_1"
		expect.Equal(t, "subscription", (&Stripe{}).subscription(&current), test.want)
	})
}

func TestStripeSignature(t *testing.T) {
	t.Parallel()
	body, good := signed(t, "checkout_completed.json", time.Now(), signingSecret)
	_, old := signed(t, "checkout_completed.json", time.Now().Add(-time.Hour), signingSecret)
	_, other := signed(t, "checkout_completed.json", time.Now(), "whsec_other")
	s := NewStripe("sk_test_123", signingSecret, "")
	for name, test := range map[string]struct {
		provider  *Stripe
		body      string
		signature string
		accepted  bool
	}{
		"good":             {s, string(body), good, true},
		"none":             {s, string(body), "", false},
		"nonsense":         {s, string(body), "t=x,v1=zz", false},
		"another secret":   {s, string(body), other, false},
		"old":              {s, string(body), old, false},
		"altered body":     {s, strings.Replace(string(body), "cus_1", "cus_2", 1), good, false},
		"no secret is set": {NewStripe("sk_test_123", "", ""), string(body), good, false},
	} {
		e, err := test.provider.Event([]byte(test.body), test.signature)
		want := map[bool]string{true: "sub_1"}[test.accepted]
		expect.That(t, e.Subscription == want && (test.accepted && err == nil || errors.Is(err, ErrSignature)),
			"%s: %q, %v", name, e.Subscription, err)
	}
}

func FuzzStripeEvent(f *testing.F) {
	for _, name := range []string{"checkout_completed.json", "subscription_updated.json", "charge_failed.json"} {
		body, err := os.ReadFile(filepath.Join("testdata", name))
		expect.NoError(f, err)
		f.Add(body)
	}
	s := NewStripe("sk_test_123", signingSecret, "")
	f.Fuzz(func(t *testing.T, body []byte) {
		p := webhook.GenerateTestSignedPayload(&webhook.UnsignedPayload{Payload: body, Secret: signingSecret,
			Timestamp: time.Now()})
		e, err := s.Event(p.Payload, p.Header)
		expect.That(t, err == nil || e == Event{} && fmt.Sprint(err) != "", "%+v, %v", e, err)
	})
}
