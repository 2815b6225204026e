package reputation

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"assay/host/entity"
	"assay/host/feed"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var noon = time.Date(2031, 5, 20, 12, 0, 0, 0, time.UTC)

// lists is a store made of lists in memory; its reputations are set by the test.
type lists struct {
	mu          sync.Mutex
	feeds       []feed.List
	entries     map[int][]ListedName
	pages       map[string]bool // list and value of those that are mere pages
	reputations func([]Subject) ([]Aggregate, error)
	queries     int
	broken      error
}

func (l *lists) set(id int, f feed.List, values ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.remove(f.Name)
	f.ID = id
	f.Version = len(l.entries) + 1
	l.feeds = append(l.feeds, f)
	if l.entries == nil {
		l.entries = map[int][]ListedName{}
	}
	l.entries[id] = nil
	for i, v := range values {
		kind := entity.Domain
		if strings.Contains(v, "@") {
			kind = entity.Email
		}
		e, err := entity.Parse(kind, v, "")
		if err != nil {
			panic(err)
		}
		name := e.Facts["domain.name"]
		if kind == entity.Email {
			name = e.Facts["email.user"]
		}
		l.entries[id] = append(l.entries[id], ListedName{Node: fmt.Appendf(nil, "%06d", i), Type: string(kind),
			Value: e.Value, Name: name, Category: f.Category})
	}
}

func (l *lists) remove(name string) {
	for i, f := range l.feeds {
		if f.Name == name {
			l.feeds = append(l.feeds[:i:i], l.feeds[i+1:]...)
		}
	}
}

func (l *lists) withdraw(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.remove(name)
}

func (l *lists) Feeds(context.Context) ([]feed.List, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]feed.List{}, l.feeds...), l.broken
}

func (l *lists) FeedNames(_ context.Context, id int, after []byte, limit int) ([]ListedName, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var page []ListedName
	for _, e := range l.entries[id] {
		if string(e.Node) > string(after) && len(page) < limit && !l.goodPage(id, e.Value) {
			page = append(page, e)
		}
	}
	return page, nil
}

// goodPage says whether an entry of a list is a mere page on a host that is on a good list.
func (l *lists) goodPage(id int, value string) bool {
	page, good := false, false
	for _, f := range l.feeds {
		page = page || f.ID == id && l.pages[f.Name+" "+value]
		good = good || f.Kind == feed.Good &&
			slices.ContainsFunc(l.entries[f.ID], func(e ListedName) bool { return e.Value == value })
	}
	return page && good
}

func (l *lists) Listings(_ context.Context, nodes []Node) ([]Listing, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.queries++
	if l.broken != nil {
		return nil, l.broken
	}
	var found []Listing
	for _, f := range l.feeds {
		for _, e := range l.entries[f.ID] {
			for i, n := range nodes {
				if n.Kind == e.Type && n.Value == e.Value {
					found = append(found, Listing{
						Index: i, Name: f.Name, Kind: f.Kind, Category: e.Category, Page: l.pages[f.Name+" "+e.Value],
						FirstSeen: noon.Add(-time.Duration(f.ID) * 24 * time.Hour),
					})
				}
			}
		}
	}
	return found, nil
}

func (l *lists) GraphAggregates(_ context.Context, subjects []Subject) ([]Aggregate, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.queries++
	return l.reputations(subjects)
}

func all(string) bool { return true }

