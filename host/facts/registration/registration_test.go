package registration

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"assay/host/access/admission"
	"assay/host/entity"
	"assay/host/facts"
	"assay/registry/expect"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var noon = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

// memory is a Store in memory.
type memory struct {
	mu      sync.Mutex
	records map[string]Record
	reads   int
	fails   bool
}

func (m *memory) Registration(_ context.Context, domain string) (Record, bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.reads++
	if m.fails {
		return Record{}, false, errors.New("the store is unavailable")
	}
	r, ok := m.records[domain]
	return r, ok, nil
}

func (m *memory) SaveRegistration(_ context.Context, domain string, r Record) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.records[domain] = r
	return nil
}

func (m *memory) get(domain string) (Record, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, ok := m.records[domain]
	return r, ok
}

// registry is an RDAP server on loopback and a source that queries it.
type registry struct {
	*Source
	store    *memory
	clock    *expect.Clock
	mu       sync.Mutex
	requests map[string]int // by path
	handler  http.HandlerFunc
}

// newRegistry runs a registry with the handler h until the test ends.
func newRegistry(t *testing.T, h http.HandlerFunc) *registry {
	t.Helper()
	r := &registry{store: &memory{records: map[string]Record{}}, clock: expect.NewClock(noon),
		requests: map[string]int{}, handler: h}
	server := httptest.NewServer(r)
	t.Cleanup(server.Close)
	r.Source = expect.Value(New(Config{Store: r.store, URL: server.URL + "/rdap", Logger: slog.New(slog.DiscardHandler),
		Now: r.clock.Now}))(t)
	t.Cleanup(func() {
		_ = r.Source.Close()
		r.Source.fetcher.client.http.CloseIdleConnections()
	})
	return r
}

// ServeHTTP counts the request and passes it to the handler.
func (r *registry) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	r.mu.Lock()
	r.requests[q.URL.Path]++
	h := r.handler
	r.mu.Unlock()
	h(w, q)
}

// handle replaces the handler.
func (r *registry) handle(h http.HandlerFunc) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.handler = h
}

// count returns the number of requests for a domain.
func (r *registry) count(domain string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.requests["/rdap/domain/"+domain]
}

// observe returns all facts of an entity.
func (r *registry) observe(t *testing.T, kind entity.Type, value string) (entity.Facts, error) {
	t.Helper()
	return r.Observe(t.Context(), expect.Value(entity.Parse(kind, value, ""))(t), func(string) bool { return true })
}

// fetch observes a domain, waits until the fetcher has stored a new record, and returns the record.
func (r *registry) fetch(t *testing.T, domain string) Record {
	t.Helper()
	before, _ := r.store.get(domain)
	_, _ = r.observe(t, entity.Domain, domain)
	var record Record
	expect.Until(t, "a new record", func() bool {
		record, _ = r.store.get(domain)
		return record != before && !r.isPending(domain)
	})
	return record
}

// isPending reports whether a domain is queued or being fetched.
func (r *registry) isPending(domain string) bool {
	r.fetcher.mu.Lock()
	defer r.fetcher.mu.Unlock()
	return slices.ContainsFunc(slices.Collect(maps.Keys(r.fetcher.pending)),
		func(a asked) bool { return a.domain == domain })
}

// untilDone waits until a domain is neither queued nor being fetched.
func (r *registry) untilDone(t *testing.T, domain string) {
	t.Helper()
	expect.Until(t, domain+" to be done", func() bool { return !r.isPending(domain) })
}

// respond returns a handler that responds with JSON.
func respond(format string, args ...any) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/rdap+json")
		fmt.Fprintf(w, format, args...)
	}
}

// ordinary is a typical response with some invalid values.
const ordinary = `{
	"objectClassName": "domain", "ldhName": "EXAMPLE.com",
	"status": ["client transfer prohibited", "active", "active", "<script>"],
	"events": [
		{"eventAction": "registration", "eventDate": "2026-05-01T23:00:00Z"},
		{"eventAction": "expiration", "eventDate": "2027-05-01T23:00:00+02:00"},
		{"eventAction": "last changed", "eventDate": "2026-05-02T00:00:00Z"}
	],
	"entities": [
		{"objectClassName": "entity", "roles": ["abuse"]},
		{"objectClassName": "entity", "handle": "1479", "roles": ["registrar"], "vcardArray":
			["vcard", [["version", {}, "text", "4.0"], ["fn", {}, "text", "NameSilo,\u0000 LLC\u202e"]]]}
	]}`

