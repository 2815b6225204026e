package auditlog

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"assay/host/access/apikey"
	"assay/host/audit"
	"assay/host/check"
	"assay/host/customer/override"
	"assay/host/entity"
	"assay/host/facts/feed"
	"assay/host/store"
	"assay/host/store/storetest"
	"assay/registry/expect"
)

// forgetting returns statements that delete all that is stored of chains.
func forgetting(chains string) (statements string) {
	for _, table := range []string{"state_records", "audit_heads", "audit_trees", "audit_tiles", "audit_checkpoints"} {
		statements += fmt.Sprintf("DELETE FROM %s WHERE chain %s;", table, chains)
	}
	return statements
}

// Accounts, keys with their limits, and lists with their entries are held to their last records, with and without the
// secret. TestColumnsThatVerificationCovers in host/e2e/audit alters each of their columns.
func TestVerifyStates(t *testing.T) {
	t.Parallel()
	k, db := oldLog(t)
	caller := storetest.NewCaller(t, k.Store, storetest.Plan(t, "pro", 10))
	limited := expect.Value(k.Store.IssueKey(t.Context(), caller.Account, apikey.Wanted{Name: "limited",
		Lifetime: 20 * 365 * 24 * time.Hour, Limits: apikey.Limits{Scopes: []apikey.Scope{apikey.ScopeCheck}}}))(t)
	expect.NoError(t, k.Store.RevokeKey(t.Context(), limited.ID))
	for _, list := range []feed.List{{Name: "Bad", Kind: feed.Bad, Category: "phishing", Format: feed.Plain},
		{Name: "Popular", Kind: feed.Ranked, Format: feed.Plain}, {Name: "Gone", Kind: feed.Bad, Format: feed.Plain}} {
		entries := []feed.Entry{{Type: entity.Domain, Value: "bad.example", Name: "bad"}}
		if list.Kind == feed.Ranked {
			entries[0].Rank = 7
		}
		_ = expect.Value(k.Store.ImportFeed(t.Context(), list, func() ([]feed.Entry, error) {
			if entries == nil {
				return nil, io.EOF
			}
			page := entries
			entries = nil
			return page, nil
		}))(t)
	}
	expect.NoError(t, k.Store.WithdrawFeed(t.Context(), "Gone"))
	expiry := k.Store.Now().Add(time.Hour).Truncate(time.Millisecond)
	_ = expect.Value(k.Store.AddOverrideForAll(t.Context(), override.Wanted{Action: check.Block, Reason: "test",
		Author: "ops", ExpiresAt: expiry,
		Target: expect.Value(override.ParseTarget(override.Domain, "example.com", ""))(t)}))(t)
	expect.NoError(t, k.SignHeads(t.Context()))
	account, key, revoked := "'"+caller.Account+"'", "'"+caller.Key+"'", "'"+limited.ID+"'"
	storetest.Exec(t, db, "SET session_replication_role = replica", // without foreign keys
		"ALTER TABLE api_keys DROP CONSTRAINT api_keys_check",
		"ALTER TABLE state_records DROP CONSTRAINT state_records_pkey")
	restore := dump(t, db, "kept", "accounts", "api_keys", "feeds", "feed_entries", "feed_ranks",
		"overrides", "state_records", "audit_heads", "audit_trees", "audit_tiles", "audit_checkpoints")
	later := time.Now().Add(30*24*time.Hour + time.Minute)
	altered := func(what string) string { return what + " differs from its last record: it was altered" }
	for name, test := range map[string]struct {
		tamper, reason string
		now            time.Time
	}{
		"as they are":     {"SELECT", "", time.Now()},
		"public quota":    {"UPDATE accounts SET quota = 1", altered("account acct_public"), later},
		"account added":   {"INSERT INTO accounts VALUES ('acct_x', 'pro', 1, '')", "no record says", later},
		"account deleted": {"DELETE FROM accounts WHERE id = " + account, "is gone, but no record", later},
		"key restored": {"UPDATE api_keys SET state = 'valid', ended_at = NULL WHERE id = " + revoked,
			altered(limited.ID), later},
		"key added": {"INSERT INTO api_keys (id, account_id, name, hash, hint) VALUES ('key_x', " + account +
			", '', '', '')", "no record says that it was added", later},
		"key deleted":        {"DELETE FROM api_keys WHERE id = " + key, "is gone, but no record", later},
		"key deleted early":  {"DELETE FROM api_keys WHERE id = " + revoked, "is gone, but no record", time.Now()},
		"key deleted in due": {"DELETE FROM api_keys WHERE id = " + revoked, "", later},
		"list name":          {"UPDATE feeds SET name = 'x' WHERE kind = 'bad'", "no record says", later},
		"list deleted":       {"DELETE FROM feeds WHERE kind = 'bad'", "the list Bad is gone, but no record", later},
		"override deleted":   {"DELETE FROM overrides", "is gone, but no record", expiry.Add(-time.Minute)},
		"override expired":   {"DELETE FROM overrides", "", expiry.Add(time.Minute)},
		"record removed": {"DELETE FROM state_records WHERE chain = 1000001 AND seq = 2", "record is number 3",
			later},
		"record altered": {"UPDATE state_records SET verdict = 'valid' WHERE key_id = " + revoked, "its leaf", later},
		"records swapped": {"UPDATE state_records SET seq = 7 - seq WHERE chain = 1000001 AND seq IN (3, 4)",
			"does not follow", later},
		"record of the end removed": {`DELETE FROM state_records WHERE chain = 1000001 AND seq = 7; UPDATE audit_heads
			AS h SET seq = 6, hash = r.hash FROM state_records AS r WHERE h.chain = 1000001 AND r.chain = h.chain
			AND r.seq = 6`, "a signed checkpoint covers 7", later},
		"state in another chain": {"SELECT append_state('key', '', " + revoked + ", 'valid', 0, 0, sha256(''))",
			"was recorded in chain 1000000 before", later},
		"records of accounts": {forgetting("= 1000001"), "no record says that it was added", later},
		"all records":         {forgetting(">= 1000000"), "chain of lists, lineups and plugins is gone", later},
		"a change that is recorded": {`UPDATE accounts SET quota = 11;
			SELECT record_state('account', id) FROM accounts`, "", time.Now()},
	} {
		storetest.Exec(t, db, test.tamper)
		var broken error
		expect.NoError(t, k.Store.ReadAuditLog(t.Context(), func(ctx context.Context, log store.AuditLog) error {
			var err error
			_, broken, err = VerifyPublic(ctx, log, k.Signer.Public, nil, test.now)
			if err != nil || name == "all records" {
				return err
			}
			if strings.HasPrefix(name, "record ") {
				expect.That(t, !strings.Contains(broken.Error(), "\n"), "%s: %v", name, broken)
			}
			var text bytes.Buffer
			expect.NoError(t, expect.ErrorOf(WriteExport(ctx, log, k.Signer.Public, test.now, &text, func(int64) {})))
			export := expect.Value(OpenExport(bytes.NewReader(text.Bytes()), int64(text.Len())))(t)
			_, same, err := VerifyPublic(ctx, export, k.Signer.Public, nil, test.now)
			expect.That(t, (same == nil) == (broken == nil), "%s: the export: %v", name, same)
			return err
		}))
		expect.Outcome(t, name, broken, test.reason)
		restore()
	}
	storetest.Exec(t, db, "UPDATE accounts SET quota = 11 WHERE id = "+account)
	reports, broken := k.verifyFiles(t)
	expect.ErrorText(t, "a quota", broken, "audit chain 1000001 breaks at record ")
	last := reports[len(reports)-1]
	expect.That(t, last.Chain == audit.StatesOf(0) && !last.OK, "the report is %+v", last)
}

