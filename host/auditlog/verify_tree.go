package auditlog

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"assay/host/audit"
	"assay/host/check"
	"assay/host/store"
)

// comparedTiles is how many full tiles are compared with the stored ones in one query.
const comparedTiles = 64

// treeWalk verifies a chain's Merkle tree while its records are read: the checkpoints and the stored tiles must be
// those of the records' leaves. It keeps only the checkpoints, the right edge and comparedTiles tiles in memory.
type treeWalk struct {
	log         Log
	compares    bool  // with the stored tiles
	start       int64 // number of the last record that was pruned
	stored      store.Tree
	tree        *audit.Tree                  // of the leaves so far; nil if no tree is stored
	checkpoints map[int64][]audit.SignedTree // by size, not reached yet
	rotated     bool                         // a checkpoint's key was replaced
	newest      time.Time                    // of the records so far; known only if keys were replaced
	met         int                          // checkpoints that match
	covered     int64                        // number of the last record that one of them covers
	losses      losses
}

// losses summarises the records of losses that an operator has accepted, see audit.LossAcceptance.
type losses struct {
	contradicted []audit.SignedTree // signed before the last loss so far; the records differ from them
	accepted     int                // records of acceptances
	last         int64              // the number of the newest of these records
	excused      bool               // an acceptance explains why a signed checkpoint does not match
	confirmed    int64              // the newest acceptance that a matching checkpoint follows
}

// newTreeWalk returns a walk over the records after start. It opens the tree at start, which is an anchor or the
// genesis, from stored tiles: if these were altered, no checkpoint matches. replaced is when the anchor's key was
// replaced, or zero: checkpoints of a later key must not cover records that the anchor pruned.
func (v *verification) newTreeWalk(ctx context.Context, start audit.Head, replaced time.Time) (*treeWalk, error) {
	log := v.log
	w := &treeWalk{log: log, compares: v.tiles, checkpoints: map[int64][]audit.SignedTree{}}
	fail := func(format string, args ...any) (*treeWalk, error) {
		return nil, &audit.BreakError{Chain: start.Chain, Seq: start.Seq, Reason: fmt.Sprintf(format, args...)}
	}
	if damagedChain(v.damagedTrees, start.Chain) {
		return fail("the row of its Merkle tree was altered")
	}
	signed := slices.DeleteFunc(slices.Clone(v.checkpoints.Trees),
		func(h audit.SignedTree) bool { return h.Chain != start.Chain })
	notes, err := log.Checkpoints(ctx, start.Chain, 0)
	if err != nil {
		return nil, err
	}
	for _, note := range notes {
		head, err := v.key.OpenSigned(note)
		if err != nil || head.Chain != start.Chain {
			return fail("a checkpoint in the database was not signed by this installation for this chain")
		}
		signed = append(signed, head)
	}
	stored, ok := v.trees[start.Chain]
	if !ok {
		if len(signed) > 0 {
			return fail("a checkpoint of its Merkle tree was signed, but the tree is not in the database")
		}
		return w, nil
	}
	w.stored, w.start = stored, start.Seq
	size := start.Seq + 1 - stored.First
	if size < 0 {
		return fail("its Merkle tree begins at record %d only", stored.First)
	}
	if size > stored.Size {
		return fail("its Merkle tree ends at record %d, but the records up to here were pruned", stored.Last())
	}
	for _, h := range signed {
		if h.Size < size && !replaced.IsZero() && (h.Replaced.IsZero() || h.Replaced.After(replaced)) {
			return fail(lateAnchor)
		}
		if h.Size < size {
			continue
		}
		known := w.checkpoints[h.Size]
		if slices.ContainsFunc(known, func(k audit.SignedTree) bool { return k.After == h.After && k.Root != h.Root }) {
			return fail("two signed Merkle trees of %d leaves differ: records were rewritten", h.Size)
		}
		if !slices.Contains(known, h) {
			w.checkpoints[h.Size] = append(known, h)
			w.rotated = w.rotated || !h.Replaced.IsZero()
		}
	}
	w.tree, err = audit.OpenTree(size, reading(ctx, log, start.Chain))
	if errors.Is(err, audit.ErrTiles) {
		return fail("tiles of its Merkle tree were deleted")
	}
	if err != nil {
		return nil, err
	}
	return w, w.reached()
}

// fails returns the error that the tree breaks at the last leaf.
func (w *treeWalk) fails(format string, args ...any) error {
	return &audit.BreakError{Chain: w.stored.Chain, Seq: w.stored.First + w.tree.Size() - 1,
		Reason: fmt.Sprintf(format, args...)}
}

// add adds the leaf of the next record.
func (w *treeWalk) add(ctx context.Context, row audit.Row) error {
	if w.tree == nil {
		return nil
	}
	if w.rotated && row.Record.At != "" {
		if at, err := time.Parse(check.TimeFormat, row.Record.At); err == nil && at.After(w.newest) {
			w.newest = at
		}
	}
	w.tree.Append(row.Leaf)
	if row.Record.Kind == audit.Loss {
		w.lost(row.Seq, row.Record.Revision)
	}
	if err := w.reached(); err != nil {
		return err
	}
	if w.tree.Full() < comparedTiles {
		return nil
	}
	return w.compare(ctx)
}

