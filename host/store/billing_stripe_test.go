package store

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"assay/host/check"
	"assay/host/customer/billing"
)

// fakeStripe answers like Stripe's API, with the shapes of stripe-mock, and keeps what a subscription does over time.
type fakeStripe struct {
	now      time.Time
	declines bool // the customer's card
	made     int
	subs     map[string]*fakeSubscription
	events   []string // ids of subscriptions that changed
	paid     []paidTime
}

// paidTime is a time for which a plan was paid, or for which Stripe waits for the payment.
type paidTime struct {
	plan        string
	from, until time.Time
}

type fakeSubscription struct {
	id, status  string
	plan        string // of the price of its item
	lastPaid    string // of the last invoice that was paid
	start, end  time.Time
	cancelAtEnd bool
	endedAt     time.Time
	metadata    map[string]string
	pending     string // the plan of an update that is not paid
}

// graceDays is how long the fake retries a declined renewal: longer than a month, as Stripe can be told to.
const graceDays = 40

func (f *fakeStripe) change(s *fakeSubscription) { f.events = append(f.events, s.id) }

// subscribe pays a checkout.
func (f *fakeStripe) subscribe(c billing.Checkout) *fakeSubscription {
	f.made++
	s := &fakeSubscription{id: fmt.Sprint("sub_", f.made, c.ID), status: "active", plan: c.Plan, lastPaid: c.Plan,
		start: f.now, end: f.now.AddDate(0, 1, 0), metadata: map[string]string{"assay_checkout": c.ID}}
	f.subs[s.id] = s
	f.paid = append(f.paid, paidTime{c.Plan, s.start, s.end})
	f.change(s)
	return s
}

// pass lets time pass: periods end and renewals are paid, declined and given up.
func (f *fakeStripe) pass(now time.Time) {
	f.now = now
	for _, s := range f.subs {
		s.pending = "" // Stripe drops it after a day
		for s.status == "active" && !s.end.After(now) {
			f.change(s)
			if s.cancelAtEnd {
				s.status, s.endedAt = "canceled", s.end
				continue
			}
			s.start, s.end = s.end, s.end.AddDate(0, 1, 0)
			if f.declines {
				s.status = "past_due"
				until := s.start.AddDate(0, 0, graceDays)
				f.paid = append(f.paid, paidTime{smaller(s.plan, s.lastPaid), s.start, until})
				continue
			}
			f.pay(s)
		}
		if s.status == "past_due" && !s.start.AddDate(0, 0, graceDays).After(now) {
			s.status, s.endedAt = "canceled", s.start.AddDate(0, 0, graceDays)
			f.change(s)
		}
	}
}

// pay pays the period that a subscription is in.
func (f *fakeStripe) pay(s *fakeSubscription) {
	s.status, s.lastPaid = "active", s.plan
	f.paid = append(f.paid, paidTime{s.plan, s.start, s.end})
	f.change(s)
}

func smaller(a, b string) string {
	x, _ := billing.OfferOf(a)
	y, _ := billing.OfferOf(b)
	if x.Cents < y.Cents {
		return a
	}
	return b
}

// serves returns the plan that has been paid last, or what follows it.
func (s *fakeSubscription) serves() string {
	switch {
	case s.status == "past_due":
		return smaller(s.plan, s.lastPaid)
	case s.status != "canceled":
		return s.lastPaid
	case s.metadata["assay_then"] != "":
		return s.metadata["assay_then"]
	}
	return ""
}

func (s *fakeSubscription) json() map[string]any {
	price, _ := billing.OfferOf(s.plan)
	out := map[string]any{"object": "subscription", "id": s.id, "customer": "cus_1", "status": s.status,
		"metadata": s.metadata, "cancel_at_period_end": s.cancelAtEnd, "pending_update": nil,
		"latest_invoice": map[string]any{"id": "in_1", "hosted_invoice_url": "https://stripe.example/in_1"},
		"items": map[string]any{"object": "list", "data": []any{map[string]any{"id": "si_" + s.id,
			"current_period_start": s.start.Unix(), "current_period_end": s.end.Unix(),
			"price": map[string]any{"id": "price_" + s.plan,
				"lookup_key": fmt.Sprintf("assay_%s_%d", s.plan, price.Cents)}}}}}
	if s.cancelAtEnd {
		out["cancel_at"] = s.end.Unix()
	}
	if !s.endedAt.IsZero() {
		out["ended_at"] = s.endedAt.Unix()
	}
	if s.pending != "" {
		out["pending_update"] = map[string]any{"expires_at": s.end.Unix()}
	}
	return out
}

