package webhook_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"assay/host/check"
	"assay/host/customer/webhook"
	"assay/host/entity"
	"assay/host/store"
	"assay/host/store/postgres/postgrestest"
	"assay/host/store/storetest"
	"assay/registry/expect"
)

// deployment is a ledger that records checks and the Deliverer of their events, on one database.
type deployment struct {
	store  *store.Store
	ledger *store.Ledger
}

// deploy starts a deployment that is stopped when the test ends.
func deploy(t testing.TB, url string) *deployment {
	t.Helper()
	d, stop, err := start(t.Context(), url)
	expect.NoError(t, err)
	t.Cleanup(func() {
		expect.NoError(t, stop())
	})
	return d
}

// start starts a deployment that may call receivers on loopback.
func start(ctx context.Context, url string) (d *deployment, stop func() error, err error) {
	s, err := openStore(ctx, url)
	if err != nil {
		return nil, nil, err
	}
	outbox, err := s.NewOutbox()
	if err != nil {
		return nil, nil, err
	}
	loopback := netip.MustParsePrefix("127.0.0.0/8")
	deliverer, err := webhook.New(webhook.Config{Outbox: outbox, Allow: []netip.Prefix{loopback}})
	if err != nil {
		return nil, nil, err
	}
	ledger, err := s.NewLedger(store.LedgerConfig{OnEvents: deliverer.Hint})
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stopped := make(chan struct{})
	go func() { defer close(stopped); deliverer.Run(ctx) }()
	return &deployment{s, ledger}, func() error {
		cancel()
		<-stopped
		return errors.Join(ledger.Close(), outbox.Close(), s.Close())
	}, nil
}

// subscribe creates an account whose events go to url, and returns a caller for it.
func (d *deployment) subscribe(t testing.TB, url string) check.Caller {
	t.Helper()
	caller := storetest.NewCaller(t, d.store, storetest.Plan(t, "pro", 1_000_000))
	expect.Value(d.store.SetEndpoint(t.Context(), caller.Account, url))(t)
	return caller
}

// block records a check that triggers an event.
func (d *deployment) block(ctx context.Context, caller check.Caller, ref string) error {
	e, err := entity.Parse(entity.Domain, "example.org", "")
	if err != nil {
		return err
	}
	r := storetest.At(storetest.Decided(caller, e, check.Block), time.Now().UTC().Truncate(time.Millisecond))
	r.Decision.Ref = ref
	return d.ledger.Append(ctx, r)
}

func (d *deployment) state(t testing.TB, account, ref string) string {
	t.Helper()
	events := expect.Value(d.store.RecentEvents(t.Context(), account, "", 0, 100))(t)
	i := slices.IndexFunc(events, func(e webhook.Event) bool { return e.Ref == ref })
	if i < 0 {
		return "unknown"
	}
	return events[i].State
}

// Events pass from the check to the receiver over Postgres and sockets. Each is refused once and delivered a second
// later. Two hosts share the work, and no attempt is made twice.
func TestDelivery(t *testing.T) {
	t.Parallel()
	url := postgrestest.Database(t)
	hosts := []*deployment{deploy(t, url), deploy(t, url)}
	var mu sync.Mutex
	got := map[string][]time.Time{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		ref := r.Header.Get("webhook-id")
		if got[ref] = append(got[ref], time.Now()); len(got[ref]) == 1 {
			w.WriteHeader(http.StatusTeapot)
		}
	}))
	t.Cleanup(server.Close)
	caller := hosts[0].subscribe(t, server.URL)
	const events, adjusted = 20, 10 * time.Millisecond // the clock may be adjusted meanwhile
	var refs []string
	for i := range events {
		refs = append(refs, check.NewRef())
		expect.NoError(t, hosts[i%2].block(t.Context(), caller, refs[i]))
	}
	for _, ref := range refs {
		expect.Until(t, ref+" to be delivered",
			func() bool { return hosts[0].state(t, caller.Account, ref) == "delivered" })
		mu.Lock()
		if times := got[ref]; len(times) != 2 || times[1].Sub(times[0]) < time.Second-adjusted {
			t.Errorf("%s was sent at %v, want twice, a second apart", ref, times)
		}
		mu.Unlock()
	}
}
