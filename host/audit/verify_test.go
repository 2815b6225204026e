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
	"assay/registry/expect"
)

// storedLog is a stored chain: its rows, the head that the database claims, and the rows before erasure.
type storedLog struct {
	rows []audit.Row
	head audit.Head
	was  map[int]audit.Row
}

func (tr storedLog) clone() storedLog { return storedLog{slices.Clone(tr.rows), tr.head, tr.was} }

// link recomputes row i and all later rows, like an attacker with write access to the database.
func (tr *storedLog) link(from int) {
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

// seed derives the key that signs erasures.
var seed = sequence(7, 32)

var erasers = audit.NewSigner("test", seed)

func (tr storedLog) verify(checkpoints ...audit.Head) (*audit.Verifier, error) {
	v := audit.NewVerifier(audit.Genesis(tr.head.Chain), erasers.Public, checkpoints)
	for _, row := range tr.rows {
		if err := v.Add(row); err != nil {
			return v, err
		}
	}
	return v, v.Close(tr.head)
}

// at returns the head after record seq.
func (tr storedLog) at(seq int) audit.Head {
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
		return audit.Record{Kind: audit.Activation, At: "2026-01-02T03:04:05.006Z", Revision: r.Int64N(9),
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

// wholeLog returns n records, none of them erased.
func wholeLog(r *rand.Rand, n int) storedLog {
	tr := storedLog{head: audit.Genesis(r.IntN(2))}
	for range n {
		tr.rows = append(tr.rows, audit.Row{Nonce: randomBytes(r, audit.NonceBytes), Record: randomRecord(r)})
	}
	tr.link(0)
	return tr
}

// randomLog returns n records, some of them erasures of earlier ones.
func randomLog(r *rand.Rand, n int) storedLog {
	tr := wholeLog(r, n)
	tr.was = map[int]audit.Row{}
	for i := range tr.rows {
		if r.IntN(4) > 0 {
			continue
		}
		var erased []audit.Erased
		for j := range i {
			if tr.rows[j].Record.Kind == audit.Check && r.IntN(3) == 0 {
				tr.was[j] = tr.rows[j]
				erased = append(erased, tr.blank(j))
			}
		}
		tr.rows[i] = erasure(tr.head.Chain, erased)
		tr.link(i)
	}
	return tr
}

func TestVerifierAcceptsValidChains(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(3, 4))
	for n := range 40 {
		tr := randomLog(r, n)
		erasures := int64(0)
		for _, row := range tr.rows {
			if row.Record.Kind == audit.Erasure {
				erasures++
			}
		}
		checkpoints := []audit.Head{tr.at(0), tr.at(n), tr.at(n / 2), tr.at(n / 2), {Chain: tr.head.Chain + 1, Seq: 1}}
		v, err := tr.verify(checkpoints...)
		expect.That(t, err == nil && v.Head == tr.head && v.Erased == int64(len(tr.was)) && v.Erasures == erasures,
			"a log of %d: %v at %d with %d erased by %d, want %d by %d", n, err, v.Head.Seq, v.Erased, v.Erasures,
			len(tr.was), erasures)
		expect.Equal(t, "records covered by checkpoints", v.Covered, int64(n))
	}
}

// prunedAt appends a pruning record that names an anchor, and returns the rows after record seq.
func (tr storedLog) prunedAt(seq int, named audit.Head) storedLog {
	tr = tr.clone()
	tr.rows = append(tr.rows, audit.Row{Nonce: nonce, Record: audit.Record{
		Kind: audit.Pruning, At: "2026-01-02T03:04:05.006Z", Revision: named.Seq, Digest: named.Hash[:],
	}})
	tr.link(len(tr.rows) - 1)
	tr.rows = tr.rows[seq:]
	return tr
}

func TestVerifierStartsAtAnAnchor(t *testing.T) {
	t.Parallel()
	tr := randomLog(rand.New(rand.NewPCG(5, 6)), 20)
	forged := func(seq int) audit.Head {
		return audit.Head{Chain: tr.head.Chain, Seq: int64(seq), Hash: audit.Hash{1}}
	}
	type testCase struct {
		rows        storedLog
		anchor      audit.Head
		checkpoints []audit.Head
		breaks      string // "" if the chain verifies
	}
	expect.Each(t, map[string]testCase{
		"pruned":         {tr.prunedAt(7, tr.at(7)), tr.at(7), []audit.Head{tr.at(3), tr.at(7), tr.at(12)}, ""},
		"all pruned":     {tr.prunedAt(20, tr.at(20)), tr.at(20), []audit.Head{tr.at(20)}, ""},
		"pruned again":   {tr.prunedAt(0, tr.at(3)).prunedAt(7, tr.at(7)), tr.at(7), nil, ""},
		"another anchor": {tr.prunedAt(7, forged(7)), forged(7), nil, "the hash does not follow"},
		"an anchor that a checkpoint contradicts": {tr.prunedAt(7, tr.at(7)), tr.at(7), []audit.Head{forged(7)},
			"two signed hashes of it differ"},
		"anchor of another chain": {tr.prunedAt(7, tr.at(7)),
			audit.Head{Chain: tr.head.Chain + 1, Seq: 7, Hash: tr.at(7).Hash}, nil, "breaks at record 8"},
		"without a record": {storedLog{rows: tr.rows[7:], head: tr.head}, tr.at(7), nil,
			"no record after the anchor reports"},
		"a record of another hash": {tr.prunedAt(7, forged(7)), tr.at(7), nil,
			"the anchor that it names differs from the signed one"},
		"a record of a shorter hash": {tr.prunedAt(7, audit.Head{Seq: 7}), tr.at(7), nil,
			"the anchor that it names differs"},
		"a record of an earlier anchor only": {tr.prunedAt(7, tr.at(6)), tr.at(7), nil,
			"no record after the anchor reports"},
		"a record of a later anchor": {tr.prunedAt(7, tr.at(8)), tr.at(7), nil,
			"it reports the pruning of records up to 8"},
		"a record of an anchor, and no anchor": {tr.prunedAt(0, tr.at(7)), tr.at(0), nil,
			"it reports the pruning of records up to 7"},
		"a cut, and no anchor":   {tr.prunedAt(7, tr.at(7)), tr.at(0), nil, "the first stored record is number 8"},
		"a cut after the anchor": {tr.prunedAt(9, tr.at(7)), tr.at(7), nil, "the first stored record is number 10"},
	}, func(t *testing.T, c testCase) {
		v := audit.NewVerifier(c.anchor, erasers.Public, c.checkpoints)
		var err error
		for _, row := range c.rows.rows {
			if err = v.Add(row); err != nil {
				break
			}
		}
		if err == nil {
			err = v.Close(c.rows.head)
		}
		expect.Outcome(t, "verifying", err, c.breaks)
	})
}

// blank removes the content of a row, and returns what an erasure of it says.
func (tr *storedLog) blank(i int) audit.Erased {
	tr.rows[i].Nonce, tr.rows[i].Record = nil, audit.Record{Kind: audit.Blank}
	return audit.Erased{Seq: tr.rows[i].Seq, Leaf: tr.rows[i].Leaf}
}

// mutations are single writes to the database, most of them to row i. What does not apply to the log changes nothing.
var mutations = []struct {
	name string
	do   func(tr *storedLog, i int, r *rand.Rand)
}{
	{"flip a bit of a record", func(tr *storedLog, i int, r *rand.Rand) {
		if row := &tr.rows[i]; row.Nonce != nil { // an erased row has no record
			row.Record, _ = flip(row.Record, r.IntN(reflect.TypeFor[audit.Record]().NumField()))
		}
	}},
	{"flip a bit of a nonce", func(tr *storedLog, i int, r *rand.Rand) {
		if row := &tr.rows[i]; row.Nonce != nil {
			row.Nonce = slices.Clone(row.Nonce)
			row.Nonce[r.IntN(len(row.Nonce))] ^= 1 << r.IntN(8)
		}
	}},
	{"flip a bit of a leaf, a hash, a number or the head", func(tr *storedLog, i int, r *rand.Rand) {
		row := &tr.rows[i]
		if hash := []*audit.Hash{&row.Leaf, &row.Hash, &tr.head.Hash, nil}[r.IntN(4)]; hash != nil {
			hash[r.IntN(32)] ^= 1 << r.IntN(8)
		} else {
			row.Seq ^= 1 << r.IntN(63)
		}
	}},
	{"change the head's number", func(tr *storedLog, _ int, r *rand.Rand) { tr.head.Seq ^= 1 << r.IntN(8) }},
	{"give an erased row a record", func(tr *storedLog, i int, r *rand.Rand) {
		if row := &tr.rows[i]; row.Nonce == nil {
			row.Nonce, row.Record = randomBytes(r, audit.NonceBytes), randomRecord(r)
		}
	}},
	{"give an erased row its record back", func(tr *storedLog, i int, _ *rand.Rand) {
		if tr.rows[i].Nonce == nil {
			tr.rows[i].Nonce, tr.rows[i].Record = tr.was[i].Nonce, tr.was[i].Record
		}
	}},
	{"blank a row", func(tr *storedLog, i int, _ *rand.Rand) {
		tr.blank(i)
		tr.rows[i].Erased = nil
	}},
	{"blank a row and name it in an erasure", func(tr *storedLog, i int, r *rand.Rand) {
		j := r.IntN(len(tr.rows))
		if tr.rows[i].Nonce != nil && tr.rows[j].Record.Kind == audit.Erasure && i != j {
			tr.rows[j].Erased = append(slices.Clone(tr.rows[j].Erased), tr.blank(i))
		}
	}},
	{"blank a row and append an erasure without the key", func(tr *storedLog, i int, r *rand.Rand) {
		if tr.rows[i].Nonce != nil {
			forged := erasure(tr.head.Chain, []audit.Erased{tr.blank(i)})
			forged.Record.Digest = randomBytes(r, []int{64, 32, 0}[r.IntN(3)])
			tr.rows = append(tr.rows, forged)
			tr.link(len(tr.rows) - 1)
		}
	}},
	{"copy an erasure", func(tr *storedLog, i int, _ *rand.Rand) {
		if row := tr.rows[i]; len(row.Erased) > 0 {
			tr.rows = append(tr.rows, row)
			tr.link(len(tr.rows) - 1)
		}
	}},
	{"alter the list of an erasure", func(tr *storedLog, i int, r *rand.Rand) {
		if row := &tr.rows[i]; len(row.Erased) > 0 {
			at := r.IntN(len(row.Erased))
			row.Erased = slices.Clone(row.Erased)
			if row.Erased[at].Leaf[0] ^= 1; r.IntN(2) == 0 {
				row.Erased = slices.Delete(row.Erased, at, at+1)
			}
		}
	}},
	{"delete one", func(tr *storedLog, i int, r *rand.Rand) {
		i = []int{0, i, len(tr.rows) - 1}[r.IntN(3)]
		tr.rows = slices.Delete(tr.rows, i, i+1)
	}},
	{"delete one and renumber", func(tr *storedLog, i int, _ *rand.Rand) {
		if i < len(tr.rows)-1 { // deleting the last and restoring the head is a cut tail, tested below
			tr.rows = slices.Delete(tr.rows, i, i+1)
			renumber(tr)
			tr.head.Seq--
		}
	}},
	{"swap two", func(tr *storedLog, i int, r *rand.Rand) {
		j := r.IntN(len(tr.rows))
		tr.rows[i], tr.rows[j] = tr.rows[j], tr.rows[i]
		if r.IntN(2) == 0 {
			renumber(tr)
		}
	}},
	{"duplicate one", func(tr *storedLog, i int, r *rand.Rand) {
		tr.rows = slices.Insert(tr.rows, i, tr.rows[i])
		if r.IntN(2) == 0 {
			renumber(tr)
		}
	}},
	{"insert one", func(tr *storedLog, i int, r *rand.Rand) {
		i += r.IntN(2)
		row := audit.Row{Nonce: randomBytes(r, audit.NonceBytes), Record: randomRecord(r)}
		row.Leaf = audit.Leaf(row.Nonce, row.Record)
		head := tr.at(i).Next(row.Leaf)
		row.Seq, row.Hash = head.Seq, head.Hash
		tr.rows = slices.Insert(tr.rows, i, row)
		if r.IntN(2) == 0 {
			renumber(tr)
		}
	}},
}

func renumber(tr *storedLog) {
	for i := range tr.rows {
		tr.rows[i].Seq = int64(i + 1)
	}
}

func TestVerifierDetectsEveryMutation(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(7, 8))
	done := map[string]int{}
	for n := 0; n < 2000; {
		tr := randomLog(r, 3+r.IntN(30))
		m := mutations[r.IntN(len(mutations))]
		broken := tr.clone()
		m.do(&broken, r.IntN(len(tr.rows)), r)
		if reflect.DeepEqual(broken, tr) {
			continue
		}
		n++
		done[m.name]++
		_, err := broken.verify()
		var breaks *audit.BreakError
		expect.That(t, errors.As(err, &breaks) && breaks.Chain == tr.head.Chain && breaks.Seq >= 0 &&
			breaks.Seq <= int64(len(broken.rows))+1, "%s, of %d records: verified with %v", m.name, len(tr.rows), err)
	}
	for _, m := range mutations {
		expect.That(t, done[m.name] >= 10, "%s: tried only %d times", m.name, done[m.name])
	}
}
