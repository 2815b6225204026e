package witness

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"assay/host/audit"
	"assay/registry/fault"
)

// ErrLocked means that another process uses the directory of a witness.
var ErrLocked = errors.New("another process uses the directory")

// dirLock is a locked directory.
type dirLock struct{ *os.File }

// Close ends the lock before it closes the file: a child process between fork and exec shares the open file, and would
// keep one that is merely closed locked.
func (l dirLock) Close() error {
	return errors.Join(syscall.Flock(int(l.Fd()), syscall.LOCK_UN), l.File.Close())
}

// lockDir locks a directory until the result is closed or the process ends.
func lockDir(dir string) (io.Closer, error) {
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("%w: %w", ErrLocked, err)
	}
	return dirLock{f}, nil
}

// readState returns the head of the newest cosigned checkpoint of a log, or of the empty tree if there is none. An
// invalid file is an error, because continuing as if nothing had been signed could cosign a contradiction.
func readState(path, origin string) (audit.TreeHead, error) {
	checkpoint, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return audit.TreeHead{Root: sha256.Sum256(nil)}, nil
	}
	if err != nil {
		return audit.TreeHead{}, fmt.Errorf("reading state: %w", err)
	}
	text, _, ok := strings.Cut(string(checkpoint), "\n\n")
	stored, head, err := parseHead(text + "\n")
	if err == nil && (!ok || stored != origin) {
		err = fmt.Errorf("the file is not a checkpoint of %s", origin)
	}
	return head, fault.Wrap(err, "reading state %s", path)
}
