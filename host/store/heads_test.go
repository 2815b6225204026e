package store

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"assay/host/access/apikey"
	"assay/host/check"
	"assay/host/customer/override"
	"assay/host/customer/privacy"
	"assay/host/facts/feed"
	"assay/host/store/postgres/postgrestest"
	"assay/host/store/storetest"
	"assay/registry"
)

// The large form is -key-changes 60 -list-names 500000 -v, and logs the longest waits.
var (
	keyChanges = flag.Int("key-changes", 6, "how many keys TestKeyChangesOfOtherChains changes at once")
	listNames  = flag.Int("list-names", 2000, "how many names the list has that is imported meanwhile")
)

// Changes of keys on different chains wait neither for each other nor for a list, even if the commits of those never
// end. Nor do checks.
func TestKeyChangesOfOtherChains(t *testing.T) {
	t.Parallel()
	needsPlainPostgres(t, "it holds heads of chains in one transaction, which Citus locks on several machines")
	s := storetest.Close(t, must(Open(t.Context(), Config{URL: postgrestest.Database(t), Keys: testRing,
		Logger: discard(), Chains: *keyChanges + 1}))(t))
	l := ledgerOn(t, s, LedgerConfig{})
	callers := make([]check.Caller, *keyChanges+1) // by chain
	for missing := len(callers); missing > 0; {
		c := newCaller(t, s, plan(t, "pro", 1_000_000))
		if chain := one[int](t, s, "SELECT chain FROM accounts WHERE id = ?", c.Account); callers[chain].Account == "" {
			callers[chain], missing = c, missing-1
		}
	}
	importList := func(n int) error {
		return errOf(s.ImportFeed(t.Context(), feed.List{Name: "Long", Kind: feed.Bad}, func() ([]feed.Entry, error) {
			if n--; n < 0 {
				return nil, io.EOF
			}
			return entries(t, fmt.Sprintf("n%d.example", n)), nil
		}))
	}
	noError(t, importList(1))
	var mu sync.Mutex
	longest := map[string]time.Duration{}
	measured := func(what string, f func() error) error {
		began := time.Now()
		err := f()
		mu.Lock()
		defer mu.Unlock()
		longest[what] = max(longest[what], time.Since(began))
		return err
	}
	changeAll := func() {
		t.Helper()
		noError(t, errors.Join(concurrently(2*len(callers)-2, func(i int) error {
			c := callers[1+i/2]
			if i%2 == 0 {
				return measured("check", func() error { return l.Append(t.Context(), allowed(t, c)) })
			}
			var issued apikey.Issued
			return errors.Join(measured("key", func() (err error) {
				issued, err = s.CreateKey(t.Context(), c.Account, "short")
				return err
			}), measured("key", func() error { return s.RevokeKey(t.Context(), issued.ID) }))
		})...))
	}
	importing, changing := session(t, s.url), session(t, s.url)
	exec(t, importing, "BEGIN", "SELECT record_state('list content', 'Long'), record_state('list', 'Long')")
	exec(t, changing, "BEGIN", "SELECT set_quota('"+callers[0].Account+"', 20)")
	changeAll()
	exec(t, importing, "ROLLBACK")
	exec(t, changing, "COMMIT")

	ended := async(func() error { return measured("import", func() error { return importList(*listNames) }) })
	for importing := true; importing; {
		changeAll()
		select {
		case err := <-ended:
			noError(t, err)
			importing = false
		default:
		}
	}
	t.Logf("the longest waits of %d changes of keys and checks, and a list of %d names: %v", *keyChanges, *listNames,
		longest)
	wantStates(t, s)
	verifyLedger(t, s)
}

// A host that stops between two statements holds no head: what appends to a chain is one statement, which commits by
// itself.
func TestNoHeadIsHeldBetweenStatements(t *testing.T) {
	t.Parallel()
	direct, l, c := newLedger(t, nil, LedgerConfig{})
	p := proxied(t, direct.url)
	s := open(t, p.URL, nil)
	r := allowed(t, c)
	noError(t, l.Append(t.Context(), r))
	subject := privacy.Selector{Ref: r.Decision.Ref}
	var began []string
	p.Set(func(statement string) storetest.Fate { // called with a lock
		text := strings.ToLower(statement)
		if strings.HasPrefix(text, "begin") && !strings.Contains(text, "read only") {
			began = append(began, text)
		}
		return storetest.Passes
	}, false)
	for _, change := range []func() error{
		func() error { return s.PublishPlugin(t.Context(), module(t, "probe", "x"), "1.0.0", "me", nil) },
		func() error { return s.TransferPlugin(t.Context(), registry.PluginName{Name: "probe", Owner: "x"}) },
		func() error { return errOf(activate(t.Context(), s, lineupOf("x@1.0.0"), registry.OriginOperator, "")) },
		func() error { return errOf(s.RotateKey(t.Context(), c.Account, c.Key, time.Hour)) },
		func() error {
			w := wanted(t, check.Block, override.Domain, "a.example")
			w.ExpiresAt = time.Now().Add(time.Hour)
			return errOf(s.AddOverrideForAll(t.Context(), w))
		},
		func() error { return errOf(s.Export(t.Context(), c, subject, privacy.Page{Limit: 10})) },
		func() error { return errOf(s.Erase(t.Context(), c, subject)) },
	} {
		noError(t, change())
	}
	expect(t, "transactions of several statements", strings.Join(began, "; "), "")

	// A list is written in steps, and the host waits for the standbys after each.
	waits := 0
	p.Set(func(statement string) storetest.Fate {
		waits += strings.Count(statement, "pg_logical_emit_message")
		return storetest.Passes
	}, false)
	names := make([]string, 2*stepRows+1)
	for i := range names {
		names[i] = fmt.Sprintf("n%d.example", i)
	}
	must(s.ImportFeed(t.Context(), feed.List{Name: "Long", Kind: feed.Bad}, inPairs(entries(t, names...))))(t)
	p.Set(nil, false)
	expect(t, "waits for standbys", waits, 2)
	expect(t, "entries", one[int](t, direct, "SELECT count(*) FROM feed_entries"), len(names))
	verifyLedger(t, direct)
	wantStates(t, direct)
}
