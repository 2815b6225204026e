package auditlog

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"assay/host/audit"
	"assay/host/check"
	"assay/host/entity"
	"assay/host/keyring"
	"assay/host/postgres/postgrestest"
	"assay/host/store"
)

func TestMain(m *testing.M) { os.Exit(postgrestest.Main(m)) }

// oldLog records one check in each month from January to April 2021 and returns a keeper whose clock is in March 2022:
// the first two records are past their retention, the others are not.
func oldLog(t *testing.T, database string) *Keeper {
	t.Helper()
	dir := t.TempDir()
	keys, err := keyring.Load(filepath.Join(dir, "secret"))
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2022, 3, 10, 12, 0, 0, 0, time.UTC)
	s, err := store.Open(t.Context(), store.Config{URL: database, Keys: keys, Logger: slog.New(slog.DiscardHandler),
		Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	plan, _ := check.PlanNamed("pro")
	account, err := s.CreateAccount(t.Context(), plan)
	if err != nil {
		t.Fatal(err)
	}
	key, err := s.CreateKey(t.Context(), account, "test")
	if err != nil {
		t.Fatal(err)
	}
	ledger, err := s.NewLedger(store.LedgerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer ledger.Close()
	e, err := entity.Parse(entity.Domain, "example.org", "")
	if err != nil {
		t.Fatal(err)
	}
	caller := check.Caller{Account: account, Key: key.ID, Plan: plan}
	for month := time.January; month <= time.April; month++ {
		d := &check.Decision{Fused: check.Fused{Score: 7, Verdict: check.Allow}, Ref: check.NewRef(), Type: e.Type,
			Query: e.Value, At: time.Date(2021, month, 20, 12, 0, 0, 0, time.UTC), Revision: 1}
		if err := ledger.Append(t.Context(), check.Record{Caller: caller, Entity: e, Decision: d}); err != nil {
			t.Fatal(err)
		}
	}
	return &Keeper{Store: s, Signer: NewSigner(keys.SignSeed), Dir: CheckpointDir(filepath.Join(dir, "checkpoints")),
		Logger: slog.New(slog.DiscardHandler)}
}

// sign stores a checkpoint of a head outside the database.
func (k *Keeper) sign(head audit.Head) error {
	signed, err := k.Signer.Checkpoint(head)
	if err != nil {
		return err
	}
	return k.Dir.Append(signed)
}

// verifyFiles verifies the log against the checkpoints in the keeper's directory, as `assay audit verify` does.
func (k *Keeper) verifyFiles(t *testing.T) (reports []Report, broken, err error) {
	t.Helper()
	files, err := k.Dir.Files()
	if err != nil {
		t.Fatal(err)
	}
	checkpoints, err := ReadCheckpoints(files, k.Signer)
	if err != nil {
		t.Fatal(err)
	}
	return Verify(t.Context(), k.Store, k.Signer, checkpoints)
}

func connect(t *testing.T, database string) *pgx.Conn {
	t.Helper()
	db, err := pgx.Connect(t.Context(), database)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close(t.Context()) })
	return db
}