func parse(t *testing.T, kind entity.Type, value string) entity.Entity {
	t.Helper()
	e, err := entity.Parse(kind, value, "")
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestFeedFacts(t *testing.T) {
	t.Parallel()
	l := &lists{pages: map[string]bool{"Pages docs.example.com": true, "Pages shop.example.net": true,
		"GoodPages odd.example": true}}
	l.set(1, feed.List{Name: "Bad", Kind: feed.Bad, Category: "phishing"}, "bad.example", "weird.github.io",
		"github.io", "x@mail.example.org", "gmail.com", "throwaway.example")
	l.set(2, feed.List{Name: "Worse", Kind: feed.Bad, Category: "malware"}, "bad.example", "throwaway.example")
	l.set(3, feed.List{Name: "Mixed", Kind: feed.Bad}, "bad.example", "good.example")
	l.set(4, feed.List{Name: "More", Kind: feed.Bad, Category: "malware"}, "bad.example")
	l.set(5, feed.List{Name: "Pages", Kind: feed.Bad, Category: "malware"}, "docs.example.com", "shop.example.net")
	l.set(6, feed.List{Name: "Ranks", Kind: feed.Good}, "good.example", "example.com")
	l.set(7, feed.List{Name: "GoodPages", Kind: feed.Good}, "odd.example")
	f := NewFeed(l, some)
	f.now = func() time.Time { return noon }
	tests := map[string]struct {
		kind  entity.Type
		value string
		want  entity.Facts
	}{
		"listed by several": {entity.Domain, "bad.example", entity.Facts{
			"feed.listed": "Bad, Worse, Mixed, 1 more", "feed.lists": "4", "feed.match": "exact",
			"feed.category": "malware", "feed.days": "4"}},
		"under a listed name": {entity.Domain, "a.b.c.d.e.f.g.bad.example", entity.Facts{
			"feed.listed": "Bad, Worse, Mixed, 1 more", "feed.lists": "4", "feed.match": "parent",
			"feed.category": "malware", "feed.days": "4"}},
		"a customer of a listed host": {entity.Domain, "flowers.github.io", entity.Facts{}},
		"under a listed customer": {entity.Domain, "www.weird.github.io",
			entity.Facts{"feed.listed": "Bad", "feed.lists": "1", "feed.match": "parent", "feed.category": "phishing",
				"feed.days": "1"}},
		"an address": {entity.Email, "X+tag@mail.example.org",
			entity.Facts{"feed.listed": "Bad", "feed.lists": "1", "feed.match": "exact", "feed.category": "phishing",
				"feed.days": "1"}},
		"another address there": {entity.Email, "y@mail.example.org", entity.Facts{}},
		"at a listed domain": {entity.Email, "jane@mx.throwaway.example",
			entity.Facts{"feed.listed": "Bad, Worse", "feed.lists": "2", "feed.match": "mail_domain",
				"feed.category": "malware", "feed.days": "2"}},
		"at a provider that is listed": {entity.Email, "jane@gmail.com", entity.Facts{}},
		"both good and bad": {entity.Domain, "good.example",
			entity.Facts{"feed.listed": "Mixed", "feed.lists": "1", "feed.match": "exact", "feed.days": "3",
				"feed.good": "Ranks", "feed.good_match": "exact"}},
		"a page under a good name": {entity.Domain, "docs.example.com", entity.Facts{
			"feed.listed": "Pages", "feed.lists": "1", "feed.match": "page", "feed.category": "malware",
			"feed.days": "5", "feed.good": "Ranks", "feed.good_match": "parent"}},
		"beside a page":       {entity.Domain, "www.shop.example.net", entity.Facts{}},
		"at a page's host":    {entity.Email, "info@shop.example.net", entity.Facts{}},
		"a good list's page":  {entity.Domain, "odd.example", entity.Facts{}},
		"on no list":          {entity.Domain, "blumenwiese.example", entity.Facts{}},
		"a number on no list": {entity.Phone, "+4915123456789", entity.Facts{}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := f.Observe(t.Context(), parse(t, tt.kind, tt.value), all)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("facts (-want +got):\n%s", diff)
			}
		})
	}
}

