package console

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"assay/host/check"
	"assay/host/customer/billing"
	"assay/registry/expect"
)

// lateProvider is a provider whose payments are confirmed when a test says so.
type lateProvider struct{ *billing.TestCheckout }

func (lateProvider) Test() bool   { return false }
func (lateProvider) Name() string { return "late" }

func (lateProvider) Checkout(_ context.Context, c billing.Checkout, returnTo, _ string) (string, error) {
	return returnTo + "?paid=" + c.ID, nil
}

func (lateProvider) Portal(_ context.Context, s billing.Subscription, returnTo string) (string, error) {
	return returnTo + "?customer=" + s.ID, nil
}

// pay confirms the payment of the checkout that a visitor was sent to.
func (s *site) pay(t *testing.T, v *visitor, status billing.Status) {
	t.Helper()
	id := v.at.url.Query().Get("paid")
	err := s.cfg.Billing.Apply(t.Context(), billing.Change{
		Event: "evt_" + id + string(status), At: *s.clock.Load(), Provider: "late", Checkout: id,
		Subscription: "sub_" + id, Plan: "pro", Status: status,
	})
	expect.NoError(t, err)
}

func useLateProvider(c *Config) {
	c.Billing.Provider = lateProvider{c.Billing.Provider.(*billing.TestCheckout)}
}

func TestSuccessPage(t *testing.T) {
	t.Parallel()
	s := serve(t, useLateProvider)
	v := s.visit(t)
	v.get(donePath).is(404, "This browser has not started a checkout")
	v.get("/")
	v.lacks("Test mode")
	v.press("Subscribe to Pro").is(402, "Waiting for your payment")
	expect.Equal(t, "the page does not reload itself", v.at.header.Get("Refresh") == "", false)
	s.pay(t, v, billing.Active)

	guessed := s.visit(t)
	for _, value := range []string{"co_1", strings.Repeat("A", 200)} {
		guessed.client.Jar.SetCookies(v.at.url, []*http.Cookie{{Name: "assay_checkout", Value: value, Path: "/"}})
		guessed.get(donePath).is(404, "This browser has not started a checkout")
	}
	// Requests that show the page to nobody must not use up the one time that the key is shown.
	for name, look := range map[string]func(*visitor) int{
		"HEAD": func(v *visitor) int { return v.send("HEAD", donePath, "", "").status - 405 },
		"a prefetch": func(v *visitor) int {
			v.header.Set("Sec-Purpose", "prefetch")
			return v.get(donePath).status - 403
		},
		"a prefetch with the older header": func(v *visitor) int {
			v.header.Set("Purpose", "prefetch")
			return v.get(donePath).status - 403
		},
	} {
		expect.That(t, look(v.alone()) == 0, "%s has the wrong status", name)
	}

	var shown atomic.Int64
	var wg sync.WaitGroup
	for range 100 {
		wg.Go(func() {
			p := v.alone().get(donePath)
			switch {
			case p.status == 200 && strings.HasPrefix(p.text("key"), "assay_"):
				shown.Add(1)
				for name, want := range map[string]string{"Content-Type": "text/html; charset=utf-8",
					"Referrer-Policy": "same-origin", "Cross-Origin-Opener-Policy": "same-origin"} {
					got := p.header.Get(name)
					expect.That(t, got == want, "%s: %q", name, got)
				}
			case p.status != 410 || !strings.Contains(words(p.root), "Your key was already shown"):
				t.Errorf("status %d: %s", p.status, words(p.root))
			}
		})
	}
	wg.Wait()
	expect.Equal(t, "the key was shown", shown.Load(), 1)
	s.pass(billing.ClaimLife)
	v.get(donePath).is(410, "This checkout has expired.")
}

// testCheckoutsInSeveralTabs checks that a browser that started several checkouts gets the key of the paid one.
func testCheckoutsInSeveralTabs(t *testing.T, s *site) {
	v := s.visitLanding(t)
	v.press("Subscribe to Pro")
	first := *v
	for range maxOpenCheckouts - 1 {
		v.get("/")
		v.press("Subscribe to Starter").is(402, "Waiting")
	}
	s.pay(t, &first, billing.Active)
	v.get(donePath).is(200, "You are subscribed to Pro")
	v.get(donePath).is(402, "Waiting")
	v.post("/checkout/reissue") // the page in another tab offers it
	v.is(200, "This is your API key.")
}

