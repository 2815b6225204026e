package auditlog

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"

	"assay/host/audit"
	"assay/host/check"
	"assay/host/store/storetest"
	"assay/registry"
	"assay/registry/activation"
	"assay/registry/expect"
	"assay/registry/release"
)

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
		reports, broken, err := Verify(t.Context(), k.Store, k.Signer.Public, trust, nil)
		expect.NoError(t, err)
		expect.ErrorText(t, "the log", broken, test.reason)
		n := len(reports)
		expect.That(t, !reports[n-1].OK || !reports[0].OK, "reports %+v", reports)
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

// Records that no checkpoint covers could have been rewritten, unless they are so new that hosts may not have signed
// yet.
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
		r := release.Release{Name: p.Name, Version: p.Version, Digest: p.Digest}
		return expect.Value(release.Sign(r, key))(t)
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
