package store

import (
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"assay/host/facts/feed"
	"assay/host/store/postgres/postgrestest"
	"assay/host/store/storetest"
	is "assay/registry/expect"
)

// publisher is an HTTP server with one list, which supports conditional requests.
type publisher struct {
	*httptest.Server
	mu       sync.Mutex
	body     []byte
	status   int // instead of the list, if not 0
	etag     bool
	modified time.Time
	requests []*http.Request
}

func newPublisher(t *testing.T, body string) *publisher {
	t.Helper()
	p := &publisher{etag: true}
	p.publish(body)
	p.Server = httptest.NewServer(p)
	t.Cleanup(p.Close)
	return p
}

func (p *publisher) publish(body string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.body, p.modified = []byte(body), p.modified.Add(time.Hour)
}

func (p *publisher) fail(status int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.status = status
}

func (p *publisher) last() *http.Request {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.requests[len(p.requests)-1]
}

func (p *publisher) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.requests = append(p.requests, r)
	if p.status != 0 {
		w.Header().Set("Retry-After", "7200")
		w.WriteHeader(p.status)
		return
	}
	modified := p.modified
	if p.etag {
		w.Header().Set("ETag", fmt.Sprintf(`"%x"`, len(p.body)+int(p.body[0])))
		modified = time.Time{}
	}
	http.ServeContent(w, r, "", modified, bytes.NewReader(p.body))
}

// subscribed is a store with a clock, a publisher and a subscription to it.
type subscribed struct {
	*Store
	publisher *publisher
	now       time.Time
	sub       feed.Subscription
}

func subscribe(t *testing.T, body string) *subscribed {
	t.Helper()
	p := newPublisher(t, body)
	s := &subscribed{publisher: p, now: time.Now().UTC().Truncate(time.Second)}
	s.Store = newStore(t, func() time.Time { return s.now })
	s.sub = feed.Subscription{Name: "Bad", URL: p.URL + "/list.txt?key=secret", Source: p.URL + "/list.txt",
		Kind: feed.Bad, Category: "phishing", Format: feed.Auto, Licence: "CC0", Every: 6 * time.Hour,
		FreshFor: 24 * time.Hour, ExpiresAfter: 30 * 24 * time.Hour}
	noError(t, s.Subscribe(t.Context(), s.sub))
	return s
}

// fetch claims the subscription and fetches it.
func (s *subscribed) fetch(t *testing.T) (feed.Result, error) {
	t.Helper()
	c := must(s.ClaimSubscription(t.Context(), "Bad", time.Hour))(t)
	mustHold(t, c != nil, "the subscription is claimed by another process")
	fetcher := &feed.Subscriber{Store: s.Store, Version: "1.2.3", Logger: discard(),
		Now: func() time.Time { return s.now }}
	return fetcher.Fetch(t.Context(), c)
}

// state returns the stored subscription.
func (s *subscribed) state(t *testing.T) feed.Subscription {
	t.Helper()
	all := must(s.Subscriptions(t.Context()))(t)
	mustHold(t, len(all) == 1, "%d subscriptions, want 1", len(all))
	return all[0]
}

func (s *subscribed) expectState(t *testing.T, want feed.State) {
	t.Helper()
	got := s.state(t)
	holds(t, got.State(s.now) == want, "state %s, want %s: %+v", got.State(s.now), want, got)
}

// Lists are fetched as their publishers send them, which TestRead and others in host/facts/feed read in every format.
func TestSubscribeFormats(t *testing.T) {
	t.Parallel()
	var gz, zipped bytes.Buffer
	z := gzip.NewWriter(&gz)
	_, _ = io.WriteString(z, "phish_id,url,phish_detail_url,target\n"+
		"1,https://a.example/x,http://detail.example/?id=1,Other\n")
	noError(t, z.Close())
	archive := zip.NewWriter(&zipped)
	_, _ = io.WriteString(must(archive.Create("top-1m.csv"))(t), "1,com\n2,a.example\n3,www.b.example\n")
	noError(t, archive.Close())
	s := subscribe(t, "a.example")
	for name, test := range map[string]struct {
		body         string
		kind         feed.Kind
		column       string
		want, format string
	}{
		"URLhaus": {"# abuse.ch URLhaus Host file\n127.0.0.1\ta.example\n127.0.0.1\tb.example\n", feed.Bad, "",
			"a.example b.example", "hosts"},
		"PhishTank": {gz.String(), feed.Bad, "url", "a.example", "csv"},
		"polkadot-phishing": {`{"allow":["c.example"],"deny":["a.example","b.example"]}`, feed.Bad, "deny",
			"a.example b.example", "json"},
		"Umbrella": {zipped.String(), feed.Ranked, "", "a.example www.b.example", "csv"},
	} {
		s.publisher.publish(test.body)
		s.sub.Kind, s.sub.Column = test.kind, test.column
		noError(t, s.Subscribe(t.Context(), s.sub))
		result, err := s.fetch(t)
		want := strings.Fields(test.want)
		found := listings(t, s.Store, want...)
		holds(t, len(found) == len(want) && result.Entries == len(want) && string(result.Report.Format) == test.format,
			"%s: %d of %d names found; %+v, %v", name, len(found), len(want), result, err)
		noError(t, s.WithdrawFeed(t.Context(), "Bad"))
	}
}

