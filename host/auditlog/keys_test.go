package auditlog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"

	"assay/host/audit"
	"assay/host/check"
	"assay/host/customer/privacy"
	"assay/host/entity"
	"assay/host/store"
	"assay/host/store/storetest"
	"assay/registry"
	"assay/registry/activation"
	"assay/registry/expect"
	"assay/registry/release"
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
	k.record(t, storetest.Decided(caller, e, check.Allow))
	_ = expect.Value(k.Store.Erase(t.Context(), caller, privacy.Selector{Entity: &e}))(t)
	expect.Error(t, "a host without the key", behind.SignHeads(t.Context()), audit.ErrKeyElsewhere)
	expect.Error(t, "an erasure by a host without the key", expect.ErrorOf(stale.Erase(t.Context(), caller,
		privacy.Selector{Entity: &e})), audit.ErrKeyElsewhere)
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
	expect.NoError(t, expect.ErrorOf(k.verifyFiles(t)))
	dir := t.TempDir()
	export := func(name string) string {
		file := filepath.Join(dir, name)
		expect.NoError(t, os.WriteFile(file, writeExport(t, k), 0o600))
		return file
	}
	whole := export("whole")
	expect.NoError(t, expect.ErrorOf(verifyExport(t, expect.Value(os.ReadFile(whole))(t), first, nil)))

	// The key that was replaced signs the newest tree.
	thief := audit.NewSigner(audit.KeyName, storetest.Ring.SignSeed)
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
		k.record(t, storetest.Decided(caller, e, check.Allow))
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

// Records outside the chain would be listed and exported like others, so verifying fails even without checkpoints.
func TestVerifyRecordsOutsideTheChain(t *testing.T) {
	t.Parallel()
	type testCase struct{ tamper, reason string }
	expect.Each(t, map[string]testCase{
		"after the head": {`
			INSERT INTO audit_records (chain, seq, recorded_at, kind, ref, account_id, nonce, leaf, hash)
			SELECT chain, 5, recorded_at, kind, 'chk_forged', account_id, nonce, leaf, hash
			FROM audit_records WHERE seq = 4`, "breaks at record 5: the record does not match its leaf"},
		"in a chain without a head": {`
			INSERT INTO audit_records (chain, seq, recorded_at, kind, ref, account_id, nonce, leaf, hash)
			SELECT 7, 1, recorded_at, kind, 'chk_forged', account_id, nonce, leaf, hash
			FROM audit_records WHERE seq = 4`, "audit chain 7 breaks at record 1"},
		"after a head that was set back": {`UPDATE audit_heads AS h SET (seq, hash) =
				(SELECT seq, hash FROM audit_records AS r WHERE r.seq = 2 AND r.chain = 0) WHERE chain = 0`,
			"the chain's head is record 2"},
	}, func(t *testing.T, test testCase) {
		k, db := oldLog(t)
		storetest.Exec(t, db, test.tamper)
		reports, broken := k.verify(t, nil)
		expect.ErrorText(t, "the log", broken, test.reason)
		expect.That(t, !reports[len(reports)-1].OK || !reports[0].OK, "reports %+v", reports)
	})
}

// operator signs the activations of these tests.
var operator, trust = func() (activation.Key, activation.Trust) {
	key, err := activation.NewKey("operator", make([]byte, 32))
	if err != nil {
		panic(err)
	}
	trust, err := activation.ParseTrust("operator " + key.Verifier)
	if err != nil {
		panic(err)
	}
	return key, trust
}()

// Records that no checkpoint covers could have been rewritten, unless hosts may not have signed them yet.
func TestUnsignedRecords(t *testing.T) {
	t.Parallel()
	now := time.Date(2031, 5, 20, 12, 0, 0, 0, time.UTC)
	ago := func(d time.Duration) string { return now.Add(-d).Format(check.TimeFormat) }
	type record struct {
		at      string
		covered bool
	}
	old, later, recent := record{at: ago(3 * time.Hour)}, record{at: ago(time.Hour)}, record{at: ago(time.Minute)}
	covers := func(r record) record { return record{r.at, true} }
	for name, test := range map[string]struct {
		records []record
		want    int64 // number of the record that is named; 0: none
	}{
		"none":                                {nil, 0},
		"new, without a checkpoint":           {[]record{recent}, 0},
		"old, without a checkpoint":           {[]record{old}, 1},
		"in the future, without a checkpoint": {[]record{{at: ago(-time.Hour)}}, 1},
		"at no time, without a checkpoint":    {[]record{{at: "once"}}, 1},
		"covered":                             {[]record{old, covers(recent)}, 0},
		"the last of a copy":                  {[]record{covers(old), later}, 0},
		"long before others":                  {[]record{covers(old), later, recent}, 2},
		"after an erased one":                 {[]record{covers(old), {}, later, recent}, 3},
		"at no time":                          {[]record{covers(old), {at: "once"}}, 2},
		"after one in the future":             {[]record{covers(record{at: ago(-time.Hour)}), recent}, 0},
	} {
		var r Report
		for i, record := range test.records {
			if record.covered {
				r.Checkpoints++
			}
			r.count(audit.Row{Seq: int64(i) + 1, Record: audit.Record{At: record.at}}, record.covered)
		}
		err := r.Unsigned(now)
		var broken *audit.BreakError
		expect.That(t, errors.As(err, &broken) == (test.want > 0) && (broken == nil || broken.Seq == test.want),
			"%s: %v, want record %d", name, err, test.want)
	}
}

// Each note about a plugin must be of its kind, about this plugin, and signed by a key that may sign it.
func TestVerifyPluginNotes(t *testing.T) {
	t.Parallel()
	host := expect.Value(activation.NewKey("host", bytes.Repeat([]byte{1}, 32)))(t)
	trust := expect.Value(activation.ParseTrust("operator " + operator.Verifier + "\nhost " + host.Verifier))(t)
	one := registry.PublishedPlugin{Name: "one", Version: "1.0.0", Digest: registry.Digest{1}}
	two := registry.PublishedPlugin{Name: "two", Version: "1.0.0", Digest: registry.Digest{2}}
	signature := func(key activation.Key, p registry.PublishedPlugin) string {
		return expect.Value(release.Sign(release.Release{Name: p.Name, Version: p.Version, Digest: p.Digest}, key))(t)
	}
	passport := func(key activation.Key, p registry.PublishedPlugin) string {
		text := fmt.Sprintf("%s{%q:%q}\n", registry.PassportHeader, "digest", p.Digest)
		return string(expect.Value(note.Sign(&note.Note{Text: text}, key))(t))
	}
	for name, test := range map[string]struct {
		kind registry.NoteKind
		note string
		want string // "": valid
	}{
		"a signature":             {registry.NoteSignature, signature(operator, one), ""},
		"that of another plugin":  {registry.NoteSignature, signature(operator, two), "which is not published"},
		"a host's signature":      {registry.NoteSignature, signature(host, one), "may not sign plugins"},
		"a passport as signature": {registry.NoteSignature, passport(operator, one), "it does not begin with"},
		"a passport":              {registry.NotePassport, passport(operator, one), ""},
		"another's passport":      {registry.NotePassport, passport(operator, two), "that of another plugin"},
		"a host's passport":       {registry.NotePassport, passport(host, one), "may not sign passports"},
		"a signature as passport": {registry.NotePassport, signature(operator, one), "it does not begin with"},
		"an unknown kind":         {"other", passport(operator, one), "no such kind"},
	} {
		err := verifyNote(trust, []registry.PublishedPlugin{one}, one.Digest, test.kind, test.note)
		expect.Outcome(t, name, err, test.want)
	}
}
