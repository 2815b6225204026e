package console

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"github.com/gofiber/fiber/v2"

	"assay/host/check"
	"assay/host/customer/billing"
	"assay/host/internal/internet"
	"assay/host/web/refusal"
)

// TestCheckoutPath is the path of the built-in test checkout's pages. The checkout's id follows.
const TestCheckoutPath = "/checkout/test/"

const (
	donePath         = "/checkout/done"
	maxOpenCheckouts = 5 // checkouts that a browser's cookie remembers
	// Limits on checkouts in a minute: of all visitors, so that card testers cannot use up the payment provider's
	// limits, and of one network, so that it leaves some for others. Half of them is enough for an office: a browser or
	// account has one open page.
	maxCheckouts        = 60
	maxNetworkCheckouts = maxCheckouts / 2
	checkoutsWindow     = time.Minute

	// Free keys of one network: after the first ones, each waits longer than the previous one.
	maxFreeKeysAnHour = 12
	maxFreeKeysADay   = 30
	freeKeysAtOnce    = 3
	freeKeyPause      = 20 * time.Second
	maxFreeKeyPause   = time.Minute
)

// subscribe starts a checkout for a new customer or for the signed-in account.
func (c *Console) subscribe(ctx *fiber.Ctx) error {
	s, err := c.current(ctx)
	if err != nil {
		return err
	}
	account := ""
	if s != nil {
		account = s.Account
	}
	plan := field(ctx, "plan")
	var pause time.Duration
	switch offer, known := billing.OfferOf(plan); {
	case !known: // Subscribe refuses it, so it uses up nothing
	case offer.Cents == 0 && account == "":
		pause, err = c.takeFreeKey(work(ctx), c.cfg.Client(ctx.Context()))
	default:
		err = c.takeCheckout(work(ctx), internet.Network(c.cfg.Client(ctx.Context())))
	}
	if err != nil {
		return err
	}
	earlier := c.checkouts(ctx)
	checkout, err := c.cfg.Billing.Subscribe(work(ctx), billing.Order{
		Plan: plan, Account: account, Tabs: earlier, Pause: pause, ReturnTo: c.url(ctx, donePath),
		CancelTo: c.url(ctx, "/#prices"),
	})
	switch {
	case errors.Is(err, billing.ErrSubscribed): // also if it chose the free plan
		return ctx.Redirect("/dashboard/plan", fiber.StatusSeeOther)
	case errors.Is(err, billing.ErrUnavailable):
		c.cfg.Logger.Error("checkout cannot be opened", "error", err)
		return refusal.Page(fiber.StatusServiceUnavailable,
			"Our payment provider cannot be reached. Nothing was charged; please try again in a minute.")
	case err != nil:
		return err
	}
	// Earlier checkouts are kept, because the customer may pay for one that is open in another tab.
	earlier = append(earlier, checkout.Token)
	if err := c.sealCookie(ctx, "checkout", checkoutContext, earlier[max(0, len(earlier)-maxOpenCheckouts):],
		c.cfg.Now().Add(billing.ClaimLife)); err != nil {
		return err
	}
	return ctx.Redirect(checkout.URL, fiber.StatusSeeOther)
}

// takeCheckout counts a checkout of a network, and of all visitors.
func (c *Console) takeCheckout(ctx context.Context, network netip.Prefix) error {
	_, ok, err := c.cfg.Store.Take(ctx, "checkout ", network, maxNetworkCheckouts, checkoutsWindow)
	if err == nil && ok {
		_, ok, err = c.cfg.Store.Take(ctx, "checkouts", netip.Prefix{}, maxCheckouts, checkoutsWindow)
	}
	if err == nil && !ok {
		err = refusal.Page(fiber.StatusServiceUnavailable, "Many people are subscribing at the moment. Nothing was "+
			"charged; please try again in a minute.")
	}
	return err
}