// testSecondSubscription pays for a plan in two tabs. The second payment is returned, with a notice, and the
// subscription that is left can be cancelled.
func testSecondSubscription(t *testing.T, s *site) {
	customers := map[string]bool{"of a new customer": false, "of an account": true}
	expect.Each(t, customers, func(t *testing.T, signedIn bool) {
		v := s.visitLanding(t)
		if signedIn {
			v.press("Get a free key").is(200, "This is your API key.")
			v.get("/")
		}
		landing := *v
		v.press("Subscribe to Pro")
		second := landing // of the same browser
		second.press("Subscribe to Pro")
		s.pay(t, v, billing.Active)
		s.pay(t, &second, billing.Active)
		v.get(donePath)
		if !signedIn {
			v.is(200, "This is your API key.")
			v.get(donePath)
		}
		v.is(200, "You already had a subscription")
		v.get("/dashboard/plan")
		v.is(200, "a second subscription to Pro was paid", "the payment was returned to your card")
		v.press("Cancel subscription").is(200, "ends on")
	})
}

// testSecondTestPayment opens the test checkout in two tabs. The second card is not taken.
func testSecondTestPayment(t *testing.T, s *site) {
	v, _ := s.customer(t, "free")
	v.get("/")
	landing := *v
	v.press("Subscribe to Starter")
	second := landing
	second.press("Subscribe to Pro")
	v.press("Subscribe", card...).is(200, "You are on Starter")
	second.press("Subscribe", card...).is(409, "Your account already has a subscription")
	v.get("/dashboard/plan").is(200, "You are on Starter")
}

// TestClosedCheckout checks that a host without a payment provider gives free keys and sells nothing.
func TestClosedCheckout(t *testing.T) {
	t.Parallel()
	s := serve(t, func(c *Config) {
		c.Billing.Provider = &billing.Closed{TestCheckout: *c.Billing.Provider.(*billing.TestCheckout)}
	})
	v := s.visit(t)
	v.get("/").is(200, "Not for sale on this host")
	v.lacks("Subscribe to", "est mode")
	v.post("/subscribe", "plan", "pro").is(403, "This host does not sell paid plans.")
	v.get("/subscribe").is(405, "does not accept that kind of request")
	v.get("/")
	v.press("Get a free key").is(200, "This is your API key.")
	v.get("/dashboard/plan").is(200, "Not for sale on this host")
}

// testTestMode checks that every page says that the host is in test mode.
func testTestMode(t *testing.T, s *site) {
	v, _ := s.customer(t, "pro")
	for _, path := range []string{"/", "/docs", "/signin", donePath, "/nowhere", "/dashboard", "/dashboard/checks",
		"/dashboard/keys", "/dashboard/webhooks", "/dashboard/overrides", "/dashboard/privacy", "/dashboard/plan"} {
		page := v.get(path)
		expect.That(t, strings.Contains(page.body, "(test mode)</title>") &&
			strings.Contains(page.body, "Test mode: no real card"), "%s does not say that the host is in test mode",
			path)
	}
}

// TestFreeKeys checks that free keys are limited by network, and that some have to wait.
func TestFreeKeys(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	for name, address := range map[string]func(i int) string{
		"IPv4": func(i int) string { return fmt.Sprintf("192.0.2.%d/32", i) },
		"IPv6": func(i int) string { return fmt.Sprintf("2001:db8:1:%d::/64", i) },
	} {
		begin := func(client, plan string) *visitor {
			v := s.visit(t)
			v.header.Set("X-Test-Client", client)
			v.post("/subscribe", "plan", plan)
			return v
		}
		for i := range maxFreeKeys {
			v := begin(address(i), "free")
			if pause := time.Duration(i+1-freeKeysAtOnce) * freeKeyPause; pause > 0 {
				v.is(202, "Your key is being issued")
				got, want := v.at.header.Get("Refresh"), fmt.Sprint(int(pause/time.Second))
				expect.That(t, got == want, "%s: key %d waits %s s, want %s", name, i, got, want)
				v.post("/checkout/reissue").is(409, "")
				s.pass(pause)
				v.get(donePath)
			}
			v.is(200, "This is your API key.")
		}
		begin(address(99), "free").is(429, "Too many free keys were issued to your network.")
		begin(address(98), "pro").is(200, "Pay with card")
		begin(map[string]string{"IPv4": "192.0.3.1/32", "IPv6": "2001:db8:2::/64"}[name], "free").
			is(200, "This is your API key.")
	}
}

