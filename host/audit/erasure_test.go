package audit_test

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"assay/host/audit"
	"assay/registry/expect"
)

// erasure returns a signed erasure's row.
func erasure(chain int, erased []audit.Erased) audit.Row {
	return audit.Row{Nonce: nonce, Erased: erased, Record: audit.Record{
		Kind: audit.Erasure, At: "2026-01-02T03:04:05.006Z", Account: "acct_1", Digest: must(erasers.SignErasure(chain,
			erased)),
	}}
}

// Records before the anchor are pruned, erased or not; erasures after it must still be verified.
func TestErasuresAcrossAnAnchor(t *testing.T) {
	t.Parallel()
	tr := wholeLog(rand.New(rand.NewPCG(15, 16)), 12)
	tr.rows[9] = erasure(tr.head.Chain, []audit.Erased{tr.blank(2), tr.blank(4), tr.blank(6)})
	tr.link(9)
	for anchor, erased := range []int64{3, 3, 3, 2, 2, 1, 1, 0, 0, 0} {
		v, left := audit.NewVerifier(tr.at(anchor), erasers.Public, nil), tr
		if anchor > 0 {
			left = tr.prunedAt(anchor, tr.at(anchor))
		}
		for _, row := range left.rows {
			err := v.Add(row)
			expect.Must(t, err == nil, "from %d: %v", anchor, err)
		}
		if err := v.Close(left.head); err != nil || v.Erased != erased || v.Erasures != 1 {
			t.Errorf("from %d: %v, %d erased by %d", anchor, err, v.Erased, v.Erasures)
		}
	}
}

func TestAcceptedLoss(t *testing.T) {
	t.Parallel()
	signer := audit.NewSigner(audit.KeyName, make([]byte, 32))
	nine := audit.Head{Chain: 3, Seq: 9, Hash: audit.Hash{1}}
	loss := audit.LossAcceptance{Chain: 3, At: time.Date(2031, 5, 20, 12, 0, 0, 0, time.UTC), Survived: 7,
		Lost: []audit.Head{nine, {Chain: 3, Seq: 11, Hash: audit.Hash{2}}}, Reason: "a failover lost 2 s: ticket 42"}
	signed := must(signer.AcceptLoss(loss))
	got, err := signer.OpenLoss(signed)
	diff := cmp.Diff(loss, got)
	expect.That(t, err == nil && diff == "", "%v (-want +got):\n%s", err, diff)
	other := make([]byte, 32)
	other[0] = 1
	for name, text := range map[string]string{
		"another number":   strings.Replace(signed, "lost 9", "lost 8", 1),
		"another reason":   strings.Replace(signed, "42", "43", 1),
		"another key":      must(audit.NewSigner(audit.KeyName, other).AcceptLoss(loss)),
		"an anchor":        must(signer.Anchor(audit.Anchor{Head: nine, Before: loss.At})),
		"nothing":          "",
		"no signature":     strings.SplitAfter(signed, "\n\n")[0],
		"cut off":          signed[:len(signed)-9],
		"a tree's of ours": must(signer.SignTree(audit.TreeHead{Chain: 3, Size: 9})),
	} {
		expect.Failure(t, expect.ErrorOf(signer.OpenLoss(text)), "%s is opened", name)
	}
	expect.Failure(t, expect.ErrorOf(signer.OpenAnchor(signed)), "the acceptance of a loss is opened as an anchor")
}

func TestReasonsForLosses(t *testing.T) {
	t.Parallel()
	for reason, ok := range map[string]bool{
		"Ausfall am Morgen, Störung 17": true, strings.Repeat("é", 500): true,
		"": false, " ": false, "two\nlines": false, "a\x00byte": false, "\xff": false, strings.Repeat("é", 501): false,
	} {
		err := audit.CheckReason(reason)
		expect.That(t, (err == nil) == ok, "%q: %v", reason, err)
	}
}

func TestOnlyCheckpointsDetectARewrite(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(9, 10))
	for name, rewrite := range map[string]func(tr *storedLog, at int){
		"a record changed": func(tr *storedLog, at int) {
			tr.rows[at].Nonce, tr.rows[at].Record = randomBytes(r, audit.NonceBytes), randomRecord(r)
		},
		"a record deleted": func(tr *storedLog, at int) { tr.rows = slices.Delete(tr.rows, at, at+1) },
		"a record inserted": func(tr *storedLog, at int) {
			tr.rows = slices.Insert(tr.rows, at, audit.Row{Nonce: nonce, Record: record})
		},
		"two swapped":      func(tr *storedLog, at int) { tr.rows[at], tr.rows[at-1] = tr.rows[at-1], tr.rows[at] },
		"the tail cut off": func(tr *storedLog, at int) { tr.rows = tr.rows[:at] },
		"all cut off":      func(tr *storedLog, _ int) { tr.rows = nil },
	} {
		for range 50 {
			tr := wholeLog(r, 20) // without the key, the lists of erasures cannot be rewritten
			at := 1 + r.IntN(18)
			forged := tr.clone()
			rewrite(&forged, at)
			forged.link(0)
			if _, err := forged.verify(); err != nil {
				t.Fatalf("%s: the forgery does not verify by itself, so it cannot test checkpoints: %v", name, err)
			}
			expect.Failure(t, expect.ErrorOf(forged.verify(tr.at(20))),
				"%s at %d: not detected by a checkpoint of the last record", name, at)
			expect.Failure(t, expect.ErrorOf(forged.verify(tr.at(at+1), tr.at(3))),
				"%s at %d: not detected by a checkpoint of the record itself", name, at)
			// A compromised host signs what it finds. That must not hide its earlier signatures.
			if n := len(forged.rows); n == 20 {
				for _, both := range [][]audit.Head{{tr.at(20), forged.at(n)}, {forged.at(n), tr.at(20)}} {
					expect.Failure(t, expect.ErrorOf(forged.verify(both...)),
						"%s at %d: not detected when the forgery was signed too", name, at)
				}
			}
		}
	}
}

