package audit

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/note"
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

// OpenCheckpoint verifies a checkpoint or an anchor with any of the verifier keys, which have the same name, and
// returns its head.
func OpenCheckpoint(signed string, verifierKeys ...string) (Head, error) {
	head, extension, err := open(signed, verifierKeys)
	if err == nil && extension != "" {
		_, err = parsePruned(extension)
	}
	if err != nil {
		return Head{}, fmt.Errorf("opening checkpoint: %w", err)
	}
	return head, nil
}

// open verifies a signed note and returns its head, and its extension line or "".
func open(signed string, verifierKeys []string) (head Head, extension string, err error) {
	var verifiers []note.Verifier
	for _, key := range verifierKeys {
		verifier, err := note.NewVerifier(key)
		if err != nil {
			return Head{}, "", err
		}
		verifiers = append(verifiers, verifier)
	}
	n, err := note.Open([]byte(signed), note.VerifierList(verifiers...))
	if err != nil {
		return Head{}, "", err
	}
	bad := fmt.Errorf("%q is not origin, size and hash", n.Text)
	lines := strings.Split(strings.TrimSuffix(n.Text, "\n"), "\n")
	switch {
	case len(lines) == 4 && lines[3] != "":
		extension = lines[3]
	case len(lines) != 3:
		return Head{}, "", bad
	}
	number, ok := strings.CutPrefix(lines[0], n.Sigs[0].Name+"/chain/")
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
