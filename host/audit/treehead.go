package audit

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/note"
)

// ofTree returns the signer of a chain's tree: the same key under the name that is the tree's origin.
func (s *Signer) ofTree(chain int) *Signer {
	return &Signer{Public{s.Origin(chain), s.key}, s.private}
}

// SignTree signs the head of a tree as a C2SP tlog-checkpoint. The same head always gives the same text.
func (s *Signer) SignTree(h TreeHead) (string, error) {
	text := fmt.Sprintf("%s\n%d\n%s\n", s.Origin(h.Chain), h.Size, base64.StdEncoding.EncodeToString(h.Root[:]))
	signed, err := note.Sign(&note.Note{Text: text}, s.ofTree(h.Chain))
	if err != nil {
		return "", fmt.Errorf("signing checkpoint: %w", err)
	}
	return string(signed), nil
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
