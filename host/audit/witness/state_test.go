package witness

import (
	"os"
	"syscall"
	"testing"

	"assay/registry/expect"
)

// A witness that has ended leaves its directory unlocked, although a child process still shares the open file.
func TestLockEndsWithTheWitness(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	lock := expect.Value(lockDir(dir))(t)
	shared := os.NewFile(uintptr(expect.Value(syscall.Dup(int(lock.(dirLock).Fd())))(t)), "shared")
	defer shared.Close()
	expect.Error(t, "locking it twice", expect.ErrorOf(lockDir(dir)), ErrLocked)
	expect.NoError(t, lock.Close())
	expect.NoError(t, expect.Value(lockDir(dir))(t).Close())
}