// An unchanged list is confirmed without being sent again, by ETag or date.
func TestConditionalRequests(t *testing.T) {
	t.Parallel()
	is.Each(t, map[string]bool{"ETag": true, "Last-Modified": false}, func(t *testing.T, etag bool) {
		s := subscribe(t, "a.example\n")
		s.publisher.etag, s.publisher.modified = etag, noon
		must(s.fetch(t))(t)
		r := s.publisher.last()
		holds(t, r.UserAgent() == "assay/1.2.3" && r.URL.RawQuery == "key=secret" &&
			r.Header.Get("If-None-Match") == "", "first request: %s %v", r.URL, r.Header)
		s.now = s.now.Add(20 * time.Hour)
		expect(t, "the second fetch found no change", must(s.fetch(t))(t).Unchanged, true)
		r = s.publisher.last()
		holds(t, (r.Header.Get("If-None-Match") != "") == etag && (r.Header.Get("If-Modified-Since") != "") != etag,
			"second request: %v", r.Header)
		got := s.state(t)
		holds(t, got.ConfirmedAt != nil && got.ConfirmedAt.Equal(s.now) &&
			got.FreshUntil.Equal(s.now.Add(s.sub.FreshFor)) && got.ExpiresAt.Equal(s.now.Add(s.sub.ExpiresAfter)) &&
			got.NextFetchAt.Equal(s.now.Add(s.sub.Every)), "confirmed: %+v", got)
		// Other content under the name makes the validators invalid.
		importList(t, s.Store, feed.List{Name: "Bad", Kind: feed.Bad}, entries(t, "b.example")...)
		result := must(s.fetch(t))(t)
		holds(t, !result.Unchanged && len(listings(t, s.Store, "a.example")) == 1, "after an import: %+v", result)
	})
}

// A failure keeps the last good version, which is out of date after a day and gone after a month.
func TestDeadPublisher(t *testing.T) {
	t.Parallel()
	s := subscribe(t, "a.example\nb.example\n")
	s.expectState(t, feed.Waiting)
	must(s.fetch(t))(t)
	s.expectState(t, feed.Current)
	imported := s.now
	for _, test := range []struct {
		name   string
		status int
		body   string
		retry  time.Duration
	}{
		{"too many requests", http.StatusTooManyRequests, "", 2 * time.Hour}, // as the publisher asked for
		{"an error page", 0, "<html>\n<p>gone\n</html>\n", 10 * time.Minute},
		{"an empty list", 0, "# nothing\n", 20 * time.Minute},
		{"a cut archive", 0, "PK\x03\x04", 40 * time.Minute},
	} {
		s.publisher.fail(test.status)
		s.publisher.publish(test.body + " ")
		_, err := s.fetch(t)
		holds(t, err != nil && !strings.Contains(err.Error(), "secret"), "%s: %v", test.name, err)
		s.expectState(t, feed.Failing)
		if got := s.state(t); got.Error == "" || got.FailingSince == nil || got.NextFetchAt.Sub(s.now) != test.retry ||
			len(listings(t, s.Store, "a.example", "b.example")) != 2 {
			t.Errorf("%s: %+v, want the next attempt after %v", test.name, got, test.retry)
		}
	}
	s.now = imported.Add(s.sub.FreshFor)
	s.expectState(t, feed.Stale)
	got := listings(t, s.Store, "a.example")
	holds(t, len(got) == 1 && !got[0].Fresh, "out of date: %+v", got)
	s.now = imported.Add(s.sub.ExpiresAfter)
	s.expectState(t, feed.Expired)
	expect(t, "listings once it expired", len(listings(t, s.Store, "a.example")), 0)
	s.publisher.fail(0)
	s.publisher.publish("a.example\n")
	must(s.fetch(t))(t)
	s.expectState(t, feed.Current)
	back := s.state(t)
	holds(t, back.Failures == 0 && back.FailingSince == nil && back.Error == "", "back again: %+v", back)
}

// A version of an unusual size is held back until an operator accepts it or the publisher corrects it.
func TestHeldVersion(t *testing.T) {
	t.Parallel()
	lines := func(n int) string {
		var text strings.Builder
		for i := range n {
			fmt.Fprintf(&text, "name%d.example\n", i)
		}
		return text.String()
	}
	s := subscribe(t, lines(300))
	must(s.fetch(t))(t)
	for _, n := range []int{149, 901} {
		s.publisher.publish(lines(n))
		var held *feed.HeldError
		_, err := s.fetch(t)
		holds(t, errors.As(err, &held) && held.Entries == n && held.Before == 300, "%d entries: %v", n, err)
		s.expectState(t, feed.Held)
		got := s.state(t)
		holds(t, *got.Held == n && got.Entries == 300 && len(listings(t, s.Store, "name299.example")) == 1,
			"%d entries: %+v", n, got)
	}
	s.publisher.publish(lines(300) + "# corrected\n")
	must(s.fetch(t))(t)
	s.expectState(t, feed.Current)
	wantError(t, "nothing to accept", s.AcceptSubscribed(t.Context(), "Bad"), ErrNothingHeld)
	s.publisher.publish(lines(7))
	wantFailure(t, errOf(s.fetch(t)), "a list of 7 instead of 300 entries was imported")
	noError(t, s.AcceptSubscribed(t.Context(), "Bad"))
	expect(t, "accepted entries", must(s.fetch(t))(t).Entries, 7)
	s.expectState(t, feed.Current)
}