// update applies an update as Stripe does: a dearer price that is not paid stays pending.
func (f *fakeStripe) update(s *fakeSubscription, r *http.Request) {
	for key, values := range r.PostForm {
		if name, ok := strings.CutPrefix(key, "metadata["); ok {
			s.metadata[strings.TrimSuffix(name, "]")] = values[0]
		}
	}
	if end := r.PostFormValue("cancel_at_period_end"); end != "" {
		s.cancelAtEnd = end == "true"
	}
	plan := strings.TrimPrefix(r.PostFormValue("items[0][price]"), "price_")
	s.pending = ""
	switch {
	case plan == "":
	case r.PostFormValue("proration_behavior") == "none":
		s.plan = plan
	case f.declines:
		if s.pending = plan; r.PostFormValue("payment_behavior") != "pending_if_incomplete" {
			s.plan, s.status = plan, "past_due"
		}
	default:
		f.upgrade(s, plan)
	}
	f.change(s)
}

// upgrade begins a new period with a dearer plan, which is paid.
func (f *fakeStripe) upgrade(s *fakeSubscription, plan string) {
	s.plan, s.pending, s.start, s.end = plan, "", f.now, f.now.AddDate(0, 1, 0)
	f.pay(s)
}

func (f *fakeStripe) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_ = r.ParseForm()
	var answer any
	s := f.subs[strings.TrimPrefix(r.URL.Path, "/v1/subscriptions/")]
	switch {
	case r.URL.Path == "/v1/prices":
		plan, _, _ := strings.Cut(strings.TrimPrefix(r.FormValue("lookup_keys[0]"), "assay_"), "_")
		answer = map[string]any{"object": "list", "data": []any{map[string]any{"id": "price_" + plan}}}
	case r.URL.Path == "/v1/invoices/create_preview":
		answer = map[string]any{"object": "invoice", "amount_due": 8000}
	case s != nil && r.Method == http.MethodDelete:
		s.status, s.endedAt = "canceled", f.now
		f.change(s)
		answer = s.json()
	case s != nil && r.Method == http.MethodPost:
		f.update(s, r)
		answer = s.json()
	case s != nil:
		answer = s.json()
	default:
		w.WriteHeader(http.StatusNotFound)
		answer = map[string]any{"error": map[string]any{"type": "invalid_request_error", "code": "resource_missing"}}
	}
	_ = json.NewEncoder(w).Encode(answer)
}

// customerOfStripe is an account whose subscriptions are in a fake of Stripe.
type customerOfStripe struct {
	*testing.T
	store   *Store
	clock   *dbClock
	ledger  *Ledger
	stripe  *fakeStripe
	billing *billing.Billing
	random  *rand.Rand
	sub     *fakeSubscription
	account string
	key     string
	steps   []string
}

// TestNoSequenceGivesMoreThanWasPaid does random things to a subscription over many months. After each step of Stripe's
// events, the account has the plan that was paid last, and no more checks than the largest plan paid for.
func TestNoSequenceGivesMoreThanWasPaid(t *testing.T) {
	t.Parallel()
	s, clock := openWithClock(t)
	c := &customerOfStripe{T: t, store: s, clock: clock, ledger: ledgerOn(t, s, LedgerConfig{})}
	for seed := range 24 {
		c.live(uint64(seed), 50)
	}
}

