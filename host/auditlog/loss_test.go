package auditlog

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"assay/host/audit"
	"assay/host/check"
	"assay/host/entity"
	"assay/host/store/storetest"
	"assay/registry/expect"
)

// restorable are the tables that a test brings back to an earlier state.
var restorable = []string{"audit_records", "state_records", "audit_heads", "audit_trees", "audit_tiles",
	"audit_checkpoints", "audit_acceptances", "graph_contributions", "quota_usage", "accounts", "api_keys"}

// dump keeps the state of tables under a name, and restore brings it back, as an older backup does.
func dump(t *testing.T, db *pgx.Conn, name string, tables ...string) (restore func()) {
	t.Helper()
	for _, table := range tables {
		storetest.Exec(t, db, fmt.Sprintf("CREATE TABLE %s_%s AS TABLE %[2]s", name, table))
	}
	return func() {
		t.Helper()
		storetest.Exec(t, db, "SET session_replication_role = replica") // without foreign keys
		for _, table := range tables {
			storetest.Exec(t, db, "DELETE FROM "+table,
				fmt.Sprintf("INSERT INTO %[2]s OVERRIDING SYSTEM VALUE TABLE %[1]s_%[2]s", name, table))
		}
	}
}

// acceptLoss accepts a loss of a chain, and returns the number of the record.
func acceptLoss(t *testing.T, k *Keeper, by *audit.Signer, chain int, survived int64) int64 {
	t.Helper()
	note := expect.Value(by.AcceptLoss(audit.LossAcceptance{Chain: chain, At: time.Now(), Survived: survived,
		Reason: "An older backup was restored."}))(t)
	return expect.Value(k.Store.AcceptLosses(t.Context(), chain, nil, survived, note))(t)
}

// After an accepted loss the tree goes on under another origin, and no signed tree contradicts another one of its
// origin. Both verifiers say what was lost, and find what is not explained by the loss.
func TestTreeAfterALoss(t *testing.T) {
	t.Parallel()
	k, db := oldLog(t) // four records
	expect.NoError(t, k.SignHeads(t.Context()))
	restore := dump(t, db, "first", restorable...)
	e := storetest.Parse(t, entity.Domain, "example.net")
	record := func(n int) {
		ledger := expect.Value(k.Store.NewLedger(patient))(t)
		defer ledger.Close()
		caller := storetest.NewCaller(t, k.Store, storetest.Plan(t, "pro", 100))
		for range n {
			expect.NoError(t, ledger.Append(t.Context(), storetest.Decided(caller, e, check.Block)))
		}
	}
	record(3)
	expect.NoError(t, k.SignHeads(t.Context())) // seven leaves
	restore()
	record(1)

	contradicts := "contradicts the signed checkpoint of 7 leaves"
	expect.ErrorText(t, "signing after the backup was restored", k.SignHeads(t.Context()), contradicts)
	again := dump(t, db, "second", restorable...)
	acceptLoss(t, k, audit.NewSigner(audit.KeyName, make([]byte, 32)), 0, 4)
	for _, host := range []*Keeper{k, {Store: k.Store, Signer: k.Signer, Logger: k.Logger, Dir: k.Dir}} {
		expect.ErrorText(t, "signing after a forged acceptance", host.SignHeads(t.Context()),
			"that no operator has accepted")
	}
	again()
	acceptLoss(t, k, k.Signer, audit.StatesOf(0), 0)
	number := acceptLoss(t, k, k.Signer, 0, 4)
	expect.Equal(t, "the record of the acceptance", number, 6)
	_, broken, err := k.verifyFiles(t)
	expect.NoError(t, err)
	expect.ErrorText(t, "verification before a checkpoint", broken, "no checkpoint was signed since")

	for _, host := range []*Keeper{k, {Store: k.Store, Signer: k.Signer, Logger: k.Logger, Dir: k.Dir}} {
		expect.NoError(t, host.SignHeads(t.Context()))
		expect.NoError(t, host.Tidy(t.Context()))
	}
	note := expect.Value(k.Store.NewestCheckpoint(t.Context(), 0))(t)
	want := k.Signer.Origin(0) + "/after/6\n6\n"
	expect.That(t, strings.HasPrefix(note, want), "the checkpoint is %q, want %q", note, want)
	record(2)
	expect.NoError(t, k.SignHeads(t.Context()))
	reports, broken, err := k.verifyFiles(t)
	expect.NoError(t, err)
	expect.NoError(t, broken)
	expect.Equal(t, "losses", reports[0].Losses, 1)
	export := writeExport(t, k)
	outside := ReadCheckpoints(expect.Value(k.Dir.Files())(t), k.Signer.Public)
	expect.NoError(t, expect.ErrorOf(verifyExport(t, export, k.Signer.Public, outside)))
	for _, change := range []struct{ name, from, to string }{
		{"nothing", "", ""},
		{"the number of the acceptance", `"tree":{"after":6`, `"tree":{"after":5`},
		{"no acceptance", `"tree":{"after":6,`, `"tree":{`},
	} {
		text := strings.Replace(string(export), change.from, change.to, 1)
		file := filepath.Join(t.TempDir(), "export")
		expect.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		_, broken := verifyExport(t, []byte(text), k.Signer.Public, outside)
		_, notes := verifyInPython(t, k, file)
		if wrong := change.from != ""; (broken != nil) != wrong || (notes != "") != wrong {
			t.Errorf("%s: %v; Python says %q", change.name, broken, notes)
		}
	}

	// A loss explains no other difference: not that of records that survived.
	storetest.Exec(t, db, "UPDATE audit_records SET revision = 5 WHERE kind = 'loss'")
	_, broken, err = k.verifyFiles(t)
	expect.NoError(t, err)
	expect.That(t, broken != nil, "an altered acceptance is not found")
}