// takeFreeKey counts a free key of the client's network, and returns how long the key must wait, because addresses of
// one network are cheap.
func (c *Console) takeFreeKey(ctx context.Context, client netip.Prefix) (pause time.Duration, err error) {
	network := internet.Network(client)
	uses, resetAt, err := c.cfg.Store.TakeCounted(ctx, "free key ", network, maxFreeKeysAnHour, time.Hour)
	if err == nil && uses > 0 {
		var ok bool
		if resetAt, ok, err = c.cfg.Store.Take(ctx, "free key a day ", network, maxFreeKeysADay, 24*time.Hour); !ok {
			uses = 0
		}
	}
	if err != nil {
		return 0, err
	}
	if uses == 0 {
		return 0, refusal.Page(fiber.StatusTooManyRequests, "Too many free keys were issued to your network. "+
			"The next one is possible on "+resetAt.UTC().Format("2 January at 15:04")+" UTC.")
	}
	return min(time.Duration(max(0, uses-freeKeysAtOnce))*freeKeyPause, maxFreeKeyPause), nil
}

// checkouts returns the tokens of the checkouts that this browser started, oldest first.
func (c *Console) checkouts(ctx *fiber.Ctx) (tokens []string) {
	c.cookie(ctx, "checkout", checkoutContext, &tokens)
	return tokens
}

// testProvider returns the built-in test checkout, or nil if payments are real.
func (c *Console) testProvider() *billing.TestCheckout {
	p, _ := c.cfg.Billing.Provider.(*billing.TestCheckout)
	return p
}

func (c *Console) showTestCheckout(ctx *fiber.Ctx, invalid *billing.CardError, card billing.Card) error {
	offer, err := c.checkoutOffer(ctx)
	if err != nil {
		return err
	}
	v := view{"Title": "Checkout", "Offer": offer, "ID": ctx.Params("id")}
	if invalid != nil {
		ctx.Status(fiber.StatusPaymentRequired)
		v["Card"] = card.Shown()
		v["Errors"] = map[string]string{invalid.Field: invalid.Reason}
	}
	return c.renderFor(ctx, "testcheckout", v)
}

func (c *Console) checkoutOffer(ctx *fiber.Ctx) (check.Plan, error) {
	gone := refusal.Page(fiber.StatusNotFound, "There is no such checkout: it was paid, or it has expired.")
	if c.testProvider() == nil {
		return check.Plan{}, gone
	}
	plan, err := c.cfg.Store.CheckoutPlan(work(ctx), ctx.Params("id"))
	switch {
	case errors.Is(err, billing.ErrNoCheckout):
		return check.Plan{}, gone
	case errors.Is(err, billing.ErrSubscribed):
		return check.Plan{}, refusal.Page(fiber.StatusConflict,
			"Your account already has a subscription, perhaps from another tab. Nothing was charged.")
	}
	offer, _ := billing.OfferOf(plan)
	return offer, err
}

func (c *Console) payTest(ctx *fiber.Ctx) error {
	offer, err := c.checkoutOffer(ctx)
	if err != nil {
		return err
	}
	card := billing.Card{Number: field(ctx, "number"), Expiry: field(ctx, "expiry"), CVC: field(ctx, "cvc"),
		Name: field(ctx, "name")}
	if err := c.cfg.Billing.MayTryCard(work(ctx), ctx.Params("id")); err != nil {
		return err
	}
	paid, err := c.testProvider().Pay(ctx.Params("id"), offer.Name, card)
	if invalid, ok := errors.AsType[*billing.CardError](err); ok {
		if d := invalid.Decline; d != nil {
			c.warn("a declined card is not stored", c.cfg.Billing.Decline(work(ctx), *d))
		}
		return c.showTestCheckout(ctx, invalid, card)
	}
	if err != nil {
		return err
	}
	if err := c.cfg.Billing.Apply(work(ctx), paid.ID, paid.Read); err != nil {
		return err
	}
	return ctx.Redirect(donePath, fiber.StatusSeeOther)
}

