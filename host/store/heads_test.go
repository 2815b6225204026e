package store

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"assay/host/access/apikey"
	"assay/host/audit"
	"assay/host/check"
	"assay/host/customer/override"
	"assay/host/customer/privacy"
	"assay/host/facts/feed"
	"assay/host/store/postgres/postgrestest"
	"assay/host/store/storetest"
	"assay/registry"
	is "assay/registry/expect"
)

// The large form is -key-changes 60 -list-names 500000 -v, and logs the longest waits.
var (
	keyChanges = flag.Int("key-changes", 6, "how many keys TestKeyChangesOfOtherChains changes at once")
	listNames  = flag.Int("list-names", 2000, "how many names the list has that is imported meanwhile")
)

// Changes of keys on different chains, and checks, wait neither for each other nor for a list that never commits.
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

// A host that stops between two statements holds no head: what appends is one statement, which commits by itself.
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
	names := listOf(2*stepRows+1, func(i int) string { return fmt.Sprintf("n%d.example", i) })
	must(s.ImportFeed(t.Context(), feed.List{Name: "Long", Kind: feed.Bad}, inPairs(entries(t, names...))))(t)
	p.Set(nil, false)
	expect(t, "waits for standbys", waits, 2)
	expect(t, "entries", rowsOf(t, direct, "feed_entries"), len(names))
	verifyLedger(t, direct)
	wantStates(t, direct)
}

// A host that cannot write what it answered goes on, says so, and logs it once.
func TestAnsweredIsUnwritten(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "full")
	a := must(OpenAnswered(filepath.Join(dir, "answered")))(t)
	a.add(0, answeredBatch{Seq: 1, Hash: make([]byte, 32), At: noon})
	wantError(t, "the first time", a.Save(), fs.ErrNotExist)
	noError(t, a.Save())
	expect(t, "sentences", len(a.Unwritten()), 1)
	noError(t, os.Mkdir(dir, 0o700))
	noError(t, a.Save())
	expect(t, "sentences with space", len(a.Unwritten()), 0)
	expect(t, "the last batch", must(OpenAnswered(filepath.Join(dir, "answered")))(t).last(0).Seq, 1)
}

func TestAnsweredIsRemembered(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "answered")
	a := must(OpenAnswered(path))(t)
	expect(t, "the last batch of a new host", a.last(0).Seq, 0)
	noError(t, a.Save()) // writes nothing
	wantFailure(t, errOf(os.Stat(path)), "a host that answered nothing wrote a file")
	hash := func(n byte) []byte { return append(make([]byte, 31), n) }
	for _, seq := range []int64{2, 5, 4} { // replies can arrive in another order
		a.add(3, answeredBatch{Seq: seq, Hash: hash(byte(seq)), At: noon.Add(time.Nanosecond),
			Refs: []string{fmt.Sprint("ref", seq)}})
	}
	a.add(0, answeredBatch{Seq: 9, Hash: hash(9), At: noon, Refs: make([]string, refsInMemory+1)})
	noError(t, a.Save())
	again := must(OpenAnswered(path))(t)
	for chain, batches := range a.batches() {
		for i, b := range again.batches()[chain] {
			want := batches[i]
			holds(t, b.Seq == want.Seq && slices.Equal(b.Hash, want.Hash) && b.At.Equal(want.At) &&
				slices.Equal(b.Refs, want.Refs), "chain %d: read %+v, want %+v", chain, b, want)
		}
	}
	expect(t, "the last number", again.last(3).Seq, 5)
	again.forget(3)
	noError(t, again.Save())
	expect(t, "the last number after it was forgotten", must(OpenAnswered(path))(t).last(3).Seq, 0)
	for name, text := range map[string]string{"not JSON": "{", "a short hash": `{"0":[{"seq":1,"hash":"AA=="}]}`} {
		noError(t, os.WriteFile(path, []byte(text), 0o600))
		wantFailure(t, errOf(OpenAnswered(path)), "%s was read", name)
	}

	// The newest batches are remembered.
	a = &Answered{chains: map[int][]answeredBatch{}}
	for n := range int64(100) {
		a.add(0, answeredBatch{Seq: 256 * (n + 1), Refs: make([]string, 256)})
	}
	batches := a.batches()[0]
	expect(t, "batches", len(batches), refsInMemory/256)
	expect(t, "the newest", batches[len(batches)-1].Seq, 25600)
	expect(t, "batches for the file", len(newestOf(batches, refsInFile)), refsInFile/256)
}

