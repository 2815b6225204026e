package auditlog

import (
	"context"
	"errors"
	"log/slog"

	"assay/host/audit"
	"assay/host/store"
	"assay/registry/activation"
)

// Keeper signs checkpoints of the audit log and prunes records past their retention. SignHeads and Prune may
// run at the same time, but neither twice.
type Keeper struct {
	Store  *store.Store
	Signer *audit.Signer
	Trust  activation.Trust // verifies activations of lineups
	Dir    CheckpointDir
	Logger *slog.Logger
	signed map[int]int64 // sequence number of the last head that was signed, by chain
	status status
}

// SignHeads signs the heads that have moved since the last call and stores the checkpoints outside the database. A
// damaged head is an error, but the others are signed.
func (k *Keeper) SignHeads(ctx context.Context) (err error) {
	defer func() { k.status.ended(signing, err) }()
	heads, damaged := k.Store.Heads(ctx)
	if k.signed == nil {
		k.signed = map[int]int64{}
	}
	for _, head := range heads {
		if k.signed[head.Chain] == head.Seq {
			continue
		}
		signed, err := k.Signer.Checkpoint(head)
		if err != nil {
			return err
		}
		if err := k.Dir.Append(signed); err != nil {
			return err
		}
		k.signed[head.Chain] = head.Seq
		k.status.signed(head)
	}
	return damaged
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
	invalid, broken, err := k.storeAnchors(ctx, due)
	if err != nil {
		return errors.Join(broken, err)
	}
	for _, b := range damaged {
		if !invalid[b.Chain] {
			invalid[b.Chain], broken = true, errors.Join(broken, b)
		}
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
			anchors, err := log.Anchors(ctx, head.Chain, k.Signer.VerifierKey())
			var altered *audit.BreakError
			if errors.As(err, &altered) {
				broken = errors.Join(broken, err)
				continue
			}
			if err != nil {
				return err
			}
			if n := len(anchors); n > 0 {
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
	checkpoints, err := ReadCheckpoints(files, k.Signer)
	if err != nil {
		return nil, nil, err
	}
	for _, a := range due { // as checkpoints, so that only verified heads are signed
		checkpoints = append(checkpoints, a.Head)
	}
	reports, broken, err := Verify(ctx, k.Store, k.Signer, k.Trust, checkpoints)
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
