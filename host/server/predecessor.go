package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"

	"assay/host/installation"
)

// succeed records in the data directory the fleet ID of the host that runs there, until the returned function is
// called. If the previous host was killed, succeed removes it from the fleet; otherwise lineup changes, and starts with
// newer built-in layers, would wait until it counts as silent.
//
// A lock on the file shows whether that host is still running, because it ends with the process. A file copied from
// another machine is ignored.
func succeed(ctx context.Context, b *installation.Backend, cfg *installation.Config, id string) (leave func() error, err error) {
	file, err := os.OpenFile(cfg.Path("host"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("noting that a host runs: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("noting that a host runs: %w", err), file.Close())
		}
	}()
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) { // another host runs in this folder
		return file.Close, nil
	}
	if err != nil {
		return nil, err
	}
	machine, err := os.Hostname()
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(file)
	if err != nil {
		return nil, err
	}
	if before, ok := strings.CutSuffix(string(text), " "+machine+"\n"); ok {
		if err := b.Store.RemoveHost(ctx, before); err != nil {
			return nil, err
		}
	}
	if err := file.Truncate(0); err != nil {
		return nil, err
	}
	_, err = file.WriteAt([]byte(id+" "+machine+"\n"), 0)
	return func() error {
		// A child process between fork and exec shares the open file, and so the lock.
		return errors.Join(syscall.Flock(int(file.Fd()), syscall.LOCK_UN), file.Close())
	}, err
}
