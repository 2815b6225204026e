//go:build linux || darwin

package postgres

import (
	"path/filepath"
	"syscall"
	"testing"

	"assay/registry/expect"
)

func TestReleasedLockIsFree(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lock")
	held := expect.Value(openLock(path))(t)
	if taken, err := held.try(syscall.LOCK_EX); !taken {
		t.Fatal(err)
	}
	// Like a child process between fork and exec.
	inherited := expect.Value(syscall.Dup(int(held.file.Fd())))(t)
	defer func() { _ = syscall.Close(inherited) }()
	held.release()
	next := expect.Value(openLock(path))(t)
	defer next.release()
	taken, err := next.try(syscall.LOCK_EX)
	holds(t, taken && err == nil, "try on a released lock = %t, %v", taken, err)
}