func TestGraphFacts(t *testing.T) {
	t.Parallel()
	var asked []Subject
	l := &lists{}
	g := NewGraph(l)
	g.now = func() time.Time { return noon }
	l.reputations = func(subjects []Subject) ([]Aggregate, error) {
		asked = append(asked, subjects...)
		return []Aggregate{{
			Customers: 19, Seen: 143.7, BlockedShare: 0.629, Since: noon.Add(-50 * time.Hour), Neighbours: 4,
			NeighbourRisk: 0.31,
		}}, nil
	}
	got, err := g.Observe(t.Context(), parse(t, entity.Domain, "example.org"), all)
	if err != nil {
		t.Fatal(err)
	}
	want := entity.Facts{
		"graph.customers": "10", "graph.seen": "100", "graph.blocked_share": "65", "graph.first_seen_days": "2",
		"graph.neighbours": "3", "graph.neighbour_risk": "30",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("facts (-want +got):\n%s", diff)
	}
	subjects := []Subject{{Entity: Node{Kind: "domain", Value: "example.org"},
		Parents: []Node{{Kind: "registrable", Value: "example.org"}, {Kind: "maildomain", Value: "example.org"}}}}
	if diff := cmp.Diff(subjects, asked); diff != "" {
		t.Errorf("asked (-want +got):\n%s", diff)
	}
	l.reputations = func([]Subject) ([]Aggregate, error) { return []Aggregate{{}}, nil }
	if got, err := g.Observe(t.Context(), parse(t, entity.Phone, "+4915123456789"), all); err != nil || len(got) != 0 {
		t.Errorf("of an unknown one: %v, %v", got, err)
	}
	broken := errors.New("no database")
	l.reputations = func([]Subject) ([]Aggregate, error) { return nil, broken }
	if _, err := g.Observe(t.Context(), parse(t, entity.Domain, "example.org"), all); !errors.Is(err, broken) {
		t.Errorf("without a database: %v, want %v", err, broken)
	}
}

// Nothing is asked that no fact needs.
func TestNothingUnwanted(t *testing.T) {
	t.Parallel()
	l := &lists{}
	e := parse(t, entity.Domain, "example.org")
	none := func(string) bool { return false }
	for _, observe := range []func(context.Context, entity.Entity, func(string) bool) (entity.Facts, error){
		NewFeed(l, some).Observe, NewGraph(l).Observe, NewSimilar(l, slog.New(slog.DiscardHandler)).Observe,
	} {
		if got, err := observe(t.Context(), e, none); len(got) != 0 || err != nil {
			t.Errorf("%v, %v", got, err)
		}
	}
	if l.queries != 0 {
		t.Errorf("%d queries", l.queries)
	}
}

func TestRoundDown(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]string{0: "0", 1: "1", 2: "2", 3: "3", 4: "3", 5: "5", 9: "5", 10: "10", 19: "10",
		20: "20", 49: "20", 50: "50", 99: "50", 100: "100", 999: "500", 123456: "100000"} {
		if got := roundDown(n); got != want {
			t.Errorf("roundDown(%d) = %s, want %s", n, got, want)
		}
	}
}