// leftover verifies a record that was pruned but is not deleted yet. The tree proves its place, because records are not
// deleted in order: a month's partition is dropped as a whole.
func (w *treeWalk) leftover(ctx context.Context, chain int, row audit.Row) error {
	reason, index := row.Mismatch(), row.Seq-w.stored.First
	proof, err := audit.ProveInclusion(w.stored.TreeHead, index, reading(ctx, w.log, chain))
	if err == nil {
		err = audit.CheckInclusion(w.stored.TreeHead, index, row.Leaf, proof)
	}
	if err != nil { // after an error of the database, the next query of the transaction fails too
		reason = cmp.Or(reason, "it is before the first record of the chain, and the Merkle tree does not contain it")
	}
	if reason != "" {
		return &audit.BreakError{Chain: chain, Seq: row.Seq, Reason: reason}
	}
	return nil
}

// reached compares the tree with the checkpoint of its size, and with the stored root.
func (w *treeWalk) reached() error {
	size := w.tree.Size()
	signed, ok := w.checkpoints[size]
	if !ok && size != w.stored.Size {
		return nil
	}
	root := w.tree.Root()
	met := false
	for _, h := range signed {
		switch {
		case root != h.Root && h.After < w.stored.After:
			w.losses.contradicted = append(w.losses.contradicted, h)
		case root != h.Root:
			return w.fails(rewritten)
		case audit.Late(h.Replaced, w.newest):
			return w.fails("a checkpoint up to here was signed with a key that had been replaced at %s",
				h.Replaced.Format(check.TimeFormat))
		default:
			met = true
			w.losses.confirmed = max(w.losses.confirmed, h.After)
		}
	}
	if met {
		w.met++
		w.covered = w.stored.First + size - 1
	}
	delete(w.checkpoints, size)
	if size == w.stored.Size && root != w.stored.Root {
		return w.fails("the Merkle tree of the records does not have the stored root")
	}
	return nil
}

const lateAnchor = "records were pruned under an anchor that was signed with a key that had been replaced"

const rewritten = "the Merkle tree differs from a signed checkpoint: records up to here were rewritten"

// lost notes an acceptance: checkpoints that were signed before it need not match if they cover more than survived, the
// number of the last record that survived, or 0 if it is unknown.
func (w *treeWalk) lost(seq, survived int64) {
	w.losses.accepted, w.losses.last = w.losses.accepted+1, seq
	excused := func(h audit.SignedTree) bool {
		is := h.After < seq && w.stored.First+h.Size-1 > survived
		w.losses.excused = w.losses.excused || is
		return is
	}
	w.losses.contradicted = slices.DeleteFunc(w.losses.contradicted, excused)
	for size, signed := range w.checkpoints {
		if signed = slices.DeleteFunc(signed, excused); len(signed) > 0 {
			w.checkpoints[size] = signed
		} else {
			delete(w.checkpoints, size)
		}
	}
}

// close verifies the losses at the end of the tree.
func (l losses) close(w *treeWalk, start int64) error {
	switch {
	case len(l.contradicted) > 0:
		return w.fails(rewritten)
	case w.stored.After != l.last && (l.last > 0 || w.stored.After > start):
		return w.fails("the Merkle tree goes on after a loss that no record accepts")
	case l.excused && l.confirmed < l.last:
		return w.fails("record %d accepts a loss, but no checkpoint was signed since: a host does so within seconds",
			l.last)
	}
	return nil
}

// compare compares the tiles since the last call with the stored ones.
func (w *treeWalk) compare(ctx context.Context) error {
	var ids []audit.TileID
	var hashes [][]byte
	tiles := w.tree.Take()
	if !w.compares {
		return nil
	}
	for _, tile := range tiles {
		// The stored tree may be behind.
		leaves := w.stored.Size
		for range tile.Level {
			leaves /= audit.TileWidth
		}
		n := min(int64(tile.Width), leaves-tile.Index*audit.TileWidth)
		if n <= 0 {
			continue
		}
		tile.TileID.Width = int(n)
		ids, hashes = append(ids, tile.TileID), append(hashes, tile.Hashes[:n*int64(len(audit.Hash{}))])
	}
	stored, err := w.log.Tiles(ctx, w.stored.Chain, ids)
	if err != nil {
		return err
	}
	for i, id := range ids {
		if bytes.HasPrefix(stored[i], hashes[i]) {
			continue
		}
		if id.Level > 0 {
			return w.fails("%s of its Merkle tree differs from the records", id.Path())
		}
		at := 0
		for at < min(len(stored[i]), len(hashes[i])) && stored[i][at] == hashes[i][at] {
			at++
		}
		return &audit.BreakError{Chain: w.stored.Chain,
			Seq:    w.stored.First + id.Index*audit.TileWidth + int64(at/len(audit.Hash{})),
			Reason: fmt.Sprintf("its leaf differs from the one in %s of the Merkle tree", id.Path())}
	}
	return nil
}

// close verifies the end of the tree.
func (w *treeWalk) close(ctx context.Context) error {
	if w.tree == nil {
		return nil
	}
	if err := w.compare(ctx); err != nil {
		return err
	}
	if len(w.checkpoints) > 0 {
		last := slices.Max(slices.Collect(maps.Keys(w.checkpoints)))
		return w.fails("the records end here, but a signed checkpoint covers %d: the tail was cut off, or an older "+
			"backup was restored", w.stored.First+last-1)
	}
	if w.stored.Size > w.tree.Size() {
		return w.fails("the records end here, but the Merkle tree covers record %d", w.stored.Last())
	}
	return w.losses.close(w, w.start)
}