// One host at a time fetches a list. A killed host delays it until its claim ends, and changes nothing afterwards.
func TestClaims(t *testing.T) {
	t.Parallel()
	s := subscribe(t, "a.example\n")
	var mu sync.Mutex
	var claims []*feed.Claim
	noError(t, errors.Join(concurrently(8, func(int) error {
		c, err := s.ClaimSubscription(t.Context(), "", time.Hour)
		if c != nil {
			mu.Lock()
			claims = append(claims, c)
			mu.Unlock()
		}
		return err
	})...))
	mustHold(t, len(claims) == 1, "%d claims, want 1", len(claims))
	killed := claims[0]
	expect(t, "a claim by name", must(s.ClaimSubscription(t.Context(), "Bad", time.Hour))(t), nil)
	s.now = s.now.Add(time.Hour)
	expect(t, "entries after the claim ended", must(s.fetch(t))(t).Entries, 1)
	_, err := s.ImportSubscribed(t.Context(), killed, feed.Plain, feed.Validators{},
		inPairs(entries(t, "late.example")))
	wantError(t, "importing late", err, feed.ErrClaimLost)
	wantError(t, "confirming late", s.ConfirmSubscribed(t.Context(), killed), feed.ErrClaimLost)
	wantError(t, "failing late", s.FailSubscribed(t.Context(), killed, "late", 0, time.Hour), feed.ErrClaimLost)
	got := listings(t, s.Store, "a.example", "late.example")
	holds(t, len(got) == 1 && s.state(t).Error == "", "after the late host: %+v", got)
	expect(t, "due", must(s.ClaimSubscription(t.Context(), "", time.Hour))(t), nil)

	// A host that stops gives its claim back.
	s.now = s.now.Add(s.sub.Every)
	c := must(s.ClaimSubscription(t.Context(), "", time.Hour))(t)
	fetcher := &feed.Subscriber{Store: s.Store, Logger: discard(), Now: func() time.Time { return s.now }}
	wantError(t, "stopped", errOf(fetcher.Fetch(is.Ended(t), c)), context.Canceled)
	expect(t, "failures of a host that stops", s.state(t).Failures, 0)
	// A new subscription takes the claim away.
	c = must(s.ClaimSubscription(t.Context(), "", time.Hour))(t)
	noError(t, s.Subscribe(t.Context(), s.sub))
	wantError(t, "with old settings", s.ConfirmSubscribed(t.Context(), c), feed.ErrClaimLost)
	noError(t, s.Unsubscribe(t.Context(), "Bad"))
	wantError(t, "unsubscribing again", s.Unsubscribe(t.Context(), "Bad"), ErrNoSubscription)
	expect(t, "listings after the end of the subscription", len(listings(t, s.Store, "a.example")), 1)
}

// A running host fetches what is due, and reports the state of all lists.
func TestSubscriberRuns(t *testing.T) {
	t.Parallel()
	p := newPublisher(t, "a.example\n")
	s := open(t, postgrestest.Database(t), nil)
	states := make(chan []feed.Subscription, 10)
	fetched := make(chan string, 10)
	for _, name := range []string{"A", "B"} {
		sub := feed.Subscription{Name: name, URL: p.URL + "/" + name, Source: p.URL, Kind: feed.Bad, Format: feed.Plain,
			Every: time.Hour, FreshFor: time.Hour, ExpiresAfter: time.Hour}
		if name == "B" {
			sub.URL = "http://127.0.0.1:1/"
		}
		noError(t, s.Subscribe(t.Context(), sub))
	}
	host := &feed.Subscriber{Store: s, Logger: discard(), Now: time.Now,
		Fetched:  func(list, outcome string) { fetched <- list + " " + outcome },
		Observed: func(lists []feed.Subscription) { states <- lists }}
	storetest.Background(t, host.Run)
	outcomes := []string{receive(t, "the first fetch", fetched), receive(t, "the second fetch", fetched)}
	expect(t, "outcomes", strings.Join(outcomes, ", "), "A updated, B failed")
	lists := receive(t, "the state of the lists", states)
	holds(t, len(lists) == 2 && lists[0].Entries == 1 && lists[1].Error != "", "lists %+v", lists)
	got := host.Degraded()
	holds(t, len(got) == 1 && strings.HasPrefix(got[0], "list B is failing: fetching list: "), "degraded: %q", got)
	noError(t, s.WithdrawFeed(t.Context(), "A"))
	expect(t, "subscriptions after the withdrawal", len(must(s.Subscriptions(t.Context()))(t)), 1)
}