func TestObserve(t *testing.T) {
	t.Parallel()
	r := newRegistry(t, respond(ordinary))
	f, err := r.observe(t, entity.Domain, "www.example.com")
	expect.That(t, errors.Is(err, facts.ErrPending) && len(f) == 0, "before the first fetch: Observe = %v, %v", f, err)
	expect.Until(t, "the first record",
		func() bool { _, ok := r.store.get("example.com"); return ok && !r.isPending("example.com") })
	want := entity.Facts{
		"rdap.found": "yes", "rdap.created": "2026-05-01", "rdap.age_days": "2", "rdap.expires": "2027-05-01",
		"rdap.unchanged_days": "2", "rdap.registrar": "NameSilo, LLC",
		"rdap.status": "active client_transfer_prohibited",
	}
	wantFacts := func(when string, want entity.Facts) {
		t.Helper()
		expect.NoDiff(t, "facts "+when, want, expect.Value(r.observe(t, entity.Email, "jane@mail.example.com"))(t))
	}
	wantFacts("after the first fetch", want)
	for name := range want {
		expect.That(t, slices.ContainsFunc(r.Table(), func(f entity.Fact) bool { return f.Name == name }),
			"%s is not in the table", name)
	}
	// The age grows without a query, and an old record is used until it has been refreshed.
	r.clock.Add(12 * time.Hour)
	want["rdap.age_days"], want["rdap.unchanged_days"] = "3", "3"
	wantFacts("half a day later", want)
	expect.Equal(t, "requests", r.count("example.com"), 1)
	r.clock.Add(30 * time.Hour)
	r.handle(func(w http.ResponseWriter, _ *http.Request) { http.NotFound(w, nil) })
	want["rdap.age_days"], want["rdap.unchanged_days"] = "4", "4"
	wantFacts("when a refresh is due", want)
	expect.Until(t, "the refresh", func() bool {
		record, _ := r.store.get("example.com")
		return record.Outcome == Absent && !r.isPending("example.com")
	})
	wantFacts("after the domain was deleted", entity.Facts{"rdap.found": "no"})
}

// TestStoredRecordsAreReadOnce asks a host that has just started.
func TestStoredRecordsAreReadOnce(t *testing.T) {
	t.Parallel()
	r := newRegistry(t, respond(ordinary))
	expect.NoError(t, r.store.SaveRegistration(t.Context(), "example.com", Record{Outcome: Absent, Fetched: noon,
		NextFetch: noon.Add(time.Hour)}))
	for range 2 {
		expect.Value(r.observe(t, entity.Domain, "example.com"))(t)
	}
	expect.Equal(t, "reads of the store", r.store.reads, 1)
}

// TestNoNeedlessQueries checks that entities without a registered domain, and unwanted facts, cause no lookups.
func TestNoNeedlessQueries(t *testing.T) {
	t.Parallel()
	r := newRegistry(t, respond(ordinary))
	for _, tc := range []struct {
		kind  entity.Type
		value string
	}{
		{entity.Phone, "+4930901820"}, {entity.IBAN, "DE89370400440532013000"}, {entity.Domain, "co.uk"},
		{entity.Domain, "blog.github.io"}, {entity.Domain, "host.internal"},
	} {
		f, err := r.observe(t, tc.kind, tc.value)
		expect.That(t, len(f) == 0 && err == nil, "%s: Observe = %v, %v; want nothing", tc.value, f, err)
	}
	e := expect.Value(entity.Parse(entity.Domain, "example.com", ""))(t)
	f, err := r.Observe(t.Context(), e, func(fact string) bool { return fact == "dns.a" })
	expect.That(t, len(f) == 0 && err == nil, "Observe without wanted facts = %v, %v; want nothing", f, err)
	expect.That(t, r.store.reads == 0 && len(r.requests) == 0 && len(r.fetcher.lanes) == 0,
		"%d reads of the store, requests %v; want none", r.store.reads, r.requests)
}

