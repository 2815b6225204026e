package registration

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"assay/host/entity"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patient = 30 * time.Second

var noon = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

// memory is a Store.
type memory struct {
	mu    sync.Mutex
	kept  map[string]Kept
	reads int
	fails bool
}

func (m *memory) Registration(_ context.Context, domain string) (Kept, bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.reads++
	if m.fails {
		return Kept{}, false, errors.New("the store is down")
	}
	k, ok := m.kept[domain]
	return k, ok, nil
}

func (m *memory) KeepRegistration(_ context.Context, domain string, k Kept) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.kept[domain] = k
	return nil
}

func (m *memory) get(domain string) (Kept, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	k, ok := m.kept[domain]
	return k, ok
}

// registry is an RDAP server on loopback with a source that asks it.
type registry struct {
	*Source
	store *memory
	url   string
	mu    sync.Mutex
	now   time.Time
	asked map[string]int // by path
	base  http.HandlerFunc
}

// newRegistry runs a registry that answers as h does.
func newRegistry(t *testing.T, h http.HandlerFunc) *registry {
	t.Helper()
	r := &registry{store: &memory{kept: map[string]Kept{}}, now: noon, asked: map[string]int{}, base: h}
	server := httptest.NewServer(r)
	t.Cleanup(server.Close)
	r.url = server.URL
	var err error
	if r.Source, err = New(Config{Store: r.store, URL: server.URL + "/rdap", Logger: slog.New(slog.DiscardHandler),
		Now: r.clock}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = r.Source.Close()
		r.Source.fetcher.client.http.CloseIdleConnections()
	})
	return r
}

func (r *registry) clock() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.now
}

func (r *registry) add(d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now = r.now.Add(d)
}

// ServeHTTP counts and answers.
func (r *registry) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	r.mu.Lock()
	r.asked[q.URL.Path]++
	h := r.base
	r.mu.Unlock()
	h(w, q)
}

func (r *registry) answer(h http.HandlerFunc) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.base = h
}

func (r *registry) count(domain string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.asked["/rdap/domain/"+domain]
}

func (r *registry) observe(t *testing.T, kind entity.Type, value string) (entity.Facts, error) {
	t.Helper()
	e, err := entity.Parse(kind, value, "")
	if err != nil {
		t.Fatal(err)
	}
	return r.Observe(t.Context(), e, func(string) bool { return true })
}

// fetched brings a domain up and waits until its registry has been asked and the outcome is kept.
func (r *registry) fetched(t *testing.T, domain string) Kept {
	t.Helper()
	before, _ := r.store.get(domain)
	_, _ = r.observe(t, entity.Domain, domain)
	var k Kept
	waitFor(t, func() bool {
		k, _ = r.store.get(domain)
		return k != before && !r.waits(domain)
	})
	return k
}

func (r *registry) waits(domain string) bool {
	r.fetcher.mu.Lock()
	defer r.fetcher.mu.Unlock()
	return r.fetcher.pending[domain]
}

func waitFor(t *testing.T, holds func() bool) {
	t.Helper()
	end := time.After(patient)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-end:
			t.Fatal("it never came to be")
		}
	}
}

// says answers with JSON.
func says(format string, args ...any) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/rdap+json")
		fmt.Fprintf(w, format, args...)
	}
}

const ordinary = `{"objectClassName": "domain", "ldhName": "EXAMPLE.com", "status": ["client transfer prohibited", "active", "active", "<script>"],
	"events": [{"eventAction": "registration", "eventDate": "2026-05-01T23:00:00Z"}, {"eventAction": "expiration", "eventDate": "2027-05-01T23:00:00+02:00"},
		{"eventAction": "last changed", "eventDate": "2026-05-02T00:00:00Z"}],
	"entities": [{"objectClassName": "entity", "roles": ["abuse"]}, {"objectClassName": "entity", "handle": "1479", "roles": ["registrar"],
		"vcardArray": ["vcard", [["version", {}, "text", "4.0"], ["fn", {}, "text", "NameSilo,\u0000 LLC\u202e"]]]}]}`