// done is the success page. Only the first load, by the browser that started the checkout, shows the key.
func (c *Console) done(ctx *fiber.Ctx) error {
	tokens := c.checkouts(ctx)
	if len(tokens) == 0 {
		return refusal.Page(fiber.StatusNotFound, "This browser has not started a checkout, or it has expired. "+
			"If you paid, sign in with your sign-in code or contact support.")
	}
	if ctx.Get("Sec-Purpose") != "" || ctx.Get("Purpose") != "" {
		// Prefetching would use up the one time that the key is shown.
		return refusal.Page(fiber.StatusForbidden, "This page cannot be loaded in advance.")
	}
	claim, err := c.claim(ctx, tokens)
	var paused *billing.PausedError
	switch {
	case errors.As(err, &paused):
		ctx.Status(fiber.StatusAccepted)
		seconds := int((paused.Until.Sub(c.cfg.Now()) + time.Second - 1) / time.Second)
		ctx.Set("Refresh", strconv.Itoa(seconds))
		return c.render(ctx, "pending", nil, view{"Title": "Your key is being issued", "Seconds": seconds})
	case errors.Is(err, billing.ErrPending):
		if errors.Is(err, billing.ErrUnavailable) {
			c.warn("the payment of a checkout cannot be looked up", err)
		}
		ctx.Status(fiber.StatusPaymentRequired)
		ctx.Set("Refresh", "2")
		return c.render(ctx, "pending", nil, view{"Title": "Waiting for your payment"})
	case errors.Is(err, billing.ErrNoCheckout):
		return refusal.Page(fiber.StatusGone,
			"This checkout has expired. If you paid, sign in with your sign-in code or contact support.")
	case err != nil:
		return err
	}
	return c.showClaim(ctx, claim)
}

// claim returns the key of a checkout that was paid and whose key was not shown yet. If there is none, it returns the
// outcome of the newest checkout.
func (c *Console) claim(ctx *fiber.Ctx, tokens []string) (newest billing.Claim, newestErr error) {
	newestErr = billing.ErrNoCheckout
	for _, token := range slices.Backward(tokens) {
		claim, err := c.cfg.Billing.Claim(work(ctx), token)
		if err == nil && claim.Key != "" {
			return claim, nil
		}
		if errors.Is(newestErr, billing.ErrNoCheckout) {
			newest, newestErr = claim, err
		}
	}
	return newest, newestErr
}

// reissue replaces the key of the newest checkout whose key was shown.
func (c *Console) reissue(ctx *fiber.Ctx) error {
	tokens := c.checkouts(ctx)
	if len(tokens) == 0 {
		return refusal.Page(fiber.StatusNotFound, "This browser has not started a checkout.")
	}
	for _, token := range slices.Backward(tokens) {
		claim, err := c.cfg.Billing.Reissue(work(ctx), token)
		if err == nil {
			return c.showClaim(ctx, claim)
		}
		if !errors.Is(err, billing.ErrNoReissue) && !errors.Is(err, billing.ErrNoCheckout) {
			return err
		}
	}
	return refusal.Page(fiber.StatusConflict,
		"This key was already used, or was issued again too often. Rotate it in the dashboard.")
}

func (c *Console) showClaim(ctx *fiber.Ctx, claim billing.Claim) error {
	v := view{"Title": "You are subscribed", "Claim": claim, "URL": c.url(ctx, "")}
	if claim.Key == "" {
		if claim.Refunded {
			v["Title"] = "You already had a subscription"
		} else if !claim.Upgrade {
			ctx.Status(fiber.StatusGone)
			v["Title"] = "Your key was already shown"
		}
		return c.renderFor(ctx, "done", v)
	}
	// The customer is signed in, so that the dashboard is one click away. If that fails, the key is still shown,
	// because it cannot be shown later.
	var s *session
	token, err := c.cfg.Store.BeginSession(work(ctx), claim.Account, c.origin(ctx))
	if err == nil {
		s, err = c.enterSession(ctx, token)
	}
	c.warn("a new customer is not signed in", err)
	v["Code"], err = c.cfg.Store.FirstCode(work(ctx), claim.Account)
	c.warn("a new customer gets no sign-in code", err)
	return c.render(ctx, "done", s, v)
}
