package audit

import (
	"fmt"
	"strings"
	"time"
)

// Anchor is where a chain was cut: the head that its last pruned record had made. What is left is verified from there
// on.
type Anchor struct {
	Head
	Before time.Time // what was recorded before this instant was past its retention; a midnight, UTC
}

// prunedBefore begins the line that an anchor has and a checkpoint has not.
const prunedBefore = "pruned before "

// Anchor signs an anchor. It is a checkpoint with one line more (C2SP tlog-checkpoint calls it an extension), so that
// none of the checkpoints, which are no secret, can pass for leave to cut what stands before it.
func (s *Signer) Anchor(a Anchor) (string, error) {
	return s.sign(a.Head, prunedBefore+a.Before.UTC().Format(time.DateOnly)+"\n")
}

// OpenAnchor verifies an anchor against a verifier key.
func OpenAnchor(signed, verifierKey string) (Anchor, error) {
	head, extension, err := open(signed, verifierKey)
	if err != nil {
		return Anchor{}, fmt.Errorf("opening anchor: %w", err)
	}
	before, err := parsePruned(extension)
	if err != nil {
		return Anchor{}, fmt.Errorf("opening anchor: %w", err)
	}
	return Anchor{head, before}, nil
}

func parsePruned(line string) (time.Time, error) {
	date, ok := strings.CutPrefix(line, prunedBefore)
	before, err := time.Parse(time.DateOnly, date)
	if !ok || err != nil {
		return time.Time{}, fmt.Errorf("%q does not say before when records were pruned", line)
	}
	return before, nil
}
