//go:build linux || darwin

package postgres

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// postmaster is what a running Postgres writes about itself in postmaster.pid.
type postmaster struct {
	pid    int
	port   int    // 0 until known
	status string // "starting", "ready", "stopping" or "standby"; "" until known
}

// Lines of postmaster.pid, counted from 0 (src/include/utils/pidfile.h).
const (
	linePID    = 0
	linePort   = 3
	lineStatus = 7
)

// pidFile is where the Postgres of the folder data writes about itself.
func pidFile(data string) string { return filepath.Join(data, "postmaster.pid") }

// readPostmaster reads postmaster.pid. ok is false when there is none or it names no process, as after a crash.
func readPostmaster(data string) (p postmaster, ok bool, err error) {
	text, err := os.ReadFile(pidFile(data))
	if errors.Is(err, fs.ErrNotExist) {
		return p, false, nil
	}
	if err != nil {
		return p, false, fmt.Errorf("looking for a running Postgres: %w", err)
	}
	p = parsePostmaster(string(text))
	return p, p.pid > 0, nil
}

// parsePostmaster reads the text of postmaster.pid; what is missing or malformed stays zero.
func parsePostmaster(text string) (p postmaster) {
	lines := strings.Split(text, "\n")
	line := func(n int) string {
		if n >= len(lines) {
			return ""
		}
		return strings.TrimSpace(lines[n])
	}
	p.pid, _ = strconv.Atoi(line(linePID))
	// A negative number is a standalone backend (initdb's, or a rescue by hand), not a server.
	p.pid = max(p.pid, 0)
	p.port, _ = strconv.Atoi(line(linePort))
	p.status = line(lineStatus)
	return p
}

// running returns the Postgres at work in the folder data, if there is one.
func running(data string) (postmaster, bool, error) {
	p, ok, err := readPostmaster(data)
	if err != nil || !ok || !isPostmaster(p.pid, data) {
		return postmaster{}, false, err
	}
	return p, true, nil
}

// How long a Postgres that was told to stop may take before it is told again, harder.
const (
	fastBound      = 30 * time.Second // a fast shutdown writes one checkpoint
	immediateBound = 10 * time.Second // postmaster itself kills its children after 5 s
)

// stop ends the Postgres of the folder data and waits until it is gone: a fast shutdown, then an immediate one. When
// ctx ends first, the shutdown goes on by itself.
func stop(ctx context.Context, data string) error {
	for _, step := range []struct {
		signal syscall.Signal
		bound  time.Duration
	}{{syscall.SIGINT, fastBound}, {syscall.SIGQUIT, immediateBound}} {
		gone, err := signalAndWait(ctx, data, step.signal, step.bound)
		if gone || err != nil {
			return err
		}
	}
	return fmt.Errorf("stopping Postgres: it still runs in %s %v after SIGQUIT", data, immediateBound)
}

// signalAndWait says whether the Postgres of the folder data was gone within the bound.
func signalAndWait(ctx context.Context, data string, signal syscall.Signal, bound time.Duration) (bool, error) {
	p, ok, err := readPostmaster(data)
	if err != nil || !ok {
		return err == nil, err
	}
	// The handle is taken before the look, so that on Linux the signal reaches that process or none.
	process, err := os.FindProcess(p.pid)
	if err != nil {
		return false, fmt.Errorf("stopping Postgres: %w", err)
	}
	defer func() { _ = process.Release() }()
	if !isPostmaster(p.pid, data) {
		return true, nil
	}
	if err := process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return false, fmt.Errorf("stopping Postgres (process %d): %w", p.pid, err)
	}
	bounded, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	err = poll(bounded, func() (bool, error) { return !isPostmaster(p.pid, data), nil })
	if err != nil && ctx.Err() != nil {
		return false, fmt.Errorf("waiting for Postgres (process %d) to stop: %w", p.pid, context.Cause(ctx))
	}
	return err == nil, nil
}
