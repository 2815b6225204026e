package auditlog

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"assay/host/audit"
	"assay/host/store"
	"assay/registry/activation"
)

// Keeper maintains the Merkle trees of the audit log, signs checkpoints of them, and prunes records past their
// retention. Its methods are safe for concurrent use, but Prune must not run twice at once.
type Keeper struct {
	Store  *store.Store
	Signer *audit.Signer
	Trust  activation.Trust // verifies activations of lineups
	Dir    CheckpointDir
	Logger *slog.Logger
	// Covered is called when a checkpoint is stored, with the time since the oldest record that it is the first to
	// cover; it must not block, and may be nil.
	Covered func(lag time.Duration)

	mu     sync.Mutex             // held while signing
	signed map[int]audit.TreeHead // the last head that was signed, by chain
	covers []audit.Head           // the heads that the last checkpoints cover; nil: some do not
	logged time.Time              // progress of building trees
	oldest map[int]time.Time      // time of the oldest record that no checkpoint covers yet, by chain
	status status
}

// SignHeads extends the Merkle trees to the heads of their chains, and signs the trees that have changed since the last
// call. It stores the checkpoints first outside and then inside the database. A damaged chain is an error, but the
// other chains are signed.
func (k *Keeper) SignHeads(ctx context.Context) error { return k.sign(ctx, false) }

// sign is SignHeads. With patience, it leaves long work to later calls.
func (k *Keeper) sign(ctx context.Context, patience bool) (err error) {
	defer func() { k.status.ended(signing, err) }()
	k.mu.Lock()
	defer k.mu.Unlock()
	heads, damaged := k.Store.Heads(ctx)
	if patience && damaged == nil && k.covers != nil && slices.Equal(heads, k.covers) {
		return nil
	}
	k.covers = nil
	trees, err := k.Store.Trees(ctx)
	damaged = errors.Join(damaged, err)
	var moved []store.Tree
	var notes []string
	behind := false
	for _, head := range heads {
		if trees[head.Chain].First == 0 && damagedChain(err, head.Chain) {
			continue
		}
		tree, err := k.grow(ctx, head, trees[head.Chain], patience)
		behind = behind || err != nil || tree.Last() < head.Seq
		if err == nil && (tree.Size == 0 || k.signed[head.Chain] == tree.TreeHead) {
			continue
		}
		var signed string
		if err == nil {
			err = k.follows(ctx, &tree)
		}
		if err == nil {
			signed, err = k.Signer.SignTree(tree.TreeHead)
		}
		if err != nil {
			damaged = errors.Join(damaged, err)
			continue
		}
		moved, notes = append(moved, tree), append(notes, signed)
	}
	// Outside first: once a checkpoint is published from the database, the host must remember it.
	err = k.Dir.Append(notes...)
	if err == nil {
		err = k.Store.KeepCheckpoints(ctx, moved, notes)
	}
	if err != nil {
		return errors.Join(damaged, err)
	}
	for _, tree := range moved {
		k.signed[tree.Chain] = tree.TreeHead
		k.status.signed(tree.Chain, tree.Last())
		if oldest, ok := k.oldest[tree.Chain]; ok {
			k.Covered(k.Store.Now().Sub(oldest))
		}
		delete(k.oldest, tree.Chain)
	}
	if damaged == nil && !behind {
		k.covers = heads
	}
	return damaged
}

// damagedChain reports whether an error says that a chain is damaged.
func damagedChain(err error, chain int) bool {
	var damaged store.Damaged
	return errors.As(err, &damaged) && slices.ContainsFunc(damaged, func(b *audit.BreakError) bool {
		return b.Chain == chain
	})
}

