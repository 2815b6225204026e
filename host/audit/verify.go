package audit

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
)

// Row is a stored link of a chain.
type Row struct {
	Seq    int64
	Leaf   Hash
	Hash   Hash
	Nonce  []byte   // nil if the record was erased
	Record Record   // only its Kind if the record was erased
	Erased []Erased // the records that an erasure erased, in the order of the chain
}

// BreakError reports where and why a chain does not verify.
type BreakError struct {
	Chain  int
	Seq    int64
	Reason string
}

func (e *BreakError) Error() string {
	return fmt.Sprintf("audit chain %d breaks at record %d: %s", e.Chain, e.Seq, e.Reason)
}

// Mismatch says how the content of a row does not match its leaf, or returns "".
func (r Row) Mismatch() (reason string) {
	switch {
	case r.Nonce == nil && !r.Record.blank(): // without a nonce, nothing ties the content to the leaf
		return "its nonce was deleted, but not its content"
	case r.Nonce == nil && r.Record.Kind != Blank: // no leaf binds the kind
		return "its content was deleted, but its kind is not that of an erased record"
	case r.Nonce != nil && len(r.Nonce) != NonceBytes: // bytes could move between nonce and record undetected
		return fmt.Sprintf("its nonce has %d bytes, not %d", len(r.Nonce), NonceBytes)
	case r.Nonce != nil && Leaf(r.Nonce, r.Record) != r.Leaf:
		return "the record does not match its leaf"
	}
	return ""
}

// Verifier verifies one chain from its start, row by row. Its memory holds only the checkpoints and the erased rows.
type Verifier struct {
	Head     Head  // of the verified rows
	Erased   int64 // number of records without content
	Erasures int64 // number of records of kind Erasure
	Covered  int64 // number of the last record with which a checkpoint ends; 0: none was reached

	start       Head           // the anchor, or the genesis
	pruned      bool           // a record after the anchor names it
	key         Public         // verifies erasures
	blank       map[int64]Hash // erased rows that no erasure has named yet
	checkpoints map[int64]Hash // not reached yet
	broken      error          // a contradiction between checkpoints
}

// NewVerifier returns a verifier that starts after anchor, which is the genesis if nothing was pruned. key
// verifies erasures. checkpoints are heads kept outside the database; the chain must pass through each of them.
func NewVerifier(anchor Head, key Public, checkpoints []Head) *Verifier {
	v := &Verifier{Head: anchor, start: anchor, key: key, blank: map[int64]Hash{},
		checkpoints: map[int64]Hash{anchor.Seq: anchor.Hash}}
	for _, c := range checkpoints {
		if c.Chain != anchor.Chain || c.Seq < anchor.Seq {
			continue
		}
		// A host keeps signing after its database was rewritten. The later signature must not hide the earlier one.
		if known, ok := v.checkpoints[c.Seq]; ok && known != c.Hash {
			v.broken = &BreakError{c.Chain, c.Seq, "two signed hashes of it differ: records up to here were rewritten"}
		}
		v.checkpoints[c.Seq] = c.Hash
	}
	delete(v.checkpoints, anchor.Seq)
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
		return fail("the first stored record is number %d, but no signed anchor covers the records before it", row.Seq)
	default:
		return fail("the next stored record is number %d", row.Seq)
	}
	reason := row.Mismatch()
	switch {
	case reason != "":
	case row.Nonce == nil:
		v.Erased++
		v.blank[row.Seq] = row.Leaf
	case row.Record.Kind == Erasure:
		reason = v.erase(row)
	case row.Record.Kind == Pruning:
		reason = v.prune(row.Record)
	}
	if reason != "" {
		return fail("%s", reason)
	}
	next := v.Head.Next(row.Leaf)
	if next.Hash != row.Hash {
		return fail("the hash does not follow from the previous record")
	}
	if want, ok := v.checkpoints[next.Seq]; ok {
		if want != next.Hash {
			return fail("the hash differs from a signed checkpoint: records up to here were rewritten")
		}
		delete(v.checkpoints, next.Seq)
		v.Covered = next.Seq
	}
	v.Head = next
	return nil
}

// erase matches an erasure with the blank rows that it names, and returns what is wrong with it, or "". It skips pruned
// rows, which can no longer be checked.
func (v *Verifier) erase(row Row) (reason string) {
	v.Erasures++
	if !v.key.erased(row.Record, v.Head.Chain, row.Erased) {
		return "the list of erased records differs from the signed one"
	}
	for _, e := range row.Erased {
		if e.Seq <= v.start.Seq {
			continue
		}
		leaf, ok := v.blank[e.Seq]
		if !ok {
			return fmt.Sprintf("record %d, which it erased, has content or is named by another erasure", e.Seq)
		}
		if leaf != e.Leaf {
			return fmt.Sprintf("record %d has another leaf than the erased one", e.Seq)
		}
		delete(v.blank, e.Seq)
	}
	return ""
}

// prune compares a pruning record with the start of the walk, which is the newest anchor, and returns what is wrong
// with it, or "".
func (v *Verifier) prune(r Record) (reason string) {
	switch {
	case r.Revision > v.start.Seq:
		return fmt.Sprintf("it reports the pruning of records up to %d, but no signed anchor does", r.Revision)
	case r.Revision < v.start.Seq:
	case !bytes.Equal(r.Digest, v.start.Hash[:]):
		return "the anchor that it names differs from the signed one"
	default:
		v.pruned = true
	}
	return ""
}

// Close verifies the end of the chain. The last record must be the stored head, and no checkpoint may cover a later
// one. An erasure must name each blank row, and a pruning record must name the anchor. The error is a *BreakError.
func (v *Verifier) Close(stored Head) error {
	if v.broken != nil {
		return v.broken
	}
	if stored.Seq != v.Head.Seq || stored.Hash != v.Head.Hash {
		return &BreakError{v.Head.Chain, v.Head.Seq,
			fmt.Sprintf("the records end here, but the chain's head is record %d", stored.Seq)}
	}
	if len(v.checkpoints) > 0 {
		last := slices.Max(slices.Collect(maps.Keys(v.checkpoints)))
		return &BreakError{v.Head.Chain, v.Head.Seq,
			fmt.Sprintf("the records end here, but a signed checkpoint covers %d: the tail was cut off, "+
				"or an older backup was restored", last)}
	}
	if v.start.Seq > 0 && !v.pruned {
		return &BreakError{v.Head.Chain, v.start.Seq, "no record after the anchor reports the pruning"}
	}
	if len(v.blank) > 0 {
		first := slices.Min(slices.Collect(maps.Keys(v.blank)))
		return &BreakError{v.Head.Chain, first,
			"its content was deleted, but no later erasure names it: it was blanked"}
	}
	return nil
}
