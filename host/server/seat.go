package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"

	"assay/registry/fault"
)

// seat ensures that a data directory has one host. It is a file with the host's name, and a lock that ends with the
// process. A file copied from another machine does not count.
type seat struct {
	file   *os.File
	before string // the host of the fleet that was killed in this data directory, or ""
	left   bool
}

// openSeat takes the seat, or fails if another host has it: each would overwrite the other's memory.
func openSeat(_ context.Context, h *host) (part, error) {
	file, err := os.OpenFile(h.cfg.Path("host"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return part{}, fmt.Errorf("noting that a host runs: %w", err)
	}
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = fmt.Errorf("another host runs in the data directory %s: set ASSAY_DATA_DIR to one of this host's own "+
			"(docs/operations.md, Run several hosts)", h.cfg.DataDir)
	}
	var text []byte
	if err == nil {
		text, err = io.ReadAll(file)
	}
	if err != nil {
		return part{}, errors.Join(err, file.Close())
	}
	h.seat = &seat{file: file}
	if before, ok := strings.CutSuffix(string(text), onThisMachine()); ok {
		h.seat.before = before
	}
	return part{Close: func() error { return errors.Join(h.seat.leave(), file.Close()) }}, nil
}

// leave lets another host take the seat before this one has drained.
func (s *seat) leave() error {
	if s.left {
		return nil
	}
	s.left = true
	// A child process between fork and exec shares the open file, and so the lock.
	return errors.Join(s.file.Truncate(0), syscall.Flock(int(s.file.Fd()), syscall.LOCK_UN))
}

// onThisMachine returns the end of a seat's text, which names this machine.
func onThisMachine() string {
	machine, _ := os.Hostname()
	return " " + machine + "\n"
}

// noteHost removes the previous host of the seat from the fleet, if it was killed, and names this one. Otherwise lineup
// changes, and starts with newer built-in layers, would wait until it counts as silent.
func noteHost(ctx context.Context, h *host) (part, error) {
	var err error
	if h.seat.before != "" {
		err = h.store.RemoveHost(ctx, h.seat.before)
	}
	if err == nil {
		err = h.seat.file.Truncate(0)
	}
	if err == nil {
		_, err = h.seat.file.WriteAt([]byte(h.id+onThisMachine()), 0)
	}
	return part{}, fault.Wrap(err, "noting that a host runs")
}