func TestObserve(t *testing.T) {
	t.Parallel()
	r := newRegistry(t, says(ordinary))
	if f, err := r.observe(t, entity.Domain, "www.example.com"); !errors.Is(err, ErrPending) || len(f) > 0 {
		t.Errorf("before anything is known: %v, %v", f, err)
	}
	waitFor(t, func() bool { _, ok := r.store.get("example.com"); return ok && !r.waits("example.com") })
	want := entity.Facts{
		"rdap.found": "yes", "rdap.created": "2026-05-01", "rdap.age_days": "2", "rdap.expires": "2027-05-01",
		"rdap.registrar": "NameSilo, LLC", "rdap.status": "active client_transfer_prohibited",
	}
	same := func(when string, want entity.Facts) {
		t.Helper()
		got, err := r.observe(t, entity.Email, "jane@mail.example.com")
		if err != nil {
			t.Errorf("%s: %v", when, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s differs:\n%s", when, diff)
		}
	}
	same("when it is known", want)
	for name := range want {
		if !slices.ContainsFunc(r.Table(), func(f entity.Fact) bool { return f.Name == name }) {
			t.Errorf("%s is not in the table", name)
		}
	}
	// The age goes on without asking, and what is old serves until the registry has answered again.
	r.add(12 * time.Hour)
	want["rdap.age_days"] = "3"
	same("half a day later", want)
	if n := r.count("example.com"); n != 1 {
		t.Errorf("the registry was asked %d times, want once", n)
	}
	r.add(30 * time.Hour)
	r.answer(func(w http.ResponseWriter, _ *http.Request) { http.NotFound(w, nil) })
	want["rdap.age_days"] = "4"
	same("when it is old", want)
	waitFor(t, func() bool {
		k, _ := r.store.get("example.com")
		return k.Outcome == Absent &&
			!r.waits("example.com")
	})
	same("when it is gone", entity.Facts{"rdap.found": "no"})
}

func TestNothingIsAskedWithoutNeed(t *testing.T) {
	t.Parallel()
	r := newRegistry(t, says(ordinary))
	cases := []struct {
		kind  entity.Type
		value string
	}{
		{entity.Phone, "+4930901820"}, {entity.IBAN, "DE89370400440532013000"}, {entity.Domain, "co.uk"},
		{entity.Domain, "blog.github.io"}, {entity.Domain, "host.internal"},
	}
	for _, tc := range cases {
		if f, err := r.observe(t, tc.kind, tc.value); len(f) > 0 || err != nil {
			t.Errorf("%s: %v, %v", tc.value, f, err)
		}
	}
	e, err := entity.Parse(entity.Domain, "example.com", "")
	if err != nil {
		t.Fatal(err)
	}
	if f, err := r.Observe(t.Context(), e, func(fact string) bool { return fact == "dns.a" }); len(f) > 0 ||
		err != nil {
		t.Errorf("%v, %v", f, err)
	}
	if r.store.reads > 0 || len(r.asked) > 0 || len(r.fetcher.lanes) > 0 {
		t.Errorf("the store was read %d times, the registry asked for %v", r.store.reads, r.asked)
	}
}

func TestAfter(t *testing.T) {
	t.Parallel()
	known := Kept{Outcome: Registered, Created: noon.AddDate(-1, 0, 0), Registrar: "One", Failures: 0}
	lost := errors.New("lost")
	cases := []struct {
		name      string
		before, k Kept
		err       error
		outcome   Outcome
		next      time.Duration
		failures  int
	}{
		{"old", Kept{}, known, nil, Registered, 7 * 24 * time.Hour, 0},
		{"young", Kept{}, Kept{Outcome: Registered, Created: noon.AddDate(0, 0, -29)}, nil, Registered, 24 * time.Hour,
			0},
		{"without a date", Kept{}, Kept{Outcome: Registered}, nil, Registered, 7 * 24 * time.Hour, 0},
		{"absent", known, Kept{Outcome: Absent}, nil, Absent, time.Hour, 0},
		{"unserved", Kept{}, Kept{Outcome: Unserved}, nil, Unserved, 7 * 24 * time.Hour, 0},
		{"failed at first", Kept{}, Kept{}, lost, Failed, 5 * time.Minute, 1},
		{"failed again", Kept{Outcome: Failed, Failures: 3}, Kept{}, lost, Failed, 40 * time.Minute, 4},
		{"failed for long", Kept{Outcome: Failed, Failures: 1 << 40}, Kept{}, lost, Failed, 24 * time.Hour, 1<<40 + 1},
		{"failed, but known before", known, Kept{}, lost, Registered, 5 * time.Minute, 1},
		{"back after failures", Kept{Outcome: Registered, Failures: 9}, known, nil, Registered, 7 * 24 * time.Hour, 0},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got := after(tc.before, tc.k, tc.err, noon)
			if got.Outcome != tc.outcome || got.Next.Sub(noon) != tc.next || got.Failures != tc.failures ||
				!got.Fetched.Equal(noon) {
				t.Errorf("%+v", got)
			}
			if tc.err != nil && got.Registrar != tc.before.Registrar {
				t.Error("a failure lost what was known")
			}
		})
	}
}

