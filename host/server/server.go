// Package server is one running host: it opens the parts in order, runs them, and closes them in reverse order.
package server

import (
	"context"
	"errors"
	"os"
	"runtime/debug"
	"time"

	"assay/host/facts"
	"assay/host/installation"
	"assay/host/internal/terminal"
)

// ErrStopped is returned by a command that was interrupted. It is not reported.
var ErrStopped = errors.New("stopped")

// gcPercent is how much a host allocates between garbage collections, relative to its live heap: twice the default,
// which halves the processor time of collections.
const gcPercent = 200

// Options are options of a host that have no setting.
type Options struct {
	LedgerBatch  int            // maximum number of checks recorded in one transaction
	ThirdParties []facts.Source // further sources of facts
}

// Run serves until ctx ends.
func Run(ctx context.Context, cfg *installation.Config, t *terminal.Terminal, options Options) (err error) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	h := newHost(cfg, t, options)
	defer func() {
		if err = errors.Join(err, h.close()); err == nil && ctx.Err() != nil {
			err = ErrStopped
		}
	}()
	if err := h.openParts(ctx); err != nil && ctx.Err() != nil {
		h.log.Info("stopped during the start", "error", err)
		return nil
	} else if err != nil {
		return err
	}
	start := h.startJobs(ctx)
	if err := h.newServer(); err != nil {
		return err
	}
	return h.run(ctx, start)
}

// openParts opens the parts in their order.
func (h *host) openParts(ctx context.Context) error {
	for _, open := range startOrder() {
		p, err := open(ctx, h)
		if err != nil {
			return err
		}
		h.add(p)
	}
	return nil
}

// listenPatience is how long a host waits for notifications of changes before it loads without them, and polls.
const listenPatience = 5 * time.Second

// load reads what checks need, once the host is notified of changes, so that it misses none after reading.
func (h *host) load(ctx context.Context, start func(part)) {
	select {
	case <-h.listening:
	case <-time.After(listenPatience):
	case <-ctx.Done():
	}
	for _, p := range h.parts {
		if p.Load != nil {
			p.Load(ctx)
			start(p)
		}
	}
}

// run serves until ctx ends. start starts the parts that run once they have been loaded.
func (h *host) run(ctx context.Context, start func(part)) error {
	served := h.serve()
	h.load(ctx, start)
	if err := h.greet(ctx); err != nil && ctx.Err() == nil {
		return err
	}
	h.log.Info("ready", "address", h.listener.Addr().String(), "version", installation.Version)
	notifyReady(h.log)
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
		if err := h.seat.leave(); err != nil {
			h.log.Warn("another host cannot take the data directory before this one has drained", "error", err)
		}
		wait := h.cfg.DrainTime(h.terminal)
		notifyStopping(h.log, wait)
		h.exit.drain(wait)
		return nil
	}
}
