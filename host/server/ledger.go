package server

import (
	"context"
	"time"

	"assay/host/store"
	"assay/host/telemetry"
)

// openLedger opens the ledger, and the worker that applies its records to the reputation graph.
func openLedger(ctx context.Context, h *host) (part, error) {
	graph := h.store.NewProjection(store.ProjectionConfig{OnApplied: h.metrics.GraphApplied})
	answered, err := store.OpenAnswered(h.cfg.Path("answered"))
	if err != nil {
		return part{}, err
	}
	h.ledger, err = h.store.NewLedger(store.LedgerConfig{Batch: h.options.LedgerBatch, OnEvents: h.deliverer.Hint,
		Answered: answered, Host: h.name,
		OnBatch: func(size int, took time.Duration, queued int) {
			h.metrics.BatchDone(size, took, queued)
			graph.Hint()
		}})
	if err != nil {
		return part{}, err
	}
	// Compare before the first answer. If the database does not respond now, each batch still compares.
	if err := h.ledger.Compare(ctx); err != nil {
		h.log.Warn("comparing the audit chains with what was answered failed", "error", err)
	}
	return part{
		Collect:  func(m *telemetry.Metrics) { m.WatchFile("answered", answered.Unwritten) },
		Run:      []func(context.Context){h.ledger.Guard, graph.Run},
		Problems: []problems{{answered.Unwritten, unwrittenRemedy}},
		Close:    h.ledger.Close,
	}, nil
}