// TestPause: a server that refuses is left alone, for all its domains.
func TestPause(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		status int
		header string
		want   time.Duration
	}{
		"seconds":   {http.StatusTooManyRequests, "600", 10 * time.Minute},
		"too short": {http.StatusTooManyRequests, "1", time.Minute},
		"too long":  {http.StatusServiceUnavailable, "9999999999999", time.Hour},
		"negative":  {http.StatusTooManyRequests, "-5", time.Minute},
		"a date": {http.StatusServiceUnavailable, noon.Add(20 * time.Minute).Format(http.TimeFormat),
			20 * time.Minute},
		"not said":   {http.StatusForbidden, "", time.Minute},
		"not a time": {http.StatusTooManyRequests, "soon", time.Minute},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRegistry(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Retry-After", tc.header)
				w.WriteHeader(tc.status)
			})
			r.fetched(t, "one.com")
			r.add(tc.want - time.Second)
			if _, err := r.observe(t, entity.Domain, "two.com"); !errors.Is(err, ErrPending) {
				t.Error(err)
			}
			waitFor(t, func() bool { return !r.waits("two.com") })
			if n := r.count("two.com"); n != 0 {
				t.Errorf("the server was asked %d times within its pause", n)
			}
			r.add(time.Second)
			r.answer(says(`{"objectClassName": "domain"}`))
			if k := r.fetched(t, "two.com"); k.Outcome != Registered {
				t.Errorf("after the pause: %+v", k)
			}
		})
	}
}

func TestOneFetchForMany(t *testing.T) {
	t.Parallel()
	released := make(chan struct{})
	r := newRegistry(t, func(w http.ResponseWriter, q *http.Request) {
		<-released
		says(ordinary)(w, q)
	})
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() { _, _ = r.observe(t, entity.Domain, "example.com") })
	}
	wg.Wait()
	waitFor(t, func() bool { return r.count("example.com") == 1 })
	_, _ = r.observe(t, entity.Domain, "example.com")
	close(released)
	waitFor(t, func() bool { return !r.waits("example.com") })
	if n := r.count("example.com"); n != 1 {
		t.Errorf("the registry was asked %d times, want once", n)
	}
	if n := r.store.reads; n > 25 {
		t.Errorf("the store was read %d times", n)
	}
}

func TestAnotherHostWasFaster(t *testing.T) {
	t.Parallel()
	r := newRegistry(t, says(ordinary))
	if _, err := r.observe(t, entity.Domain, "first.com"); !errors.Is(err, ErrPending) {
		t.Error(err)
	}
	// This host remembers that nothing is known of second.com while the other keeps its answer.
	r.remember("second.com", Kept{}, false)
	_ = r.store.KeepRegistration(t.Context(), "second.com", Kept{Outcome: Registered, Created: noon.AddDate(0, 0, -1),
		Next: noon.Add(time.Hour)})
	_, _ = r.observe(t, entity.Domain, "second.com")
	waitFor(t, func() bool { return !r.waits("second.com") })
	if f, err := r.observe(t, entity.Domain, "second.com"); err != nil || f["rdap.age_days"] != "1" {
		t.Errorf("%v, %v", f, err)
	}
	if n := r.count("second.com"); n != 0 {
		t.Errorf("the registry was asked %d times", n)
	}
}

func TestStoreDown(t *testing.T) {
	t.Parallel()
	r := newRegistry(t, says(ordinary))
	r.store.fails = true
	if f, err := r.observe(t, entity.Domain, "example.com"); err == nil {
		t.Errorf("%v without an error", f)
	}
	r.enqueueAndWait(t, "example.com")
	if n := r.count("example.com"); n != 0 {
		t.Errorf("the registry was asked %d times for an answer that cannot be kept", n)
	}
}

func (r *registry) enqueueAndWait(t *testing.T, domain string) {
	t.Helper()
	r.fetcher.enqueue(domain)
	waitFor(t, func() bool { return !r.waits(domain) })
}

// TestQueueIsBounded: while a server hangs, no more than its share waits, and closing ends it all.
func TestQueueIsBounded(t *testing.T) {
	t.Parallel()
	released := make(chan struct{})
	r := newRegistry(t, func(_ http.ResponseWriter, q *http.Request) {
		select {
		case <-released:
		case <-q.Context().Done():
		}
	})
	defer close(released)
	for i := range maxQueue + 100 {
		r.fetcher.enqueue(fmt.Sprintf("d%d.com", i))
	}
	r.fetcher.mu.Lock()
	for server, l := range r.fetcher.lanes {
		if len(l.queue) > maxQueue {
			t.Errorf("%d wait for %q, want at most %d", len(l.queue), server, maxQueue)
		}
	}
	r.fetcher.mu.Unlock()
	if err := r.Source.Close(); err != nil {
		t.Error(err)
	}
	r.fetcher.enqueue("late.com")
	if r.waits("late.com") {
		t.Error("a closed source takes work")
	}
}

// TestAllQueuesAreBounded: no more may wait than for all servers together, however few wait for each.
func TestAllQueuesAreBounded(t *testing.T) {
	t.Parallel()
	r := newRegistry(t, func(_ http.ResponseWriter, q *http.Request) { <-q.Context().Done() })
	r.fetcher.mu.Lock()
	for i := range maxPending {
		r.fetcher.pending[fmt.Sprintf("elsewhere%d.com", i)] = true
	}
	r.fetcher.mu.Unlock()
	r.fetcher.enqueue("one-more.com")
	if r.waits("one-more.com") {
		t.Error("one more is taken")
	}
}
