package auditlog

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/jackc/pgx/v5"

	"assay/host/audit"
	"assay/host/check"
	"assay/host/customer/feedback"
	"assay/host/entity"
	"assay/host/store"
	"assay/host/store/postgres/postgrestest"
	"assay/host/store/storetest"
	"assay/registry/expect"
)

func TestMain(m *testing.M) {
	os.Exit(storetest.Main(m, func(ctx context.Context, url string) (*store.Store, error) {
		return store.Open(ctx, store.Config{URL: url, Keys: storetest.Ring, Logger: storetest.Discard()})
	}))
}

// patient lets checks take as long as a busy machine needs.
var patient = store.LedgerConfig{Patience: time.Minute, Settling: time.Minute, Late: 20 * time.Second}

// oldLog records one check in each month from January to April 2021 and returns a keeper whose clock is in March 2022:
// the first two records are past their retention, the others are not. It also returns a connection to the database.
func oldLog(t *testing.T) (*Keeper, *pgx.Conn) {
	t.Helper()
	return oldChains(t, 1)
}

// oldChains is oldLog with as many chains, each with such records.
func oldChains(t *testing.T, chains int) (*Keeper, *pgx.Conn) {
	t.Helper()
	url := postgrestest.Database(t)
	now := time.Date(2022, 3, 10, 12, 0, 0, 0, time.UTC)
	s := storetest.Close(t, expect.Value(store.Open(t.Context(), store.Config{URL: url, Keys: storetest.Ring,
		Logger: storetest.Discard(), Now: func() time.Time { return now }, Chains: chains}))(t))
	db := storetest.Session(t, url)
	ledger := expect.Value(s.NewLedger(patient))(t)
	defer ledger.Close()
	e := storetest.Parse(t, entity.Domain, "example.org")
	for chain := range chains {
		caller := storetest.NewCaller(t, s, storetest.Plan(t, "pro", 1500))
		for storetest.Value[int](t, db, "SELECT chain FROM accounts WHERE id = $1", caller.Account) != chain {
			caller = storetest.NewCaller(t, s, storetest.Plan(t, "pro", 1500)) // its chain is random
		}
		for month := time.January; month <= time.April; month++ {
			at := time.Date(2021, month, 20, 12, 0, 0, 0, time.UTC)
			expect.NoError(t, ledger.Append(t.Context(), storetest.At(storetest.Decided(caller, e, check.Allow), at)))
		}
	}
	return &Keeper{Store: s, Signer: audit.NewSigner(audit.KeyName, storetest.Ring.SignSeed),
		Logger: storetest.Discard(), Dir: CheckpointDir(filepath.Join(t.TempDir(), "checkpoints"))}, db
}

// signAnchor stores an anchor outside the database.
func (k *Keeper) signAnchor(head audit.Head) error {
	signed, err := k.Signer.Anchor(audit.Anchor{Head: head, Before: k.Store.Now()})
	if err != nil {
		return err
	}
	return k.Dir.Append(signed)
}

// verifyFiles verifies the log against the checkpoints in the keeper's directory, as `assay audit verify` does.
func (k *Keeper) verifyFiles(t *testing.T) (reports []Report, broken error) {
	t.Helper()
	return k.verify(t, ReadCheckpoints(expect.Value(k.Dir.Files())(t), k.Signer.Public))
}

func (k *Keeper) verify(t *testing.T, checkpoints *Checkpoints) (reports []Report, broken error) {
	t.Helper()
	reports, broken, err := Verify(t.Context(), k.Store, k.Signer.Public, trust, checkpoints)
	expect.NoError(t, err)
	return reports, broken
}

// record appends records to the log.
func (k *Keeper) record(t *testing.T, records ...check.Record) {
	t.Helper()
	ledger := expect.Value(k.Store.NewLedger(patient))(t)
	expect.NoError(t, ledger.Append(t.Context(), records...))
	expect.NoError(t, ledger.Close())
}

// wantRows checks the numbers of rows in the database, without records of states.
func wantRows(t *testing.T, db *pgx.Conn, records, anchors int) {
	t.Helper()
	expect.Equal(t, "records", storetest.Value[int](t, db, "SELECT count(*) FROM audit_records"), records)
	expect.Equal(t, "anchors", storetest.Value[int](t, db, "SELECT count(*) FROM audit_anchors"), anchors)
}

// A tree that grew while the database's clock was ahead does not stand still until then.
func TestTreeOfLater(t *testing.T) {
	t.Parallel()
	k, db := oldLog(t)
	expect.NoError(t, k.SignHeads(t.Context()))
	expect.Value(db.Exec(t.Context(),
		"UPDATE audit_trees SET grown_at = now() + interval '1 day' WHERE chain = 1000001"))(t)
	storetest.NewCaller(t, k.Store, storetest.Plan(t, "pro", 10)) // which is recorded
	expect.NoError(t, k.sign(t.Context(), true))
	expect.Equal(t, "trees that stand still", storetest.Value[int](t, db,
		"SELECT count(*) FROM audit_trees WHERE grown_at > now()"), 0)
}

