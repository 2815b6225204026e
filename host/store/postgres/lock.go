//go:build linux || darwin

package postgres

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// pollEvery is the interval between checks of a lock, or of a starting or stopping Postgres.
const pollEvery = 10 * time.Millisecond

// lockFile is an open file with an flock(2) on it, which ends with the process. The file is never removed, because
// a lock on a file that another process has replaced would exclude no one.
type lockFile struct{ file *os.File }

// openLock opens the file to be locked. It is closed on exec, so Postgres never inherits a lock.
func openLock(path string) (*lockFile, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening a lock: %w", err)
	}
	return &lockFile{file}, nil
}

// try takes the lock (how is syscall.LOCK_SH or LOCK_EX) without waiting and reports whether it succeeded. A lock held
// before is lost either way.
func (l *lockFile) try(how int) (bool, error) {
	for {
		switch err := syscall.Flock(int(l.file.Fd()), how|syscall.LOCK_NB); {
		case err == nil:
			return true, nil
		case errors.Is(err, syscall.EINTR):
		case errors.Is(err, syscall.EWOULDBLOCK):
			return false, nil
		default:
			return false, fmt.Errorf("locking %s: %w", l.file.Name(), err)
		}
	}
}

// take waits for the lock until ctx ends. blocked, which may be nil, is called once if take has to wait.
func (l *lockFile) take(ctx context.Context, how int, blocked func()) error {
	return poll(ctx, func() (bool, error) {
		taken, err := l.try(how)
		if !taken && err == nil && blocked != nil {
			blocked()
			blocked = nil
		}
		return taken, err
	})
}

// release releases the lock. It unlocks before closing because a child between fork and exec still shares the open
// file, and would keep a merely closed one locked.
func (l *lockFile) release() {
	_ = syscall.Flock(int(l.file.Fd()), syscall.LOCK_UN)
	_ = l.file.Close()
}

// poll calls done at once and then every pollEvery until it returns true or an error, or ctx ends.
func poll(ctx context.Context, done func() (bool, error)) error {
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	for {
		if ok, err := done(); ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ticker.C:
		}
	}
}
