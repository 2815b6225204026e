package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"assay/host/api"
)

const (
	defaultDrain = 5 * time.Second // unless the host runs in a terminal
	maxDrain     = 10 * time.Minute
)

// drain returns how long a stopping host keeps serving while it is not ready. In a terminal there is no load balancer
// to wait for.
func (c *Config) drain(t *terminal) time.Duration {
	if c.Drain != nil {
		return *c.Drain
	}
	if f, ok := t.err.(*os.File); ok && isTerminal(f) {
		return 0
	}
	return defaultDrain
}

func (c *Config) validateDrain() error {
	if c.Drain != nil && (*c.Drain < 0 || *c.Drain > maxDrain) {
		return fmt.Errorf("ASSAY_DRAIN: it must be from 0s to %v", maxDrain)
	}
	return nil
}

// exit stops the server of a host so that no request is lost.
type exit struct {
	server   *api.Server
	log      *slog.Logger
	terminal *terminal
	hurry    context.Context // ends at the second signal; nil: there was no first one
}

// drain makes the server report that the host is stopping, and keeps serving for a while. A second signal ends the
// drain, and a third one the process.
func (e *exit) drain(wait time.Duration) {
	hurry, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(hurry, func() {
		stop()
		signal.Reset(os.Interrupt, syscall.SIGTERM)
	})
	e.hurry = hurry
	e.server.Drain()
	if wait <= 0 {
		return
	}
	e.log.Info("draining: not ready, still serving", "for", wait.String())
	e.terminal.stage(fmt.Sprintf("draining for %v (another signal stops at once)", wait))
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-hurry.Done():
	}
}

// finish closes the address and waits for the requests in progress.
func (e *exit) finish() error {
	parent := context.Background()
	if e.hurry != nil {
		parent = e.hurry
		e.log.Info("stopping: no longer accepting connections, finishing requests")
		e.terminal.stage("stopping")
	}
	ctx, cancel := context.WithTimeout(parent, drainTimeout)
	defer cancel()
	err := e.server.Shutdown(ctx)
	if errors.Is(err, context.Canceled) {
		e.log.Warn("a second signal: requests in progress were cancelled")
		return nil
	}
	return err
}