func TestPrune(t *testing.T) {
	t.Parallel()
	k, db := oldLog(t)
	storetest.Exec(t, db, "CREATE TABLE early AS SELECT * FROM audit_records WHERE seq < 3")
	for range 2 { // the second round has nothing to do
		expect.NoError(t, k.SignHeads(t.Context()))
		expect.NoError(t, k.Prune(t.Context()))
		wantRows(t, db, 3, 1) // two checks and the pruning
	}
	var stored []string
	for _, file := range expect.Value(k.Dir.Files())(t) {
		stored = append(stored, audit.SplitCheckpoints(string(expect.Value(os.ReadFile(file))(t)))...)
	}
	stored = slices.DeleteFunc(stored, func(note string) bool { return strings.Contains(note, "/chain/100000") })
	// The head before the pruning, the anchor, and the head after the pruning.
	expect.Must(t, len(stored) == 3, "stored outside the database: %q", stored)
	anchor, err := k.Signer.OpenAnchor(stored[1])
	expect.That(t, err == nil && anchor.Seq == 2, "the stored anchor is %+v, error %v", anchor, err)
	reports, broken := k.verifyFiles(t)
	want := Report{Records: 3, Pruned: 2, PrunedBefore: "2021-03-10", Checkpoints: 3, Since: "2021-03-20T12:00:00.000Z",
		OK: true}
	expect.NoError(t, broken)
	expect.NoDiff(t, "reports", []Report{want}, reports[:1], cmpopts.IgnoreUnexported(Report{}))
	// Records that are not deleted yet are valid and no longer shown, and others cannot be added before the first one.
	for _, early := range []struct{ change, reason string }{{"SELECT", ""}, {"UPDATE early SET seq = 3 - seq",
		"at record 1: it is before the first record"}, {"UPDATE early SET seq = seq - 2", "at record -1: it is before"},
		{"UPDATE early SET seq = seq + 2, score = 99", "at record 1: the record does not match its leaf"}} {
		storetest.Exec(t, db, early.change)
		storetest.Exec(t, db, "INSERT INTO audit_records SELECT * FROM early")
		expect.Outcome(t, early.change, expect.ErrorOf(k.verifyFiles(t)), early.reason)
		caller := check.Caller{Account: storetest.Value[string](t, db, "SELECT account_id FROM early")}
		ref := storetest.Value[string](t, db, "SELECT ref FROM early")
		expect.Error(t, "showing one", expect.ErrorOf(k.Store.RecordedCheck(t.Context(), caller, ref, nil)),
			feedback.ErrUnknownCheck)
		storetest.Exec(t, db, "DELETE FROM audit_records WHERE ref IN (SELECT ref FROM early)")
	}
	text := reports[0].String()
	expect.That(t, strings.Contains(text, "2 earlier records, from before 2021-03-10, were pruned"), "reads %q", text)

	// A checkpoint outside the database contradicts the anchor.
	anchor.Hash[0]++
	expect.NoError(t, k.signAnchor(anchor.Head))
	expect.ErrorText(t, "verifying against a contradicting checkpoint", expect.ErrorOf(k.verifyFiles(t)),
		"two signed hashes of it differ")
	expect.Value(db.Exec(t.Context(), `UPDATE audit_anchors
		SET note = replace(note, 'pruned before 2021-03-10', 'pruned before 2021-03-11')`))(t)
	expect.ErrorText(t, "an altered anchor", expect.ErrorOf(k.verifyFiles(t)), "not signed by this host's key")
	expect.Failure(t, k.Prune(t.Context()), "pruning succeeded with an altered anchor")
}

// Records that were tampered with are evidence, and a record is deleted only after an anchor is stored elsewhere.
func TestPruneKeepsRecords(t *testing.T) {
	t.Parallel()
	nothing := func(*Keeper) error { return nil }
	type testCase struct {
		tamper  string
		outside func(k *Keeper) error // a change outside the database
		reason  string
	}
	expect.Each(t, map[string]testCase{
		"of an altered log": {"UPDATE audit_records SET score = 0 WHERE seq = 1", nothing, "does not match its leaf"},
		"that were moved to an older month": {"UPDATE audit_records SET recorded_at = recorded_at - interval '1 year'",
			nothing, "does not match its leaf"},
		"of a log that a checkpoint contradicts": {"SELECT", func(k *Keeper) error {
			return k.signAnchor(audit.Head{Seq: 1})
		}, "differs from a signed checkpoint"},
		"if the anchor cannot be stored": {"SELECT", func(k *Keeper) error {
			return os.WriteFile(string(k.Dir), nil, 0o600)
		}, "not a directory"},
	}, func(t *testing.T, test testCase) {
		k, db := oldLog(t)
		storetest.Exec(t, db, test.tamper)
		expect.NoError(t, test.outside(k))
		expect.ErrorText(t, "pruning", k.Prune(t.Context()), test.reason)
		wantRows(t, db, 4, 0)
	})
}