// follows returns an error if a tree does not contain the one that was signed before: a log that signs both a tree and
// one that contradicts it proves nothing.
func (k *Keeper) follows(ctx context.Context, tree *store.Tree) error {
	if k.signed == nil {
		k.signed = k.recall()
	}
	last, ok := k.signed[tree.Chain]
	if !ok {
		note, err := k.Store.NewestCheckpoint(ctx, tree.Chain)
		if err != nil {
			return err
		}
		last, _ = k.Signer.OpenTree(note)
		if last.Size == 0 || last.Chain != tree.Chain { // none, or not signed by us
			return nil
		}
	}
	if last.After < tree.After {
		accepted, err := k.Store.LossAccepted(ctx, tree.Chain, tree.After)
		if err == nil && !accepted {
			err = &audit.BreakError{Chain: tree.Chain, Seq: tree.After,
				Reason: "its Merkle tree goes on after a loss that no operator has accepted here"}
		}
		return err
	}
	if last.Size > tree.Size || last.After > tree.After { // another host may have extended it since it was read
		again, err := k.reload(ctx, tree.Chain)
		if err != nil {
			return err
		}
		*tree = again
	}
	broken := &audit.BreakError{Chain: tree.Chain, Seq: tree.Last(), Reason: fmt.Sprintf("the Merkle tree up to here "+
		"contradicts the signed checkpoint of %d leaves: records were rewritten, or an older backup was restored",
		last.Size)}
	if last.Size > tree.Size || last.After != tree.After {
		return broken
	}
	proof, err := audit.ProveConsistency(last.Size, tree.TreeHead, reading(ctx, k.Store, tree.Chain))
	if errors.Is(err, audit.ErrTiles) || err == nil && audit.CheckConsistency(last, tree.TreeHead, proof) != nil {
		return broken
	}
	return err
}

// recalled is how many files are read for the last checkpoint of each chain.
const recalled = 3

// recall returns the largest tree of each chain in the newest files.
func (k *Keeper) recall() map[int]audit.TreeHead {
	last := map[int]audit.TreeHead{}
	files, _ := k.Dir.Files()
	for _, head := range ReadCheckpoints(files[max(0, len(files)-recalled):], k.Signer.Public).Trees {
		if l := last[head.Chain]; head.After > l.After || head.After == l.After && head.Size > l.Size {
			last[head.Chain] = head.TreeHead
		}
	}
	return last
}

// Tidy thins old checkpoints to one an hour, repairs damaged files of checkpoints, and adds checkpoints to the
// directory that only the database has, because another host signed them or a file was lost.
func (k *Keeper) Tidy(ctx context.Context) error {
	err := k.Store.ThinCheckpoints(ctx)
	if err != nil {
		return err
	}
	k.mu.Lock() // nothing may be appended to a file while it is replaced
	defer k.mu.Unlock()
	repaired, err := k.Dir.Tidy(k.Signer.Public, time.Now())
	for _, name := range repaired {
		k.Logger.Warn("a file of checkpoints was damaged: the valid ones were kept", "file", name, "damaged",
			name+".damaged")
	}
	if err != nil {
		return err
	}
	files, err := k.Dir.Files()
	if err != nil {
		return err
	}
	known := map[audit.TreeHead]bool{}
	for _, head := range ReadCheckpoints(files, k.Signer.Public).Trees {
		known[head.TreeHead] = true
	}
	trees, err := k.Store.Trees(ctx)
	for _, chain := range slices.Sorted(maps.Keys(trees)) {
		notes, err2 := k.Store.Checkpoints(ctx, chain, 0)
		if err2 != nil {
			return err2
		}
		missing := slices.DeleteFunc(notes, func(note string) bool {
			head, err := k.Signer.OpenTree(note)
			return err != nil || known[head]
		})
		if err2 := k.Dir.Append(missing...); err2 != nil {
			return err2
		}
		if len(missing) > 0 {
			k.Logger.Info("checkpoints of the database were added to the directory of checkpoints", "chain", chain,
				"checkpoints", len(missing))
		}
	}
	return err
}

