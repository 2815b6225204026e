package auditlog

import (
	"context"
	"errors"
	"fmt"
	"time"

	"assay/host/audit"
	"assay/host/internal/maintenance"
	"assay/host/store"
)

const (
	turnInterval = 500 * time.Millisecond // twice as long while no chain grows
	// growInterval is the minimum time between two extensions of a tree by any hosts: each leads to a checkpoint. A
	// record has one after at most turnInterval plus growInterval, and the time that the work takes.
	growInterval = 900 * time.Millisecond
	growBatch    = 8192 // records in one extension
	// growTurn is how long a host extends one tree before it turns to the others, when it has much to catch up on.
	growTurn         = 300 * time.Millisecond
	progressInterval = 10 * time.Second // of lines in the log
)

// keysInterval is how often hosts look for statements that introduce keys.
const keysInterval = time.Minute

// Run signs checkpoints of chains within 2 s of their records, until ctx ends.
func (k *Keeper) Run(ctx context.Context) {
	var reported time.Time
	var last string
	learned := time.Now()
	for wait := turnInterval; maintenance.Pause(ctx, wait); {
		err := k.sign(ctx, true)
		if wait = turnInterval; err == nil && k.idle() {
			wait *= 2
		}
		if err == nil && time.Since(learned) > keysInterval {
			learned, err = time.Now(), k.Store.LearnKeys(ctx)
		}
		if err == nil || ctx.Err() != nil {
			last = ""
			continue
		}
		if text := err.Error(); text != last || time.Since(reported) > time.Minute {
			k.Logger.Warn("signing checkpoints of the audit log failed", "error", err)
			last, reported = text, time.Now()
		}
	}
}

// idle reports whether checkpoints cover all records, as far as this host knows.
func (k *Keeper) idle() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.covers != nil
}

// grow extends the stored tree of a chain to its head. With patience, it leaves long work to later calls, pauses as
// long as it works, and does not extend a tree that has just grown. Any number of hosts may call grow at once. An
// *audit.BreakError means that the tree contradicts the records.
func (k *Keeper) grow(ctx context.Context, head audit.Head, tree store.Tree, patience bool) (store.Tree, error) {
	if tree.First == 0 {
		var err error
		if tree, err = k.startTree(ctx, head.Chain); err != nil {
			return tree, err
		}
	}
	if patience && tree.Age >= 0 && tree.Age < growInterval && head.Seq-tree.Last() < growBatch {
		return tree, nil
	}
	open, err := k.open(ctx, tree)
	began := time.Now()
	for behind := head.Seq - tree.Last(); err == nil && tree.Last() < head.Seq; {
		start := time.Now()
		var grown bool
		if grown, err = k.extend(ctx, &tree, open, head.Seq); err != nil {
			break
		}
		if !grown { // another host has extended it
			if tree, err = k.reload(ctx, head.Chain); err == nil && !patience {
				open, err = k.open(ctx, tree)
				continue
			}
			break
		}
		k.progress(head, tree, behind)
		if patience && tree.Last() < head.Seq && !maintenance.Pause(ctx, time.Since(start)) || patience &&
			time.Since(began) > growTurn {
			break
		}
	}
	if err == nil && tree.Last() > head.Seq {
		err = k.beyond(ctx, tree)
	}
	return tree, err
}

// beyond returns an error if a tree has more leaves than its chain has records, also after reading the head again.
func (k *Keeper) beyond(ctx context.Context, tree store.Tree) error {
	heads, err := k.Store.Heads(ctx)
	if damaged := (store.Damaged{}); err != nil && !errors.As(err, &damaged) {
		return err
	}
	for _, head := range heads {
		if head.Chain == tree.Chain && head.Seq < tree.Last() {
			return &audit.BreakError{Chain: tree.Chain, Seq: head.Seq, Reason: fmt.Sprintf("the chain ends here, "+
				"but its Merkle tree covers record %d", tree.Last())}
		}
	}
	return nil
}

// startTree creates a chain's tree, whose first leaf is the first record that is kept.
func (k *Keeper) startTree(ctx context.Context, chain int) (tree store.Tree, err error) {
	first := int64(1)
	err = k.Store.ReadAuditLog(ctx, func(ctx context.Context, log store.AuditLog) error {
		anchors, err := log.Anchors(ctx, chain, k.Signer.Public)
		if n := len(anchors); n > 0 {
			first = anchors[n-1].Seq + 1
		}
		return err
	})
	if err == nil {
		err = k.Store.StartTree(ctx, chain, first)
	}
	if err != nil {
		return tree, err
	}
	return k.reload(ctx, chain)
}