func newSimilar(t *testing.T, l *lists) *Similar {
	t.Helper()
	s := NewSimilar(l, slog.New(slog.DiscardHandler))
	s.now = func() time.Time { return noon }
	if err := s.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

func similarTo(t *testing.T, s *Similar, kind entity.Type, value string) entity.Facts {
	t.Helper()
	got, err := s.Observe(t.Context(), parse(t, kind, value), all)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestSimilarFacts(t *testing.T) {
	t.Parallel()
	l := &lists{}
	l.set(1, feed.List{Name: "Bad", Kind: feed.Bad, Category: "phishing"},
		"secure-paypal-login.xyz", "paypa1-online.com", "login.blumenwiesen.example", "short.example",
		"refund-department-7@gmail.com", "jane.smith@gmail.com")
	l.set(2, feed.List{Name: "Other", Kind: feed.Bad}, "secure-paypal-logins.top")
	l.set(3, feed.List{Name: "Good", Kind: feed.Good}, "paypal-online.com", "blumenwiese.example")
	until := noon.Add(-time.Hour)
	l.set(4, feed.List{Name: "Old", Kind: feed.Bad, ExpiresAt: &until}, "very-old-scam-shop.example")
	s := newSimilar(t, l)
	near := func(what, nearest, distance, letters, list, category string) entity.Facts {
		f := entity.Facts{"similar.part": what, "similar.distance": distance, "similar.letters": letters,
			"similar.list": list}
		if nearest != "" {
			f["similar.nearest"] = nearest
		}
		if category != "" {
			f["similar.category"] = category
		}
		return f
	}
	tests := map[string]struct {
		kind  entity.Type
		value string
		want  entity.Facts
	}{
		"another suffix": {entity.Domain, "securepaypallogin.top", near("domain", "secure-paypal-login.xyz", "0",
			"17", "Bad", "phishing")},
		"one letter": {entity.Domain, "www.secure-paypa1-login.top", near("domain", "secure-paypal-login.xyz",
			"1", "17", "Bad", "phishing")},
		"the nearer of lists": {entity.Domain, "secure-paypal-loginss.example",
			near("domain", "secure-paypal-logins.top", "1", "19", "Other", "")},
		"itself": {entity.Domain, "secure-paypal-login.xyz", near("domain", "secure-paypal-logins.top",
			"1", "18", "Other", "")},
		"under itself":     {entity.Domain, "blumenwiesen.example", nil},
		"what is imitated": {entity.Domain, "paypal-online.com", nil},
		"its other suffix": {entity.Domain, "paypal-online.de", nil},
		"too short":        {entity.Domain, "short.top", nil},
		"too far":          {entity.Domain, "secure-bank-login.top", nil},
		"its list expired": {entity.Domain, "very-old-scam-shops.example", nil},
		"a mail domain": {entity.Email, "jane@secure-paypal-login.top", near("domain", "secure-paypal-login.xyz",
			"0", "17", "Bad", "phishing")},
		"a mailbox": {entity.Email, "refund.department8@yahoo.com",
			near("user", "", "1", "17", "Bad", "phishing")},
		"its own mailbox": {entity.Email, "refund-department-7@gmail.com", nil},
		"a person's name": {entity.Email, "jane.smyth@gmail.com", nil},
		"a number":        {entity.Phone, "+4915123456789", nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tt.want, similarTo(t, s, tt.kind, tt.value)); diff != "" {
				t.Errorf("facts (-want +got):\n%s", diff)
			}
		})
	}
}

