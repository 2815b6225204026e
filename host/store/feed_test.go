package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/uptrace/bun"

	"assay/host/entity"
	"assay/host/facts/feed"
	"assay/host/facts/registration"
	"assay/host/facts/reputation"
)

func entryOf(e entity.Entity) feed.Entry {
	return feed.Entry{Type: e.Type, Value: e.Value, Name: e.Facts["domain.name"]}
}

// entries returns entries for domains.
func entries(t *testing.T, names ...string) []feed.Entry {
	t.Helper()
	return column(names, func(name string) feed.Entry { return entryOf(parse(t, entity.Domain, name)) })
}

// inPairs returns an iterator over two entries at a time.
func inPairs(list []feed.Entry) func() ([]feed.Entry, error) {
	return func() ([]feed.Entry, error) {
		if len(list) == 0 {
			return nil, io.EOF
		}
		n := min(2, len(list))
		pair := list[:n]
		list = list[n:]
		return pair, nil
	}
}

func importList(t *testing.T, s *Store, list feed.List, entries ...feed.Entry) feed.Change {
	t.Helper()
	change := must(s.ImportFeed(t.Context(), list, inPairs(entries)))(t)
	wantStates(t, s)
	return change
}

func listings(t *testing.T, s *Store, names ...string) []reputation.Listing {
	t.Helper()
	return must(s.Listings(t.Context(), column(names, func(name string) reputation.Node {
		return reputation.Node{Kind: "domain", Value: name}
	})))(t)
}

var byIndex = cmpopts.SortSlices(func(a, b reputation.Listing) bool {
	return a.Index < b.Index || a.Index == b.Index && a.Name < b.Name
})

func TestImportFeed(t *testing.T) {
	t.Parallel()
	now := noon
	s := newStore(t, func() time.Time { return now })
	bad := feed.List{Name: "Bad", Kind: feed.Bad, Category: "phishing", Source: "bad.txt", Format: feed.Plain,
		Licence: "CC0"}
	list := entries(t, "a.example", "b.example", "c.example", "b.example")
	list[1].Page, list[2].Category = true, "malware"
	expect(t, "first import", importList(t, s, bad, list...), feed.Change{Entries: 3, Added: 3})
	first := now
	now = now.Add(time.Hour)
	expect(t, "unchanged import", importList(t, s, bad, list...), feed.Change{Entries: 3})
	later := entries(t, "b.example", "c.example", "d.example")
	later[1].Category = "scam"
	expect(t, "changed import", importList(t, s, bad, later...),
		feed.Change{Entries: 3, Added: 1, Altered: 1, Removed: 1})
	importList(t, s, feed.List{Name: "Another", Kind: feed.Good}, entries(t, "b.example")...)
	want := []reputation.Listing{
		{Index: 1, Name: "Another", Kind: feed.Good, Fresh: true, FirstSeen: now},
		{Index: 1, Name: "Bad", Kind: feed.Bad, Category: "phishing", Fresh: true, FirstSeen: first},
		{Index: 2, Name: "Bad", Kind: feed.Bad, Category: "scam", Fresh: true, FirstSeen: first},
		{Index: 3, Name: "Bad", Kind: feed.Bad, Category: "phishing", Fresh: true, FirstSeen: now},
		{Index: 4, Name: "Bad", Kind: feed.Bad, Category: "phishing", Fresh: true, FirstSeen: now},
	}
	got := listings(t, s, "a.example", "b.example", "c.example", "d.example", "d.example")
	noDiff(t, "listings", want, got, byIndex, cmpopts.EquateApproxTime(0))
	feeds := must(s.Feeds(t.Context()))(t)
	holds(t, len(feeds) == 2 && feeds[1].Version == 3 && feeds[1].Entries == 3 && feeds[1].Licence == "CC0" &&
		feeds[0].Version == 1, "lists %+v", feeds)
	noError(t, s.WithdrawFeed(t.Context(), "Bad"))
	wantStates(t, s)
	got = listings(t, s, "b.example", "c.example")
	holds(t, len(got) == 1 && got[0].Name == "Another", "after the withdrawal: %+v", got)
	expect(t, "remaining entries", rowsOf(t, s, "feed_entries"), 1)
	wantError(t, "withdrawing again", s.WithdrawFeed(t.Context(), "Bad"), ErrNoFeed)
}