// testSubscriptionEndedBeforeSuccessPage checks that a customer whose subscription ended before the success page was
// loaded gets a key that signs in, and can choose a plan again.
func testSubscriptionEndedBeforeSuccessPage(t *testing.T, s *site) {
	v := s.visitLanding(t)
	v.press("Subscribe to Pro")
	s.pay(t, v, billing.Active)
	s.pay(t, v, billing.Canceled)
	v.get(donePath).is(200, "The subscription has already ended,")
	v.follow("Go to the dashboard").is(200, "This month")
	v.follow("Keys")
	v.press("Create key", "name", "free of charge").is(409, "choose a plan first")
	v.follow("Plan").is(200, "Your subscription has ended")
	v.press("Use the free plan").is(200, "You are on Free")
	v.follow("Go to the dashboard")
	v.follow("Keys")
	v.press("Create key", "name", "of the free plan").is(200, "This is the new key.")
}

// TestConcurrentPayments checks that a double click on the test checkout's button creates one subscription.
func TestConcurrentPayments(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	v := s.visitLanding(t)
	v.press("Subscribe to Starter")
	form := v.at.url.Path
	var wg sync.WaitGroup
	for range 10 {
		wg.Go(func() {
			p := v.alone().post(form, card...)
			expect.That(t, p.status == 303 || p.status == 404, "status %d: %s", p.status, words(p.root))
		})
	}
	wg.Wait()
	v.get(donePath).is(200, "This is your API key.")
	key := v.at.text("key")
	v.get("/dashboard/plan")
	v.press("Cancel subscription").is(200, "ends on")
	v.get(form).is(404, "There is no such checkout")
	s.pass(32 * 24 * time.Hour)
	expect.NoError(t, s.store.EndSubscriptions(t.Context()))
	if _, err := s.store.Authenticate(t.Context(), key); !errors.Is(err, check.ErrUnauthorized) {
		t.Errorf("after the subscription ended, the key returns %v, want ErrUnauthorized", err)
	}
}

// testChangePayment checks that a customer changes the card on the provider's pages, if the provider has such pages.
func testChangePayment(t *testing.T, s *site) {
	v := s.visitLanding(t)
	v.press("Subscribe to Pro")
	s.pay(t, v, billing.Active)
	paid := v.at.url.Query().Get("paid")
	v.get(donePath).is(200, "This is your API key.")
	s.pass(time.Minute)
	err := s.store.Apply(t.Context(), billing.Change{
		Event: "evt_due", At: *s.clock.Load(), Provider: "late", Subscription: "sub_" + paid, Status: billing.PastDue,
	})
	expect.NoError(t, err)
	v.get("/dashboard/plan").is(200, "The last payment failed.")
	v.press("Card and invoices")
	got := v.at.url.Query().Get("customer")
	expect.That(t, got == "sub_"+paid && v.at.url.Path == "/dashboard/plan", "the button leads to %s", v.at.url)
	v.post("/dashboard/plan/payment").is(403, "")

	tester, _ := serve(t, nil).customer(t, "pro")
	tester.get("/dashboard/plan")
	tester.lacks("Card and invoices")
	tester.post("/dashboard/plan/payment", "csrf", tester.at.token()).is(409, "There is no subscription to change")
}

func TestProviderUnreachable(t *testing.T) {
	t.Parallel()
	s := serve(t, func(c *Config) {
		c.Billing.Provider = billing.NewStripe("sk_test_1", "whsec_1", "http://127.0.0.1:1")
	})
	v := s.visit(t)
	v.get("/").is(200, "Test mode")
	v.press("Subscribe to Pro").is(503, "Our payment provider cannot be reached.")
	if text := words(v.at.root); strings.Contains(text, "127.0.0.1") || strings.Contains(text, "dial") {
		t.Errorf("the page reveals the cause: %s", v.at.body)
	}
	v.post("/subscribe", "plan", "gold").is(400, "There is no such plan.")
	v.get(TestCheckoutPath+"co_1").is(404, "There is no such checkout")
	v.get(TestCheckoutPath+strings.Repeat("x", 2000)).is(404, "There is no such checkout")
}
