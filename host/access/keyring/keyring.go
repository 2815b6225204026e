// Package keyring holds the secrets that must not be in the database: a master secret in a file, and one key derived
// from it for each purpose. It also encrypts values with these keys, but does not store them. Later generations of the
// master secret replace it for signing and encrypting.
package keyring

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"assay/host/internal/durable"
	"assay/host/internal/private"
	"assay/registry/fault"
)

// Ring is the set of derived keys. All hosts that share a database must have the same keys. The keys in its fields
// derive from the first master secret and never change: stored data is found by them.
type Ring struct {
	Pseudonym   []byte // HMAC key of audit pseudonyms
	Graph       []byte // HMAC key of graph nodes; not Pseudonym, so that audit rows of two accounts cannot be joined
	Client      []byte // HMAC key of the addresses of callers without a key
	Cache       []byte // HMAC key of the compile cache
	Erased      []byte // HMAC key of the marks that identify erased subjects
	Answer      []byte // HMAC key of the idempotency keys and requests of kept answers
	Override    []byte // HMAC key of overrides' targets
	OverrideRow []byte // HMAC key of override rows
	Owner       []byte // HMAC key of account owners' e-mail addresses
	SignSeed    []byte // Ed25519 seed of the audit log's first key
	Fingerprint []byte // identifies the master secret without revealing it

	Now         func() time.Time // nil: time.Now
	generations []Generation     // oldest first; the first is the master secret of the keys above
}

const masterBytes = 32

// Load reads the master secret from the file at path: 32 bytes in base64, to which only the file's owner may have
// access. Lines with later generations may follow, see AddGeneration. It fails with fs.ErrNotExist if there is no file.
func Load(path string) (*Ring, error) {
	text, err := private.Read(path)
	if err != nil {
		return nil, fmt.Errorf("reading secret file: %w", err)
	}
	lines, err := parse(string(text))
	if err != nil {
		return nil, fmt.Errorf("reading secret file: %s: %w", path, err)
	}
	ring, err := derive(lines[0].secret)
	for _, l := range lines {
		if err == nil {
			err = ring.add(l)
		}
	}
	return ring, fault.Wrap(err, "deriving keys")
}

// Create is like Load, but creates a file that does not exist, with a new secret.
func Create(path string) (*Ring, error) {
	ring, err := Load(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return ring, err
	}
	fresh := make([]byte, masterBytes)
	rand.Read(fresh)
	if err := CreateFile(path, []byte(base64.StdEncoding.EncodeToString(fresh)+"\n")); err != nil {
		return nil, fmt.Errorf("creating secret file: %w", err)
	}
	return Load(path) // another host may have created it first
}

// CreateFile durably creates a file that only its owner can read, unless it exists. If two hosts start at once, the
// first one to link its file decides the content.
func CreateFile(path string, text []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return durable.CreateFile(path, text)
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
		Answer:      key("answer"),
		Override:    key("override"),
		OverrideRow: key("override row"),
		Owner:       key("owner"),
		SignSeed:    key("sign"),
		Fingerprint: key("fingerprint"),
	}
	return r, err
}

// Seal encrypts plain with AES-256-GCM. Open succeeds only with the same context, such as the id of the value's row.
func (r *Ring) Seal(plain []byte, context string) []byte {
	return r.seal(sealCipher, plain, context)
}

// Open decrypts a value that Seal encrypted with the same context.
func (r *Ring) Open(sealed []byte, context string) ([]byte, error) {
	return r.open(sealCipher, "value", sealed, context)
}

// SealNode encrypts a graph node like Seal, with a separate key. Every check seals a node, and a key with random nonces
// is safe for only 2^32 values (NIST SP 800-38D, section 8.3). If Seal used the same key, a repeated nonce would reveal
// its values. Nodes reveal nothing, because they are hashes.
func (r *Ring) SealNode(node []byte, context string) []byte {
	return r.seal(nodeCipher, node, context)
}

// OpenNode decrypts a node that SealNode encrypted with the same context.
func (r *Ring) OpenNode(sealed []byte, context string) ([]byte, error) {
	return r.open(nodeCipher, "node", sealed, context)
}

// SealContribution encrypts what a check adds to the reputation graph. It has its own key, because every check seals a
// contribution: with the key of SealNode, a repeated nonce would reveal a node.
func (r *Ring) SealContribution(plain []byte) []byte { return r.seal(graphCipher, plain, "") }

// OpenContribution decrypts what SealContribution encrypted.
func (r *Ring) OpenContribution(sealed []byte) ([]byte, error) {
	return r.open(graphCipher, "contribution", sealed, "")
}

// SealAnswer encrypts an answer with its own key, which also depends on the request that it answers: Ring alone cannot
// decrypt it.
func (r *Ring) SealAnswer(answer, request []byte, context string) ([]byte, error) {
	g := r.Current()
	aead, err := g.answerCipher(request, context)
	if err != nil {
		return nil, fmt.Errorf("sealing answer: %w", err)
	}
	return aead.Seal(bytes.Clone(g.Prefix), nil, answer, nil), nil
}

// OpenAnswer decrypts an answer that SealAnswer encrypted with the same request and context.
func (r *Ring) OpenAnswer(sealed, request []byte, context string) ([]byte, error) {
	var aead cipher.AEAD
	var answer []byte
	err := r.try(sealed, func(g Generation, sealed []byte) (err error) {
		if aead, err = g.answerCipher(request, context); err == nil {
			answer, err = aead.Open(nil, nil, sealed, nil)
		}
		return err
	})
	return answer, fault.Wrap(err, "opening sealed answer")
}

func (g Generation) answerCipher(request []byte, context string) (cipher.AEAD, error) {
	mac := hmac.New(sha256.New, g.answer)
	fmt.Fprintf(mac, "%d %s", len(context), context)
	mac.Write(request)
	block, err := aes.NewCipher(mac.Sum(nil))
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}