// connect begins with another Stripe, at noon of a day in May, until the function that it returns is called.
func (c *customerOfStripe) connect(day int) func() {
	c.stripe = &fakeStripe{subs: map[string]*fakeSubscription{}}
	server := httptest.NewServer(c.stripe)
	c.billing = &billing.Billing{Accounts: c.store, Provider: billing.NewStripe("sk_test_1", "whsec_1", server.URL),
		Now: func() time.Time { return c.stripe.now }}
	c.store.now = c.billing.Now
	c.stripe.pass(time.Date(2031, 5, day, 12, 0, 0, 0, time.UTC))
	return server.Close
}

func (c *customerOfStripe) live(seed uint64, steps int) {
	c.random = rand.New(rand.NewPCG(seed, 1))
	c.steps = nil
	defer c.connect(1 + c.random.IntN(28))()
	c.clock.set(c.T, c.stripe.now)

	claim := must(c.store.Claim(c.Context(), c.checkout("").Session))(c.T)
	c.account, c.key = claim.Account, claim.Key
	for range steps {
		c.step()
		mustHold(c, !c.Failed(), "seed %d: %s", seed, strings.Join(c.steps, ", "))
	}
}

// checkout pays a checkout, of the account or of a new customer.
func (c *customerOfStripe) checkout(account string) billing.Checkout {
	plan := []string{"starter", "pro"}[c.random.IntN(2)]
	id := fmt.Sprintf("co_%d_%d", c.random.Uint64(), len(c.steps))
	k := billing.Checkout{ID: id, Session: billing.SessionHash(id), Account: account, Plan: plan, Provider: "stripe",
		At: c.stripe.now}
	noError(c.T, c.store.BeginCheckout(c.Context(), k))
	c.sub = c.stripe.subscribe(k)
	c.deliver()
	return k
}

// deliver applies the events that Stripe has sent, in random order, some of them twice.
func (c *customerOfStripe) deliver() {
	c.stripe.change(c.sub)
	events := c.stripe.events
	c.stripe.events = nil
	c.random.Shuffle(len(events), func(i, j int) { events[i], events[j] = events[j], events[i] })
	for _, id := range events {
		noError(c.T, c.billing.Apply(c.Context(), id, c.billing.Provider.Read))
	}
}

