package audit

import (
	"bytes"
	"crypto/ed25519"
	"fmt"
	"maps"
	"slices"
)

// Row is a stored link of a chain.
type Row struct {
	Seq    int64
	Leaf   Hash
	Hash   Hash
	Nonce  []byte   // nil when the record was erased
	Record Record   // empty but for its Kind when the record was erased
	Erased []Erased // of an erasure: what it erased, in the order of the chain
}

// BreakError says where a chain does not hold.
type BreakError struct {
	Chain  int
	Seq    int64
	Reason string
}

func (e *BreakError) Error() string {
	return fmt.Sprintf("audit chain %d breaks at record %d: %s", e.Chain, e.Seq, e.Reason)
}

// Verifier walks one chain from its beginning, a row at a time. It remembers the checkpoints and the erased rows, and
// nothing of the others.
type Verifier struct {
	Head     Head  // as far as verified
	Erased   int64 // records without content
	Erasures int64 // records of kind erasure

	start   Head              // the anchor
	pruned  bool              // a record behind the anchor names it
	key     ed25519.PublicKey // that erasures are signed with
	blank   map[int64]Hash    // erased rows that no erasure has named yet
	anchors map[int64]Hash    // checkpoints still to be passed
	broken  error             // what the checkpoints show by themselves
}

// NewVerifier starts at the beginning of chain, or behind anchor when the records up to it were pruned. key is the
// Signer's PublicKey. checkpoints are heads known from outside the database; each must be met on the way.
func NewVerifier(anchor Head, key ed25519.PublicKey, checkpoints []Head) *Verifier {
	v := &Verifier{Head: anchor, start: anchor, key: key, blank: map[int64]Hash{},
		anchors: map[int64]Hash{anchor.Seq: anchor.Hash}}
	for _, c := range checkpoints {
		if c.Chain != anchor.Chain || c.Seq < anchor.Seq {
			continue
		}
		// A host goes on signing after its database was rewritten: the later signature must not hide the earlier.
		if known, ok := v.anchors[c.Seq]; ok && known != c.Hash {
			v.broken = &BreakError{c.Chain, c.Seq, "two signed hashes of it differ: records up to here were rewritten"}
		}
		v.anchors[c.Seq] = c.Hash
	}
	delete(v.anchors, anchor.Seq)
	return v
}

// Add verifies the next row. The error is a *BreakError.
func (v *Verifier) Add(row Row) error {
	fail := func(format string, args ...any) error {
		return &BreakError{v.Head.Chain, v.Head.Seq + 1, fmt.Sprintf(format, args...)}
	}
	if v.broken != nil {
		return v.broken
	}
	switch {
	case row.Seq == v.Head.Seq+1:
	case v.Head == v.start:
		return fail("the first stored record is number %d, and no signed anchor says that those before it were pruned",
			row.Seq)
	default:
		return fail("the next stored record is number %d", row.Seq)
	}
	switch {
	case row.Nonce == nil && !row.Record.blank(): // what no nonce ties to the leaf could be anything
		return fail("its nonce is gone, but not its content")
	case row.Nonce == nil:
		v.Erased++
		v.blank[row.Seq] = row.Leaf
	case len(row.Nonce) != NonceBytes: // else bytes could move between nonce and record without a trace
		return fail("its nonce is %d bytes long, not %d", len(row.Nonce), NonceBytes)
	case Leaf(row.Nonce, row.Record) != row.Leaf:
		return fail("the record does not match its leaf")
	case row.Record.Kind == Erasure:
		if reason := v.erase(row); reason != "" {
			return fail("%s", reason)
		}
	case row.Record.Kind == Pruning:
		if reason := v.prune(row.Record); reason != "" {
			return fail("%s", reason)
		}
	}
	next := v.Head.Next(row.Leaf)
	if next.Hash != row.Hash {
		return fail("the hash does not follow from the record before it")
	}
	if want, ok := v.anchors[next.Seq]; ok {
		if want != next.Hash {
			return fail("the hash differs from a signed checkpoint: records up to here were rewritten")
		}
		delete(v.anchors, next.Seq)
	}
	v.Head = next
	return nil
}

// erase strikes off the erased rows that an erasure names, and says what is wrong with it, or nothing. Of what was
// pruned it cannot be seen whether it had been erased.
func (v *Verifier) erase(row Row) (reason string) {
	v.Erasures++
	if !ed25519.Verify(v.key, erasure(v.Head.Chain, row.Erased), row.Record.Digest) {
		return "the list of what it erased is not the one that was signed"
	}
	for _, e := range row.Erased {
		if e.Seq <= v.start.Seq {
			continue
		}
		leaf, ok := v.blank[e.Seq]
		if !ok {
			return fmt.Sprintf("record %d, which it erased, has content, or another erasure names it too", e.Seq)
		}
		if leaf != e.Leaf {
			return fmt.Sprintf("record %d is not the one that it erased", e.Seq)
		}
		delete(v.blank, e.Seq)
	}
	return ""
}

// prune holds a record of a pruning to the anchor that the walk began behind, which is the newest, and says what is
// wrong with it.
func (v *Verifier) prune(r Record) (reason string) {
	switch {
	case r.Revision > v.start.Seq:
		return fmt.Sprintf("the records up to %d were pruned, it says, and no signed anchor does", r.Revision)
	case r.Revision < v.start.Seq:
	case !bytes.Equal(r.Digest, v.start.Hash[:]):
		return "the anchor that it names is not the one that was signed"
	default:
		v.pruned = true
	}
	return ""
}

// Close says whether the chain ends where it should: at the stored head, and behind every checkpoint; whether an
// erasure names each row without content; and whether a pruning names the anchor. The error is a *BreakError.
func (v *Verifier) Close(stored Head) error {
	if v.broken != nil {
		return v.broken
	}
	if stored.Seq != v.Head.Seq || stored.Hash != v.Head.Hash {
		return &BreakError{v.Head.Chain, v.Head.Seq,
			fmt.Sprintf("the records end here, but the chain's head says record %d", stored.Seq)}
	}
	if len(v.anchors) > 0 {
		most := slices.Max(slices.Collect(maps.Keys(v.anchors)))
		return &BreakError{v.Head.Chain, v.Head.Seq,
			fmt.Sprintf("the records end here, but a signed checkpoint says there were %d: the tail was cut off", most)}
	}
	if v.start.Seq > 0 && !v.pruned {
		return &BreakError{v.Head.Chain, v.start.Seq,
			"no record behind the anchor says that those up to it were pruned"}
	}
	if len(v.blank) > 0 {
		first := slices.Min(slices.Collect(maps.Keys(v.blank)))
		return &BreakError{v.Head.Chain, first,
			"its content is gone, and no erasure behind it names it: it was not erased rightly"}
	}
	return nil
}
