package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"gopkg.in/natefinch/lumberjack.v2"

	"assay/host/audit"
	"assay/host/keyring"
	"assay/host/store"
)

// maintenance is what a host does on a schedule.
type maintenance struct {
	store   *store.Store
	keys    *keyring.Ring
	dir     string // of the checkpoints
	log     *slog.Logger
	logFile *lumberjack.Logger
	signed  map[int]int64 // the last record of each chain that has been signed
}

// run does it all at the start too, and what is quick at the end of the host's life.
func (m *maintenance) run(ctx context.Context) {
	tick := time.NewTicker(maintainEvery)
	defer tick.Stop()
	var pruned time.Time // when the graph was, which is read whole for it
	for {
		m.once(ctx)
		if time.Since(pruned) >= pruneGraphEvery {
			if err := m.store.PruneSightings(ctx); err != nil && ctx.Err() == nil {
				m.log.Error("the reputation graph was not pruned", "error", err)
			}
			pruned = time.Now()
		}
		if err := m.prune(ctx); err != nil && ctx.Err() == nil {
			m.log.Error("the audit trail was not pruned", "error", err)
		}
		if err := rotateLog(m.logFile, time.Now()); err != nil {
			m.log.Warn("log cannot be rotated", "error", err)
		}
		select {
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), readinessTimeout)
			defer cancel()
			m.once(last)
			return
		case <-tick.C:
		}
	}
}

func (m *maintenance) once(ctx context.Context) {
	err := errors.Join(m.store.EnsurePartitions(ctx), m.store.PrunePublic(ctx), m.store.PruneWebhooks(ctx),
		m.store.PruneRegistrations(ctx),
		m.store.EndSubscriptions(ctx), m.store.PruneBilling(ctx), m.checkpoint(ctx))
	if err != nil && ctx.Err() == nil {
		m.log.Error("maintenance was not complete", "error", err)
	}
}

// checkpoint signs the heads that have moved and appends them to a file outside the database.
func (m *maintenance) checkpoint(ctx context.Context) error {
	heads, err := m.store.Heads(ctx)
	if err != nil {
		return err
	}
	if m.signed == nil {
		m.signed = map[int]int64{}
	}
	for _, head := range heads {
		if m.signed[head.Chain] == head.Seq {
			continue
		}
		signed, err := newSigner(m.keys).Checkpoint(head)
		if err != nil {
			return err
		}
		if err := appendCheckpoint(m.dir, signed); err != nil {
			return err
		}
		m.signed[head.Chain] = head.Seq
	}
	return nil
}

// prune deletes audit records that are past their retention: once a month, what the newest anchors allow. First the
// anchors are made durable, outside the database and in it, so that the chains verify whenever a host dies meanwhile.
func (m *maintenance) prune(ctx context.Context) error {
	due, err := m.store.AuditDue(ctx)
	if err != nil {
		return err
	}
	if len(due) > 0 {
		if err := m.anchor(ctx, due); err != nil {
			return err
		}
	}
	var newest []audit.Anchor
	err = m.store.ReadAuditLog(ctx, func(ctx context.Context, trail store.AuditLog) error {
		heads, err := trail.Heads(ctx)
		if err != nil {
			return err
		}
		for _, head := range heads {
			anchors, err := trail.Anchors(ctx, head.Chain, newSigner(m.keys).VerifierKey())
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
	return m.store.PruneAudit(ctx, newest)
}

// anchor signs and keeps where chains are to be cut. What is cut can never be verified again: where the trail does not
// hold it is evidence, and stays.
func (m *maintenance) anchor(ctx context.Context, due []audit.Anchor) error {
	signer := newSigner(m.keys)
	files, err := checkpointFiles(m.dir)
	if err != nil {
		return err
	}
	known, err := readCheckpoints(files, signer)
	if err != nil {
		return err
	}
	for _, a := range due { // what is signed must be what was verified
		known = append(known, a.Head)
	}
	if _, broken, err := verifyTrail(ctx, m.store, signer, known); err != nil || broken != nil {
		return errors.Join(broken, err)
	}
	for _, a := range due {
		signed, err := signer.Anchor(a)
		if err != nil {
			return err
		}
		if err := appendCheckpoint(m.dir, signed); err != nil {
			return err
		}
		if err := m.store.KeepAnchor(ctx, a, signed); err != nil {
			return err
		}
		m.log.Info("audit records past their retention are pruned", "chain", a.Chain, "up_to", a.Seq, "before",
			a.Before)
	}
	return nil
}

// signerName is the origin of this product's checkpoints.
const signerName = "assay/audit"

func newSigner(keys *keyring.Ring) *audit.Signer { return audit.NewSigner(signerName, keys.SignSeed) }

// checkpointFile is the file of a day's checkpoints, so that old ones can be archived and no file grows for ever.
func checkpointFile(dir string, day time.Time) string {
	return filepath.Join(dir, day.UTC().Format(time.DateOnly)+".txt")
}

func appendCheckpoint(dir, signed string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("keeping checkpoint: %w", err)
	}
	f, err := os.OpenFile(checkpointFile(dir, time.Now()), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("keeping checkpoint: %w", err)
	}
	_, err = f.WriteString(signed + "\n")
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("keeping checkpoint: %w", err)
	}
	return nil
}
