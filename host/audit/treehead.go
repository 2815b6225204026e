package audit

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
)

// SignTree signs the head of a tree as a C2SP tlog-checkpoint. The same head and
// key always give the same text.
func (s *Signer) SignTree(h TreeHead) (string, error) {
	text := fmt.Sprintf("%s\n%d\n%s\n", s.OriginOf(h), h.Size, base64.StdEncoding.EncodeToString(h.Root[:]))
	return s.signNote("checkpoint", text, s.OriginOf(h), Checkpoints)
}

func parseTreeHead(text string, chain int, origin string) (TreeHead, error) {
	bad := fmt.Errorf("%q is not origin, size and root", text)
	lines := strings.Split(text, "\n")
	if len(lines) != 4 || lines[0] != origin {
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
	return TreeHead{Chain: chain, Size: size, Root: Hash(root)}, nil
}
