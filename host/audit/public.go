package audit

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/note"
)

// Public is the public half of a Signer. It verifies what the signer signed.
type Public struct {
	name string
	key  ed25519.PublicKey
}

// keyAlgorithm is the signed-note type byte of Ed25519 (C2SP signed-note).
const keyAlgorithm = 1

// KeyName is the name of the key that signs anchors, and is their origin. Earlier releases signed checkpoints of hash
// chains with it.
const KeyName = "assay/audit"

// ParseKeys reads an installation's public key from a list of its verifier keys, one a line, as
// `assay audit checkpoint` prints them. Empty lines and those that begin with # are ignored.
func ParseKeys(text string) (key Public, err error) {
	found := false
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		next, err := ParsePublic(KeyName, strings.TrimPrefix(line, "verifier key: "))
		if err != nil {
			return key, err
		}
		if found && !key.PublicKey().Equal(next.PublicKey()) {
			return key, errors.New("reading verifier keys: they are of different installations")
		}
		key, found = next, true
	}
	if !found {
		return key, errors.New("reading verifier keys: there is none")
	}
	return key, nil
}

// ParsePublic reads an installation's public key from any of its verifier keys: that of its anchors, which has the
// given name, or that of a chain's tree.
func ParsePublic(name, verifierKey string) (Public, error) {
	verifier, err := note.NewVerifier(verifierKey)
	if err != nil {
		return Public{}, fmt.Errorf("reading verifier key: %w", err)
	}
	// A verifier key is name+hash+key, and neither the name nor the hash contains a plus sign.
	key, err := base64.StdEncoding.DecodeString(strings.SplitN(verifierKey, "+", 3)[2])
	if err != nil || len(key) != 1+ed25519.PublicKeySize {
		return Public{}, fmt.Errorf("reading verifier key: it is not an Ed25519 key: %q", verifierKey)
	}
	p := Public{name, key[1:]}
	if _, number, ok := strings.Cut(verifier.Name(), "/chain/"); ok {
		if chain, err := strconv.Atoi(number); err == nil && p.Origin(chain) == verifier.Name() {
			return p, nil
		}
	}
	if verifier.Name() != name {
		return Public{}, fmt.Errorf("reading verifier key: %q is not the name of an audit log", verifier.Name())
	}
	return p, nil
}

// PublicKey returns the key that verifies erasures.
func (p Public) PublicKey() ed25519.PublicKey { return p.key }

// Name returns the key's name in signature lines.
func (p Public) Name() string { return p.name }

func (p Public) encoded() []byte { return append([]byte{keyAlgorithm}, p.key...) }

// KeyHash returns the key's hash in signature lines (C2SP signed-note).
func (p Public) KeyHash() uint32 {
	sum := sha256.Sum256(append([]byte(p.name+"\n"), p.encoded()...))
	return binary.BigEndian.Uint32(sum[:])
}

// VerifierKey returns the public key in the format of signed-note tools.
func (p Public) VerifierKey() string {
	return fmt.Sprintf("%s+%08x+%s", p.name, p.KeyHash(), base64.StdEncoding.EncodeToString(p.encoded()))
}

// Origin returns the origin of a chain's tree: "assay/", 16 hexadecimal digits that name the installation by its public
// key, "/chain/" and the chain's number. It is also the name of the key that signs the tree's checkpoints.
func (p Public) Origin(chain int) string {
	sum := sha256.Sum256(p.key)
	return fmt.Sprintf("assay/%s/chain/%d", hex.EncodeToString(sum[:8]), chain)
}

// TreeKey returns the public key of a chain's tree in the format of signed-note tools.
func (p Public) TreeKey(chain int) string { return Public{p.Origin(chain), p.key}.VerifierKey() }

// OpenTree verifies a checkpoint that SignTree signed, and returns its head. Signatures of others, such as witnesses,
// may follow.
func (p Public) OpenTree(signed string) (TreeHead, error) {
	head, err := p.openTree(signed)
	if err != nil {
		return TreeHead{}, fmt.Errorf("opening checkpoint: %w", err)
	}
	return head, nil
}

func (p Public) openTree(signed string) (TreeHead, error) {
	origin, _, _ := strings.Cut(signed, "\n")
	_, number, _ := strings.Cut(origin, "/chain/")
	chain, err := strconv.Atoi(number)
	if err != nil || chain < 0 || p.Origin(chain) != origin {
		return TreeHead{}, fmt.Errorf("%q is not the origin of a tree of this installation", origin)
	}
	return ParseTreeHead(signed, chain, p.TreeKey(chain))
}
