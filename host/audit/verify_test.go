package audit_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"assay/host/audit"
)

// trail is a chain as it is stored: rows, and the head that the database claims; and what the rows were before some
// were erased.
type trail struct {
	rows []audit.Row
	head audit.Head
	was  map[int]audit.Row
}

func (tr trail) clone() trail { return trail{slices.Clone(tr.rows), tr.head, tr.was} }

// link computes row i and those behind it anew, as an intruder would who can write to the database.
func (tr *trail) link(from int) {
	head := audit.Genesis(tr.head.Chain)
	if from > 0 {
		head = audit.Head{Chain: tr.head.Chain, Seq: int64(from), Hash: tr.rows[from-1].Hash}
	}
	for i := from; i < len(tr.rows); i++ {
		row := &tr.rows[i]
		if row.Nonce != nil {
			row.Leaf = audit.Leaf(row.Nonce, row.Record)
		}
		head = head.Next(row.Leaf)
		row.Seq, row.Hash = head.Seq, head.Hash
	}
	tr.head = head
}

// seed is of the key that erasures are signed with.
var seed = sequence(7, 32)

var erasers = audit.NewSigner("test", seed).PublicKey()

func (tr trail) verify(checkpoints ...audit.Head) (*audit.Verifier, error) {
	v := audit.NewVerifier(audit.Genesis(tr.head.Chain), erasers, checkpoints)
	for _, row := range tr.rows {
		if err := v.Add(row); err != nil {
			return v, err
		}
	}
	return v, v.Close(tr.head)
}

// at is the head behind record seq.
func (tr trail) at(seq int) audit.Head {
	if seq == 0 {
		return audit.Genesis(tr.head.Chain)
	}
	return audit.Head{Chain: tr.head.Chain, Seq: int64(seq), Hash: tr.rows[seq-1].Hash}
}

func randomBytes(r *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

func randomRecord(r *rand.Rand) audit.Record {
	if r.IntN(8) == 0 {
		return audit.Record{Kind: audit.Lineup, At: "2026-01-02T03:04:05.006Z", Revision: r.Int64N(9),
			Digest: randomBytes(r, 32)}
	}
	return audit.Record{
		Kind: audit.Check, At: fmt.Sprintf("2026-01-02T03:04:05.%03dZ", r.IntN(1000)),
		Ref:     fmt.Sprint("chk_", r.Uint32()),
		Account: fmt.Sprint("acct_", r.IntN(3)), Key: strings.Repeat("k", r.IntN(3)),
		Type:      []string{"domain", "iban"}[r.IntN(2)],
		Pseudonym: randomBytes(r, 32), Score: r.IntN(101), Verdict: []string{"allow", "block"}[r.IntN(2)],
		Revision: r.Int64N(9),
	}
}

// wholeTrail has n records, none of them erased.
func wholeTrail(r *rand.Rand, n int) trail {
	tr := trail{head: audit.Genesis(r.IntN(2))}
	for range n {
		tr.rows = append(tr.rows, audit.Row{Nonce: randomBytes(r, audit.NonceBytes), Record: randomRecord(r)})
	}
	tr.link(0)
	return tr
}

// randomTrail has n records, of which erasures have erased others before them.
func randomTrail(r *rand.Rand, n int) trail {
	tr := wholeTrail(r, n)
	tr.was = map[int]audit.Row{}
	for i := range tr.rows {
		if r.IntN(4) > 0 {
			continue
		}
		var erased []audit.Erased
		for j := range i {
			if tr.rows[j].Record.Kind == audit.Check && r.IntN(3) == 0 {
				erased = append(erased, audit.Erased{Seq: tr.rows[j].Seq, Leaf: tr.rows[j].Leaf})
				tr.was[j] = tr.rows[j]
				tr.rows[j].Nonce, tr.rows[j].Record = nil, audit.Record{Kind: "erased"}
			}
		}
		tr.rows[i] = erasure(tr.head.Chain, erased)
		tr.link(i)
	}
	return tr
}

func TestVerifierAcceptsWhatHolds(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(3, 4))
	for n := range 40 {
		tr := randomTrail(r, n)
		erasures := int64(0)
		for _, row := range tr.rows {
			if row.Record.Kind == audit.Erasure {
				erasures++
			}
		}
		checkpoints := []audit.Head{tr.at(0), tr.at(n), tr.at(n / 2), tr.at(n / 2), {Chain: tr.head.Chain + 1, Seq: 1}}
		v, err := tr.verify(checkpoints...)
		if err != nil || v.Head != tr.head || v.Erased != int64(len(tr.was)) || v.Erasures != erasures {
			t.Errorf("a trail of %d: %v at %d with %d erased by %d, want %d by %d", n, err, v.Head.Seq, v.Erased,
				v.Erasures, len(tr.was), erasures)
		}
	}
}