func countRows(t *testing.T, db *pgx.Conn, table string) (n int) {
	t.Helper()
	if err := db.QueryRow(t.Context(), "SELECT count(*) FROM "+table).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestPrune(t *testing.T) {
	t.Parallel()
	database := postgrestest.Database(t)
	k := oldLog(t, database)
	db := connect(t, database)
	var firstHash []byte
	if err := db.QueryRow(t.Context(), "SELECT hash FROM audit_records WHERE seq = 1").Scan(&firstHash); err != nil {
		t.Fatal(err)
	}
	if err := k.sign(audit.Head{Seq: 1, Hash: audit.Hash(firstHash)}); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second round has nothing to do
		if err := k.SignHeads(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := k.Prune(t.Context()); err != nil {
			t.Fatal(err)
		}
		records, anchors := countRows(t, db, "audit_records"), countRows(t, db, "audit_anchors")
		if records != 3 || anchors != 1 {
			t.Errorf("%d records and %d anchors, want 3 (two checks and the pruning) and 1", records, anchors)
		}
	}
	files, err := k.Dir.Files()
	if err != nil || len(files) == 0 {
		t.Fatalf("checkpoint files %v, error %v", files, err)
	}
	var stored []string
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		stored = append(stored, audit.SplitCheckpoints(string(text))...)
	}
	// The pruned head, the head before the pruning, the anchor, and the head after the pruning.
	if len(stored) != 4 {
		t.Fatalf("stored outside the database: %q", stored)
	}
	anchor, err := audit.OpenAnchor(stored[2], k.Signer.VerifierKey())
	if err != nil || anchor.Seq != 2 {
		t.Errorf("the stored anchor is %+v, error %v", anchor, err)
	}
	reports, broken, err := k.verifyFiles(t)
	want := Report{Records: 3, Pruned: 2, PrunedBefore: "2021-03-01", Checkpoints: 3, OK: true}
	if diff := cmp.Diff([]Report{want}, reports); diff != "" || broken != nil || err != nil {
		t.Fatalf("%v, %v; reports (-want +got):\n%s", broken, err, diff)
	}
	if text := reports[0].String(); !strings.Contains(text, "2 earlier records, from before 2021-03-01, were pruned") {
		t.Errorf("the report reads %q", text)
	}

	// A checkpoint outside the database contradicts the anchor.
	anchor.Hash[0]++
	if err := k.sign(anchor.Head); err != nil {
		t.Fatal(err)
	}
	_, broken, err = k.verifyFiles(t)
	if err != nil || broken == nil || !strings.Contains(broken.Error(), "two signed hashes of it differ") {
		t.Errorf("verifying against a contradicting checkpoint: %v, %v", broken, err)
	}
	if _, err := db.Exec(t.Context(), `UPDATE audit_anchors
		SET note = replace(note, 'pruned before 2021-03-01', 'pruned before 2021-03-02')`); err != nil {
		t.Fatal(err)
	}
	_, broken, err = k.verifyFiles(t)
	if err != nil || broken == nil || !strings.Contains(broken.Error(), "not signed by this host's key") {
		t.Errorf("verifying an altered anchor: %v, %v", broken, err)
	}
	if err := k.Prune(t.Context()); err == nil {
		t.Error("pruning succeeded with an altered anchor")
	}
}

// Records that were tampered with are evidence, and an anchor must be stored outside the database before a record is
// deleted.
func TestPruneKeepsRecords(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		tamper func(t *testing.T, k *Keeper, db *pgx.Conn) error
		reason string
	}{
		"of an altered log": {func(t *testing.T, _ *Keeper, db *pgx.Conn) error {
			_, err := db.Exec(t.Context(), "UPDATE audit_records SET score = 0 WHERE seq = 1")
			return err
		}, "does not match its leaf"},
		"that were moved to an older month": {func(t *testing.T, _ *Keeper, db *pgx.Conn) error {
			_, err := db.Exec(t.Context(), "UPDATE audit_records SET recorded_at = recorded_at - interval '1 year'")
			return err
		}, "recorded_at differs from its timestamp"},
		"of a log that a checkpoint contradicts": {func(_ *testing.T, k *Keeper, _ *pgx.Conn) error {
			return k.sign(audit.Head{Seq: 1})
		}, "differs from a signed checkpoint"},
		"if the anchor cannot be stored": {func(_ *testing.T, k *Keeper, _ *pgx.Conn) error {
			return os.WriteFile(string(k.Dir), nil, 0o600)
		}, "storing checkpoint"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			database := postgrestest.Database(t)
			k := oldLog(t, database)
			db := connect(t, database)
			if err := test.tamper(t, k, db); err != nil {
				t.Fatal(err)
			}
			if err := k.Prune(t.Context()); err == nil || !strings.Contains(err.Error(), test.reason) {
				t.Errorf("error %v, want %q", err, test.reason)
			}
			records, anchors := countRows(t, db, "audit_records"), countRows(t, db, "audit_anchors")
			if records != 4 || anchors != 0 {
				t.Errorf("%d records and %d anchors, want 4 and 0", records, anchors)
			}
		})
	}
}

// A host signs only heads that it has verified.
func TestStoreAnchorsOfUnverifiedHeads(t *testing.T) {
	t.Parallel()
	k := oldLog(t, postgrestest.Database(t))
	due, err := k.Store.AuditDue(t.Context())
	if err != nil || len(due) != 1 {
		t.Fatalf("due anchors %+v, error %v", due, err)
	}
	due[0].Hash[0]++
	if err := k.storeAnchors(t.Context(), due); err == nil ||
		!strings.Contains(err.Error(), "differs from a signed checkpoint") {
		t.Errorf("error %v", err)
	}
	if files, err := k.Dir.Files(); err != nil || len(files) != 0 {
		t.Errorf("signed files %v, error %v", files, err)
	}
}