// goBackTo makes a chain end with a record, as if later commits were lost.
func goBackTo(t *testing.T, conn *pgx.Conn, seq int) {
	t.Helper()
	exec(t, conn, fmt.Sprintf("DELETE FROM audit_records WHERE seq > %d", seq),
		fmt.Sprintf("DELETE FROM graph_contributions WHERE seq > %d", seq), fmt.Sprintf(`UPDATE audit_heads AS h
		SET seq = r.seq, hash = r.hash FROM audit_records AS r WHERE r.seq = %d AND h.chain = r.chain`, seq))
}

// A host notices with its next check that the database does not contain what it answered for, whatever else it
// contains. What was erased or pruned by the rules is not missed.
func TestDatabaseThatWentBack(t *testing.T) {
	t.Parallel()
	type testCase struct {
		change string
		erase  bool // the last one
		backTo int  // the last record that is left; 0: all are
		others int  // checks that another host records then
		lost   int  // records, at the end
	}
	is.Each(t, map[string]testCase{
		"nothing happened":           {change: "SELECT"},
		"another host recorded more": {change: "SELECT", others: 1},
		"the last record was erased": {change: "SELECT", erase: true},
		"all records were pruned": {change: `DELETE FROM audit_records;
			INSERT INTO audit_anchors (chain, seq, note) VALUES (0, 4, '')`},
		"the last two are lost": {change: "SELECT", backTo: 2, lost: 2},
		"all are lost": {change: fmt.Sprintf(`DELETE FROM audit_records;
			UPDATE audit_heads SET seq = 0, hash = '\x%x'`, audit.Genesis(0).Hash), lost: 4},
		"the last one is lost, and another host recorded as many": {change: "SELECT", backTo: 3, others: 1, lost: 1},
		"the last one is lost, and another host recorded more":    {change: "SELECT", backTo: 3, others: 3, lost: 1},
	}, func(t *testing.T, test testCase) {
		s, l, caller := newLedger(t, nil, LedgerConfig{Host: "one"})
		refs := listOf(4, func(int) string { return appendOne(t, l, allowed(t, caller)) })
		conn := session(t, s.url)
		exec(t, conn, test.change)
		if test.erase {
			erase(t, s, caller, privacy.Selector{Ref: refs[3]})
		}
		if test.backTo > 0 {
			goBackTo(t, conn, test.backTo)
		}
		other := ledgerOn(t, s, LedgerConfig{})
		for range test.others {
			appendOne(t, other, allowed(t, caller))
		}
		records := rowsOf(t, s, "audit_records")
		err := l.Append(t.Context(), allowed(t, caller))
		noError(t, l.Compare(t.Context()))
		losses := must(s.Losses(t.Context()))(t)
		if test.lost == 0 {
			noError(t, err)
			expect(t, "losses", len(losses), 0)
			return
		}
		holds(t, isRefusal(err) && errors.Is(err, errRecordsLost), "the next check: %v", err)
		expect(t, "records", rowsOf(t, s, "audit_records"), records)
		mustHold(t, len(losses) == 1, "losses: %+v", losses)
		found, kept := losses[0], len(refs)-test.lost
		holds(t, slices.Equal(found.Refs, refs[kept:]) && found.Survived == int64(kept) && found.Seq == 4 &&
			found.Host == "one", "found %+v, want the references %q", found, refs[kept:])
		s.Probe(t.Context())
		problems := s.Problems()
		holds(t, problems[len(problems)-1].Part == "audit", "the host's problems are %+v", problems)
	})
}