// prunedAt appends the record of a pruning that names an anchor, and returns what is left behind record seq.
func (tr trail) prunedAt(seq int, named audit.Head) trail {
	tr = tr.clone()
	tr.rows = append(tr.rows, audit.Row{Nonce: nonce, Record: audit.Record{
		Kind: audit.Pruning, At: "2026-01-02T03:04:05.006Z", Revision: named.Seq, Digest: named.Hash[:],
	}})
	tr.link(len(tr.rows) - 1)
	tr.rows = tr.rows[seq:]
	return tr
}

func TestVerifierGoesOnBehindAnAnchor(t *testing.T) {
	t.Parallel()
	tr := randomTrail(rand.New(rand.NewPCG(5, 6)), 20)
	forged := func(seq int) audit.Head {
		return audit.Head{Chain: tr.head.Chain, Seq: int64(seq), Hash: audit.Hash{1}}
	}
	for name, c := range map[string]struct {
		rows        trail
		anchor      audit.Head
		checkpoints []audit.Head
		breaks      string // "": it holds
	}{
		"pruned":         {tr.prunedAt(7, tr.at(7)), tr.at(7), []audit.Head{tr.at(3), tr.at(7), tr.at(12)}, ""},
		"all pruned":     {tr.prunedAt(20, tr.at(20)), tr.at(20), []audit.Head{tr.at(20)}, ""},
		"pruned again":   {tr.prunedAt(0, tr.at(3)).prunedAt(7, tr.at(7)), tr.at(7), nil, ""},
		"another anchor": {tr.prunedAt(7, forged(7)), forged(7), nil, "the hash does not follow"},
		"an anchor that a checkpoint contradicts": {tr.prunedAt(7, tr.at(7)), tr.at(7), []audit.Head{forged(7)},
			"two signed hashes of it differ"},
		"anchor of another chain": {tr.prunedAt(7, tr.at(7)),
			audit.Head{Chain: tr.head.Chain + 1, Seq: 7, Hash: tr.at(7).Hash}, nil, "breaks at record 8"},
		"without a record": {trail{rows: tr.rows[7:], head: tr.head}, tr.at(7), nil,
			"no record behind the anchor says"},
		"a record of another hash": {tr.prunedAt(7, forged(7)), tr.at(7), nil,
			"the anchor that it names is not the one that was signed"},
		"a record of a shorter hash": {tr.prunedAt(7, audit.Head{Seq: 7}), tr.at(7), nil,
			"the anchor that it names is not the one"},
		"a record of an earlier anchor only": {tr.prunedAt(7, tr.at(6)), tr.at(7), nil,
			"no record behind the anchor says"},
		"a record of a later anchor": {tr.prunedAt(7, tr.at(8)), tr.at(7), nil,
			"the records up to 8 were pruned, it says"},
		"a record of an anchor, and no anchor": {tr.prunedAt(0, tr.at(7)), tr.at(0), nil,
			"the records up to 7 were pruned, it says"},
		"a cut, and no anchor": {tr.prunedAt(7, tr.at(7)), tr.at(0), nil,
			"the first stored record is number 8"},
		"a cut behind the anchor": {tr.prunedAt(9, tr.at(7)), tr.at(7), nil,
			"the first stored record is number 10"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := audit.NewVerifier(c.anchor, erasers, c.checkpoints)
			var err error
			for _, row := range c.rows.rows {
				if err = v.Add(row); err != nil {
					break
				}
			}
			if err == nil {
				err = v.Close(c.rows.head)
			}
			if c.breaks == "" && err != nil || c.breaks != "" &&
				(err == nil || !strings.Contains(err.Error(), c.breaks)) {
				t.Errorf("verified with %v, want %q", err, c.breaks)
			}
		})
	}
}

