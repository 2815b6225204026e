package console

import (
	"errors"
	"slices"
	"time"

	"github.com/gofiber/fiber/v2"

	"assay/host/billing"
)

const (
	testCheckoutPath = "/checkout/test/"
	donePath         = "/checkout/done"
	mostCheckouts    = 5  // of one browser, remembered
	checkoutsAllowed = 10 // by one client
	checkoutsWindow  = time.Hour
)

// TestCheckoutPage is where the built-in test checkout asks for a card.
const TestCheckoutPage = testCheckoutPath

// subscribe begins a checkout: for a new customer, or for the account that is signed in.
func (c *Console) subscribe(ctx *fiber.Ctx) error {
	s, err := c.current(ctx)
	if err != nil {
		return err
	}
	w, cancel := work()
	defer cancel()
	if _, ok, err := c.cfg.Store.Take(w, "checkout ", c.cfg.Client(ctx.Context()), checkoutsAllowed,
		checkoutsWindow); err != nil {
		return err
	} else if !ok {
		return &pageError{fiber.StatusTooManyRequests, "Too many checkouts were begun from here. Wait an hour."}
	}
	account := ""
	if s != nil {
		account = s.Account
	}
	checkout, err := c.cfg.Billing.Subscribe(w, field(ctx, "plan"), account, c.url(ctx, donePath),
		c.url(ctx, "/#prices"))
	switch {
	case errors.Is(err, billing.ErrNoPlan):
		return &pageError{fiber.StatusBadRequest, "There is no such plan."}
	case errors.Is(err, billing.ErrSubscribed): // or it chose the free plan, and a subscription serves it
		return ctx.Redirect("/dashboard/plan", fiber.StatusSeeOther)
	case errors.Is(err, billing.ErrUnavailable):
		c.cfg.Logger.Error("checkout cannot be opened", "error", err)
		return &pageError{fiber.StatusServiceUnavailable,
			"Our payment provider cannot be reached. Nothing was charged; please try again in a minute."}
	case err != nil:
		return err
	}
	// Earlier ones are kept: they may be open in another tab, and it may be there that is paid.
	tokens := append(c.checkouts(ctx), checkout.Token)
	tokens = tokens[max(0, len(tokens)-mostCheckouts):]
	if err := c.setCookie(ctx, "checkout", checkoutContext, tokens, c.cfg.Now().Add(billing.ClaimLife)); err != nil {
		return err
	}
	return ctx.Redirect(checkout.URL, fiber.StatusSeeOther)
}

// checkouts are the tokens of the checkouts that this browser began, the newest last.
func (c *Console) checkouts(ctx *fiber.Ctx) []string {
	var tokens []string
	if !c.cookie(ctx, "checkout", checkoutContext, &tokens) {
		return nil
	}
	return tokens
}

// testProvider is the built-in test checkout, or nil when cards are real.
func (c *Console) testProvider() *billing.TestCheckout {
	p, _ := c.cfg.Billing.Provider.(*billing.TestCheckout)
	return p
}

func (c *Console) testCheckout(ctx *fiber.Ctx) error {
	return c.showTestCheckout(ctx, nil, billing.Card{})
}

func (c *Console) showTestCheckout(ctx *fiber.Ctx, wrong *billing.CardError, typed billing.Card) error {
	offer, err := c.checkoutOffer(ctx)
	if err != nil {
		return err
	}
	s, err := c.current(ctx)
	if err != nil {
		return err
	}
	v := view{"Title": "Checkout", "Offer": offer, "ID": ctx.Params("id"), "Name": typed.Name}
	if wrong != nil {
		ctx.Status(fiber.StatusPaymentRequired)
		v["Wrong"] = wrong
	}
	return c.render(ctx, "testcheckout", s, v)
}

