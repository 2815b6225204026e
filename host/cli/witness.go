package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	"assay/host/audit"
	"assay/host/audit/witness"
	"assay/host/installation"
	"assay/host/internal/terminal"
)

// witnessTimeout limits a request to a witness, and how long a witness takes to stop.
const witnessTimeout = 10 * time.Second

type witnessCmd struct {
	Name  string `required:"" placeholder:"NAME" help:"Name of the key, such as witness.example/w1. It cannot change."`
	State string `required:"" placeholder:"DIR" help:"Directory of the key and of the last checkpoint of each log."`
	Trust string `required:"" placeholder:"FILE" help:"${witness_trust}"`
}

// Run prints the witness's public key and serves until ctx ends. It needs no installation.
func (cmd *witnessCmd) Run(ctx context.Context, cfg *installation.Config, t *terminal.Terminal) (err error) {
	text, err := os.ReadFile(cmd.Trust)
	if err != nil {
		return err
	}
	trusted, err := audit.TrustedKeys(string(text))
	if err != nil {
		return fmt.Errorf("%s: %w", cmd.Trust, err)
	}
	if err := os.MkdirAll(cmd.State, 0o700); err != nil {
		return err
	}
	key, err := witness.OpenKey(cmd.State, cmd.Name)
	if err != nil {
		return err
	}
	server, err := witness.NewServer(cmd.State, key, trusted)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	listener, err := net.Listen("tcp", cfg.Listen)
	if err != nil {
		return err
	}
	t.Printf("%s\n", key.VerifierKey())
	fmt.Fprintf(t.Err, "listening on http://%s\n", listener.Addr())
	return serveUntil(ctx, listener, server)
}

// serveUntil serves until ctx ends, and then finishes the requests in progress.
func serveUntil(ctx context.Context, listener net.Listener, handler http.Handler) error {
	server := &http.Server{Handler: handler, ReadTimeout: witnessTimeout, WriteTimeout: witnessTimeout,
		IdleTimeout: time.Minute}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), witnessTimeout)
	defer cancel()
	err := server.Shutdown(ending)
	if failed := <-served; !errors.Is(failed, http.ErrServerClosed) {
		err = errors.Join(err, failed)
	}
	return err
}