// mutations are what one write to the database can do. Each returns false when it cannot be done to the trail.
var mutations = []struct {
	name string
	do   func(*trail, *rand.Rand) bool
}{
	{"flip a bit of a record", func(tr *trail, r *rand.Rand) (ok bool) {
		row := &tr.rows[r.IntN(len(tr.rows))]
		if row.Nonce == nil {
			return false // an erased row has no record
		}
		row.Record, ok = flip(row.Record, r.IntN(reflect.TypeFor[audit.Record]().NumField()))
		return ok
	}},
	{"flip a bit of a nonce", func(tr *trail, r *rand.Rand) bool {
		row := &tr.rows[r.IntN(len(tr.rows))]
		if row.Nonce == nil {
			return false
		}
		row.Nonce = slices.Clone(row.Nonce)
		row.Nonce[r.IntN(len(row.Nonce))] ^= 1 << r.IntN(8)
		return true
	}},
	{"flip a bit of a leaf", func(tr *trail, r *rand.Rand) bool {
		tr.rows[r.IntN(len(tr.rows))].Leaf[r.IntN(32)] ^= 1 << r.IntN(8)
		return true
	}},
	{"flip a bit of a hash", func(tr *trail, r *rand.Rand) bool {
		tr.rows[r.IntN(len(tr.rows))].Hash[r.IntN(32)] ^= 1 << r.IntN(8)
		return true
	}},
	{"flip a bit of a number", func(tr *trail, r *rand.Rand) bool {
		tr.rows[r.IntN(len(tr.rows))].Seq ^= 1 << r.IntN(63)
		return true
	}},
	{"flip a bit of the head", func(tr *trail, r *rand.Rand) bool {
		tr.head.Hash[r.IntN(32)] ^= 1 << r.IntN(8)
		return true
	}},
	{"change the head's number", func(tr *trail, r *rand.Rand) bool {
		tr.head.Seq ^= 1 << r.IntN(8)
		return true
	}},
	{"give an erased row a record", func(tr *trail, r *rand.Rand) bool {
		row := &tr.rows[r.IntN(len(tr.rows))]
		if row.Nonce != nil {
			return false
		}
		row.Nonce, row.Record = randomBytes(r, audit.NonceBytes), randomRecord(r)
		return true
	}},
	{"give an erased row its record back", func(tr *trail, r *rand.Rand) bool {
		i := r.IntN(len(tr.rows))
		if tr.rows[i].Nonce != nil {
			return false
		}
		tr.rows[i].Nonce, tr.rows[i].Record = tr.was[i].Nonce, tr.was[i].Record
		return true
	}},
	{"blank a row", func(tr *trail, r *rand.Rand) bool {
		row := &tr.rows[r.IntN(len(tr.rows))]
		ok := row.Nonce != nil
		row.Nonce, row.Record, row.Erased = nil, audit.Record{}, nil
		return ok
	}},
	{"blank a row and name it in an erasure", func(tr *trail, r *rand.Rand) bool {
		i, j := r.IntN(len(tr.rows)), r.IntN(len(tr.rows))
		if tr.rows[i].Nonce == nil || tr.rows[j].Record.Kind != audit.Erasure || i == j {
			return false
		}
		tr.rows[j].Erased = append(slices.Clone(tr.rows[j].Erased),
			audit.Erased{Seq: tr.rows[i].Seq, Leaf: tr.rows[i].Leaf})
		tr.rows[i].Nonce, tr.rows[i].Record = nil, audit.Record{}
		return true
	}},
	{"blank a row and append an erasure without the key", func(tr *trail, r *rand.Rand) bool {
		i := r.IntN(len(tr.rows))
		if tr.rows[i].Nonce == nil {
			return false
		}
		forged := erasure(tr.head.Chain, []audit.Erased{{Seq: tr.rows[i].Seq, Leaf: tr.rows[i].Leaf}})
		forged.Record.Digest = randomBytes(r, []int{64, 32, 0}[r.IntN(3)])
		tr.rows[i].Nonce, tr.rows[i].Record = nil, audit.Record{}
		tr.rows = append(tr.rows, forged)
		tr.link(len(tr.rows) - 1)
		return true
	}},
	{"copy an erasure", func(tr *trail, r *rand.Rand) bool {
		row := tr.rows[r.IntN(len(tr.rows))]
		if len(row.Erased) == 0 {
			return false
		}
		tr.rows = append(tr.rows, row)
		tr.link(len(tr.rows) - 1)
		return true
	}},
	{"take one from the list of an erasure", func(tr *trail, r *rand.Rand) bool {
		row := &tr.rows[r.IntN(len(tr.rows))]
		if len(row.Erased) == 0 {
			return false
		}
		at := r.IntN(len(row.Erased))
		row.Erased = slices.Delete(slices.Clone(row.Erased), at, at+1)
		return true
	}},
	{"alter the list of an erasure", func(tr *trail, r *rand.Rand) bool {
		row := &tr.rows[r.IntN(len(tr.rows))]
		if len(row.Erased) == 0 {
			return false
		}
		row.Erased = slices.Clone(row.Erased)
		row.Erased[r.IntN(len(row.Erased))].Leaf[0] ^= 1
		return true
	}},
	{"delete the first", func(tr *trail, _ *rand.Rand) bool {
		tr.rows = tr.rows[1:]
		return true
	}},
	{"delete the last", func(tr *trail, _ *rand.Rand) bool {
		tr.rows = tr.rows[:len(tr.rows)-1]
		return true
	}},
	{"delete one between", func(tr *trail, r *rand.Rand) bool {
		i := 1 + r.IntN(len(tr.rows)-2)
		tr.rows = slices.Delete(tr.rows, i, i+1)
		return true
	}},
	{"delete one and count anew", func(tr *trail, r *rand.Rand) bool {
		i := r.IntN(len(tr.rows))
		tr.rows = slices.Delete(tr.rows, i, i+1)
		renumber(tr)
		tr.head.Seq--
		return i < len(tr.rows) // without the last and with the head put back it is a cut, see below
	}},
	{"swap two", func(tr *trail, r *rand.Rand) bool {
		i, j := r.IntN(len(tr.rows)), r.IntN(len(tr.rows))
		tr.rows[i], tr.rows[j] = tr.rows[j], tr.rows[i]
		if r.IntN(2) == 0 {
			renumber(tr)
		}
		return i != j
	}},
	{"duplicate one", func(tr *trail, r *rand.Rand) bool {
		i := r.IntN(len(tr.rows))
		tr.rows = slices.Insert(tr.rows, i, tr.rows[i])
		if r.IntN(2) == 0 {
			renumber(tr)
		}
		return true
	}},
	{"insert one", func(tr *trail, r *rand.Rand) bool {
		i := r.IntN(len(tr.rows) + 1)
		row := audit.Row{Nonce: randomBytes(r, audit.NonceBytes), Record: randomRecord(r)}
		row.Leaf = audit.Leaf(row.Nonce, row.Record)
		head := tr.at(i).Next(row.Leaf)
		row.Seq, row.Hash = head.Seq, head.Hash
		tr.rows = slices.Insert(tr.rows, i, row)
		if r.IntN(2) == 0 {
			renumber(tr)
		}
		return true
	}},
}

