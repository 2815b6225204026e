package lineup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"sync"

	"assay/host/internal/durable"
	"assay/registry"
	"assay/registry/fault"
)

// Memory is the activation with the highest number that a host ran. It is kept outside the database, so that write
// access to the database is not enough to bring back an earlier one.
type Memory struct {
	path     string
	readOnly bool

	mu     sync.Mutex // guards the fields below
	number int64
	hash   registry.Digest
}

// OpenMemory reads the memory from a file, which need not exist.
func OpenMemory(path string) (*Memory, error) {
	m := &Memory{path: path}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return m, nil
	}
	if err == nil {
		number, hash, _ := strings.Cut(strings.TrimSpace(string(text)), " ")
		if m.number, err = strconv.ParseInt(number, 10, 64); err == nil {
			m.hash, err = registry.ParseDigest(hash)
		}
	}
	return m, fault.Wrap(err, "reading the last activation of this host from %s", path)
}

// RecallMemory is like OpenMemory for a command next to a host: it remembers nothing new.
func RecallMemory(path string) (*Memory, error) {
	m, err := OpenMemory(path)
	if err == nil {
		m.readOnly = true
	}
	return m, err
}

// Last returns the number and the hash of the activation; the number is 0 before the first.
func (m *Memory) Last() (number int64, hash registry.Digest) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.number, m.hash
}

// Remember stores an activation, durably before it returns, unless one with a higher number is stored.
func (m *Memory) Remember(number int64, hash registry.Digest) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if number <= m.number {
		return nil
	}
	if !m.readOnly {
		if err := durable.WriteFile(m.path, fmt.Appendf(nil, "%d %s\n", number, hash)); err != nil {
			return fmt.Errorf("remembering activation %d: %w", number, err)
		}
	}
	m.number, m.hash = number, hash
	return nil
}