// A failed import leaves the list unchanged.
func TestImportFeedIsAtomic(t *testing.T) {
	t.Parallel()
	s := newStore(t, nil)
	f := feed.List{Name: "Bad", Kind: feed.Bad}
	importList(t, s, f, entries(t, "a.example")...)
	broken := errors.New("connection lost")
	for name, good := range map[string]int{"immediately": 0, "after some entries": 1} {
		_, err := s.ImportFeed(t.Context(), f, func() ([]feed.Entry, error) {
			if good--; good < 0 {
				return nil, broken
			}
			return entries(t, "b.example"), nil
		})
		wantError(t, name, err, broken)
	}
	wantError(t, "an empty list", errOf(s.ImportFeed(t.Context(), f, inPairs(nil))), ErrEmptyFeed)
	ctx, cancel := context.WithCancel(t.Context())
	_, err := s.ImportFeed(ctx, f, func() ([]feed.Entry, error) { cancel(); return entries(t, "b.example"), nil })
	wantError(t, "cancelled", err, context.Canceled)
	got := listings(t, s, "a.example", "b.example")
	holds(t, len(got) == 1 && got[0].Index == 0, "listings %+v, want those of the first import", got)
}

// Withdrawing a large list shrinks the table, because lookups would read its empty pages.
func TestFeedEntriesAreCompacted(t *testing.T) {
	t.Parallel()
	needsPlainPostgres(t, "it looks at the files of a table")
	s := newStore(t, nil)
	importList(t, s, feed.List{Name: "Large", Kind: feed.Bad}, entries(t, "a.example")...)
	one[int](t, s, `WITH added AS (
		INSERT INTO feed_entries (feed_id, node, type, value, name, page, category, first_seen)
		SELECT id, decode(md5(i::text), 'hex'), 'domain', i || repeat('x', 700) || '.example', 'a-name',
			false, '', now()
		FROM feeds, generate_series(1, 14000) AS i RETURNING 1) SELECT count(*) FROM added`)
	exec(t, session(t, s.url), "SELECT record_state('list content', name), record_state('list', name) FROM feeds")
	small := feed.List{Name: "Small", Kind: feed.Bad, Category: "scam"}
	importList(t, s, small, entries(t, "a.example", "b.example")...)
	pages := func() int { return one[int](t, s, "SELECT pg_relation_size('feed_entries') / 8192") }
	mustHold(t, pages() > 1000, "the table has too few pages for this test")
	// A long read prevents it.
	reader := must(s.db.BeginTx(t.Context(), nil))(t)
	must(reader.ExecContext(t.Context(), "LOCK TABLE feed_entries IN ACCESS SHARE MODE"))(t)
	noError(t, s.WithdrawFeed(t.Context(), "Large"))
	holds(t, pages() > 1000, "a table in use was compacted")
	noError(t, reader.Rollback())
	// One that began before sees the entries afterwards, as the verification of the audit log does. Its snapshot keeps
	// deleted rows if another database of the server had an older transaction then. Autovacuum, too, can prevent it.
	var verifier bun.Tx
	until(t, "2 entries to occupy one page", func() bool {
		verifier = must(s.db.BeginTx(t.Context(), &sql.TxOptions{Isolation: sql.LevelRepeatableRead}))(t)
		must(verifier.ExecContext(t.Context(), "SELECT FROM feeds"))(t)
		importList(t, s, small, entries(t, "a.example", "b.example")...)
		if pages() <= 1 {
			return true
		}
		noError(t, verifier.Rollback())
		return false
	})
	var seen int
	noError(t, verifier.QueryRowContext(t.Context(), "SELECT count(*) FROM feed_entries").Scan(&seen))
	expect(t, "entries for an earlier snapshot", seen, 2)
	noError(t, verifier.Rollback())
	got := listings(t, s, "a.example", "b.example")
	holds(t, len(got) == 2 && got[0].Name == "Small" && got[1].Category == "scam", "listings after compaction: %+v",
		got)
}

// Names are read page by page, without nameless entries and without single pages on good hosts.
func TestFeedNames(t *testing.T) {
	t.Parallel()
	s := newStore(t, nil)
	list := entries(t, listOf(25, func(i int) string { return fmt.Sprintf("name%d.example", i) })...)
	list[3].Page, list[4].Page = true, true
	list = append(list, entryOf(parse(t, entity.Phone, "+4915123456789")))
	importList(t, s, feed.List{Name: "Bad", Kind: feed.Bad, Category: "scam"}, list...)
	importList(t, s, feed.List{Name: "Good", Kind: feed.Good}, list[3], list[5])
	feeds := must(s.Feeds(t.Context()))(t)
	seen := map[string]bool{}
	var after []byte
	for {
		page := must(s.FeedNames(t.Context(), feeds[0].ID, after, 10))(t)
		for _, e := range page {
			holds(t, !seen[e.Value] && e.Category == "scam", "entry %+v", e)
			seen[e.Value] = true
		}
		if len(page) < 10 {
			break
		}
		after = page[len(page)-1].Node
	}
	holds(t, len(seen) == 24 && !seen["name3.example"] && seen["name4.example"] && seen["name5.example"],
		"%d names, want 24 without name3.example: %v", len(seen), seen)
}