// The memory follows the lists: what is imported counts, what is withdrawn does not, and what did not change is not
// read again.
func TestSimilarFollows(t *testing.T) {
	t.Parallel()
	l := &lists{pages: map[string]bool{"C blumenlieferung.example": true}}
	unread := NewSimilar(l, slog.New(slog.DiscardHandler))
	if _, err := unread.Observe(t.Context(), parse(t, entity.Domain, "example.org"), all); !errors.Is(err, errNotLoaded) {
		t.Errorf("before the lists are read: %v, want %v", err, errNotLoaded)
	}
	s := newSimilar(t, l)
	if got := similarTo(t, s, entity.Domain, "secure-paypal-login.top"); got != nil {
		t.Errorf("without lists: %v", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	s.poll = time.Hour // so that only the hint can tell
	done := make(chan struct{})
	go func() { defer close(done); s.Run(ctx) }()
	defer func() { cancel(); <-done }()
	until := func(what string, holds func(entity.Facts) bool) {
		t.Helper()
		s.Hint()
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for deadline := time.After(30 * time.Second); !holds(similarTo(t, s, entity.Domain,
			"secure-paypal-login.top")); {
			select {
			case <-tick.C:
			case <-deadline:
				t.Fatalf("waited in vain: %s", what)
			}
		}
	}
	l.set(1, feed.List{Name: "A", Kind: feed.Bad}, "secure-paypal-login.xyz")
	until("an import", func(f entity.Facts) bool { return f["similar.nearest"] == "secure-paypal-login.xyz" })
	l.set(2, feed.List{Name: "B", Kind: feed.Bad}, "blumenwiese.example")
	kept := (*s.lists.Load())[0]
	s.Hint()
	until("another list", func(entity.Facts) bool { return len(*s.lists.Load()) == 2 })
	if (*s.lists.Load())[0] != kept {
		t.Error("a list that did not change was read again")
	}
	l.set(1, feed.List{Name: "A", Kind: feed.Bad}, "secure-paypall-login.xyz")
	until("other content", func(f entity.Facts) bool { return f["similar.nearest"] == "secure-paypall-login.xyz" })
	l.withdraw("A")
	until("a withdrawal", func(f entity.Facts) bool { return f == nil })

	// Of a bad list, what is a page on a host of a good one goes and comes with the good one, whichever was read first.
	listed := func(name string) bool {
		return similarTo(t, s, entity.Domain, "blumenlieferungen.example")["similar.nearest"] == name
	}
	l.set(3, feed.List{Name: "C", Kind: feed.Bad}, "blumenlieferung.example")
	until("a list with a page", func(entity.Facts) bool { return listed("blumenlieferung.example") })
	l.set(4, feed.List{Name: "Good", Kind: feed.Good}, "blumenlieferung.example")
	until("its host on a good list", func(entity.Facts) bool { return listed("") })
	l.withdraw("Good")
	until("the good list's withdrawal", func(entity.Facts) bool { return listed("blumenlieferung.example") })
}

// While one query runs, what comes in waits for the next, and everybody gets the answer to the own question.
func TestBatcher(t *testing.T) {
	t.Parallel()
	entered, release := make(chan int), make(chan struct{})
	c := &batcher[int, int]{maxBatch: 4, run: func(_ context.Context, questions []int) ([]int, error) {
		entered <- len(questions)
		<-release
		answers := make([]int, len(questions))
		for i, q := range questions {
			answers[i] = q * q
		}
		return answers, nil
	}}
	type result struct{ question, answer int }
	results := make(chan result, 10)
	ask := func(ctx context.Context, q int) {
		if a, err := c.get(ctx, q); err == nil {
			results <- result{q, a}
		}
	}
	go ask(t.Context(), 1)
	if n := <-entered; n != 1 {
		t.Fatalf("the first query is for %d", n)
	}
	gone, cancel := context.WithCancel(t.Context())
	left := make(chan struct{})
	go func() { ask(gone, 99); close(left) }()
	waiting := func(n int) {
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for found := -1; found != n; <-tick.C {
			c.mu.Lock()
			found = len(c.waiting)
			c.mu.Unlock()
		}
	}
	waiting(1)
	cancel()
	<-left // whoever gave up is not asked for
	for q := 2; q <= 6; q++ {
		go ask(t.Context(), q)
	}
	waiting(6)
	release <- struct{}{}
	if n := <-entered; n != 3 {
		t.Errorf("the second query is for %d, want 3 of the 4 that waited longest, one having gone", n)
	}
	release <- struct{}{}
	if n := <-entered; n != 2 {
		t.Errorf("the third query is for %d, want the 2 that are left", n)
	}
	release <- struct{}{}
	for range 6 {
		if r := <-results; r.answer != r.question*r.question {
			t.Errorf("the answer to %d is %d", r.question, r.answer)
		}
	}
}

// A query that fails or panics fails for all who wait for it, and the next is asked again.
func TestBatcherFails(t *testing.T) {
	t.Parallel()
	fail := true
	c := &batcher[int, int]{maxBatch: 4, run: func(_ context.Context, questions []int) ([]int, error) {
		if fail {
			panic("no")
		}
		return questions, nil
	}}
	if _, err := c.get(t.Context(), 1); err == nil {
		t.Error("a panic is no error")
	}
	fail = false
	if got, err := c.get(t.Context(), 7); got != 7 || err != nil {
		t.Errorf("after it: %d, %v", got, err)
	}
	c.run = func(context.Context, []int) ([]int, error) { return nil, nil }
	if _, err := c.get(t.Context(), 1); err == nil {
		t.Error("a missing answer is no error")
	}
}

// some says that there are lists.
func some() bool { return false }

func TestNothingIsLookedUpWithoutLists(t *testing.T) {
	t.Parallel()
	f := NewFeed(nil, func() bool { return true }) // a look at the store would panic
	found, err := f.Observe(t.Context(), entity.Entity{Type: entity.Domain, Value: "example.com"},
		func(string) bool { return true })
	if len(found) != 0 || err != nil {
		t.Errorf("found %v, %v", found, err)
	}
}
