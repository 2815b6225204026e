package auditlog

import (
	"bytes"
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
// those of the records' leaves. Its memory is the checkpoints, the right edge and comparedTiles tiles.
type treeWalk struct {
	log         Log
	compares    bool // with the stored tiles
	stored      store.Tree
	tree        *audit.Tree          // of the leaves so far; nil if no tree is stored
	checkpoints map[int64]audit.Hash // signed roots by size, not reached yet
	replaced    map[int64]time.Time  // when the keys of checkpoints were replaced, by size
	newest      time.Time            // of the records so far; known only if keys were replaced
	met         int                  // checkpoints that match
}

// newTreeWalk returns a walk over the records after start. It opens the tree at start, which is an anchor or the
// genesis, from stored tiles: if these were altered, it meets no checkpoint.
func (v *verification) newTreeWalk(ctx context.Context, start audit.Head) (*treeWalk, error) {
	log := v.log
	w := &treeWalk{log: log, compares: v.tiles, checkpoints: map[int64]audit.Hash{},
		replaced: map[int64]time.Time{}}
	fail := func(format string, args ...any) (*treeWalk, error) {
		return nil, &audit.BreakError{Chain: start.Chain, Seq: start.Seq, Reason: fmt.Sprintf(format, args...)}
	}
	trees, err := log.Trees(ctx)
	if damaged := (store.Damaged{}); err != nil && !(errors.As(err, &damaged)) {
		return nil, err
	}
	if damagedChain(err, start.Chain) {
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
	stored, ok := trees[start.Chain]
	if !ok {
		if len(signed) > 0 {
			return fail("a checkpoint of its Merkle tree was signed, but the tree is not in the database")
		}
		return w, nil
	}
	w.stored = stored
	size := start.Seq + 1 - stored.First
	if size < 0 {
		return fail("its Merkle tree begins at record %d only", stored.First)
	}
	if size > stored.Size {
		return fail("its Merkle tree ends at record %d, but the records up to here were pruned", stored.Last())
	}
	for _, h := range signed {
		if known, ok := w.checkpoints[h.Size]; ok && known != h.Root {
			return fail("two signed Merkle trees of %d leaves differ: records were rewritten", h.Size)
		}
		if h.Size >= size {
			w.checkpoints[h.Size] = h.Root
			if !h.Replaced.IsZero() {
				w.replaced[h.Size] = h.Replaced
			}
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
	if len(w.replaced) > 0 && row.Record.At != "" {
		if at, err := time.Parse(check.TimeFormat, row.Record.At); err == nil && at.After(w.newest) {
			w.newest = at
		}
	}
	w.tree.Append(row.Leaf)
	if err := w.reached(); err != nil {
		return err
	}
	if w.tree.Full() < comparedTiles {
		return nil
	}
	return w.compare(ctx)
}

// reached compares the tree with the checkpoint of its size, and with the stored root.
func (w *treeWalk) reached() error {
	size := w.tree.Size()
	want, ok := w.checkpoints[size]
	if !ok && size != w.stored.Size {
		return nil
	}
	root := w.tree.Root()
	if ok && root != want {
		return w.fails("the Merkle tree differs from a signed checkpoint: records up to here were rewritten")
	}
	if ok && audit.Late(w.replaced[size], w.newest) {
		return w.fails("a checkpoint up to here was signed with a key that had been replaced at %s",
			w.replaced[size].Format(check.TimeFormat))
	}
	if ok {
		w.met++
		delete(w.checkpoints, size)
	}
	if size == w.stored.Size && root != w.stored.Root {
		return w.fails("the Merkle tree of the records does not have the stored root")
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
	return nil
}
