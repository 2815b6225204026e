package check_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"assay/host/access/admission"
	"assay/host/check"
	"assay/host/entity"
	"assay/registry/expect"
)

// gated gives a fixture a gate.
func (f *fixture) gated(processors int) *admission.Gate {
	f.Gate = admission.NewGate(admission.Config{Processors: processors, Target: time.Minute, BatchTarget: time.Minute})
	return f.Gate
}

func batchOf(n int) []check.Item {
	items := make([]check.Item, n)
	for i := range items {
		items[i].Fields = []check.Field{field(entity.Domain, fmt.Sprintf("n%d.example.com", i))}
	}
	return items
}

// Single checks and batches share the processors, and the checks of one account do not wait for another one's batch.
func TestBatchDoesNotDelayOtherAccounts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		gate := f.gated(1)
		var running, judged, before atomic.Int32
		proceed := make(chan struct{})
		batched := f.memberFunc("batched", func(context.Context, check.Input) (check.Result, error) {
			judged.Add(1)
			expect.That(t, running.Add(1) == 1, "more checks are judged at once than there are processors")
			<-proceed
			running.Add(-1)
			return check.Result{}, nil
		}, entity.Domain)
		other := f.memberFunc("other", func(context.Context, check.Input) (check.Result, error) {
			before.Store(judged.Load())
			return check.Result{}, nil
		}, entity.Email)
		f.swap(1, batched, other)
		go func() {
			_, err := f.CheckBatch(context.Background(), f.caller, batchOf(check.MaxBatch), nil)
			expect.That(t, err == nil, "%v", err)
		}()
		synctest.Wait() // the first check of the batch is judged, and the others wait
		go func() {
			caller := f.caller
			caller.Account = "acct_2"
			_, err := f.Check(context.Background(), check.Request{Caller: caller, Fields: []check.Field{anEmail}})
			expect.Error(t, "a check", err, nil)
		}()
		synctest.Wait()
		close(proceed)
		synctest.Wait()
		n := before.Load()
		expect.That(t, n == 1 || n == 2, "a check of another account was judged after %d of a batch of %d", n,
			check.MaxBatch)
		expect.Equal(t, "checks of the batch that were judged", judged.Load(), check.MaxBatch)
		expect.Equal(t, "checks in progress", gate.InProgress(), 0)
	})
}

// A check whose deadline passes while it waits for a processor is refused.
func TestLateCheckIsRefused(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "only")
	gate := f.gated(1)
	f.Deadline = time.Millisecond
	occupied, release := make(chan struct{}), make(chan struct{})
	v := expect.Value(gate.Enter("another", 1))(t)
	var done sync.WaitGroup
	done.Go(func() { _ = v.Judge(context.Background(), func() { close(occupied); <-release }) })
	<-occupied
	for what, err := range map[string]error{"a check": expect.ErrorOf(f.check(aDomain)),
		"a batch": expect.ErrorOf(f.CheckBatch(t.Context(), f.caller, batchOf(3), nil))} {
		var refused *check.UnavailableError
		expect.That(t, errors.As(err, &refused) && refused.Reason() == "deadline", "%s: %v", what, err)
	}
	close(release)
	done.Wait()
	v.Close()
	expect.That(t, len(f.ran)+len(f.records) == 0 && gate.InProgress() == 0,
		"%d layers ran, %d checks were recorded, %d are in progress", len(f.ran), len(f.records), gate.InProgress())
}

// Free keys of a network share turns, and checks without a key too. Those who pay have their account's.
func TestShare(t *testing.T) {
	t.Parallel()
	const shared = "network 192.0.2.0/24"
	here := netip.MustParsePrefix("192.0.2.0/24")
	free, _ := check.PlanNamed("free")
	pro, _ := check.PlanNamed("pro")
	for name, c := range map[string]struct {
		account, key string
		plan         check.Plan
		network      netip.Prefix
		want         string
	}{
		"a free key":                     {"acct_1", "key_1", free, here, shared},
		"a free key of another account":  {"acct_2", "key_2", free, here, shared},
		"a free key of no known network": {"acct_1", "key_1", free, netip.Prefix{}, "acct_1"},
		"a paid key":                     {"acct_3", "key_3", pro, here, "acct_3"},
		"no key":                         {"acct_0", "", check.PublicPlan(), here, "acct_0|192.0.2.0/24"},
		"no key and no known network":    {"acct_0", "", check.PublicPlan(), netip.Prefix{}, "acct_0"},
	} {
		caller := check.Caller{Account: c.account, Key: c.key, Plan: c.plan, Network: c.network}
		expect.Equal(t, name, caller.Share(), c.want)
	}
}

