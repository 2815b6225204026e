package audit

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Anchor is the head of a chain's pruned part. Verification of the remaining records starts there.
type Anchor struct {
	Head
	Before time.Time // records before this instant were past their retention; a midnight, UTC
	Key    int       // which of the keys given to OpenAnchor signed it
}

// prunedBefore begins the extension line that distinguishes an anchor from a checkpoint.
const prunedBefore = "pruned before "

// Anchor signs an anchor: a checkpoint with an extension line (C2SP tlog-checkpoint). Checkpoints are public, so none
// of them may serve as permission to prune the records before it.
func (s *Signer) Anchor(a Anchor) (string, error) {
	return s.sign(a.Head, prunedBefore+a.Before.UTC().Format(time.DateOnly)+"\n")
}

// OpenAnchor verifies an anchor with any of the verifier keys, which have the same name.
func OpenAnchor(signed string, verifierKeys ...string) (Anchor, error) {
	var head Head
	var extension string
	err := errors.New("there is no key")
	for i, key := range slices.Backward(verifierKeys) {
		if head, extension, err = open(signed, []string{key}); err != nil {
			continue
		}
		var before time.Time
		if before, err = parsePruned(extension); err == nil {
			return Anchor{head, before, i}, nil
		}
		break
	}
	return Anchor{}, fmt.Errorf("opening anchor: %w", err)
}

// AnchorReplaced returns when the key that signed an anchor was replaced; zero: it was not. The anchor must have been
// opened with p.VerifierKeys().
func (p Public) AnchorReplaced(a Anchor) time.Time { return p.terms(Checkpoints)[a.Key].until }

func parsePruned(line string) (time.Time, error) {
	date, ok := strings.CutPrefix(line, prunedBefore)
	before, err := time.Parse(time.DateOnly, date)
	if !ok || err != nil {
		return time.Time{}, fmt.Errorf("%q is not of the form %q and a date", line, prunedBefore)
	}
	return before, nil
}
