package main

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"gopkg.in/natefinch/lumberjack.v2"

	"assay/host/audit"
	"assay/host/check"
	"assay/host/entity"
	"assay/host/postgres/postgrestest"
	"assay/host/store"
)

// agedTrail is a maintenance whose clock is in March 2022, and a trail of two checks that are past their retention and
// two that are not. dir is its data directory.
func agedTrail(t *testing.T, database string) (m *maintenance, dir string) {
	t.Helper()
	dir = t.TempDir()
	b := openStore(t, dir, database)
	now := time.Date(2022, 3, 10, 12, 0, 0, 0, time.UTC)
	past, err := store.Open(t.Context(), store.Config{URL: database, Keys: b.keys,
		Logger: slog.New(slog.DiscardHandler), Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = past.Close() })
	issued, err := issueKey(t.Context(), past, "", unlimited(), "test")
	if err != nil {
		t.Fatal(err)
	}
	caller, err := past.Authenticate(t.Context(), issued.Secret)
	if err != nil {
		t.Fatal(err)
	}
	ledger, err := past.NewLedger(store.LedgerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer ledger.Close()
	e, err := entity.Parse(entity.Domain, "example.org", "")
	if err != nil {
		t.Fatal(err)
	}
	for months := range 4 {
		at := time.Date(2021, time.Month(1+months), 20, 12, 0, 0, 0, time.UTC)
		d := &check.Decision{Fused: check.Fused{Score: 7, Verdict: check.Allow}, Ref: check.NewRef(), Type: e.Type,
			Query: e.Value, At: at, Revision: 1}
		if err := ledger.Append(t.Context(), check.Record{Caller: caller, Entity: e, Decision: d}); err != nil {
			t.Fatal(err)
		}
	}
	return &maintenance{store: past, keys: b.keys, dir: filepath.Join(dir, "checkpoints"),
		log: slog.New(slog.DiscardHandler)}, dir
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

// TestAuditRetention prunes as a host does, and has `audit verify` say what became of the trail.
func TestAuditRetention(t *testing.T) {
	t.Parallel()
	database := postgrestest.Database(t)
	m, dir := agedTrail(t, database)
	db := connect(t, database)
	for row, err := range m.store.AuditRows(t.Context(), 0, 0, 1) {
		var signed string
		if err == nil {
			signed, err = newSigner(m.keys).Checkpoint(audit.Head{Seq: 1, Hash: row.Hash})
		}
		if err == nil {
			err = appendCheckpoint(m.dir, signed)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for range 2 { // the second time there is nothing to do
		if err := m.checkpoint(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := m.prune(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := countRows(t, db, "audit_records"); n != 3 || countRows(t, db, "audit_anchors") != 1 {
			t.Errorf("%d records and %d anchors, want two checks and a pruning, and one", n,
				countRows(t, db, "audit_anchors"))
		}
	}
	files, err := checkpointFiles(m.dir)
	if err != nil || len(files) == 0 {
		t.Fatalf("files %v, %v", files, err)
	}
	var kept []string
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		kept = append(kept, audit.SplitCheckpoints(string(text))...)
	}
	// A head that is pruned, the head before, the anchor, the head after.
	if len(kept) != 4 {
		t.Fatalf("kept outside the database are %q", kept)
	}
	anchor, err := audit.OpenAnchor(kept[2], newSigner(m.keys).VerifierKey())
	if err != nil || anchor.Seq != 2 {
		t.Errorf("kept outside the database is %+v, %v", anchor, err)
	}
	report := outputJSON[[]chainReport](t, dir, database, "audit", "verify")[0]
	if want := (chainReport{Records: 3, Pruned: 2, PrunedBefore: "2021-03-01", Checkpoints: 3,
		OK: true}); report != want {
		t.Errorf("audit verify: %+v, want %+v", report, want)
	}
	if text := output(t, dir, database, "audit", "verify"); !strings.Contains(text,
		"Before them, 2 records of before 2021-03-01 were pruned") {
		t.Errorf("audit verify says %s", text)
	}

	// A checkpoint outside that says otherwise than the anchor.
	anchor.Hash[0]++
	signed, err := newSigner(m.keys).Checkpoint(anchor.Head)
	if err == nil {
		err = appendCheckpoint(m.dir, signed)
	}
	if err != nil {
		t.Fatal(err)
	}
	if out, err := command(t.Context(), dir, database, "audit", "verify").CombinedOutput(); err == nil ||
		!strings.Contains(string(out), "two signed hashes of it differ") {
		t.Errorf("audit verify against another checkpoint: %v, %s", err, out)
	}
	if _, err := db.Exec(t.Context(), "UPDATE audit_anchors SET note = replace(note, 'pruned before 2021-03-01', 'pruned before 2021-03-02')"); err != nil {
		t.Fatal(err)
	}
	if out, err := command(t.Context(), dir, database, "audit", "verify").CombinedOutput(); err == nil ||
		!strings.Contains(string(out), "not signed by this host's key") {
		t.Errorf("audit verify of an altered anchor: %v, %s", err, out)
	}
	if err := m.prune(t.Context()); err == nil {
		t.Error("a host prunes behind an altered anchor")
	}
}

// What was tampered with is evidence, and without an anchor outside the database nothing is deleted from it.
func TestNothingIsPruned(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		spoil  func(t *testing.T, m *maintenance, db *pgx.Conn) error
		reason string
	}{
		"from a trail that does not hold": {func(t *testing.T, _ *maintenance, db *pgx.Conn) error {
			_, err := db.Exec(t.Context(), "UPDATE audit_records SET score = 0 WHERE seq = 1")
			return err
		}, "does not match its leaf"},
		"that was filed as old": {func(t *testing.T, _ *maintenance, db *pgx.Conn) error {
			_, err := db.Exec(t.Context(), "UPDATE audit_records SET recorded_at = recorded_at - interval '1 year'")
			return err
		}, "recorded_at differs from its timestamp"},
		"from a trail that a checkpoint contradicts": {func(_ *testing.T, m *maintenance, _ *pgx.Conn) error {
			signed, err := newSigner(m.keys).Checkpoint(audit.Head{Seq: 1})
			if err != nil {
				return err
			}
			return appendCheckpoint(m.dir, signed)
		}, "differs from a signed checkpoint"},
		"when the anchor cannot be kept outside": {func(_ *testing.T, m *maintenance, _ *pgx.Conn) error {
			return os.WriteFile(m.dir, nil, 0o600)
		}, "keeping checkpoint"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			database := postgrestest.Database(t)
			m, _ := agedTrail(t, database)
			db := connect(t, database)
			if err := test.spoil(t, m, db); err != nil {
				t.Fatal(err)
			}
			if err := m.prune(t.Context()); err == nil || !strings.Contains(err.Error(), test.reason) {
				t.Errorf("%v, want %q", err, test.reason)
			}
			if n := countRows(t, db, "audit_records"); n != 4 || countRows(t, db, "audit_anchors") != 0 {
				t.Errorf("%d records and %d anchors, want all four and none", n, countRows(t, db, "audit_anchors"))
			}
		})
	}
}

// What a host signs is what it has verified, whatever it was told to sign.
func TestAnchorOfWhatWasNotVerified(t *testing.T) {
	t.Parallel()
	m, _ := agedTrail(t, postgrestest.Database(t))
	due, err := m.store.AuditDue(t.Context())
	if err != nil || len(due) != 1 {
		t.Fatalf("due: %+v, %v", due, err)
	}
	due[0].Hash[0]++
	if err := m.anchor(t.Context(), due); err == nil ||
		!strings.Contains(err.Error(), "differs from a signed checkpoint") {
		t.Errorf("%v", err)
	}
	if files, err := checkpointFiles(m.dir); err != nil || len(files) != 0 {
		t.Errorf("signed were %v, %v", files, err)
	}
}

// A log file holds a day's lines however often the host was started meanwhile, and goes before its first line is 30
// days old.
func TestLogRetention(t *testing.T) {
	t.Parallel()
	now := time.Now()
	line := func(age time.Duration) string {
		return `{"time":"` + now.Add(-age).Format(time.RFC3339Nano) + `","msg":"ready"}` + "\n"
	}
	for name, test := range map[string]struct {
		text  string
		files int
	}{
		"of today":              {line(23 * time.Hour), 1},
		"of yesterday":          {line(24 * time.Hour), 2},
		"of both":               {line(25*time.Hour) + line(time.Hour), 2},
		"from the future":       {line(-time.Hour), 2},
		"empty":                 {"", 1},
		"that begins in a tear": {"ready\"}\n" + line(0), 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := &Config{DataDir: t.TempDir()}
			if err := os.MkdirAll(cfg.path("logs"), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(cfg.path("logs", "assay.log"), []byte(test.text), 0o600); err != nil {
				t.Fatal(err)
			}
			_, file, err := openLog(cfg, &terminal{out: t.Output(), err: t.Output()})
			if err != nil {
				t.Fatal(err)
			}
			defer file.Close()
			for range 2 {
				if err := rotateLog(file, now); err != nil {
					t.Fatal(err)
				}
			}
			files, err := filepath.Glob(cfg.path("logs", "*"))
			if err != nil || len(files) != test.files {
				t.Errorf("files %v, %v", files, err)
			}
			if file.MaxAge+2 >= 30 {
				t.Errorf("a file that spans a day goes %d days after its end, or a day later", file.MaxAge)
			}
		})
	}
	if err := rotateLog(&lumberjack.Logger{Filename: filepath.Join(t.TempDir(), "none")}, now); err != nil {
		t.Error(err)
	}
}
