package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"assay/host/installation"
	"assay/host/internal/maintenance"
	"assay/host/internal/terminal"
	"assay/host/web/api"
)

// exit stops the server of a host so that no request is lost.
type exit struct {
	server   *api.Server
	log      *slog.Logger
	terminal *terminal.Terminal
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
	e.terminal.Stage(fmt.Sprintf("draining for %v (another signal stops at once)", wait))
	maintenance.Pause(hurry, wait)
}

// finish closes the address and waits for the requests in progress.
func (e *exit) finish() error {
	parent := context.Background()
	if e.hurry != nil {
		parent = e.hurry
		e.log.Info("stopping: no longer accepting connections, finishing requests")
		e.terminal.Stage("stopping")
	}
	ctx, cancel := context.WithTimeout(parent, installation.DrainTimeout)
	defer cancel()
	err := e.server.Shutdown(ctx)
	if errors.Is(err, context.Canceled) {
		e.log.Warn("a second signal: requests in progress were cancelled")
		return nil
	}
	return err
}
