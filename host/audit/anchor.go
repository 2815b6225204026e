package audit

import (
	"fmt"
	"strings"
	"time"
)

// Anchor is the head of a chain's pruned part. Verification of the remaining records starts there.
type Anchor struct {
	Head
	Before   time.Time // records before this instant were past their retention; a midnight, UTC
	Replaced time.Time // when the key that signed it was replaced, see Late; zero: it was not
}

// prunedBefore begins the extension line that distinguishes an anchor from a checkpoint.
const prunedBefore = "pruned before "

// Anchor signs an anchor: a checkpoint with an extension line (C2SP tlog-checkpoint). Checkpoints are public, so none
// of them may serve as permission to prune the records before it.
func (s *Signer) Anchor(a Anchor) (string, error) {
	return s.sign(a.Head, prunedBefore+a.Before.UTC().Format(time.DateOnly)+"\n")
}

// OpenAnchor verifies an anchor. It accepts a key that was replaced.
func (p Public) OpenAnchor(signed string) (Anchor, error) {
	head, extension, by, err := p.openHead(signed)
	var before time.Time
	if err == nil {
		before, err = parsePruned(extension)
	}
	if err != nil {
		return Anchor{}, fmt.Errorf("opening anchor: %w", err)
	}
	return Anchor{head, before, by.until}, nil
}

func parsePruned(line string) (time.Time, error) {
	date, ok := strings.CutPrefix(line, prunedBefore)
	before, err := time.Parse(time.DateOnly, date)
	if !ok || err != nil {
		return time.Time{}, fmt.Errorf("%q is not of the form %q and a date", line, prunedBefore)
	}
	return before, nil
}
