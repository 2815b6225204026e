package audit

import (
	"encoding/base64"
	"fmt"
)

// SignTree signs the head of a tree as a C2SP tlog-checkpoint. The same head and key always give the same text.
func (s *Signer) SignTree(h TreeHead) (string, error) {
	text := fmt.Sprintf("%s\n%d\n%s\n", s.OriginOf(h), h.Size, base64.StdEncoding.EncodeToString(h.Root[:]))
	return s.signNote("checkpoint", text, s.OriginOf(h), Checkpoints)
}

func parseTreeHead(text string, chain int, origin string) (TreeHead, error) {
	c, err := ParseCheckpoint(text)
	if err == nil && (c.Origin != origin || len(c.Extensions) > 0) {
		err = fmt.Errorf("%q is not origin, size and root", text)
	}
	return TreeHead{Chain: chain, Size: c.Size, Root: c.Root}, err
}