func renumber(tr *trail) {
	for i := range tr.rows {
		tr.rows[i].Seq = int64(i + 1)
	}
}

func TestVerifierDetectsEveryMutation(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(7, 8))
	done := map[string]int{}
	for n := 0; n < 2000; {
		tr := randomTrail(r, 3+r.IntN(30))
		m := mutations[r.IntN(len(mutations))]
		broken := tr.clone()
		if !m.do(&broken, r) {
			continue
		}
		n++
		done[m.name]++
		_, err := broken.verify()
		var breaks *audit.BreakError
		if !errors.As(err, &breaks) {
			t.Errorf("%s, of %d records: verified with %v", m.name, len(tr.rows), err)
		} else if breaks.Chain != tr.head.Chain || breaks.Seq < 0 || breaks.Seq > int64(len(broken.rows))+1 {
			t.Errorf("%s: the break is said to be at record %d of chain %d", m.name, breaks.Seq, breaks.Chain)
		}
	}
	for _, m := range mutations {
		if done[m.name] < 10 {
			t.Errorf("%s: tried %d times only", m.name, done[m.name])
		}
	}
}

func TestOnlyCheckpointsDetectARewrite(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(9, 10))
	for name, rewrite := range map[string]func(tr *trail, at int){
		"a record changed": func(tr *trail, at int) {
			tr.rows[at].Nonce, tr.rows[at].Record = randomBytes(r, audit.NonceBytes), randomRecord(r)
		},
		"a record deleted": func(tr *trail, at int) { tr.rows = slices.Delete(tr.rows, at, at+1) },
		"a record inserted": func(tr *trail, at int) {
			tr.rows = slices.Insert(tr.rows, at,
				audit.Row{Nonce: nonce, Record: record})
		},
		"two swapped":      func(tr *trail, at int) { tr.rows[at], tr.rows[at-1] = tr.rows[at-1], tr.rows[at] },
		"the tail cut off": func(tr *trail, at int) { tr.rows = tr.rows[:at] },
		"all cut off":      func(tr *trail, _ int) { tr.rows = nil },
	} {
		for range 50 {
			tr := wholeTrail(r, 20) // who lacks the key cannot rewrite what erasures name
			at := 1 + r.IntN(18)
			forged := tr.clone()
			rewrite(&forged, at)
			forged.link(0)
			if _, err := forged.verify(); err != nil {
				t.Fatalf("%s: the forgery does not hold by itself, so this proves nothing of checkpoints: %v", name,
					err)
			}
			if _, err := forged.verify(tr.at(20)); err == nil {
				t.Errorf("%s at %d: not detected by a checkpoint of the last record", name, at)
			}
			if _, err := forged.verify(tr.at(at+1), tr.at(3)); err == nil {
				t.Errorf("%s at %d: not detected by a checkpoint of the record itself", name, at)
			}
			// The host that was broken into signs what it finds. That must not hide what it signed before.
			if n := len(forged.rows); n == 20 {
				for _, both := range [][]audit.Head{{tr.at(20), forged.at(n)}, {forged.at(n), tr.at(20)}} {
					if _, err := forged.verify(both...); err == nil {
						t.Errorf("%s at %d: not detected when the forgery was signed too", name, at)
					}
				}
			}
		}
	}
}