func TestAfterQuery(t *testing.T) {
	t.Parallel()
	old := Record{Outcome: Registered, Created: noon.AddDate(-1, 0, 0), Registrar: "One"}
	young := Record{Outcome: Registered, Created: noon.AddDate(0, 0, -29)}
	failure := errors.New("status 500")
	const day = 24 * time.Hour
	for _, tc := range []struct {
		name        string
		previous, r Record
		err         error
		outcome     Outcome
		interval    time.Duration
		failures    int
	}{
		{"registered long ago", Record{}, old, nil, Registered, 7 * day, 0},
		{"registered recently", Record{}, young, nil, Registered, day, 0},
		{"registered at an unknown date", Record{}, Record{Outcome: Registered}, nil, Registered, 7 * day, 0},
		{"absent", old, Record{Outcome: Absent}, nil, Absent, time.Hour, 0},
		{"unserved", Record{}, Record{Outcome: Unserved}, nil, Unserved, 7 * day, 0},
		{"first failure", Record{}, Record{}, failure, Failed, 5 * time.Minute, 1},
		{"fourth failure", Record{Outcome: Failed, Failures: 3}, Record{}, failure, Failed, 40 * time.Minute, 4},
		{"many failures", Record{Outcome: Failed, Failures: 1 << 40}, Record{}, failure, Failed, day, 1<<40 + 1},
		{"failure with a previous record", old, Record{}, failure, Registered, 5 * time.Minute, 1},
		{"success after failures", Record{Outcome: Registered, Failures: 9}, old, nil, Registered, 7 * day, 0},
	} {
		got := afterQuery(tc.previous, tc.r, tc.err, noon)
		expect.That(t, got.Outcome == tc.outcome && got.NextFetch.Sub(noon) == tc.interval &&
			got.Failures == tc.failures && got.Fetched.Equal(noon), "%s: afterQuery = %+v", tc.name, got)
		expect.That(t, tc.err == nil || got.Registrar == tc.previous.Registrar,
			"%s: the failure changed the previous registrar", tc.name)
	}
}

// TestRetryAfter checks that a server that refuses a query is not queried about any domain until the pause is over.
func TestRetryAfter(t *testing.T) {
	t.Parallel()
	type testCase struct {
		status int
		header string
		want   time.Duration
	}
	expect.Each(t, map[string]testCase{
		"seconds":   {http.StatusTooManyRequests, "600", 10 * time.Minute},
		"too short": {http.StatusTooManyRequests, "1", time.Minute},
		"too long":  {http.StatusServiceUnavailable, "9999999999999", time.Hour},
		"negative":  {http.StatusTooManyRequests, "-5", time.Minute},
		"date": {http.StatusServiceUnavailable, noon.Add(20 * time.Minute).Format(http.TimeFormat),
			20 * time.Minute},
		"no header": {http.StatusForbidden, "", time.Minute},
		"malformed": {http.StatusTooManyRequests, "soon", time.Minute},
	}, func(t *testing.T, tc testCase) {
		r := newRegistry(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", tc.header)
			w.WriteHeader(tc.status)
		})
		r.fetch(t, "one.com")
		r.clock.Add(tc.want - time.Second)
		expect.Error(t, "error", expect.ErrorOf(r.observe(t, entity.Domain, "two.com")), facts.ErrPending)
		r.untilDone(t, "two.com")
		expect.Equal(t, "requests during the pause", r.count("two.com"), 0)
		two, _ := r.fetcher.source.cache.Get("two.com")
		expect.Equal(t, "cached for", two.expires.Sub(r.clock.Now()), noRecordTTL)
		r.clock.Add(time.Second)
		r.handle(respond(`{"objectClassName": "domain"}`))
		expect.Equal(t, "the outcome after the pause", r.fetch(t, "two.com").Outcome, Registered)
	})
}

func TestConcurrentChecksShareOneFetch(t *testing.T) {
	t.Parallel()
	released := make(chan struct{})
	r := newRegistry(t, func(w http.ResponseWriter, q *http.Request) {
		<-released
		respond(ordinary)(w, q)
	})
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() { _, _ = r.observe(t, entity.Domain, "example.com") })
	}
	wg.Wait()
	expect.Until(t, "a request", func() bool { return r.count("example.com") == 1 })
	_, _ = r.observe(t, entity.Domain, "example.com")
	close(released)
	r.untilDone(t, "example.com")
	expect.Equal(t, "requests", r.count("example.com"), 1)
	expect.That(t, r.store.reads <= 25, "%d reads of the store, want at most 25", r.store.reads)
}

// TestFetchedByAnotherHost checks that a domain is not fetched if another host has stored its record meanwhile.
func TestFetchedByAnotherHost(t *testing.T) {
	t.Parallel()
	r := newRegistry(t, respond(ordinary))
	expect.Error(t, "error", expect.ErrorOf(r.observe(t, entity.Domain, "first.com")), facts.ErrPending)
	// This host has cached that second.com has no record when the other host stores one.
	r.cacheRecord("second.com", Record{}, false)
	_ = r.store.SaveRegistration(t.Context(), "second.com",
		Record{Outcome: Registered, Created: noon.AddDate(0, 0, -1), NextFetch: noon.Add(time.Hour)})
	_, _ = r.observe(t, entity.Domain, "second.com")
	r.untilDone(t, "second.com")
	expect.Equal(t, "Observe", expect.Value(r.observe(t, entity.Domain, "second.com"))(t)["rdap.age_days"], "1")
	expect.Equal(t, "requests", r.count("second.com"), 0)

	// The other host has an answer while this host's query fails.
	want := Record{Outcome: Registered, Registrar: "One", Fetched: noon, NextFetch: noon.Add(time.Hour)}
	r.handle(func(w http.ResponseWriter, _ *http.Request) {
		_ = r.store.SaveRegistration(t.Context(), "third.com", want)
		w.WriteHeader(http.StatusInternalServerError)
	})
	expect.Equal(t, "the stored record", r.fetch(t, "third.com"), want)
	expect.Equal(t, "Observe", expect.Value(r.observe(t, entity.Domain, "third.com"))(t)["rdap.registrar"], "One")
}