func TestCheckpointsBeyondTheEnd(t *testing.T) {
	t.Parallel()
	tr := randomLog(rand.New(rand.NewPCG(11, 12)), 20)
	cut := storedLog{rows: tr.rows[:10], head: tr.at(10)}
	for range 20 { // in random map order
		err := expect.ErrorOf(cut.verify(tr.at(12), tr.at(20), tr.at(15), tr.at(10)))
		expect.ErrorText(t, "a cut tail, and the number of records", err, "covers 20:")
	}
}

func TestBreaksAreLocated(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(13, 14))
	tr := wholeLog(r, 12)
	tr.rows[4].Nonce, tr.rows[4].Record = randomBytes(r, audit.NonceBytes), record
	tr.rows[2].Record.Kind, tr.rows[3].Record.Kind = audit.Check, audit.Check
	tr.link(0)
	say := func(tr *storedLog, i int, row audit.Row) { tr.rows[i] = row; tr.link(i) }
	type testCase struct {
		tamper func(*storedLog)
		reason string
		seq    int64
	}
	expect.Each(t, map[string]testCase{
		"record":      {func(tr *storedLog) { tr.rows[4].Record.Score++ }, "does not match its leaf", 5},
		"short nonce": {func(tr *storedLog) { tr.rows[4].Nonce = nonce[:15]; tr.link(0) }, "nonce", 5},
		"long nonce":  {func(tr *storedLog) { tr.rows[4].Nonce = sequence(0, 17); tr.link(0) }, "nonce", 5},
		"empty nonce": {func(tr *storedLog) { tr.rows[4].Nonce = []byte{}; tr.link(0) }, "nonce", 5},
		"leaf":        {func(tr *storedLog) { tr.rows[4].Leaf[0]++ }, "does not match its leaf", 5},
		"hash":        {func(tr *storedLog) { tr.rows[4].Hash[0]++ }, "does not follow", 5},
		"missing":     {func(tr *storedLog) { tr.rows = slices.Delete(tr.rows, 4, 5) }, "is number 6", 5},
		"end missing": {func(tr *storedLog) { tr.rows = tr.rows[:4] }, "head is record 12", 4},
		"blanked":     {func(tr *storedLog) { tr.blank(3); tr.blank(2) }, "no later erasure names it", 3},
		"blanked after the erasure": {func(tr *storedLog) {
			say(tr, 1, erasure(tr.head.Chain, []audit.Erased{tr.blank(2)}))
		}, "record 3, which it erased, has content", 2},
		"named twice": {func(tr *storedLog) {
			e := tr.blank(2)
			say(tr, 3, erasure(tr.head.Chain, []audit.Erased{e, e}))
		}, "is named by another erasure", 4},
		"another record named": {func(tr *storedLog) {
			e := tr.blank(2)
			e.Leaf[0]++
			say(tr, 3, erasure(tr.head.Chain, []audit.Erased{e}))
		}, "record 3 has another leaf than the erased one", 4},
		"an erasure of another chain": {func(tr *storedLog) {
			say(tr, 3, erasure(tr.head.Chain+1, []audit.Erased{tr.blank(2)}))
		}, "differs from the signed one", 4},
		"a digest that is not a signature": {func(tr *storedLog) {
			row := erasure(tr.head.Chain, []audit.Erased{tr.blank(2)})
			row.Record.Digest = row.Record.Digest[:32]
			say(tr, 3, row)
		}, "differs from the signed one", 4},
		"head elsewhere": {func(tr *storedLog) { tr.head.Hash[0]++ }, "head is record 12", 12},
	}, func(t *testing.T, c testCase) {
		broken := tr.clone()
		c.tamper(&broken)
		_, err := broken.verify()
		var breaks *audit.BreakError
		expect.That(t, errors.As(err, &breaks) && breaks.Seq == c.seq && strings.Contains(breaks.Reason, c.reason),
			"%v; want record %d and %q", err, c.seq, c.reason)
	})
}
