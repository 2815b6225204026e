package console

import (
	"context"
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

func (lateProvider) Checkout(_ context.Context, c billing.Checkout, returnTo, _ string) (billing.Page, error) {
	return billing.Page{URL: returnTo + "?paid=" + c.ID}, nil
}

func (lateProvider) Portal(_ context.Context, s billing.Subscription, returnTo string) (string, error) {
	return returnTo + "?customer=" + s.ID, nil
}

// pay confirms the payment of the checkout that a visitor was sent to.
func (s *site) pay(t *testing.T, v *visitor, status billing.Status) {
	t.Helper()
	s.becomes(t, v.at.url.Query().Get("paid"), status)
}

// becomes applies what the provider has of the subscription of a checkout.
func (s *site) becomes(t *testing.T, checkout string, status billing.Status) {
	t.Helper()
	sub := billing.Subscription{ID: "sub_" + checkout, Provider: "late", Checkout: checkout, Plan: "pro",
		Status: status, PaidUntil: s.clock.Now().AddDate(0, 1, 0)}
	expect.NoError(t, s.cfg.Billing.Apply(t.Context(), sub.ID,
		func(context.Context, billing.Subscription) (billing.Subscription, error) { return sub, nil }))
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
	v.alone().send("HEAD", donePath, "", "").is(405)
	for name, value := range map[string]string{"Sec-Purpose": "prefetch", "Purpose": "prefetch"} {
		prefetching := v.alone()
		prefetching.header.Set(name, value)
		prefetching.get(donePath).is(403)
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
					expect.Equal(t, name, p.header.Get(name), want)
				}
			case p.status != 410 || !strings.Contains(words(p.root), "Your key was already shown"):
				t.Errorf("status %d: %s", p.status, words(p.root))
			}
		})
	}
	wg.Wait()
	expect.Equal(t, "the key was shown", shown.Load(), 1)
	s.clock.Add(billing.ClaimLife)
	v.get(donePath).is(410, "This checkout has expired.")
}

// testCheckoutsInSeveralTabs checks that a browser that started several checkouts gets the key of the paid one.
func testCheckoutsInSeveralTabs(t *testing.T, s *site) {
	v := s.visitLanding(t, "Subscribe to Pro")
	first := *v
	for range maxOpenCheckouts - 1 {
		v.submit("/", "Subscribe to Starter").is(402, "Waiting")
	}
	s.pay(t, &first, billing.Active)
	v.get(donePath).is(200, "You are subscribed to Pro")
	v.get(donePath).is(402, "Waiting")
	v.post("/checkout/reissue") // the page in another tab offers it
	v.is(200, "This is your API key.")
}

// testSecondSubscription pays for a plan in two tabs. The second payment is returned.
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
	v.lacks("Card and invoices")
	v.post("/dashboard/plan/payment", "csrf", v.at.token()).is(409, "There is no subscription to change")
}

// TestClosedCheckout checks that a host without a payment provider gives free keys and sells nothing.
func TestClosedCheckout(t *testing.T) {
	t.Parallel()
	v := serve(t, func(c *Config) { c.Billing.Provider.(*billing.TestCheckout).Closed = true }).visit(t)
	v.get("/").is(200, "Not for sale on this host")
	v.lacks("Subscribe to", "est mode")
	v.post("/subscribe", "plan", "pro").is(403, "This host does not sell paid plans; nothing was charged.")
	v.get("/subscribe").is(405, "does not accept that kind of request")
	v.submit("/", "Get a free key").is(200, "This is your API key.")
	v.get("/dashboard/plan").is(200, "Not for sale on this host")
}

// testTestMode checks that every page says that the host is in test mode.
func testTestMode(t *testing.T, s *site) {
	v, _ := s.customer(t, "pro")
	for _, path := range []string{"/", "/docs", "/signin", donePath, "/nowhere", "/dashboard", "/dashboard/checks",
		"/dashboard/keys", "/dashboard/webhooks", "/dashboard/overrides", "/dashboard/privacy", "/dashboard/plan"} {
		page := v.get(path)
		expect.That(t, strings.Contains(page.body, "(test mode)</title>") && strings.Contains(page.body,
			"Test mode: no real card"), "%s does not say that the host is in test mode", path)
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
		for i := range maxFreeKeysAnHour {
			v := begin(address(i), "free")
			if pause := min(time.Duration(i+1-freeKeysAtOnce)*freeKeyPause, time.Minute); pause > 0 {
				v.is(202, "Your key is being issued")
				got, want := v.at.header.Get("Refresh"), fmt.Sprint(int(pause/time.Second))
				expect.That(t, got == want, "%s: key %d waits %s s, want %s", name, i, got, want)
				v.post("/checkout/reissue").is(409, "")
				s.clock.Add(pause)
				v.get(donePath)
			}
			v.is(200, "This is your API key.")
		}
		begin(address(99), "free").is(429, "Too many free keys were issued to your network.")
		begin(address(98), "pro").is(200, "Pay with card")
		begin(map[string]string{"IPv4": "192.0.3.1/32", "IPv6": "2001:db8:2::/64"}[name], "free").
			is(200, "This is your API key.")
		s.clock.Add(time.Hour)
		for i := range maxFreeKeysADay - maxFreeKeysAnHour { // in two further hours
			if i == maxFreeKeysAnHour {
				s.clock.Add(time.Hour)
			}
			expect.That(t, begin(address(i), "free").at.status < 300, "%s: key %d of the day is refused", name, i)
		}
		begin(address(99), "free").is(429, "Too many free keys were issued to your network.")
		s.clock.Add(24 * time.Hour)
	}
}

