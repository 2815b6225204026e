package auditlog

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"assay/host/audit"
	"assay/host/check"
	"assay/host/customer/privacy"
	"assay/host/entity"
	"assay/host/store"
	"assay/host/store/storetest"
	"assay/registry/expect"
)

// TestKeyRotation replaces the key of a log while it grows. Whoever has only the first key can follow, with each
// verifier. A statement that was deleted and a checkpoint that the old key signed later are found.
func TestKeyRotation(t *testing.T) {
	t.Parallel()
	k, db := oldLog(t)
	first := k.Signer.Public
	k.Signer = k.Store.Signer()
	expect.NoError(t, k.SignHeads(t.Context()))
	// Records of accounts have the database's time, so the first key's checkpoint of them would be late.
	storetest.Exec(t, db, "DELETE FROM audit_checkpoints WHERE chain >= 1000000")
	expect.NoError(t, os.RemoveAll(string(k.Dir)))
	second := bytes.Repeat([]byte{2}, 32)
	from := time.Date(2021, 5, 1, 0, 0, 0, 0, time.UTC)
	statement := expect.Value(k.Signer.Introduce(k.Signer.Hold(second), audit.Checkpoints|audit.Records, from))(t)
	expect.NoError(t, k.Store.KeepKeyStatement(t.Context(), 2, statement))
	stale := storetest.Close(t, expect.Value(store.Open(t.Context(), store.Config{URL: db.Config().ConnString(),
		Keys: storetest.Ring, Logger: storetest.Discard()}))(t))
	behind := &Keeper{Store: stale, Signer: stale.Signer(), Logger: storetest.Discard()}

	caller := storetest.NewCaller(t, k.Store, storetest.Plan(t, "pro", 10))
	e := storetest.Parse(t, entity.Domain, "example.com")
	ledger := expect.Value(k.Store.NewLedger(patient))(t)
	expect.NoError(t, ledger.Append(t.Context(), storetest.Decided(caller, e, check.Allow)))
	expect.NoError(t, ledger.Close())
	_ = expect.Value(k.Store.Erase(t.Context(), caller, privacy.Selector{Entity: &e}))(t)
	expect.Error(t, "a host without the key", behind.SignHeads(t.Context()), audit.ErrKeyElsewhere)
	_, err := stale.Erase(t.Context(), caller, privacy.Selector{Entity: &e})
	expect.Error(t, "an erasure by a host without the key", err, audit.ErrKeyElsewhere)
	expect.NoError(t, k.SignHeads(t.Context()))

	public := func(key audit.Public) (broken error) {
		read := func(ctx context.Context, log store.AuditLog) (err error) {
			_, broken, err = VerifyPublic(ctx, log, key, nil, time.Now())
			return err
		}
		expect.NoError(t, k.Store.ReadAuditLog(t.Context(), read))
		return broken
	}
	expect.NoError(t, public(first))
	_, broken, err := k.verifyFiles(t)
	expect.NoError(t, broken)
	expect.NoError(t, err)
	dir := t.TempDir()
	export := func(name string) string {
		file := filepath.Join(dir, name)
		expect.NoError(t, os.WriteFile(file, writeExport(t, k), 0o600))
		return file
	}
	whole := export("whole")
	_, err = verifyExport(t, expect.Value(os.ReadFile(whole))(t), first, nil)
	expect.NoError(t, err)

	// The key that was replaced signs the newest tree.
	thief := NewSigner(storetest.Ring.SignSeed)
	head := expect.Value(k.Signer.OpenTree(expect.Value(k.Store.NewestCheckpoint(t.Context(), 0))(t)))(t)
	intact := storetest.Value[string](t, db, "SELECT note FROM audit_checkpoints WHERE size = $1 AND chain = 0",
		head.Size)
	replace := "UPDATE audit_checkpoints SET note = $2 WHERE size = $1 AND chain = 0"
	expect.Value(db.Exec(t.Context(), replace, head.Size, expect.Value(thief.SignTree(head))(t)))(t)
	expect.ErrorText(t, "a late checkpoint", public(first), "signed with a key that had been replaced")
	late := export("late")
	expect.Value(db.Exec(t.Context(), replace, head.Size, intact))(t)

	out, notes := verifyInPython(t, k, whole, late)
	expect.That(t, strings.Contains(out, "Audit chain 0 is valid") && strings.Contains(notes, late+": ") &&
		strings.Contains(notes, "had been replaced") && !strings.Contains(notes, whole+": "), "Python: %s\n%s", out,
		notes)

	// It signs an anchor, so that a record can be deleted which the second key has signed.
	checkOnce := func() {
		ledger := expect.Value(k.Store.NewLedger(patient))(t)
		expect.NoError(t, ledger.Append(t.Context(), storetest.Decided(caller, e, check.Allow)))
		expect.NoError(t, ledger.Close())
		expect.NoError(t, k.SignHeads(t.Context()))
	}
	checkOnce()
	cut := audit.Anchor{Before: from, Head: audit.Head{Seq: head.Size + 1}}
	cut.Hash = audit.Hash(storetest.Value[[]byte](t, db, "SELECT hash FROM audit_records WHERE chain = 0 AND seq = $1",
		cut.Seq))
	expect.NoError(t, k.Store.KeepAnchor(t.Context(), cut, expect.Value(thief.Anchor(cut))(t)))
	expect.NoError(t, k.Prune(t.Context()))
	expect.Equal(t, "records that a host has pruned", storetest.Value[int64](t, db,
		"SELECT min(seq) - 1 FROM audit_records WHERE chain = 0"), 0)
	expect.Value(db.Exec(t.Context(), "DELETE FROM audit_records WHERE chain = 0 AND seq <= $1", cut.Seq))(t)
	checkOnce()
	early := export("early")
	expect.ErrorText(t, "an anchor before a later key's checkpoint", public(first), lateAnchor)
	cut.Before = from.AddDate(0, 1, 0)
	expect.Value(db.Exec(t.Context(), "UPDATE audit_anchors SET note = $1", expect.Value(thief.Anchor(cut))(t)))(t)
	dated := export("dated")
	expect.ErrorText(t, "an anchor of a later date", public(first), lateAnchor)
	_, notes = verifyInPython(t, k, early, dated)
	expect.Equal(t, "late anchors that Python finds", strings.Count(notes, lateAnchor), 2)

	storetest.Exec(t, db, "DELETE FROM audit_keys")
	expect.ErrorText(t, "a deleted statement", public(k.Signer.Public), "they were deleted")
	expect.ErrorText(t, "a deleted statement, without it", public(first), "not signed by this installation")
}
