package audit

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// LossAcceptance states that an operator knows that records of answered checks in a chain are lost, and lets the chain
// continue.
type LossAcceptance struct {
	Chain    int
	At       time.Time // in UTC, to the second
	Survived int64     // number of the last record that is known to have survived; 0: unknown
	Lost     []Head    // heads of the chain that hosts answered for and that the chain no longer contains
	Reason   string    // in the operator's words, see CheckReason
}

const (
	acceptedLoss = "accepted loss, version 1"
	// maxReason is the maximum length of the reason for a loss, in characters.
	maxReason = 500
)

// CheckReason returns an error unless a text can be the reason for a loss: one line of 1 to 500 printable characters.
func CheckReason(reason string) error {
	switch {
	case strings.TrimSpace(reason) == "":
		return errors.New("the reason is empty")
	case !utf8.ValidString(reason) || strings.ContainsFunc(reason, func(r rune) bool { return !strconv.IsPrint(r) }):
		return errors.New("the reason is not one line of printable characters")
	case utf8.RuneCountInString(reason) > maxReason:
		return fmt.Errorf("the reason is longer than %d characters", maxReason)
	}
	return nil
}

// text returns the signed text of an acceptance.
func (l LossAcceptance) text(name string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n%s\nchain %d\nat %s\nsurvived %d\n", name, acceptedLoss, l.Chain,
		l.At.UTC().Format(time.RFC3339), l.Survived)
	for _, h := range l.Lost {
		fmt.Fprintf(&b, "lost %d %x\n", h.Seq, h.Hash)
	}
	fmt.Fprintf(&b, "reason %s\n", l.Reason)
	return b.String()
}

// AcceptLoss signs the acceptance of a loss as a signed note (C2SP signed-note).
func (s *Signer) AcceptLoss(l LossAcceptance) (string, error) {
	if err := CheckReason(l.Reason); err != nil {
		return "", err
	}
	return s.signNote("the acceptance of a loss", l.text(s.name), s.name, Records)
}

// OpenLoss verifies the acceptance of a loss.
func (p Public) OpenLoss(signed string) (l LossAcceptance, err error) {
	defer concluding("opening the acceptance of a loss", &err)
	text, _, err := p.open(signed, p.name, Records)
	if err != nil {
		return l, err
	}
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		switch name {
		case "chain":
			l.Chain, err = strconv.Atoi(value)
		case "at":
			l.At, err = time.Parse(time.RFC3339, value)
		case "survived":
			l.Survived, err = strconv.ParseInt(value, 10, 64)
		case "lost":
			var head Head
			head, err = parseLost(value)
			l.Lost = append(l.Lost, head)
		case "reason":
			l.Reason = value
		}
		if err != nil {
			return l, err
		}
	}
	for i := range l.Lost {
		l.Lost[i].Chain = l.Chain
	}
	if l.text(p.name) != text {
		return l, fmt.Errorf("%q is not the acceptance of a loss", text)
	}
	return l, nil
}

func parseLost(value string) (h Head, err error) {
	number, text, _ := strings.Cut(value, " ")
	if h.Seq, err = strconv.ParseInt(number, 10, 64); err != nil {
		return h, err
	}
	hash, err := hex.DecodeString(text)
	if err != nil || len(hash) != len(h.Hash) {
		return h, fmt.Errorf("%q is not a hash", text)
	}
	h.Hash = Hash(hash)
	return h, nil
}
