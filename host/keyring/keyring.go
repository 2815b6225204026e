// Package keyring holds the secrets that must not stand in the database: one master secret in a file, and the keys
// derived from it, one for each purpose.
package keyring

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Ring is the set of derived keys. Every host of one database must have the same.
type Ring struct {
	Pseudonym []byte // HMAC key of audit pseudonyms
	// HMAC key of nodes in the reputation graph: another, so that audit rows of two accounts cannot be joined
	Graph       []byte
	Client      []byte // HMAC key of the addresses of callers without a key
	Cache       []byte // HMAC key of the compile cache
	Erased      []byte // HMAC key of the marks by which it is known again what was erased
	SignSeed    []byte // Ed25519 seed of audit checkpoints
	Fingerprint []byte // tells whether two hosts have the same master secret, and nothing else about it
	seal        cipher.AEAD
	node        cipher.AEAD
}

const masterBytes = 32

// Load reads the master secret from path, making one at first. The file holds 32 bytes in base64 and must be readable
// by its owner only.
func Load(path string) (*Ring, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		text, err = create(path)
	}
	if err != nil {
		return nil, fmt.Errorf("reading secret file: %w", err)
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("reading secret file: %w", err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("reading secret file: %s can be read by others (mode %o): run chmod 600", path,
			info.Mode().Perm())
	}
	master, err := base64.StdEncoding.DecodeString(strings.TrimSpace(string(text)))
	if err != nil || len(master) != masterBytes {
		return nil, fmt.Errorf("reading secret file: %s does not hold %d bytes in base64", path, masterBytes)
	}
	return derive(master)
}

// create writes a new master secret. Of two hosts that start at once, the one that links its file first wins for both.
func create(path string) ([]byte, error) {
	master := make([]byte, masterBytes)
	rand.Read(master)
	text := []byte(base64.StdEncoding.EncodeToString(master) + "\n")
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".secret-*") // mode 0600
	if err != nil {
		return nil, err
	}
	defer os.Remove(f.Name())
	if _, err := f.Write(text); err != nil {
		return nil, err
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return nil, err
	}
	if err := os.Link(f.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	return os.ReadFile(path)
}

func derive(master []byte) (*Ring, error) {
	var err error
	key := func(purpose string) []byte {
		k, e := hkdf.Key(sha256.New, master, nil, "assay/v1/"+purpose, 32)
		err = errors.Join(err, e)
		return k
	}
	r := &Ring{
		Pseudonym:   key("pseudonym"),
		Graph:       key("graph"),
		Client:      key("client"),
		Cache:       key("cache"),
		Erased:      key("erased"),
		SignSeed:    key("sign"),
		Fingerprint: key("fingerprint"),
	}
	aead := func(purpose string) cipher.AEAD {
		block, e := aes.NewCipher(key(purpose))
		if e != nil {
			err = errors.Join(err, e)
			return nil
		}
		a, e := cipher.NewGCMWithRandomNonce(block)
		err = errors.Join(err, e)
		return a
	}
	r.seal, r.node = aead("seal"), aead("node")
	if err != nil {
		return nil, fmt.Errorf("deriving keys: %w", err)
	}
	return r, nil
}

// Seal encrypts plain with AES-256-GCM. It can only be opened in the same context, such as the id of the row it stands
// in.
func (r *Ring) Seal(plain []byte, context string) []byte {
	return r.seal.Seal(nil, nil, plain, []byte(context))
}

// Open decrypts what Seal made in the same context.
func (r *Ring) Open(sealed []byte, context string) ([]byte, error) {
	plain, err := r.seal.Open(nil, nil, sealed, []byte(context))
	if err != nil {
		return nil, fmt.Errorf("opening sealed value: %w", err)
	}
	return plain, nil
}

// SealNode is Seal under a key of its own. Every check seals a node, and random nonces are good for 2^32 values of one
// key (NIST SP 800-38D, 8.3): beyond, two nodes, which are hashes, tell nothing; all else that is sealed would.
func (r *Ring) SealNode(node []byte, context string) []byte {
	return r.node.Seal(nil, nil, node, []byte(context))
}

// OpenNode decrypts what SealNode made in the same context.
func (r *Ring) OpenNode(sealed []byte, context string) ([]byte, error) {
	node, err := r.node.Open(nil, nil, sealed, []byte(context))
	if err != nil {
		return nil, fmt.Errorf("opening sealed node: %w", err)
	}
	return node, nil
}
