package audit

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/note"
)

// Public verifies the signatures of an installation's keys. Its copies share the keys that a Signer learns of.
type Public struct {
	name  string
	key   ed25519.PublicKey // the first, which names the logs
	later *pointer
}

// keyAlgorithm is the signed-note type byte of Ed25519 (C2SP signed-note).
const keyAlgorithm = 1

// KeyName is the name of the key that signs anchors, and the beginning of their origins.
const KeyName = "assay/audit"

// ParseKeys reads an installation's keys from a file: verifier keys, one a line, of which at least one is the first
// key's, and the statements that introduce later keys, as `assay audit checkpoint` prints them. Empty lines, those
// that begin with # and the messages of that command are ignored.
func ParseKeys(text string) (key Public, err error) {
	lines, statements := cutStatements(text)
	var others []string
	var wrong error
	for _, line := range lines {
		next, err := ParsePublic(KeyName, line)
		switch {
		case err != nil:
			others, wrong = append(others, line), err
		case key.key != nil && !key.key.Equal(next.key):
			return key, errors.New("reading verifier keys: they are of different installations")
		default:
			key = next
		}
	}
	switch {
	case key.key == nil && wrong != nil:
		return key, wrong
	case key.key == nil:
		return key, errors.New("reading verifier keys: there is none")
	}
	if key, err = key.With(statements); err != nil {
		return key, fmt.Errorf("reading verifier keys: %w", err)
	}
	for _, line := range others {
		if !key.lists(line) {
			return key, wrong
		}
	}
	return key, nil
}

// lists reports whether a verifier key is one of the installation's, for the tree that it names.
func (p Public) lists(verifierKey string) bool {
	origin, _, _ := strings.Cut(verifierKey, "+")
	tree, ok := p.ofOrigin(origin)
	return ok && slices.Contains(p.TreeKeys(tree), verifierKey)
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
	p := Public{name: name, key: key[1:]}
	if _, ok := p.ofOrigin(verifier.Name()); ok {
		return p, nil
	}
	if verifier.Name() != name {
		return Public{}, fmt.Errorf("reading verifier key: %q is not the name of an audit log", verifier.Name())
	}
	return p, nil
}

// Name returns the name of the key of anchors in signature lines.
func (p Public) Name() string { return p.name }

// KeyHash returns the hash of the first key in signature lines (C2SP signed-note).
func (p Public) KeyHash() uint32 { return keyHash(p.name, p.key) }

func keyHash(name string, key ed25519.PublicKey) uint32 {
	sum := sha256.Sum256(append([]byte(name+"\n"), encoded(key)...))
	return binary.BigEndian.Uint32(sum[:])
}

func encoded(key ed25519.PublicKey) []byte { return append([]byte{keyAlgorithm}, key...) }

// VerifierKey returns the first public key in the format of signed-note tools.
func (p Public) VerifierKey() string { return verifierKey(p.name, p.key) }

func verifierKey(name string, key ed25519.PublicKey) string {
	return fmt.Sprintf("%s+%08x+%s", name, keyHash(name, key), base64.StdEncoding.EncodeToString(encoded(key)))
}

// Origin returns the origin of a chain's tree: "assay/", 16 hexadecimal digits that name the installation by its first
// public key, "/chain/" and the chain's number. It is also the name of the keys that sign the tree's checkpoints.
func (p Public) Origin(chain int) string { return fmt.Sprintf("%s/chain/%d", p.installation(), chain) }

// OriginOf returns the origin of a tree. After a loss was accepted, "/after/" and the number of the acceptance follow
// the chain: the tree has other leaves from there on, and must not be taken for the tree before the loss.
func (p Public) OriginOf(tree TreeHead) string {
	if tree.After == 0 {
		return p.Origin(tree.Chain)
	}
	return fmt.Sprintf("%s/after/%d", p.Origin(tree.Chain), tree.After)
}

// ofOrigin returns the chain and the acceptance that an origin names. It reports false if it is not one of the
// installation's.
func (p Public) ofOrigin(origin string) (tree TreeHead, ok bool) {
	_, rest, _ := strings.Cut(origin, "/chain/")
	number, after, _ := strings.Cut(rest, "/after/")
	var err error
	if tree.Chain, err = strconv.Atoi(number); err != nil {
		return tree, false
	}
	tree.After, _ = strconv.ParseInt(after, 10, 64)
	return tree, tree.Chain >= 0 && tree.After >= 0 && p.OriginOf(tree) == origin
}

// installation returns the name of the installation, under which statements about keys are signed.
func (p Public) installation() string {
	sum := sha256.Sum256(p.key)
	return "assay/" + hex.EncodeToString(sum[:8])
}

// TreeKey returns the first public key of a chain's tree in the format of signed-note tools.
func (p Public) TreeKey(chain int) string { return verifierKey(p.Origin(chain), p.key) }

// TreeKeys returns the public keys that sign checkpoints of a tree, oldest first.
func (p Public) TreeKeys(tree TreeHead) (keys []string) {
	for _, t := range p.terms(Checkpoints) {
		keys = append(keys, verifierKey(p.OriginOf(tree), t.key))
	}
	return keys
}

// SignedTree is the head of a tree in a checkpoint.
type SignedTree struct {
	TreeHead
	Replaced time.Time // when the key that signed it was replaced; zero: it was not
}

// OpenTree verifies a checkpoint that SignTree signed, and returns its head. Signatures of others, such as witnesses,
// may follow. It accepts a key that was replaced: see OpenSigned.
func (p Public) OpenTree(signed string) (TreeHead, error) {
	tree, err := p.OpenSigned(signed)
	return tree.TreeHead, err
}

// OpenSigned is OpenTree, but also says when the key was replaced.
func (p Public) OpenSigned(signed string) (head SignedTree, err error) {
	defer concluding("opening checkpoint", &err)
	origin, _, _ := strings.Cut(signed, "\n")
	tree, ok := p.ofOrigin(origin)
	if !ok {
		return SignedTree{}, fmt.Errorf("%q is not the origin of a tree of this installation", origin)
	}
	text, by, err := p.open(signed, origin, Checkpoints)
	if err != nil {
		return SignedTree{}, err
	}
	head.TreeHead, err = parseTreeHead(text, tree.Chain, origin)
	head.After, head.Replaced = tree.After, by.until
	return head, err
}

// Own returns a checkpoint without the signatures of others.
func (p Public) Own(signed string) string {
	origin, _, _ := strings.Cut(signed, "\n")
	text, signatures, _ := strings.Cut(signed, "\n\n")
	own := text + "\n\n"
	for line := range strings.Lines(signatures) {
		if strings.HasPrefix(line, "\u2014 "+origin+" ") {
			own += line
		}
	}
	return own
}