// Prune deletes records past their retention, up to the newest anchor of each chain. It first stores due anchors, both
// outside and inside the database, so that the chains can be verified even if the host dies halfway. Records of chains
// that are not valid are evidence and are kept. They are reported, and the other chains are pruned.
func (k *Keeper) Prune(ctx context.Context) (err error) {
	defer func() { k.status.ended(pruning, err) }()
	due, err := k.Store.AuditDue(ctx)
	var damaged store.Damaged
	if err != nil && !errors.As(err, &damaged) {
		return err
	}
	due, behind := k.growTo(ctx, due)
	invalid, broken, err := k.storeAnchors(ctx, due)
	broken = errors.Join(behind, broken)
	if err != nil {
		return errors.Join(broken, err)
	}
	for _, b := range damaged {
		if !invalid[b.Chain] {
			invalid[b.Chain], broken = true, errors.Join(broken, b)
		}
	}
	trees, err := k.Store.Trees(ctx)
	if err != nil && !errors.As(err, &damaged) {
		return errors.Join(broken, err)
	}
	var newest []audit.Anchor
	err = k.Store.ReadAuditLog(ctx, func(ctx context.Context, log store.AuditLog) error {
		heads, err := log.Heads(ctx)
		if err != nil && !errors.As(err, &damaged) {
			return err
		}
		for _, head := range heads {
			if invalid[head.Chain] {
				continue
			}
			anchors, err := log.Anchors(ctx, head.Chain, k.Signer.Public)
			if errors.As(err, new(*audit.BreakError)) {
				broken = errors.Join(broken, err)
				continue
			}
			if err != nil {
				return err
			}
			// An anchor of a replaced key does not permit pruning. The next anchor covers the same records.
			if n := len(anchors); n > 0 && trees[head.Chain].Last() >= anchors[n-1].Seq &&
				anchors[n-1].Replaced.IsZero() {
				newest = append(newest, anchors[n-1])
			}
		}
		return nil
	})
	if err == nil {
		err = k.Store.PruneAudit(ctx, newest)
	}
	return errors.Join(broken, err)
}

// longWay is the most records by which Prune extends a tree. It leaves longer extensions to Run.
const longWay = 100_000

// growTo extends trees to the records at which their chains are to be cut, because a pruned record can no longer become
// a leaf. It returns the anchors that are covered by their trees, and why others are not.
func (k *Keeper) growTo(ctx context.Context, due []audit.Anchor) (covered []audit.Anchor, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	trees, err := k.Store.Trees(ctx)
	for _, a := range due {
		tree := trees[a.Chain]
		if tree.First == 0 && damagedChain(err, a.Chain) {
			continue
		}
		if tree.Last() < a.Seq && a.Seq-tree.Last() <= longWay {
			var err2 error
			if tree, err2 = k.grow(ctx, a.Head, tree, false); err2 != nil {
				err = errors.Join(err, err2)
				continue
			}
		}
		if tree.Last() < a.Seq {
			k.Logger.Info("pruning waits for the Merkle tree", "chain", a.Chain, "record", tree.Last(), "of", a.Seq)
			continue
		}
		covered = append(covered, a)
	}
	return covered, err
}

// storeAnchors signs and stores the anchors at which chains are to be cut. Records before an anchor can never be
// verified again, so the whole chain must be valid first. storeAnchors returns the chains that are not, and why. It is
// harmless to sign an anchor that is not stored afterwards.
func (k *Keeper) storeAnchors(ctx context.Context, due []audit.Anchor) (invalid map[int]bool, broken, err error) {
	invalid = map[int]bool{}
	if len(due) == 0 {
		return invalid, nil, nil
	}
	files, err := k.Dir.Files()
	if err != nil {
		return nil, nil, err
	}
	checkpoints := ReadCheckpoints(files, k.Signer.Public)
	for _, a := range due { // as checkpoints, so that only verified heads are signed
		checkpoints.Heads = append(checkpoints.Heads, a.Head)
	}
	reports, broken, err := Verify(ctx, k.Store, k.Signer.Public, k.Trust, checkpoints)
	if err != nil {
		return nil, broken, err
	}
	for _, r := range reports {
		invalid[r.Chain] = !r.OK
	}
	for _, a := range due {
		if invalid[a.Chain] {
			continue
		}
		signed, err := k.Signer.Anchor(a)
		if err != nil {
			return invalid, broken, err
		}
		if err := k.Dir.Append(signed); err != nil {
			return invalid, broken, err
		}
		if err := k.Store.KeepAnchor(ctx, a, signed); err != nil {
			broken = errors.Join(broken, err)
			continue
		}
		k.Logger.Info("pruning audit records past their retention", "chain", a.Chain, "up_to", a.Seq,
			"before", a.Before)
	}
	return invalid, broken, nil
}