func TestGateRefuses(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Gate = admission.NewGate(admission.Config{Processors: 1, Target: time.Millisecond, BatchTarget: time.Millisecond})
	f.swap(1, f.member("only"))
	defer expect.Value(f.Gate.Enter("another", 1))(t).Close()
	expect.Error(t, "a check", expect.ErrorOf(f.check(aDomain)), admission.ErrBusy)
	expect.Error(t, "a batch", expect.ErrorOf(f.CheckBatch(t.Context(), f.caller, batchOf(2), nil)), admission.ErrBusy)
	expect.Equal(t, "a refused check ran layers or was recorded", len(f.ran)+len(f.records), 0)
}

// A spent quota is remembered for a second, or until something could change the ledger's answer.
func TestSpentQuotaIsRemembered(t *testing.T) {
	t.Parallel()
	now, february := time.Date(2026, 1, 31, 23, 59, 58, 0, time.UTC), time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC)
	type testCase struct {
		left   int
		change func(f *fixture) // after the ledger has answered
		batch  int              // checks of the second request; 0: a single one
		layers int              // that run for the second request
	}
	expect.Each(t, map[string]testCase{
		"again":                        {layers: 0},
		"just before the end":          {change: func(f *fixture) { f.passes(time.Second - 1) }, layers: 0},
		"after a second":               {change: func(f *fixture) { f.passes(time.Second) }, layers: 1},
		"the clock went back":          {change: func(f *fixture) { f.passes(-1) }, layers: 1},
		"the next month":               {change: func(f *fixture) { f.passes(february.Sub(now)) }, layers: 1},
		"another account":              {change: func(f *fixture) { f.caller.Account = "acct_2" }, layers: 1},
		"another key of the account":   {change: func(f *fixture) { f.caller.Key = "key_2" }, layers: 0},
		"another plan":                 {change: func(f *fixture) { f.caller.Plan.Name = "starter" }, layers: 1},
		"an upgrade":                   {change: func(f *fixture) { f.caller.Plan.Quota++ }, layers: 1},
		"a batch":                      {batch: 5, layers: 0},
		"a batch that the rest covers": {left: 5, batch: 5, layers: 5},
		"a batch beyond the rest":      {left: 5, batch: 6, layers: 0},
		"a check that the rest covers": {left: 5, layers: 1},
	}, func(t *testing.T, test testCase) {
		f := newFixture(t)
		f.Now = func() time.Time { return now }
		f.swap(1, f.member("only"))
		f.appendErr = &check.QuotaError{Quota: 10, Left: test.left, Needed: 7, ResetAt: february}
		_, err := f.CheckBatch(t.Context(), f.caller, batchOf(7), nil)
		expect.Must(t, errors.Is(err, f.appendErr), "%v", err)
		before := len(f.ran)
		if test.change != nil {
			test.change(f)
		}
		if test.batch > 0 {
			_, err = f.CheckBatch(t.Context(), f.caller, batchOf(test.batch), nil)
		} else {
			_, err = f.check(aDomain)
		}
		var quota *check.QuotaError
		expect.That(t, errors.As(err, &quota) && (test.layers != 0 || quota.Needed == max(1, test.batch)),
			"%v: %+v", err, quota)
		expect.Equal(t, "layers ran", len(f.ran)-before, test.layers)
	})
}

// passes lets time pass on the fixture's clock.
func (f *fixture) passes(d time.Duration) {
	now := f.Now().Add(d)
	f.Now = func() time.Time { return now }
}

// An invalid check with a spent quota is still invalid.
func TestSpentQuotaHidesNoErrors(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "only")
	f.appendErr = &check.QuotaError{Quota: 10, Needed: 1, ResetAt: time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC)}
	for range 2 {
		_, err := f.check(aDomain)
		expect.Must(t, errors.Is(err, f.appendErr) || err.Error() == f.appendErr.Error(), "%v", err)
	}
	test := f.caller
	test.Limits.Test = true
	expect.That(t, f.Spent(f.caller) != nil && f.Spent(test) == nil, "spent: %v, for a test key of the account: %v",
		f.Spent(f.caller), f.Spent(test))
	_, err := f.check(field(entity.Domain, "not a domain"))
	expect.That(t, errors.As(err, new(*entity.InvalidError)), "an invalid domain: %v", err)
	answers, err := f.CheckBatch(t.Context(), f.caller, []check.Item{{}}, nil)
	expect.That(t, err == nil && answers[0].Err != nil, "a batch without valid checks: %v, %v", answers, err)
	expect.Equal(t, "layers ran", len(f.ran), 1)
}