func (c *customerOfStripe) step() {
	plan := []string{"free", "starter", "pro"}[c.random.IntN(3)]
	var did string
	switch c.random.IntN(10) {
	case 0, 1, 2:
		did = "change to " + plan
		before, ends, then := keyStatus(c.T, c.store, c.key), c.sub.cancelAtEnd, c.sub.metadata["assay_then"]
		if err := c.billing.ChangePlan(c.Context(), c.account, plan); err != nil {
			did += fmt.Sprint(" (", err, ")")
			expect(c.T, "the key after a change that failed", keyStatus(c.T, c.store, c.key), before)
			holds(c.T, c.sub.cancelAtEnd == ends && c.sub.metadata["assay_then"] == then,
				"a change that failed reverted a cancellation")
		}
	case 3:
		c.stripe.declines = !c.stripe.declines
		did = fmt.Sprint("declines: ", c.stripe.declines)
	case 4:
		did = fmt.Sprint("cancel ", c.billing.Cancel(c.Context(), c.account))
	case 5:
		did = fmt.Sprint("resume ", c.billing.ChangePlan(c.Context(), c.account, c.sub.lastPaid))
	case 6:
		switch c.sub.status {
		case "past_due":
			did = "pay what is due"
			c.stripe.pay(c.sub)
		case "canceled":
			did = "subscribe again"
			if c.random.IntN(2) == 0 {
				did = "choose free"
				_, _ = c.billing.Subscribe(c.Context(), billing.Order{Plan: "free", Account: c.account})
			} else {
				c.checkout(c.account)
			}
		default:
			if c.sub.pending != "" {
				did = "pay for " + c.sub.pending
				c.stripe.upgrade(c.sub, c.sub.pending)
			} else if c.random.IntN(3) == 0 {
				did = "refund"
				c.sub.status, c.sub.endedAt = "canceled", c.stripe.now
				for i := range c.stripe.paid { // what was refunded is not paid in later months
					c.stripe.paid[i].until = earlier(c.stripe.paid[i].until, c.stripe.now)
				}
				c.stripe.change(c.sub)
			}
		}
	default:
		days := 1 + c.random.IntN(25)
		did = strconv.Itoa(days) + " days"
		c.stripe.pass(c.stripe.now.AddDate(0, 0, days))
		c.clock.set(c.T, c.stripe.now)
	}
	c.steps = append(c.steps, cmp.Or(did, "nothing"))
	switch c.random.IntN(8) {
	case 0: // events are late
		return
	case 1: // events are lost, and the host reads the subscription once its period is over
		c.stripe.events = nil
		noError(c.T, c.billing.Refresh(c.Context()))
	default:
		c.deliver()
		c.wantPaidPlan()
	}
	c.useAll()
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

func (c *customerOfStripe) wantPaidPlan() {
	plan, _, _ := strings.Cut(keyStatus(c.T, c.store, c.key), " ")
	want := cmp.Or(c.sub.serves(), "ended")
	if want == "ended" && plan == "free" {
		return // chosen since
	}
	expect(c.T, "the plan after "+strings.Join(c.steps, ", "), plan, want)
}

// useAll uses up the month's quota, and compares it with what was paid for in the month.
func (c *customerOfStripe) useAll() {
	if keyStatus(c.T, c.store, c.key) == "ended" {
		return
	}
	usage := must(c.store.Usage(c.Context(), c.account))(c.T)
	month := time.Date(c.stripe.now.Year(), c.stripe.now.Month(), 1, 0, 0, 0, 0, time.UTC)
	most := 50
	for _, p := range c.stripe.paid {
		if plan, _ := check.PlanNamed(p.plan); p.from.Before(month.AddDate(0, 1, 0)) && p.until.After(month) {
			most = max(most, plan.Quota)
		}
	}
	holds(c.T, usage.Plan.Quota <= most && usage.Used <= most, "%d of %d checks, want at most %d: %s", usage.Used,
		usage.Plan.Quota, most, strings.Join(c.steps, ", "))
	if usage.Used >= usage.Plan.Quota {
		return
	}
	// All but the last two checks are counted at once.
	noError(c.T, errOf(c.store.db.NewRaw(`INSERT INTO quota_usage AS q (chain, account_id, period, used)
		SELECT chain, id, ?, ? FROM accounts WHERE id = ?
		ON CONFLICT (chain, account_id, period) DO UPDATE SET used = greatest(q.used, EXCLUDED.used)`,
		month.Format(time.DateOnly), usage.Plan.Quota-2, c.account).Exec(c.Context())))
	checksUntilRefused(c.T, c.ledger, must(c.store.Authenticate(c.Context(), c.key))(c.T))
	expect(c.T, "checks that were used", must(c.store.Usage(c.Context(), c.account))(c.T).Used, usage.Plan.Quota)
}

// A renewal that was declined leaves nothing to pay for: who then cancels or chooses Free is not charged again.
func TestEndAfterADeclinedRenewal(t *testing.T) {
	t.Parallel()
	for _, then := range []string{"", "free"} {
		s, clock := openWithClock(t)
		c := &customerOfStripe{T: t, store: s, clock: clock}
		t.Cleanup(c.connect(10))
		k := beginCheckout(t, s, "", "pro")
		sub := c.stripe.subscribe(k)
		apply := func() { noError(t, c.billing.Apply(t.Context(), sub.id, c.billing.Provider.Read)) }
		apply()
		claim := must(s.Claim(t.Context(), k.Session))(t)
		c.stripe.declines = true
		c.stripe.pass(time.Date(2031, 6, 11, 12, 0, 0, 0, time.UTC))
		apply()
		if then == "" {
			noError(t, c.billing.Cancel(t.Context(), claim.Account))
		} else {
			noError(t, c.billing.ChangePlan(t.Context(), claim.Account, then))
		}
		apply()
		expect(t, "status at Stripe", sub.status, "canceled")
		expect(t, "the key", keyStatus(t, s, claim.Key), map[string]string{"": "ended", "free": "free 50"}[then])
	}
}
