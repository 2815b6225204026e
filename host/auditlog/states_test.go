package auditlog

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

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
		"plan":            {"UPDATE accounts SET plan = 'starter' WHERE id = " + account, "account acct_", later},
		"suspension":      {"UPDATE accounts SET suspended_at = now() WHERE id = " + account, "account acct_", later},
		"public quota":    {"UPDATE accounts SET quota = 1", altered("account acct_public"), later},
		"account added":   {"INSERT INTO accounts VALUES ('acct_x', 'pro', 1, '')", "no record says", later},
		"account deleted": {"DELETE FROM accounts WHERE id = " + account, "is gone, but no record", later},
		"key restored": {"UPDATE api_keys SET state = 'valid', ended_at = NULL WHERE id = " + revoked,
			altered(limited.ID), later},
		"limits gone":  {"UPDATE api_keys SET scopes = NULL, networks = NULL", altered(limited.ID), later},
		"limits added": {"UPDATE api_keys SET test = true WHERE id = " + key, altered(caller.Key), later},
		"key added": {"INSERT INTO api_keys (id, account_id, name, hash, hint) VALUES ('key_x', " + account +
			", '', '', '')", "no record says that it was added", later},
		"key deleted":        {"DELETE FROM api_keys WHERE id = " + key, "is gone, but no record", later},
		"key deleted early":  {"DELETE FROM api_keys WHERE id = " + revoked, "is gone, but no record", time.Now()},
		"key deleted in due": {"DELETE FROM api_keys WHERE id = " + revoked, "", later},
		"list name":          {"UPDATE feeds SET name = 'x' WHERE kind = 'bad'", "no record says", later},
		"list kind":          {"UPDATE feeds SET kind = 'good' WHERE kind = 'bad'", altered("list Bad"), later},
		"list deleted":       {"DELETE FROM feeds WHERE kind = 'bad'", "the list Bad is gone, but no record", later},
		"entry value":        {"UPDATE feed_entries SET value = 'x'", altered("list content Bad"), later},
		"rank":               {"UPDATE feed_ranks SET ranks = sha256(ranks)", altered("list content Popular"), later},
		"override deleted":   {"DELETE FROM overrides", "is gone, but no record", expiry.Add(-time.Minute)},
		"override expired":   {"DELETE FROM overrides", "", expiry.Add(time.Minute)},
		"record removed": {"DELETE FROM state_records WHERE chain = 1000001 AND seq = 2", "record is number 3",
			later},
		"record altered": {"UPDATE state_records SET verdict = 'valid' WHERE key_id = " + revoked, "its leaf",
			later},
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
			_, err = WriteExport(ctx, log, k.Signer.Public, test.now, &text, func(int64) {})
			if err != nil {
				return err
			}
			export := expect.Value(OpenExport(bytes.NewReader(text.Bytes()), int64(text.Len())))(t)
			_, same, err := VerifyPublic(ctx, export, k.Signer.Public, nil, test.now)
			expect.That(t, (same == nil) == (broken == nil), "%s: the export: %v", name, same)
			return err
		}))
		expect.Outcome(t, name, broken, test.reason)
		restore()
	}
	storetest.Exec(t, db, "UPDATE accounts SET quota = 11 WHERE id = "+account)
	reports, broken, err := k.verifyFiles(t)
	expect.NoError(t, err)
	expect.ErrorText(t, "a quota", broken, "audit chain 1000001 breaks at record ")
	last := reports[len(reports)-1]
	expect.That(t, last.Chain == audit.StatesOf(0) && !last.OK, "the report is %+v", last)
}
