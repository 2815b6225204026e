package server

import (
	"context"
	"time"

	"assay/host/store"
)

// ledger records checks, and applies them to the reputation graph.
type ledger struct {
	*store.Ledger
	graph *store.Projection
}

var (
	_ runner = ledger{}
	_ closer = ledger{}
)

func openLedger(ctx context.Context, h *host) (part, error) {
	graph := h.store.NewProjection(store.ProjectionConfig{OnApplied: h.metrics.GraphApplied})
	answered, err := store.OpenAnswered(h.cfg.Path("answered"))
	if err != nil {
		return nil, err
	}
	h.ledger, err = h.store.NewLedger(store.LedgerConfig{Batch: h.options.LedgerBatch, OnEvents: h.delivery.Hint,
		Answered: answered, Host: h.name,
		OnBatch: func(size int, took time.Duration, queued int) {
			h.metrics.BatchDone(size, took, queued)
			graph.Hint()
		}})
	if err != nil {
		return nil, err
	}
	// Compare before the first answer. If the database does not respond, each batch still compares.
	if err := h.ledger.Compare(ctx); err != nil {
		h.log.Warn("comparing the audit chains with what was answered failed", "error", err)
	}
	return ledger{h.ledger, graph}, nil
}

// Run implements runner.
func (l ledger) Run(ctx context.Context) { together(ctx, l.Guard, l.graph.Run) }
