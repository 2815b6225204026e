package audit

import (
	"fmt"
	"maps"
	"slices"
)

// Row is a stored link of a chain.
type Row struct {
	Seq    int64
	Leaf   Hash
	Hash   Hash
	Nonce  []byte // nil when the record was erased
	Record Record // meaningless when the record was erased
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

// Verifier walks one chain from its beginning, a row at a time, in constant memory.
type Verifier struct {
	Head    Head // as far as verified
	Erased  int64
	anchors map[int64]Hash // checkpoints still to be passed
	broken  error          // what the checkpoints show by themselves
}

// NewVerifier starts at the beginning of chain, or behind anchor when the records up to it were pruned. checkpoints are
// heads known from outside the database; each must be met on the way.
func NewVerifier(anchor Head, checkpoints []Head) *Verifier {
	v := &Verifier{Head: anchor, anchors: map[int64]Hash{anchor.Seq: anchor.Hash}}
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
	if row.Seq != v.Head.Seq+1 {
		return fail("the next stored record is number %d", row.Seq)
	}
	switch {
	case row.Nonce == nil:
		v.Erased++
	case len(row.Nonce) != NonceBytes: // else bytes could move between nonce and record without a trace
		return fail("its nonce is %d bytes long, not %d", len(row.Nonce), NonceBytes)
	case Leaf(row.Nonce, row.Record) != row.Leaf:
		return fail("the record does not match its leaf")
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

// Close says whether the chain ends where it should: at the stored head, and behind every checkpoint. The error is a
// *BreakError.
func (v *Verifier) Close(stored Head) error {
	if v.broken != nil {
		return v.broken
	}
	if stored.Seq != v.Head.Seq || stored.Hash != v.Head.Hash {
		return &BreakError{v.Head.Chain, v.Head.Seq, fmt.Sprintf("the records end here, but the chain's head says record %d", stored.Seq)}
	}
	if len(v.anchors) > 0 {
		most := slices.Max(slices.Collect(maps.Keys(v.anchors)))
		return &BreakError{v.Head.Chain, v.Head.Seq, fmt.Sprintf("the records end here, but a signed checkpoint says there were %d: the tail was cut off", most)}
	}
	return nil
}
