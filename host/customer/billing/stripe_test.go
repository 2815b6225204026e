package billing

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stripe/stripe-go/v85"
	"github.com/stripe/stripe-go/v85/webhook"

	"assay/registry/expect"
)

const signingSecret = "whsec_of_the_tests"

// startStripe builds and starts stripe-mock, which validates requests and responds like Stripe's API, and returns its
// URL.
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
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), binary, "-http-addr", "127.0.0.1:0")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out := expect.Value(cmd.StdoutPipe())(t)
	expect.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
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
	url, err := s.Checkout(ctx, Checkout{ID: "co_1", Plan: "pro"}, "https://a.example/back", "https://a.example/no")
	expect.That(t, err == nil && strings.HasPrefix(url, "https://"), "checkout: %q, %v", url, err)
	sub := Subscription{ID: "sub_1", Customer: "cus_1", Plan: "starter", Status: Active}
	pro, _ := OfferOf("pro")
	changed, err := s.Change(ctx, sub, pro)
	expect.That(t, err == nil && changed.Plan == "pro" && changed.Subscription == "sub_1" && changed.Status != "" &&
		changed.Event != "", "change: %+v, %v", changed, err)
	if c, err := s.Cancel(ctx, sub); err != nil || c.Subscription != "sub_1" {
		t.Errorf("cancel: %+v, %v", c, err)
	}
	if url, err := s.Portal(ctx, sub, "https://a.example/plan"); err != nil || !strings.HasPrefix(url, "https://") {
		t.Errorf("portal: %q, %v", url, err)
	}
	for range 2 { // it can be repeated
		expect.NoError(t, s.Refund(ctx, sub))
	}
	c, err := s.Resume(ctx, sub)
	expect.That(t, err == nil && c.Subscription == "sub_1", "resume: %+v, %v", c, err)
}

func TestStripeUnreachable(t *testing.T) {
	t.Parallel()
	s := NewStripe("sk_test_123", signingSecret, "http://127.0.0.1:1")
	_, err := s.Checkout(t.Context(), Checkout{ID: "co_1", Plan: "pro"}, "https://a.example", "https://a.example")
	expect.That(t, errors.Is(err, ErrUnavailable), "got %v", err)
}

func TestResponseTimeIsStripes(t *testing.T) {
	t.Parallel()
	at := time.Date(2031, 5, 15, 12, 0, 7, 0, time.UTC)
	response := &stripe.APIResponse{Header: http.Header{"Date": {at.Format(http.TimeFormat)}}}
	if got := responseTime(response); !got.Equal(at) {
		t.Errorf("got %s", got)
	}
	for name, r := range map[string]*stripe.APIResponse{"no response": nil, "no date": {Header: http.Header{}}} {
		got := responseTime(r)
		expect.That(t, time.Since(got).Abs() <= time.Hour && got.Nanosecond() == 0, "%s: %s", name, got)
	}
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
	created := time.Unix(1_800_000_000, 0)
	change := Change{
		Event: "evt_1", At: created, Provider: "stripe", Checkout: "co_1", Customer: "cus_1", Subscription: "sub_1",
		Plan: "pro", Status: Active,
	}
	with := func(alter func(*Change)) Change {
		c := change
		alter(&c)
		return c
	}
	for name, test := range map[string]struct {
		want Change
		ok   bool
	}{
		"checkout_completed.json": {with(func(c *Change) { c.Plan = "" }), true},
		"checkout_unpaid.json":    {Change{}, false},
		"subscription_updated.json": {with(func(c *Change) {
			c.Status, c.EndsAt = PastDue, time.Unix(1_802_000_000, 0).UTC()
		}), true},
		"subscription_deleted.json":  {with(func(c *Change) { c.Status, c.Checkout, c.Plan = Canceled, "", "" }), true},
		"subscription_trialing.json": {change, true},
		"invoice_paid.json":          {Change{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			body, signature := signed(t, name, time.Now(), signingSecret)
			got, ok, err := s.Event(body, signature)
			expect.Must(t, err == nil && ok == test.ok, "%v, %v", ok, err)
			expect.That(t, !ok || got == test.want, "got %+v\nwant %+v", got, test.want)
		})
	}
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
		t.Run(name, func(t *testing.T) { // at once, as a signature gets old
			a := &recorder{}
			err := (&Billing{Accounts: a, Provider: test.provider}).Receive(t.Context(), []byte(test.body),
				test.signature)
			expect.That(t, test.accepted == (err == nil) && test.accepted == (len(a.applied) == 1) && (test.accepted ||
				errors.Is(err, ErrSignature)), "applied %v: %v", a.applied, err)
		})
	}
}

func FuzzStripeEvent(f *testing.F) {
	for _, name := range []string{"checkout_completed.json", "subscription_updated.json", "invoice_paid.json"} {
		body, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(body)
	}
	s := NewStripe("sk_test_123", signingSecret, "")
	f.Fuzz(func(t *testing.T, body []byte) {
		p := webhook.GenerateTestSignedPayload(&webhook.UnsignedPayload{Payload: body, Secret: signingSecret,
			Timestamp: time.Now()})
		c, ok, err := s.Event(p.Payload, p.Header)
		expect.That(t, !ok || err == nil && c.Event != "" && c.Subscription != "", "%+v, %v", c, err)
		expect.That(t, err == nil || fmt.Sprint(err) != "", "the error has no text")
	})
}
