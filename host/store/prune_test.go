package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestPrune gives tables rows that are just old enough to be deleted, more than one statement deletes, and one that is
// not.
func TestPrune(t *testing.T) {
	t.Parallel()
	s := newStore(t, nil)
	conn := session(t, s.url)
	tables := []struct{ name, columns, values, age string }{
		{"rate_uses", "name, used, used_at", "n, 1, old", "1 min"},
		{"public_uses", "client, uses, last_used", "int4send(n), '{}', old", "1 hour"},
		{"sessions", "id, hash, account_id, began_at, used_at, proved_at, expires_at, browser, network",
			"n, int4send(n), '', old, old, old, old, '', ''", "0"},
		{"sign_in_links", "hash, account_id, recovers, expires_at", "int4send(n), '', false, old", "0"},
		{"hosts", "id, name, seen_at", "n, '', old", "1 hour"},
		{"candidates", "id, signed, expires", "n, '', old", "0"},
		{"registrations", "domain, outcome, registrar, status, fetched_at, next_at, failures",
			"int4send(n), 'absent', '', '', old, old, 0", "60 days"},
		{"billing_tabs", "checkout_id, earlier, created_at", "n, '', old", "7 days"},
		{"billing_declines", "id, customer, card, declined_at", "n, '', '', old", "1 day"},
		{"billing_refunds", "subscription_id, account_id, refunded_at", "n, '', old", "30 days"},
		{"ledger_settlements", "chain, batch, recorded, settled_at", "0, int4send(n), true, old", "1 day"},
		{"answers", "chain, account_id, key_hash, request, sealed, subjects, kept_at",
			"0, '', int4send(n), '', '', '{}', old", "1 day"},
	}
	for _, table := range tables {
		exec(t, conn, fmt.Sprintf(`INSERT INTO %s (%s) SELECT %s FROM (
			SELECT n, now() - interval '%s' - CASE WHEN n = 0 THEN interval '-1 h' ELSE interval '1 s' END AS old
			FROM generate_series(0, %d) AS n) AS r`, table.name, table.columns, table.values, table.age, 2*pruneBatch))
	}
	noError(t, s.Prune(t.Context()))
	for _, table := range tables {
		expect(t, "rows of "+table.name, one[int](t, s, "SELECT count(*) FROM "+table.name), 1)
	}
}

// TestOnce runs a job of two hosts: one of them runs it in each interval, and either one after a failure.
func TestOnce(t *testing.T) {
	t.Parallel()
	a := newStore(t, nil)
	runs, failure := 0, errors.New("no space")
	var err error
	job := func(s *Store) func(context.Context) error {
		return s.Once("tidy", time.Hour, func(context.Context) error { runs++; return err })
	}
	first, second := job(a), job(open(t, a.url, nil))
	later := func(by string) { // in UTC, so that Citus knows that it is the same on each node
		exec(t, session(t, a.url),
			"UPDATE jobs SET due_at = (due_at AT TIME ZONE 'UTC' - interval '"+by+"') AT TIME ZONE 'UTC'")
	}
	for _, step := range []struct {
		what  string
		later string
		fails error
		runs  int
	}{
		{what: "at the start of two hosts", later: "0", runs: 1},
		{what: "before the interval has passed", later: "30 min", runs: 1},
		{what: "after the interval", later: "30 min", fails: failure, runs: 2},
		{what: "soon after a failure", later: "0", runs: 2},
		{what: "a minute after a failure", later: "1 min", runs: 3},
	} {
		later(step.later)
		err = step.fails
		got := errors.Join(first(t.Context()), second(t.Context()))
		holds(t, errors.Is(got, step.fails) && (got == nil) == (step.fails == nil), "%s: %v", step.what, got)
		holds(t, runs == step.runs, "%s: the job has run %d times, want %d", step.what, runs, step.runs)
	}
}

// TestStatements checks that each file of statements is used, and exists.
func TestStatements(t *testing.T) {
	t.Parallel()
	var used []string
	for _, file := range must(os.ReadDir("."))(t) {
		if !strings.HasSuffix(file.Name(), ".go") {
			continue
		}
		text := string(must(os.ReadFile(file.Name()))(t))
		for _, m := range regexp.MustCompile(`(?:query\([\w.]+, |statement\()"(\w+)"`).
			FindAllStringSubmatch(text, -1) {
			used = append(used, m[1]+".sql")
		}
	}
	slices.Sort(used)
	var files []string
	for _, file := range must(os.ReadDir("sql"))(t) {
		files = append(files, file.Name())
	}
	noDiff(t, "files of statements", files, slices.Compact(used))
}
