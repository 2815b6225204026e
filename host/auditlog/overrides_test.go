package auditlog

import (
	"strings"
	"testing"
	"time"

	"assay/host/check"
	"assay/host/customer/override"
	"assay/host/store/storetest"
	"assay/registry/expect"
)

// What decides checks without a layer is held to the records of its addition and removal, as
// TestColumnsThatVerificationCovers tests for each column.
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
	_, err := db.Exec(t.Context(), `INSERT INTO foreign_row
		VALUES ('ovr_2', '', 'block', 'domain', '\x01', NULL, '', '', '', $1, $1, $2)`, expiry,
		k.Store.OverrideKeys().MAC(foreign))
	expect.NoError(t, err)
	restore := dump(t, db, "intact", "overrides")
	for name, test := range map[string]struct{ tamper, reason string }{
		"as they were added":  {"SELECT", ""},
		"id":                  {"UPDATE overrides SET id = 'ovr_1' WHERE account_id <> ''", "ovr_1 was altered"},
		"for all":             {"UPDATE overrides SET account_id = '' WHERE account_id <> ''", "was altered"},
		"action":              {"UPDATE overrides SET action = 'allow'", "was altered"},
		"match":               {"UPDATE overrides SET match = sha256(match)", "was altered"},
		"expires_at":          {"UPDATE overrides SET expires_at = expires_at + interval '1 s'", "was altered"},
		"expired":             {"UPDATE overrides SET expires_at = created_at", "is gone, but no record"},
		"mac":                 {"UPDATE overrides SET mac = sha256(mac)", "was altered"},
		"deleted":             {"DELETE FROM overrides WHERE account_id = ''", "is gone, but no record"},
		"restored":            {"INSERT INTO overrides SELECT * FROM removed", "but a record says that it was removed"},
		"of another database": {"INSERT INTO overrides SELECT * FROM foreign_row", "no record says that it was added"},
	} {
		storetest.Exec(t, db, test.tamper)
		reports, broken, err := Verify(t.Context(), k.Store, k.Signer.Public, trust, nil)
		expect.NoError(t, err)
		ok := true
		for _, r := range reports {
			ok = ok && r.OK
		}
		expect.That(t, (broken == nil) == (test.reason == "") && ok == (test.reason == "") &&
			(broken == nil || strings.Contains(broken.Error(), test.reason)), "%s: %v, want %q; reports %+v", name,
			broken, test.reason, reports)
		restore()
	}
}
