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

// seat is the file in the data directory that names the host that runs there by its ID in the fleet. Its lock shows
// whether that host is still running, because it ends with the process.
type seat struct{ file *os.File }

var _ closer = seat{}

// openSeat takes the seat, unless another host in this data directory has it. If the previous host was killed, it
// removes it from the fleet; otherwise lineup changes, and starts with newer built-in layers, would wait until it counts
// as silent. A file copied from another machine is ignored.
func openSeat(ctx context.Context, h *host) (_ part, err error) {
	file, err := os.OpenFile(h.cfg.Path("host"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("noting that a host runs: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("noting that a host runs: %w", err), file.Close())
		}
	}()
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) { // another host has the seat
		return seat{file}, nil
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
		if err := h.store.RemoveHost(ctx, before); err != nil {
			return nil, err
		}
	}
	if err := file.Truncate(0); err != nil {
		return nil, err
	}
	_, err = file.WriteAt([]byte(h.id+" "+machine+"\n"), 0)
	return seat{file}, err
}

// Close implements closer.
func (s seat) Close() error {
	// A child process between fork and exec shares the open file, and so the lock.
	return errors.Join(syscall.Flock(int(s.file.Fd()), syscall.LOCK_UN), s.file.Close())
}