// accept accepts all losses, as the command does.
func accept(t *testing.T, s *Store, at time.Time) {
	t.Helper()
	losses := must(s.Losses(t.Context()))(t)
	l := audit.LossAcceptance{Chain: losses[0].Chain, At: at, Survived: losses[0].Survived, Reason: "a failover",
		Lost: column(losses, FoundLoss.Head)}
	note := must(audit.NewSigner(audit.KeyName, testRing.SignSeed).AcceptLoss(l))(t)
	must(s.AcceptLosses(t.Context(), l.Chain, losses, l.Survived, note))(t)
}

// One acceptance, a record of the chain, lets all hosts go on, whether they found the loss or were down.
func TestAcceptedLossLetsHostsGoOn(t *testing.T) {
	t.Parallel()
	s, l, caller := newLedger(t, nil, LedgerConfig{Host: "one"})
	path := filepath.Join(t.TempDir(), "answered")
	other, down := open(t, s.url, nil), open(t, s.url, nil)
	knows := ledgerOn(t, other, LedgerConfig{Host: "two"})
	before := ledgerOn(t, down, LedgerConfig{Answered: must(OpenAnswered(path))(t)})
	appendOne(t, l, allowed(t, caller))
	appendOne(t, before, allowed(t, caller))
	noError(t, before.Close())
	appendOne(t, l, allowed(t, caller))
	goBackTo(t, session(t, s.url), 1)

	noError(t, l.Compare(t.Context()))
	noError(t, knows.Compare(t.Context()))
	for _, ledger := range []*Ledger{l, knows} {
		wantError(t, "a check before the loss is accepted", ledger.Append(t.Context(), allowed(t, caller)),
			errRecordsLost)
	}
	accept(t, s, noon.Add(time.Minute))
	expect(t, "losses that are not accepted", len(must(s.Losses(t.Context()))(t)), 0)
	after := ledgerOn(t, down, LedgerConfig{Answered: must(OpenAnswered(path))(t)})
	for _, ledger := range []*Ledger{l, knows, after} {
		noError(t, ledger.Compare(t.Context()))
		noError(t, ledger.Append(t.Context(), at(allowed(t, caller), noon.Add(time.Hour))))
	}
	expect(t, "records of the loss", rowsOf(t, s, "audit_records WHERE kind = 'loss'"), 1)
	noError(t, verifyAuditLog(t, s))

	// What is lost after the acceptance is another loss.
	goBackTo(t, session(t, s.url), 4)
	noError(t, after.Compare(t.Context()))
	wantError(t, "a check after a second loss", after.Append(t.Context(), allowed(t, caller)), errRecordsLost)
}

// Only an operator's signature accepts a loss.
func TestForgedAcceptanceIsIgnored(t *testing.T) {
	t.Parallel()
	s, l, caller := newLedger(t, nil, LedgerConfig{})
	appendOne(t, l, allowed(t, caller))
	appendOne(t, l, allowed(t, caller))
	goBackTo(t, session(t, s.url), 1)
	noError(t, l.Compare(t.Context()))
	losses := must(s.Losses(t.Context()))(t)
	forged := must(audit.NewSigner(audit.KeyName, make([]byte, 32)).AcceptLoss(audit.LossAcceptance{
		At: noon.Add(time.Hour), Lost: []audit.Head{losses[0].Head()}, Reason: "forged"}))(t)
	must(s.AcceptLosses(t.Context(), 0, losses, 1, forged))(t)
	noError(t, l.Compare(t.Context()))
	wantError(t, "a check after a forged acceptance", l.Append(t.Context(), allowed(t, caller)), errRecordsLost)
}
