package audit

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
)

// Checkpoint signs a head as a C2SP tlog-checkpoint: origin, size and hash in a signed note. The origin contains the
// chain's number.
func (s *Signer) Checkpoint(h Head) (string, error) { return s.sign(h, "") }

func (s *Signer) sign(h Head, extension string) (string, error) {
	text := fmt.Sprintf("%s/chain/%d\n%d\n%s\n%s", s.name, h.Chain, h.Seq, base64.StdEncoding.EncodeToString(h.Hash[:]),
		extension)
	signed, err := s.signNote(text, s.name, Checkpoints)
	if err != nil {
		return "", fmt.Errorf("signing checkpoint: %w", err)
	}
	return signed, nil
}

// OpenCheckpoint verifies a checkpoint or an anchor, and returns its head. It accepts a key that was replaced.
func (p Public) OpenCheckpoint(signed string) (Head, error) {
	head, extension, _, err := p.openHead(signed)
	if err == nil && extension != "" {
		_, err = parsePruned(extension)
	}
	if err != nil {
		return Head{}, fmt.Errorf("opening checkpoint: %w", err)
	}
	return head, nil
}

// openHead verifies a signed note and returns its head, its extension line or "", and the key that signed it.
func (p Public) openHead(signed string) (head Head, extension string, by term, err error) {
	text, by, err := p.open(signed, p.name, Checkpoints)
	if err == nil {
		head, extension, err = parseHead(text, p.name)
	}
	return head, extension, by, err
}

// parseHead parses the text of a checkpoint or an anchor that was signed under a name.
func parseHead(text, name string) (head Head, extension string, err error) {
	bad := fmt.Errorf("%q is not origin, size and hash", text)
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	switch {
	case len(lines) == 4 && lines[3] != "":
		extension = lines[3]
	case len(lines) != 3:
		return Head{}, "", bad
	}
	number, ok := strings.CutPrefix(lines[0], name+"/chain/")
	chain, err := strconv.Atoi(number)
	if !ok || err != nil || chain < 0 || strconv.Itoa(chain) != number {
		return Head{}, "", bad
	}
	seq, err := strconv.ParseInt(lines[1], 10, 64)
	if err != nil || seq < 0 || strconv.FormatInt(seq, 10) != lines[1] {
		return Head{}, "", bad
	}
	hash, err := base64.StdEncoding.Strict().DecodeString(lines[2])
	if err != nil || len(hash) != sha256.Size {
		return Head{}, "", bad
	}
	return Head{Chain: chain, Seq: seq, Hash: Hash(hash)}, extension, nil
}

// SplitCheckpoints splits a file of consecutive checkpoints.
func SplitCheckpoints(file string) []string {
	var all []string
	for _, block := range strings.SplitAfter(file, "\n\n") {
		// A note is text, an empty line and signatures, so a block that begins with a signature belongs to the
		// previous block.
		for strings.HasPrefix(block, "\u2014 ") && len(all) > 0 {
			line, rest, _ := strings.Cut(block, "\n")
			all[len(all)-1] += line + "\n"
			block = rest
		}
		if block = strings.TrimLeft(block, "\n"); strings.TrimSpace(block) != "" {
			all = append(all, block)
		}
	}
	return all
}
