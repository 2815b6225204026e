package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
)

// openSeat notes in the data directory which host of the fleet runs there, unless another one does. If the previous
// host was killed, it removes it from the fleet; otherwise lineup changes, and starts with newer built-in layers, would
// wait until it counts as silent.
//
// A lock on the file shows whether that host is still running, because it ends with the process. A file copied from
// another machine is ignored.
func openSeat(ctx context.Context, h *host) (p part, err error) {
	file, err := os.OpenFile(h.cfg.Path("host"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return p, fmt.Errorf("noting that a host runs: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("noting that a host runs: %w", err), file.Close())
		}
	}()
	p.Close = func() error {
		// A child process between fork and exec shares the open file, and so the lock.
		return errors.Join(syscall.Flock(int(file.Fd()), syscall.LOCK_UN), file.Close())
	}
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) { // another host has the seat
		return p, nil
	}
	if err != nil {
		return p, err
	}
	machine, err := os.Hostname()
	if err != nil {
		return p, err
	}
	text, err := io.ReadAll(file)
	if err != nil {
		return p, err
	}
	if before, ok := strings.CutSuffix(string(text), " "+machine+"\n"); ok {
		if err := h.store.RemoveHost(ctx, before); err != nil {
			return p, err
		}
	}
	if err := file.Truncate(0); err != nil {
		return p, err
	}
	_, err = file.WriteAt([]byte(h.id+" "+machine+"\n"), 0)
	return p, err
}