// TestLinks checks that the operator's documents are in the footer, and at checkout those that are accepted by paying.
func TestLinks(t *testing.T) {
	t.Parallel()
	s := serve(t, func(c *Config) {
		c.Tax = true
		c.Links = []Link{{"Terms", "https://a.example/terms", true}, {"DPA", "https://a.example/dpa", true},
			{"Imprint", "https://a.example/imprint", false}}
	})
	v := s.visitLanding(t)
	v.is(200, "Plus VAT", "Terms DPA Imprint")
	v.lacks("By paying you accept")
	v.press("Subscribe to Starter").is(200, "By paying you accept: Terms, DPA.", "plus VAT", "Terms DPA Imprint")
	v.press("Subscribe", card...).is(200, "This is your API key.")
	v.get("/dashboard/plan/change?plan=pro").is(200, "By paying you accept: Terms, DPA.")
}

// TestCheckoutBudget checks that one network can subscribe as often as it likes, up to a limit for all visitors.
func TestCheckoutBudget(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	begin := func(client string) page {
		v := s.visit(t).alone()
		v.header.Set("X-Test-Client", client)
		return v.post("/subscribe", "plan", "pro")
	}
	const full = "Many people are subscribing at the moment."
	for range maxNetworkCheckouts {
		begin("192.0.2.1/32").is(303)
	}
	begin("192.0.2.2/32").is(503, full) // its network has begun its part
	for range maxCheckouts - maxNetworkCheckouts {
		begin("192.0.3.1/32").is(303)
	}
	begin("192.0.4.1/32").is(503, full)
	s.clock.Add(checkoutsWindow)
	begin("192.0.2.1/32").is(303)
	for range maxCheckouts { // what is for no plan counts nothing
		s.visit(t).alone().post("/subscribe", "plan", "x").is(400)
	}
	begin("192.0.2.1/32").is(303)
}

// testChangePlan changes the plan by pages that say what is due, from when, and what changes.
func testChangePlan(t *testing.T, s *site) {
	v, _ := s.customer(t, "starter")
	end := s.clock.Now().AddDate(0, 1, 0).UTC().Format("2 January 2006")
	v.get("/dashboard/plan").is(200, "You are on Starter", "renews on "+end)
	v.follow("Change to Pro").is(200, "Due now€80: a month of Pro, less the days of Starter", "Beginsat once",
		"Then€99 a month", "Starter 150 domains", "Pro (new) 1,500 domains", "You have used 0 of this month's 150")
	v.get("/dashboard/plan").is(200, "You are on Starter")
	v.follow("Change to Pro")
	v.press("Pay €80 and change to Pro").is(200, "You are on Pro")
	v.follow("Change to Starter").is(200, "Due now€0", "Beginson "+end, "Until then you keep Pro")
	v.press("Confirm the change to Starter").is(200, "You are on Pro: 0 of 1,500", "renews on "+end+", then Starter")
	v.press("Keep Pro").is(200, "The change is made.")
	v.lacks("then Starter")
	v.follow("Change to Free").is(200, "Due now€0", "Thennothing", "Your webhook is removed when Free begins")
	v.press("Confirm the change to Free").is(200, "ends on "+end+", then Free")
	starter, _ := s.customer(t, "starter")
	starter.submit("/dashboard/plan", "Cancel subscription").is(200, "ends on "+end)
	starter.follow("Change to Pro").is(200, "Your cancellation is withdrawn.")
	v.get("/dashboard/plan/change?plan=gold").is(400, "There is no such plan")
	free, _ := s.customer(t, "free")
	free.get("/dashboard/plan/change?plan=pro").is(409, "choose a plan first")
}

type declining struct{ *billing.TestCheckout }

