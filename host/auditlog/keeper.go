package auditlog

import (
	"context"
	"errors"
	"log/slog"

	"assay/host/audit"
	"assay/host/store"
)

// Keeper signs checkpoints of the audit log and prunes records past their retention. It is not safe for concurrent use.
type Keeper struct {
	Store  *store.Store
	Signer *audit.Signer
	Dir    CheckpointDir
	Logger *slog.Logger
	signed map[int]int64 // sequence number of the last head that was signed, by chain
}

// SignHeads signs the heads that have moved since the last call and stores the checkpoints outside the database.
func (k *Keeper) SignHeads(ctx context.Context) error {
	heads, err := k.Store.Heads(ctx)
	if err != nil {
		return err
	}
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
	}
	return nil
}

// Prune deletes records past their retention, up to the newest anchor of each chain. It first stores due anchors, both
// outside and inside the database, so that the chains can be verified even if the host dies halfway.
func (k *Keeper) Prune(ctx context.Context) error {
	due, err := k.Store.AuditDue(ctx)
	if err != nil {
		return err
	}
	if len(due) > 0 {
		if err := k.storeAnchors(ctx, due); err != nil {
			return err
		}
	}
	var newest []audit.Anchor
	err = k.Store.ReadAuditLog(ctx, func(ctx context.Context, log store.AuditLog) error {
		heads, err := log.Heads(ctx)
		if err != nil {
			return err
		}
		for _, head := range heads {
			anchors, err := log.Anchors(ctx, head.Chain, k.Signer.VerifierKey())
			if err != nil {
				return err
			}
			if n := len(anchors); n > 0 {
				newest = append(newest, anchors[n-1])
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return k.Store.PruneAudit(ctx, newest)
}

// storeAnchors signs and stores the anchors at which chains are to be cut. Records before an anchor can never be
// verified again, so the whole log must be valid first: if it is not, its records are evidence and are kept.
func (k *Keeper) storeAnchors(ctx context.Context, due []audit.Anchor) error {
	files, err := k.Dir.Files()
	if err != nil {
		return err
	}
	checkpoints, err := ReadCheckpoints(files, k.Signer)
	if err != nil {
		return err
	}
	for _, a := range due { // as checkpoints, so that only verified heads are signed
		checkpoints = append(checkpoints, a.Head)
	}
	if _, broken, err := Verify(ctx, k.Store, k.Signer, checkpoints); err != nil || broken != nil {
		return errors.Join(broken, err)
	}
	for _, a := range due {
		signed, err := k.Signer.Anchor(a)
		if err != nil {
			return err
		}
		if err := k.Dir.Append(signed); err != nil {
			return err
		}
		if err := k.Store.KeepAnchor(ctx, a, signed); err != nil {
			return err
		}
		k.Logger.Info("pruning audit records past their retention", "chain", a.Chain, "up_to", a.Seq,
			"before", a.Before)
	}
	return nil
}
