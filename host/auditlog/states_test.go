package auditlog

import (
	"bytes"
	"context"
	"io"
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
		"ALTER TABLE api_keys DROP CONSTRAINT api_keys_check")
	restore := dump(t, db, "kept", "accounts", "api_keys", "feeds", "feed_entries", "feed_ranks",
		"overrides", "state_records", "audit_heads")
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
		"all records": {`DELETE FROM state_records;
			DELETE FROM audit_heads WHERE chain = 1000000`, "chain of accounts, keys and lineups is gone", later},
		"a change that is recorded": {"UPDATE accounts SET quota = 11; SELECT record_account(id) FROM accounts", "",
			time.Now()},
	} {
		storetest.Exec(t, db, test.tamper)
		var broken error
		expect.NoError(t, k.Store.ReadAuditLog(t.Context(), func(ctx context.Context, log store.AuditLog) error {
			var err error
			_, broken, err = VerifyPublic(ctx, log, k.Signer.Public, nil, test.now)
			if err != nil || name == "all records" {
				return err
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
	expect.ErrorText(t, "a quota", broken, "audit chain 1000000 breaks at record ")
	last := reports[len(reports)-1]
	expect.That(t, last.Chain == audit.StateChain && !last.OK, "the report is %+v", last)
}
