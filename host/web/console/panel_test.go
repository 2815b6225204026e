package console

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"assay/host/access/apikey"
	"assay/host/check"
	"assay/host/customer/billing"
	"assay/host/customer/decision"
	"assay/host/customer/override"
	"assay/host/customer/privacy"
	"assay/host/customer/webhook"
	"assay/host/entity"
	"assay/registry/expect"
)

// unreadable is a store whose method with a name fails.
type unreadable struct {
	Store

	name *atomic.Value
}

// unless fails if the method is the one that cannot read.
func unless[T any](u unreadable, method string) func(T, error) (T, error) {
	return func(value T, err error) (T, error) {
		if u.name.Load() == method {
			return *new(T), errors.New("the secret reason")
		}
		return value, err
	}
}

func (u unreadable) CountDays(ctx context.Context, c check.Caller, from, until time.Time) ([]decision.Count, error) {
	return unless[[]decision.Count](u, "CountDays")(u.Store.CountDays(ctx, c, from, until))
}

func (u unreadable) RecentEvents(ctx context.Context, account, state string, below int64, limit int) (
	[]webhook.Event, error) {
	return unless[[]webhook.Event](u, "RecentEvents")(u.Store.RecentEvents(ctx, account, state, below, limit))
}

func (u unreadable) CodeIssuedAt(ctx context.Context, account string) (time.Time, error) {
	return unless[time.Time](u, "CodeIssuedAt")(u.Store.CodeIssuedAt(ctx, account))
}

func (u unreadable) Keys(ctx context.Context, account string) ([]apikey.Key, error) {
	return unless[[]apikey.Key](u, "Keys")(u.Store.Keys(ctx, account))
}

func (u unreadable) SearchChecks(ctx context.Context, c check.Caller, q decision.Query) (*decision.Page, error) {
	return unless[*decision.Page](u, "SearchChecks")(u.Store.SearchChecks(ctx, c, q))
}

func (u unreadable) MonthlyUsage(ctx context.Context, c check.Caller, month time.Time) (*decision.Usage, error) {
	return unless[*decision.Usage](u, "MonthlyUsage")(u.Store.MonthlyUsage(ctx, c, month))
}

func (u unreadable) Overrides(ctx context.Context, account string) ([]override.Listed, error) {
	return unless[[]override.Listed](u, "Overrides")(u.Store.Overrides(ctx, account))
}

func (u unreadable) Requests(ctx context.Context, c check.Caller) ([]*privacy.Request, error) {
	return unless[[]*privacy.Request](u, "Requests")(u.Store.Requests(ctx, c))
}

func (u unreadable) Subscription(ctx context.Context, account string) (billing.Subscription, error) {
	return unless[billing.Subscription](u, "Subscription")(u.Store.Subscription(ctx, account))
}

func (u unreadable) Refunds(ctx context.Context, account string) ([]billing.Refund, error) {
	return unless[[]billing.Refund](u, "Refunds")(u.Store.Refunds(ctx, account))
}

// TestFailedPanels checks that a page shows its other panels if one cannot be read, and fails as a whole in an outage.
func TestFailedPanels(t *testing.T) {
	t.Parallel()
	var outage atomic.Bool
	var name atomic.Value
	s := serve(t, func(c *Config) {
		c.Store = unreadable{c.Store, &name}
		c.Outage = func(error) bool { return outage.Load() }
	})
	v, key := s.customer(t, "starter")
	s.record(t, key, entity.Email, "jane.doe@example.com", check.Allow)
	for _, test := range []struct{ page, method, others string }{
		{"", "CountDays", "Recent checks"},
		{"", "Keys", "Recent checks"},
		{"", "SearchChecks", "Checks by verdict"},
		{"/checks", "SearchChecks", "Find checks"},
		{"/checks", "Keys", "chk_"},
		{"/usage", "MonthlyUsage", "Month (UTC)"},
		{"/keys", "Keys", "New key"},
		{"/webhooks", "RecentEvents", "Webhook URL"},
		{"/overrides", "Overrides", "Set a verdict in advance"},
		{"/privacy", "Requests", "Find a subject"},
		{"/plan", "Subscription", "You are on Starter"},
		{"/plan", "Refunds", "You are on Starter"},
		{"/account", "CodeIssuedAt", "Signed-in browsers"},
	} {
		path := "/dashboard" + test.page
		name.Store(test.method)
		v.get(path).is(200, test.others)
		expect.That(t, strings.Count(v.at.body, " could not be loaded. The rest") == 1 &&
			!strings.Contains(v.at.body, "secret reason") &&
			strings.Contains(v.at.body, `<a href="`+path+`">Try again</a>`), "%s without %s: %s", path, test.method,
			words(v.at.root))
		expect.That(t, test.page != "/plan" || test.method != "Subscription" ||
			!strings.Contains(v.at.body, "Subscribe to"), "a plan is for sale although the account may have one")
	}
	name.Store("Keys") // only their names are missing
	v.get("/dashboard/usage").is(200, "total key_")
	outage.Store(true)
	name.Store("CountDays")
	v.get("/dashboard").is(503, "The database is not available")
}

// TestDownloadsAreLimited checks that downloads take slots, and that each is given back.
func TestDownloadsAreLimited(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	v, _ := s.customer(t, "starter")
	for range 3 {
		v.get("/dashboard/checks/export?format=csv").is(200, "ref,timestamp")
	}
	var releases []func()
	for _, account := range []string{"acct_other", "acct_another"} {
		release := expect.Value(s.cfg.Downloads.Take(account))(t)
		releases = append(releases, release)
	}
	v.get("/dashboard/checks/export?format=csv").is(503, "Too many downloads")
	for _, release := range releases {
		release()
	}
	v.get("/dashboard/checks/export?format=csv").is(200, "ref,timestamp")
}