// A damaged record or anchor is reported. The other chains are pruned.
func TestDamageHarmsItsChainOnly(t *testing.T) {
	t.Parallel()
	type testCase struct{ damage, reason string }
	expect.Each(t, map[string]testCase{
		"the record to cut at": {`UPDATE audit_records SET hash = '\x00' WHERE seq = 2 AND chain = 1`,
			"audit chain 1 breaks at record 2: its leaf or hash is not 32 bytes long"},
		"a record before it": {`UPDATE audit_records SET leaf = '\x00' WHERE seq = 1 AND chain = 1`,
			"audit chain 1 breaks at record 1: its leaf or hash is not 32 bytes long"},
		"an anchor": {`INSERT INTO audit_anchors (chain, seq, note) VALUES (1, 2, 'forged')`,
			"audit chain 1 breaks at record 2: the anchor here was not signed by this host's key"},
	}, func(t *testing.T, test testCase) {
		k, db := oldChains(t, 2)
		storetest.Exec(t, db, test.damage)
		for range 2 { // in the second round nothing is due in chain 0
			expect.ErrorText(t, "pruning", k.Prune(t.Context()), test.reason)
			expect.Equal(t, "records of chain 0", storetest.Value[int](t, db,
				"SELECT count(*) FROM audit_records WHERE chain = 0 AND kind = 'check'"), 2)
		}
	})
}

// A damaged head is reported. The other chains are signed, verified and pruned.
func TestDamagedHeadHarmsItsChainOnly(t *testing.T) {
	t.Parallel()
	k, db := oldLog(t)
	storetest.Exec(t, db, `INSERT INTO audit_heads (chain, seq, hash) VALUES (1, 9, '\x00')`)
	const reason = "audit chain 1 breaks at record 9: the head's hash is not 32 bytes long"
	dir := k.Dir
	k.Dir += "\x00" // cannot be written
	expect.ErrorText(t, "signing without a folder", k.SignHeads(t.Context()), reason)
	k.Dir = dir
	expect.ErrorText(t, "signing", k.SignHeads(t.Context()), reason)
	s := k.Status()
	expect.That(t, s.Signed[0].Seq == 4 && !s.Signed[0].At.IsZero() && len(s.Signed) == 3 && len(s.Problems) == 1 &&
		strings.Contains(s.Problems[0], reason), "after signing, the status is %+v", s)
	expect.ErrorText(t, "pruning", k.Prune(t.Context()), reason)
	storetest.Exec(t, db, "DELETE FROM audit_heads WHERE chain = 1")
	expect.NoError(t, k.SignHeads(t.Context()))
	expect.NoError(t, k.Prune(t.Context()))
	expect.Equal(t, "problems once the damage is mended", len(k.Status().Problems), 0)
	k.status.ended(pruning, os.ErrInvalid)
	k.PrunedElsewhere()
	expect.Equal(t, "problems once another host has pruned", len(k.Status().Problems), 0)
	storetest.Exec(t, db, `INSERT INTO audit_heads (chain, seq, hash) VALUES (1, 9, '\x00')`)
	wantRows(t, db, 3, 1)
	reports, broken := k.verifyFiles(t)
	expect.ErrorText(t, "the log", broken, reason)
	expect.That(t, len(reports) == 4 && reports[0].OK && reports[0].Checkpoints != 0 && reports[1].OK && !reports[3].OK,
		"reports %+v", reports)
}

// A host signs only heads that it has verified. A log that cannot be read is not taken for a valid one.
func TestStoreAnchorsOfUnverifiedHeads(t *testing.T) {
	t.Parallel()
	k, _ := oldLog(t)
	due, err := k.Store.AuditDue(t.Context())
	expect.Must(t, err == nil && len(due) == 1, "due anchors %+v, error %v", due, err)
	_, _, err = k.storeAnchors(expect.Ended(t), due)
	expect.Error(t, "storing of a log that cannot be read", err, context.Canceled)
	due[0].Hash[0]++
	_, broken, err := k.storeAnchors(t.Context(), due)
	expect.NoError(t, err)
	expect.ErrorText(t, "storing", broken, "differs from a signed checkpoint")
	files, err := k.Dir.Files()
	expect.That(t, err == nil && len(files) == 0, "signed files %v, error %v", files, err)
}
