package audit

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/note"
)

// Origin returns the origin of a chain's tree: "assay/", 16 hexadecimal digits that name the installation by its public
// key, "/chain/" and the chain's number. It is also the name of the key that signs the tree's checkpoints.
func (s *Signer) Origin(chain int) string {
	sum := sha256.Sum256(s.PublicKey())
	return fmt.Sprintf("assay/%s/chain/%d", hex.EncodeToString(sum[:8]), chain)
}

// ofTree returns the signer of a chain's tree: the same key under the name that is the tree's origin.
func (s *Signer) ofTree(chain int) *Signer { return &Signer{name: s.Origin(chain), key: s.key} }

// TreeKey returns the public key of a chain's tree in the format of signed-note tools.
func (s *Signer) TreeKey(chain int) string { return s.ofTree(chain).VerifierKey() }

// SignTree signs the head of a tree as a C2SP tlog-checkpoint. The same head always gives the same text.
func (s *Signer) SignTree(h TreeHead) (string, error) {
	text := fmt.Sprintf("%s\n%d\n%s\n", s.Origin(h.Chain), h.Size, base64.StdEncoding.EncodeToString(h.Root[:]))
	signed, err := note.Sign(&note.Note{Text: text}, s.ofTree(h.Chain))
	if err != nil {
		return "", fmt.Errorf("signing checkpoint: %w", err)
	}
	return string(signed), nil
}

// OpenTree verifies a checkpoint that SignTree signed, and returns its head. Signatures of others, such as witnesses,
// may follow.
func (s *Signer) OpenTree(signed string) (TreeHead, error) {
	head, err := s.openTree(signed)
	if err != nil {
		return TreeHead{}, fmt.Errorf("opening checkpoint: %w", err)
	}
	return head, nil
}

func (s *Signer) openTree(signed string) (TreeHead, error) {
	origin, _, _ := strings.Cut(signed, "\n")
	_, number, _ := strings.Cut(origin, "/chain/")
	chain, err := strconv.Atoi(number)
	if err != nil || chain < 0 || s.Origin(chain) != origin {
		return TreeHead{}, fmt.Errorf("%q is not the origin of a tree of this installation", origin)
	}
	return ParseTreeHead(signed, chain, s.TreeKey(chain))
}

// ParseTreeHead verifies a checkpoint of a chain's tree with its public key, see TreeKey, whose name is the origin.
func ParseTreeHead(signed string, chain int, verifierKey string) (TreeHead, error) {
	verifier, err := note.NewVerifier(verifierKey)
	if err != nil {
		return TreeHead{}, err
	}
	n, err := note.Open([]byte(signed), note.VerifierList(verifier))
	if err != nil {
		return TreeHead{}, err
	}
	bad := fmt.Errorf("%q is not origin, size and root", n.Text)
	lines := strings.Split(n.Text, "\n")
	if len(lines) != 4 || lines[0] != verifier.Name() {
		return TreeHead{}, bad
	}
	size, err := strconv.ParseInt(lines[1], 10, 64)
	if err != nil || size < 0 || strconv.FormatInt(size, 10) != lines[1] {
		return TreeHead{}, bad
	}
	root, err := base64.StdEncoding.Strict().DecodeString(lines[2])
	if err != nil || len(root) != sha256.Size {
		return TreeHead{}, bad
	}
	return TreeHead{chain, size, Hash(root)}, nil
}