// TestStoreUnavailable checks that a record that cannot be read is not taken for one that the registry has not given
// yet, and that no records are fetched that could not be stored.
func TestStoreUnavailable(t *testing.T) {
	t.Parallel()
	r := newRegistry(t, respond(ordinary))
	r.store.fails = true
	_, err := r.observe(t, entity.Domain, "example.com")
	expect.That(t, err != nil && !errors.Is(err, facts.ErrUnanswered), "%v, want an error of this host's own", err)
	expect.That(t, errors.Is(facts.ErrPending, facts.ErrUnanswered),
		"what the registry has not answered refuses checks")
	r.fetcher.enqueue("", "example.com")
	r.untilDone(t, "example.com")
	expect.Equal(t, "requests", r.count("example.com"), 0)
}

// TestFloodOfDomains checks that one account's domains fill at most half of a server's lane, that another account's are
// queried after at most one of them, even one that the first account asked for, and that Close cancels queries.
func TestFloodOfDomains(t *testing.T) {
	t.Parallel()
	asked := make(chan string)
	r := newRegistry(t, func(w http.ResponseWriter, q *http.Request) {
		select {
		case asked <- path.Base(q.URL.Path):
			http.NotFound(w, nil)
		case <-q.Context().Done():
		}
	})
	observe := func(holder, domain string) {
		e, all := expect.Value(entity.Parse(entity.Domain, domain, ""))(t), func(string) bool { return true }
		_, known, _ := r.Recall(e, all)
		_, err := r.Observe(admission.WithHolder(t.Context(), holder), e, all)
		expect.That(t, !known && errors.Is(err, facts.ErrPending), "%s: recalled %t, %v", domain, known, err)
	}
	untilInLane := func() (pending int) { // the first in the server's lane is being queried
		expect.Until(t, "the servers of all domains", func() bool {
			r.fetcher.mu.Lock()
			defer r.fetcher.mu.Unlock()
			pending = len(r.fetcher.pending)
			return !r.fetcher.lanes[""].working
		})
		return pending
	}
	for i := range maxQueue {
		observe("flood", fmt.Sprintf("d%d.com", i))
	}
	expect.That(t, untilInLane() <= maxQueue/2+1, "one account fills more than half of a lane")
	observe("other", "other.com")
	observe("other", "d9.com")
	order := make([]string, untilInLane()-1) // d9.com is in both queues, and queried once
	for i := range order {
		order[i] = <-asked
	}
	expect.That(t, slices.Contains(order[:3], "other.com") && slices.Contains(order[:5], "d9.com") &&
		r.count("d9.com") == 1, "%v are queried first, and d9.com %d times", order[:5], r.count("d9.com"))
	r.untilDone(t, order[len(order)-1])
	observe("flood", "again.com")
	expect.Until(t, "a query in a place that has become free", func() bool { return r.count("again.com") == 1 })
	expect.NoError(t, r.Source.Close())
	r.fetcher.enqueue("", "late.com")
	expect.That(t, !r.isPending("late.com"), "a closed source accepts a domain")
}

// TestPendingLimit checks that at most half of maxPending domains wait for one account, for all servers together.
func TestPendingLimit(t *testing.T) {
	t.Parallel()
	answer := make(chan struct{})
	r := newRegistry(t, func(w http.ResponseWriter, q *http.Request) {
		select {
		case <-answer:
			http.NotFound(w, nil)
		case <-q.Context().Done():
		}
	})
	for range maxPending/2 - 1 {
		expect.Value(r.fetcher.slots.Take("flood"))(t)
	}
	r.fetcher.enqueue("flood", "last.com")
	r.fetcher.enqueue("flood", "beyond.com")
	r.fetcher.enqueue("other", "other.com")
	expect.That(t, r.isPending("last.com") && !r.isPending("beyond.com") && r.isPending("other.com"),
		"pending: %v", slices.Collect(maps.Keys(r.fetcher.pending)))
	close(answer)
	r.untilDone(t, "last.com")
	r.fetcher.enqueue("flood", "beyond.com")
	expect.Until(t, "a query in a place that has become free", func() bool { return r.count("beyond.com") == 1 })
}