// What decides checks without a layer is held to its records. TestColumnsThatVerificationCovers tests each column.
func TestVerifyOverrides(t *testing.T) {
	t.Parallel()
	k, db := oldLog(t)
	expiry := k.Store.Now().Add(time.Hour).Truncate(time.Millisecond)
	wanted := func(value string) override.Wanted {
		return override.Wanted{Action: check.Block, Reason: "test", Author: "ops", ExpiresAt: expiry,
			Target: expect.Value(override.ParseTarget(override.Domain, value, ""))(t)}
	}
	c := storetest.NewCaller(t, k.Store, storetest.Plan(t, "pro", 10))
	_ = expect.Value(k.Store.AddOverride(t.Context(), c, wanted("example.com")))(t)
	_ = expect.Value(k.Store.AddOverrideForAll(t.Context(), wanted("example.net")))(t)
	gone := expect.Value(k.Store.AddOverrideForAll(t.Context(), wanted("example.org")))(t)
	storetest.Exec(t, db, "CREATE TABLE removed AS SELECT * FROM overrides WHERE id = '"+gone.ID+"'")
	expect.NoError(t, k.Store.RemoveAnyOverride(t.Context(), gone.ID))
	// A row that a host wrote, but not into this database: its MAC is right.
	foreign := override.Entry{ID: "ovr_2", Action: check.Block, Kind: override.Domain, Match: []byte{1},
		CreatedAt: expiry, ExpiresAt: expiry}
	storetest.Exec(t, db, "CREATE TABLE foreign_row AS SELECT * FROM overrides WITH NO DATA")
	expect.Value(db.Exec(t.Context(),
		`INSERT INTO foreign_row VALUES ('ovr_2', '', 'block', 'domain', '\x01', NULL, '', '', '', $1, $1, $2)`, expiry,
		k.Store.OverrideKeys().MAC(foreign)))(t)
	restore := dump(t, db, "intact", "overrides")
	for name, test := range map[string]struct{ tamper, reason string }{
		"as they were added":  {"SELECT", ""},
		"for all":             {"UPDATE overrides SET account_id = '' WHERE account_id <> ''", "was altered"},
		"expired":             {"UPDATE overrides SET expires_at = created_at", "is gone, but no record"},
		"deleted":             {"DELETE FROM overrides WHERE account_id = ''", "is gone, but no record"},
		"restored":            {"INSERT INTO overrides SELECT * FROM removed", "but a record says that it was removed"},
		"of another database": {"INSERT INTO overrides SELECT * FROM foreign_row", "no record says that it was added"},
	} {
		storetest.Exec(t, db, test.tamper)
		reports, broken := k.verify(t, nil)
		expect.Outcome(t, name, broken, test.reason)
		bad := slices.ContainsFunc(reports, func(r Report) bool { return !r.OK })
		expect.That(t, bad == (test.reason != ""), "%s: reports %+v", name, reports)
		restore()
	}
}

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
		caller := storetest.NewCaller(t, k.Store, storetest.Plan(t, "pro", 100))
		for range n {
			k.record(t, storetest.Decided(caller, e, check.Block))
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
	expect.Equal(t, "the record of the acceptance", acceptLoss(t, k, k.Signer, 0, 4), 6)
	expect.ErrorText(t, "verification before a checkpoint", expect.ErrorOf(k.verifyFiles(t)),
		"no checkpoint was signed since")

	for _, host := range []*Keeper{k, {Store: k.Store, Signer: k.Signer, Logger: k.Logger, Dir: k.Dir}} {
		expect.NoError(t, host.SignHeads(t.Context()))
		expect.NoError(t, host.Tidy(t.Context()))
	}
	note := expect.Value(k.Store.NewestCheckpoint(t.Context(), 0))(t)
	want := k.Signer.Origin(0) + "/after/6\n6\n"
	expect.That(t, strings.HasPrefix(note, want), "the checkpoint is %q, want %q", note, want)
	record(2)
	expect.NoError(t, k.SignHeads(t.Context()))
	reports, broken := k.verifyFiles(t)
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
		wrong := change.from != ""
		expect.That(t, (broken != nil) == wrong && (notes != "") == wrong, "%s: %v; Python says %q", change.name,
			broken, notes)
	}

	// A loss explains no other difference: not that of records that survived.
	storetest.Exec(t, db, "UPDATE audit_records SET revision = 5 WHERE kind = 'loss'")
	expect.Failure(t, expect.ErrorOf(k.verifyFiles(t)), "an altered acceptance is not found")
}