// The ranks of a list are found, replaced as a whole, and gone when the list changes its kind or is withdrawn.
func TestRankedFeed(t *testing.T) {
	t.Parallel()
	now := noon
	s := newStore(t, func() time.Time { return now })
	ranked := func(first int, names ...string) []feed.Entry {
		list := entries(t, names...)
		for i := range list {
			list[i].Rank = int32(first + i)
		}
		return list
	}
	tranco := feed.List{Name: "Tranco", Kind: feed.Ranked, Format: feed.CSV}
	expect(t, "first import", importList(t, s, tranco, ranked(1, "a.example", "b.example", "a.example")...),
		feed.Change{Entries: 2, Added: 2})
	importList(t, s, feed.List{Name: "Umbrella", Kind: feed.Ranked}, ranked(900_000, "b.example")...)
	importList(t, s, feed.List{Name: "Bad", Kind: feed.Bad}, entries(t, "b.example")...)
	noDiff(t, "listings", []reputation.Listing{
		{Index: 0, Name: "Tranco", Kind: feed.Ranked, Rank: 1, Fresh: true, FirstSeen: now},
		{Index: 1, Name: "Bad", Kind: feed.Bad, Fresh: true, FirstSeen: now},
		{Index: 1, Name: "Tranco", Kind: feed.Ranked, Rank: 2, Fresh: true, FirstSeen: now},
		{Index: 1, Name: "Umbrella", Kind: feed.Ranked, Rank: 900_000, Fresh: true, FirstSeen: now},
	}, listings(t, s, "a.example", "b.example", "c.example"), byIndex, cmpopts.EquateApproxTime(0))
	until := now.Add(time.Hour)
	tranco.ExpiresAt, tranco.FreshUntil = &until, &now
	expect(t, "second import", importList(t, s, tranco, ranked(5, "c.example")...),
		feed.Change{Entries: 1, Added: 1, Removed: 2})
	got := listings(t, s, "a.example", "c.example")
	holds(t, len(got) == 1 && got[0].Rank == 5 && !got[0].Fresh, "after the second import: %+v", got)
	now = until
	expect(t, "listings after the list expired", len(listings(t, s, "c.example")), 0)
	importList(t, s, feed.List{Name: "Tranco", Kind: feed.Good}, entries(t, "c.example")...)
	got = listings(t, s, "c.example")
	holds(t, len(got) == 1 && got[0].Kind == feed.Good, "as a good list: %+v", got)
	noError(t, s.WithdrawFeed(t.Context(), "Umbrella"))
	wantStates(t, s)
	expect(t, "remaining rows", rowsOf(t, s, "feed_ranks"), 0)
}

func TestRegistration(t *testing.T) {
	t.Parallel()
	s := newStore(t, atNoon)
	wantStored := func(domain string, want registration.Record, found bool) {
		t.Helper()
		got, ok, err := s.Registration(t.Context(), domain)
		mustHold(t, err == nil && ok == found, "Registration(%s) = %v, %v; want %v", domain, ok, err, found)
		noDiff(t, "registration of "+domain, want, got)
	}
	save := func(r registration.Record) {
		t.Helper()
		noError(t, s.SaveRegistration(t.Context(), "example.com", r))
	}
	full := registration.Record{
		Outcome: registration.Registered, Created: noon.AddDate(0, 0, -3), Expires: noon.AddDate(1, 0, 0),
		Changed: noon.AddDate(0, 0, -2), Registrar: "Names 'R' Us, \"Ltd\"",
		Status: "active client_hold", Fetched: noon, NextFetch: noon.Add(time.Hour),
	}
	wantStored("example.com", registration.Record{}, false)
	save(full)
	wantStored("example.com", full, true)
	expect(t, "bytes of the domain's hash", one[int](t, s, "SELECT length(domain) FROM registrations"), 32)
	wantStored("example.org", registration.Record{}, false)

	// A slow host must not overwrite a newer result.
	older := full
	older.Outcome, older.Fetched = registration.Failed, noon.Add(-time.Minute)
	save(older)
	wantStored("example.com", full, true)

	// Neither must one whose query failed, until the result is due. Then unknown dates stay zero.
	dateless := registration.Record{Outcome: registration.Failed, Fetched: noon.Add(time.Minute),
		NextFetch: noon.Add(time.Hour), Failures: 2}
	save(dateless)
	wantStored("example.com", full, true)
	for range 2 { // a failure replaces an earlier one
		dateless.Fetched, dateless.Failures = dateless.Fetched.Add(time.Hour), dateless.Failures+1
		save(dateless)
		wantStored("example.com", dateless, true)
	}
	dateless.Outcome, dateless.Fetched, dateless.Failures = registration.Absent, dateless.Fetched.Add(time.Second), 0
	save(dateless)
	wantStored("example.com", dateless, true)
}