func (declining) Change(_ context.Context, s billing.Subscription, _ check.Plan) (billing.Subscription, error) {
	return s, &billing.UnpaidError{URL: "https://stripe.example/in_1"}
}

// TestDeclinedUpgrade checks that a declined card changes nothing, and that cards are not tried often.
func TestDeclinedUpgrade(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	v, _ := s.customer(t, "starter")
	s.cfg.Billing.Provider = declining{s.cfg.Billing.Provider.(*billing.TestCheckout)}
	v.get("/dashboard/plan/change?plan=pro")
	for range maxPlanChanges {
		v.post("/dashboard/plan", "csrf", v.at.token(), "plan", "pro")
		v.is(402, "Nothing has changed, and you are still on Starter. Pay or confirm within a day")
	}
	v.post("/dashboard/plan", "csrf", v.at.token(), "plan", "pro").is(429, "You have changed the plan too often.")
	for _, path := range []string{"/dashboard/plan/cancel", "/dashboard/plan/payment"} {
		for range maxPlanChanges + 1 {
			v.post(path, "csrf", v.at.token())
		}
		v.is(429, "You have changed the plan too often.")
	}
	v.get("/dashboard/plan").is(200, "You are on Starter: 0 of 150")
}

// testCheckoutForm checks that the test checkout keeps what was entered, and takes no card after five declined ones.
func testCheckoutForm(t *testing.T, s *site) {
	v := s.visitLanding(t, "Subscribe to Starter")
	v.press("Subscribe", "number", "4242 4242 4242 4242", "expiry", "1300", "cvc", "123", "name", "Jane").
		is(402, "Enter the expiry date as MM / YY.")
	v.press("Subscribe", "expiry", "1230").is(200, "This is your API key.")

	tester := s.visitLanding(t, "Subscribe to Starter")
	for range billing.MaxDeclines {
		tester.press("Subscribe", "number", "4000 0000 0000 0002", "expiry", "1230", "cvc", "123", "name", "Jane").
			is(402, "Your card was declined.")
	}
	const refused = "Too many cards were declined; nothing was charged, and another one can be tried from "
	tester.press("Subscribe", "number", "4242 4242 4242 4242").is(429, refused)
	tester.submit("/", "Subscribe to Pro").is(429, refused)
}

// testSubscriptionEndedBeforeSuccessPage checks that a customer whose subscription ended before the success page was
// loaded gets a key that signs in, and can choose a plan again.
func testSubscriptionEndedBeforeSuccessPage(t *testing.T, s *site) {
	v := s.visitLanding(t, "Subscribe to Pro")
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
	v := s.visitLanding(t, "Subscribe to Starter")
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
	v.submit("/dashboard/plan", "Cancel subscription").is(200, "ends on")
	v.get(form).is(404, "There is no such checkout")
	s.clock.Add(32 * 24 * time.Hour)
	expect.NoError(t, s.cfg.Billing.Refresh(t.Context()))
	expect.Error(t, "after the subscription ended, the key", expect.ErrorOf(s.store.Authenticate(t.Context(), key)),
		check.ErrUnauthorized)
}

// testChangePayment checks that a customer changes the card on the provider's pages, if the provider has such pages.
func testChangePayment(t *testing.T, s *site) {
	v := s.visitLanding(t, "Subscribe to Pro")
	s.pay(t, v, billing.Active)
	paid := v.at.url.Query().Get("paid")
	v.get(donePath).is(200, "This is your API key.")
	s.clock.Add(time.Minute)
	s.becomes(t, paid, billing.PastDue)
	v.get("/dashboard/plan").is(200, "The last payment failed.")
	v.press("Card and invoices")
	got := v.at.url.Query().Get("customer")
	expect.That(t, got == "sub_"+paid && v.at.url.Path == "/dashboard/plan", "the button leads to %s", v.at.url)
	v.post("/dashboard/plan/payment").is(403, "")
}

func TestProviderUnreachable(t *testing.T) {
	t.Parallel()
	s := serve(t, func(c *Config) {
		c.Billing.Provider = billing.NewStripe("sk_test_1", "whsec_1", "http://127.0.0.1:1")
	})
	v := s.visit(t)
	v.get("/").is(200, "Test mode")
	v.press("Subscribe to Pro").is(503, "Our payment provider cannot be reached.")
	v.lacks("127.0.0.1", "dial") // the cause
	v.post("/subscribe", "plan", "gold").is(400, "There is no such plan.")
	v.get(TestCheckoutPath+"co_1").is(404, "There is no such checkout")
	v.get(TestCheckoutPath+strings.Repeat("x", 2000)).is(404, "There is no such checkout")
}
