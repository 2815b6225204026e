package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

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
	logFile interface{ Rotate() error }
	signed  map[int]int64 // the last record of each chain that has been signed
}

// run does it all at the start and at the end of the host's life too.
func (m *maintenance) run(ctx context.Context) {
	tick, rotate := time.NewTicker(maintainEvery), time.NewTicker(rotateLogsEvery)
	defer tick.Stop()
	defer rotate.Stop()
	for {
		m.once(ctx)
		select {
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), readinessTimeout)
			defer cancel()
			m.once(last)
			return
		case <-rotate.C:
			// By size alone, a quiet host would keep lines longer than the retention of logs (spec section 8).
			if err := m.logFile.Rotate(); err != nil {
				m.log.Warn("log cannot be rotated", "error", err)
			}
		case <-tick.C:
		}
	}
}

func (m *maintenance) once(ctx context.Context) {
	err := errors.Join(m.store.EnsurePartitions(ctx), m.store.PrunePublic(ctx), m.store.PruneWebhooks(ctx), m.store.PruneRegistrations(ctx),
		m.store.EndSubscriptions(ctx), m.store.ForgetBilling(ctx), m.checkpoint(ctx))
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