// reload reads a chain's tree.
func (k *Keeper) reload(ctx context.Context, chain int) (store.Tree, error) {
	trees, err := k.Store.Trees(ctx)
	tree, ok := trees[chain]
	if ok {
		return tree, nil
	}
	if err == nil {
		err = &audit.BreakError{Chain: chain, Reason: "the row of its Merkle tree was deleted"}
	}
	return tree, err
}

// open reads the right edge of a tree, and compares it with the stored root and the tree's last leaf with its record.
func (k *Keeper) open(ctx context.Context, tree store.Tree) (*audit.Tree, error) {
	wrong := func(reason string) error {
		return &audit.BreakError{Chain: tree.Chain, Seq: tree.Last(), Reason: reason}
	}
	open, err := audit.OpenTree(tree.Size, reading(ctx, k.Store, tree.Chain))
	if errors.Is(err, audit.ErrTiles) || err == nil && open.Root() != tree.Root {
		return nil, wrong("the tiles of its Merkle tree were altered: they do not have the stored root")
	}
	if err != nil || tree.Size == 0 {
		return open, err
	}
	record, err := k.Store.Leaves(ctx, tree.Chain, tree.Last(), tree.Last(), 1)
	if err != nil || len(record) == 0 { // it was pruned
		return open, err
	}
	last := audit.TileID{Index: (tree.Size - 1) / audit.TileWidth, Width: int((tree.Size-1)%audit.TileWidth) + 1}
	tiles, err := k.Store.Tiles(ctx, tree.Chain, []audit.TileID{last})
	if err != nil {
		return nil, err
	}
	if end := last.Width * len(audit.Hash{}); len(tiles[0]) >= end &&
		audit.Hash(tiles[0][end-len(audit.Hash{}):end]) != record[0] {
		return nil, wrong("its leaf differs from the one in the Merkle tree: the record was replaced")
	}
	return open, nil
}

// extend adds the next records up to a number to a tree, in memory and in the database. It reports false if another
// host has changed the stored tree.
func (k *Keeper) extend(ctx context.Context, tree *store.Tree, open *audit.Tree, until int64) (bool, error) {
	leaves, err := k.Store.Leaves(ctx, tree.Chain, tree.Last()+1, until, growBatch)
	if err != nil {
		return false, err
	}
	if len(leaves) == 0 {
		return false, &audit.BreakError{Chain: tree.Chain, Seq: tree.Last() + 1, Reason: "the record is missing, so " +
			"the Merkle tree cannot grow"}
	}
	if _, ok := k.oldest[tree.Chain]; !ok && k.Covered != nil {
		at, err := k.Store.RecordedAt(ctx, tree.Chain, tree.Last()+1)
		if err != nil {
			return false, err
		}
		if k.oldest == nil {
			k.oldest = map[int]time.Time{}
		}
		k.oldest[tree.Chain] = at
	}
	for _, leaf := range leaves {
		open.Append(leaf)
	}
	to := open.Head(tree.Chain)
	to.After = tree.After
	grown, err := k.Store.GrowTree(ctx, tree.TreeHead, to, open.Take())
	if grown {
		tree.TreeHead, tree.Age = to, 0
	}
	return grown, err
}

// progress logs the progress of building a tree from many records.
func (k *Keeper) progress(head audit.Head, tree store.Tree, behind int64) {
	if behind <= growBatch || tree.Last() < head.Seq && time.Since(k.logged) < progressInterval {
		return
	}
	k.logged = time.Now()
	k.Logger.Info("building the Merkle tree of an audit chain", "chain", tree.Chain, "record", tree.Last(), "of",
		head.Seq)
}

// tileSource is a store or a snapshot of it.
type tileSource interface {
	Tiles(ctx context.Context, chain int, ids []audit.TileID) ([][]byte, error)
}

// reading returns a reader of a chain's tiles.
func reading(ctx context.Context, from tileSource, chain int) audit.ReadTiles {
	return func(ids []audit.TileID) ([][]byte, error) { return from.Tiles(ctx, chain, ids) }
}
