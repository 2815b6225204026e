package audit

import (
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Anchor is the head of a chain's pruned part. Verification of the remaining records starts there.
type Anchor struct {
	Head
	Before   time.Time // records before this instant were past their retention; always midnight UTC
	Replaced time.Time // when the key that signed it was replaced, see Late; zero: it was not
}

// prunedBefore begins the extension line that distinguishes an anchor from a checkpoint.
const prunedBefore = "pruned before "

// Anchor signs an anchor: a C2SP tlog-checkpoint of the hash chain, with the chain's number in its origin and an
// extension line. Checkpoints are public, so a checkpoint must not permit pruning the records before it.
func (s *Signer) Anchor(a Anchor) (string, error) {
	text := fmt.Sprintf("%s/chain/%d\n%d\n%s\n%s%s\n", s.name, a.Chain, a.Seq,
		base64.StdEncoding.EncodeToString(a.Hash[:]), prunedBefore, a.Before.UTC().Format(time.DateOnly))
	return s.signNote("checkpoint", text, s.name, Checkpoints)
}

// OpenAnchor verifies an anchor. It accepts a key that was replaced.
func (p Public) OpenAnchor(signed string) (a Anchor, err error) {
	defer concluding("opening anchor", &err)
	text, by, err := p.open(signed, p.name, Checkpoints)
	if err != nil {
		return Anchor{}, err
	}
	a, err = parseAnchor(text, p.name)
	a.Replaced = by.until
	return a, err
}

// parseAnchor parses the text of an anchor that was signed under a name.
func parseAnchor(text, name string) (a Anchor, err error) {
	bad := fmt.Errorf("%q is not origin, size, hash and a line of the form %q and a date", text, prunedBefore)
	c, err := ParseCheckpoint(text)
	if err != nil || len(c.Extensions) != 1 {
		return Anchor{}, bad
	}
	number, ok := strings.CutPrefix(c.Origin, name+"/chain/")
	chain, err := strconv.Atoi(number)
	if !ok || err != nil || chain < 0 || strconv.Itoa(chain) != number {
		return Anchor{}, bad
	}
	date, ok := strings.CutPrefix(c.Extensions[0], prunedBefore)
	before, err := time.Parse(time.DateOnly, date)
	if !ok || err != nil {
		return Anchor{}, bad
	}
	return Anchor{Head: Head{Chain: chain, Seq: c.Size, Hash: c.Root}, Before: before}, nil
}