func TestCheckpointsBehindTheEnd(t *testing.T) {
	t.Parallel()
	tr := randomTrail(rand.New(rand.NewPCG(11, 12)), 20)
	cut := trail{rows: tr.rows[:10], head: tr.at(10)}
	for range 20 { // in whatever order a map gives them
		_, err := cut.verify(tr.at(12), tr.at(20), tr.at(15), tr.at(10))
		if err == nil || !strings.Contains(err.Error(), "there were 20") {
			t.Fatalf("a cut tail: %v; want an error that says how many there were", err)
		}
	}
}

func TestBreaksAreLocated(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(13, 14))
	tr := wholeTrail(r, 12)
	tr.rows[4].Nonce, tr.rows[4].Record = randomBytes(r, audit.NonceBytes), record
	tr.rows[2].Record.Kind, tr.rows[3].Record.Kind = audit.Check, audit.Check
	tr.link(0)
	gone := func(tr *trail, i int) audit.Erased {
		tr.rows[i].Nonce, tr.rows[i].Record = nil, audit.Record{}
		return audit.Erased{Seq: tr.rows[i].Seq, Leaf: tr.rows[i].Leaf}
	}
	say := func(tr *trail, i int, row audit.Row) { tr.rows[i] = row; tr.link(i) }
	for name, c := range map[string]struct {
		tamper func(*trail)
		reason string
		seq    int64
	}{
		"record":      {func(tr *trail) { tr.rows[4].Record.Score++ }, "does not match its leaf", 5},
		"short nonce": {func(tr *trail) { tr.rows[4].Nonce = nonce[:15]; tr.link(0) }, "nonce", 5},
		"long nonce":  {func(tr *trail) { tr.rows[4].Nonce = sequence(0, 17); tr.link(0) }, "nonce", 5},
		"empty nonce": {func(tr *trail) { tr.rows[4].Nonce = []byte{}; tr.link(0) }, "nonce", 5},
		"leaf":        {func(tr *trail) { tr.rows[4].Leaf[0]++ }, "does not match its leaf", 5},
		"hash":        {func(tr *trail) { tr.rows[4].Hash[0]++ }, "does not follow", 5},
		"missing":     {func(tr *trail) { tr.rows = slices.Delete(tr.rows, 4, 5) }, "is number 6", 5},
		"end missing": {func(tr *trail) { tr.rows = tr.rows[:4] }, "head says record 12", 4},
		"blanked":     {func(tr *trail) { gone(tr, 3); gone(tr, 2) }, "no erasure behind it names it", 3},
		"blanked behind the erasure": {func(tr *trail) {
			say(tr, 1, erasure(tr.head.Chain, []audit.Erased{gone(tr, 2)}))
		}, "record 3, which it erased, has content", 2},
		"named twice": {func(tr *trail) {
			e := gone(tr, 2)
			say(tr, 3, erasure(tr.head.Chain, []audit.Erased{e, e}))
		}, "another erasure names it too", 4},
		"another record named": {func(tr *trail) {
			e := gone(tr, 2)
			e.Leaf[0]++
			say(tr, 3, erasure(tr.head.Chain, []audit.Erased{e}))
		}, "record 3 is not the one that it erased", 4},
		"an erasure of another chain": {func(tr *trail) {
			say(tr, 3, erasure(tr.head.Chain+1, []audit.Erased{gone(tr, 2)}))
		}, "not the one that was signed", 4},
		"a digest that is no signature": {func(tr *trail) {
			row := erasure(tr.head.Chain, []audit.Erased{gone(tr, 2)})
			row.Record.Digest = row.Record.Digest[:32]
			say(tr, 3, row)
		}, "not the one that was signed", 4},
		"head elsewhere": {func(tr *trail) { tr.head.Hash[0]++ }, "head says record 12", 12},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			broken := tr.clone()
			c.tamper(&broken)
			_, err := broken.verify()
			var breaks *audit.BreakError
			if !errors.As(err, &breaks) || breaks.Seq != c.seq || !strings.Contains(breaks.Reason, c.reason) {
				t.Errorf("%v; want record %d and %q", err, c.seq, c.reason)
			}
		})
	}
}

func BenchmarkVerify(b *testing.B) {
	tr := randomTrail(rand.New(rand.NewPCG(1, 1)), 1000)
	for b.Loop() {
		if _, err := tr.verify(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)*1000/b.Elapsed().Seconds(), "records/s")
}
