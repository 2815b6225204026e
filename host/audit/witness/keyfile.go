package witness

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"assay/host/internal/durable"
	"assay/host/internal/private"
	"assay/registry/fault"
)

// OpenKey returns the key in the directory of a witness, and creates one if there is none. A directory keeps its name:
// one private key must not sign under two names. The error is ErrLocked if another process uses the directory.
func OpenKey(dir, name string) (key *Key, err error) {
	defer fault.WrapAll(&err, "opening key")
	lock, err := lockDir(dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	path := filepath.Join(dir, "key")
	content, err := private.Read(path)
	if errors.Is(err, fs.ErrNotExist) {
		return createKey(path, name)
	}
	if err != nil {
		return nil, err
	}
	stored, encoded, _ := strings.Cut(strings.TrimSuffix(string(content), "\n"), "\n")
	seed, err := base64.StdEncoding.Strict().DecodeString(encoded)
	if err != nil || len(seed) != ed25519.SeedSize {
		return nil, fmt.Errorf("%s is not the key of a witness", path)
	}
	if stored != name {
		return nil, fmt.Errorf("the key in %s is named %q, not %q", path, stored, name)
	}
	return NewKey(name, seed, time.Now)
}

func createKey(path, name string) (*Key, error) {
	if strings.ContainsFunc(name, func(r rune) bool { return !strconv.IsPrint(r) }) {
		return nil, fmt.Errorf("the name %q has characters that cannot be printed", name)
	}
	seed := make([]byte, ed25519.SeedSize)
	if _, err := rand.Read(seed); err != nil {
		return nil, err
	}
	key, err := NewKey(name, seed, time.Now)
	if err != nil {
		return nil, err
	}
	return key, durable.WriteFile(path, []byte(name+"\n"+base64.StdEncoding.EncodeToString(seed)+"\n"))
}