func (c *Console) checkoutOffer(ctx *fiber.Ctx) (billing.Offer, error) {
	gone := &pageError{fiber.StatusNotFound, "There is no such checkout, or it was paid or has expired."}
	if c.testProvider() == nil {
		return billing.Offer{}, gone
	}
	w, cancel := work()
	defer cancel()
	plan, err := c.cfg.Store.CheckoutPlan(w, ctx.Params("id"))
	if errors.Is(err, billing.ErrNoCheckout) {
		return billing.Offer{}, gone
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
	change, err := c.testProvider().Pay(ctx.Params("id"), offer.Plan.Name, card)
	var wrong *billing.CardError
	if errors.As(err, &wrong) {
		return c.showTestCheckout(ctx, wrong, card)
	}
	if err != nil {
		return err
	}
	w, cancel := work()
	defer cancel()
	if err := c.cfg.Store.Apply(w, change); err != nil {
		return err
	}
	return ctx.Redirect(donePath, fiber.StatusSeeOther)
}

// done is the success screen. The first load of a paid checkout's browser shows the key; no other ever does.
func (c *Console) done(ctx *fiber.Ctx) error {
	tokens := c.checkouts(ctx)
	if len(tokens) == 0 {
		return &pageError{fiber.StatusNotFound,
			"There is no checkout of this browser, or it has expired. If you paid, sign in with your key or write to support."}
	}
	if ctx.Get("Sec-Purpose") != "" || ctx.Get("Purpose") != "" {
		// the key would be shown to nobody
		return &pageError{fiber.StatusForbidden, "This page is not for loading in advance."}
	}
	claim, err := c.claim(tokens)
	switch {
	case errors.Is(err, billing.ErrPending):
		ctx.Status(fiber.StatusPaymentRequired)
		ctx.Set("Refresh", "2")
		return c.render(ctx, "pending", nil, view{"Title": "Waiting for your payment"})
	case errors.Is(err, billing.ErrNoCheckout):
		return &pageError{fiber.StatusGone,
			"This checkout has expired. If you paid, sign in with your key or write to support."}
	case err != nil:
		return err
	}
	return c.showClaim(ctx, claim)
}

// claim returns a key that was paid for and not shown yet, whichever checkout it is of; else what became of the newest.
func (c *Console) claim(tokens []string) (newest billing.Claim, newestErr error) {
	w, cancel := work()
	defer cancel()
	newestErr = billing.ErrNoCheckout
	for _, token := range slices.Backward(tokens) {
		claim, err := c.cfg.Billing.Claim(w, token)
		if err == nil && claim.Key != "" {
			return claim, nil
		}
		if errors.Is(newestErr, billing.ErrNoCheckout) {
			newest, newestErr = claim, err
		}
	}
	return newest, newestErr
}

// reissue replaces the key of the newest checkout that was claimed.
func (c *Console) reissue(ctx *fiber.Ctx) error {
	tokens := c.checkouts(ctx)
	if len(tokens) == 0 {
		return &pageError{fiber.StatusNotFound, "There is no checkout of this browser."}
	}
	w, cancel := work()
	defer cancel()
	for _, token := range slices.Backward(tokens) {
		claim, err := c.cfg.Billing.Reissue(w, token)
		if err == nil {
			return c.showClaim(ctx, claim)
		}
		if !errors.Is(err, billing.ErrNoReissue) && !errors.Is(err, billing.ErrNoCheckout) {
			return err
		}
	}
	return &pageError{fiber.StatusConflict,
		"This key was used already, or was issued again too often: rotate it in the dashboard."}
}

func (c *Console) showClaim(ctx *fiber.Ctx, claim billing.Claim) error {
	s, err := c.current(ctx)
	title := "You are subscribed"
	if claim.Key != "" {
		// Who paid is signed in: the dashboard is a click away.
		s, err = c.begin(ctx, claim.Account, claim.KeyID)
	} else if !claim.Upgrade {
		ctx.Status(fiber.StatusGone)
		title = "Your key was shown already"
	}
	if err != nil {
		return err
	}
	return c.render(ctx, "done", s, view{"Title": title, "Claim": claim, "URL": c.url(ctx, "")})
}
