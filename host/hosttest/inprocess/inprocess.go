// Package inprocess runs a host in the process of a test, which may then change its parts.
package inprocess

import (
	"bufio"
	"context"
	"io"
	"sync"
	"testing"
	"time"

	"assay/host/installation"
	"assay/host/internal/terminal"
	"assay/host/server"
	"assay/registry/expect"
)

// Serve runs a host in this process until stop is called or the test ends.
func Serve(t *testing.T, options server.Options, cfg *installation.Config) (url, admin string, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	out, in := io.Pipe()
	cfg.Drain = new(time.Duration)
	served := make(chan error, 1)
	go func() {
		served <- server.Run(ctx, cfg, &terminal.Terminal{Out: in, Err: io.Discard}, options)
		_ = in.Close() // so that ReadURL does not wait for a host that did not start
	}()
	stop = sync.OnceFunc(func() {
		cancel()
		expect.Error(t, "the host ended with", <-served, server.ErrStopped)
	})
	t.Cleanup(stop)
	lines := bufio.NewScanner(out)
	url, err := server.ReadURL(lines, server.Greeting)
	if err == nil {
		admin, err = server.ReadURL(lines, server.AdminGreeting)
	}
	expect.NoError(t, err)
	go func() { _, _ = io.Copy(io.Discard, out) }()
	return url, admin, stop
}
