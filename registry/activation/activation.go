// Package activation defines activations: numbered, signed statements that put lineups in force. Each one names the
// previous one by its hash, so that they form a chain. The package stores nothing.
package activation

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/mod/sumdb/note"

	"assay/registry"
	"assay/registry/fault"
)

// Activation names all lineups that score from one moment on. A canary starts, changes and ends with an activation, and
// a rollback is an activation of an earlier lineup under a new number.
type Activation struct {
	Number   int64           // higher than the number of the previous activation
	Previous registry.Digest // hash of the previous activation; zero for the first
	Lineup   Lineup
	Canary   *Canary // nil if there is none
	Author   string  // such as "ana@laptop", or BuiltIn
	Reason   string  // may be empty
	At       time.Time
}

// Lineup names a stored lineup.
type Lineup struct {
	Revision int64           // as decisions record it
	Hash     registry.Digest // of its canonical text, see registry.LineupHash
}

// Canary is a second lineup that decides for a share of the accounts.
type Canary struct {
	Lineup
	Share int   // in percent, 1 to MaxShare
	Limit Limit // a host withdraws a canary that changes more of the verdicts
}

// Limit is a share of verdicts, in hundredths of a percent, up to 10,000.
type Limit int

// Share returns the limit as a number from 0 to 1.
func (l Limit) Share() float64 { return float64(l) / 10_000 }

// String returns the limit as a percentage, such as 0.5%.
func (l Limit) String() string { return strconv.FormatFloat(float64(l)/100, 'f', -1, 64) + "%" }

// UnmarshalText reads a percentage from 0% to 100% with up to two decimals.
func (l *Limit) UnmarshalText(text []byte) error {
	number, found := strings.CutSuffix(strings.TrimSpace(string(text)), "%")
	percent, err := strconv.ParseFloat(number, 64)
	hundredths := math.Round(100 * percent)
	if !found || err != nil || !(percent >= 0 && percent <= 100) || math.Abs(hundredths-100*percent) > 1e-6 {
		return fmt.Errorf("%q is not a percentage from 0%% to 100%% with up to two decimals", text)
	}
	*l = Limit(hundredths)
	return nil
}

// BuiltIn is the author of an activation of the built-in layers at the start of a host.
const BuiltIn = "built-in"

// Errors of a database of activations.
var (
	ErrNone       = errors.New("there is no such activation")
	ErrSuperseded = errors.New("another activation is in force by now")
)

// Limits of an activation.
const (
	MaxShare  = 50
	maxAuthor = 100 // characters
	maxReason = 500 // characters
)

const (
	header      = "assay activation v1"
	candidate   = "assay candidate v1\n"   // precedes the text of an activation that hosts only prepare
	measurement = "assay measurement v1\n" // precedes the text of a lineup that hosts measure
	timeFormat  = "2006-01-02T15:04:05.000Z"
	none        = "none"
)

// Validate reports what is wrong with an activation.
func (a Activation) Validate() error {
	switch {
	case a.Number < 1:
		return fmt.Errorf("the number is %d, and must be positive", a.Number)
	case a.Lineup.Revision < 1 || a.Canary != nil && a.Canary.Revision < 1:
		return errors.New("a revision is not positive")
	case a.Canary != nil && (a.Canary.Share < 1 || a.Canary.Share > MaxShare):
		return fmt.Errorf("the canary's share is %d%%, outside 1%% to %d%%", a.Canary.Share, MaxShare)
	case a.Canary != nil && (a.Canary.Limit < 0 || a.Canary.Limit > 10_000):
		return fmt.Errorf("the canary's limit is %v, outside 0%% to 100%%", a.Canary.Limit)
	case a.Canary != nil && (a.Canary.Hash == a.Lineup.Hash || a.Canary.Revision == a.Lineup.Revision):
		return errors.New("the canary is the lineup itself")
	case a.Author == "":
		return errors.New("the author is missing")
	}
	if err := checkText("author", a.Author, maxAuthor); err != nil {
		return err
	}
	return checkText("reason", a.Reason, maxReason)
}

// checkText requires one line of printable characters, because each line of an activation's text is a field.
func checkText(field, text string, limit int) error {
	switch {
	case utf8.RuneCountInString(text) > limit:
		return fmt.Errorf("the %s has more than %d characters", field, limit)
	case !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }):
		return fmt.Errorf("the %s must be one line of printable characters", field)
	case strings.TrimSpace(text) != text:
		return fmt.Errorf("the %s begins or ends with a space", field)
	}
	return nil
}

// Text returns the text that is hashed and signed: a header, then a line for each field.
func (a Activation) Text() string {
	var b strings.Builder
	line := func(key, value string) { fmt.Fprintf(&b, "%s %s\n", key, value) }
	b.WriteString(header + "\n")
	line("number", strconv.FormatInt(a.Number, 10))
	previous := none
	if a.Previous != (registry.Digest{}) {
		previous = a.Previous.String()
	}
	line("previous", previous)
	line("lineup", a.Lineup.text())
	if a.Canary != nil {
		line("canary", fmt.Sprintf("%s %d%%", a.Canary.text(), a.Canary.Share))
		line("limit", a.Canary.Limit.String())
	}
	line("author", a.Author)
	if a.Reason != "" {
		line("reason", a.Reason)
	}
	line("at", a.At.UTC().Format(timeFormat))
	return b.String()
}

func (l Lineup) text() string { return fmt.Sprintf("%d %s", l.Revision, l.Hash) }

// Hash returns the activation's identity.
func (a Activation) Hash() registry.Digest { return sha256.Sum256([]byte(a.Text())) }

// Parse reads an activation's text. It accepts exactly what Text writes, so that one activation has one hash.
func Parse(text string) (Activation, error) {
	a, err := parse(text)
	if err == nil {
		err = a.Validate()
	}
	if err == nil && a.Text() != text {
		err = errors.New("it is not in the canonical form")
	}
	return a, fault.Wrap(err, "reading activation")
}

func parse(text string) (a Activation, err error) {
	first, rest, _ := strings.Cut(text, "\n")
	if first != header {
		return a, fmt.Errorf("its first line is not %q", header)
	}
	for line := range strings.Lines(rest) {
		key, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		switch key {
		case "number":
			a.Number, err = strconv.ParseInt(value, 10, 64)
		case "previous":
			if value != none {
				a.Previous, err = registry.ParseDigest(value)
			}
		case "lineup":
			a.Lineup, err = parseLineup(value)
		case "canary":
			a.Canary, err = parseCanary(value)
		case "limit":
			if a.Canary == nil {
				return a, errors.New("it has a limit, but no canary")
			}
			err = a.Canary.Limit.UnmarshalText([]byte(value))
		case "author":
			a.Author = value
		case "reason":
			a.Reason = value
		case "at":
			a.At, err = time.Parse(timeFormat, value)
		default:
			err = errors.New("there is no such field")
		}
		if err != nil {
			return a, fmt.Errorf("line %.80q: %w", line, err)
		}
	}
	return a, nil
}

func parseLineup(text string) (l Lineup, err error) {
	revision, hash, _ := strings.Cut(text, " ")
	if l.Revision, err = strconv.ParseInt(revision, 10, 64); err == nil {
		l.Hash, err = registry.ParseDigest(hash)
	}
	return l, err
}

func parseCanary(text string) (*Canary, error) {
	place := strings.LastIndexByte(text, ' ')
	share, ok := strings.CutSuffix(text[place+1:], "%")
	if !ok || place < 0 {
		return nil, errors.New("it does not end with a share in percent")
	}
	c := &Canary{}
	var err error
	if c.Share, err = strconv.Atoi(share); err == nil {
		c.Lineup, err = parseLineup(text[:place])
	}
	return c, err
}

// Unverified reads an activation from a signed note without verifying the signature: its content may be forged.
func Unverified(signed string) (Activation, error) {
	text, _, ok := strings.Cut(signed, "\n\n")
	if !ok {
		return Activation{}, errors.New("reading activation: it is not signed")
	}
	return Parse(text + "\n")
}

// Sign returns an activation as a signed note (C2SP signed-note).
func Sign(a Activation, signer note.Signer) (string, error) {
	return sign(a, a.Text(), signer)
}

// SignCandidate returns a signed note of an activation that hosts prepare. They verify it like the activation, but
// never run it, so an operator who withdraws it has signed nothing that somebody else could put in force.
func SignCandidate(a Activation, signer note.Signer) (string, error) {
	return sign(a, candidate+a.Text(), signer)
}

// SignMeasurement returns a signed note of the canonical text of a lineup that hosts measure without preparing
// it.
func SignMeasurement(lineup []byte, signer note.Signer) (string, error) {
	return SignNote("lineup to measure", measurement+string(lineup)+"\n", signer)
}

// IsMeasurement reports whether a signed note is one for [Trust.OpenMeasurement].
func IsMeasurement(signed string) bool { return strings.HasPrefix(signed, measurement) }

func sign(a Activation, text string, signer note.Signer) (string, error) {
	if err := a.Validate(); err != nil {
		return "", fmt.Errorf("signing activation: %w", err)
	}
	return SignNote("activation", text, signer)
}

// SignNote returns a text as a signed note (C2SP signed-note). The error says what the text is.
func SignNote(what, text string, signer note.Signer) (string, error) {
	signed, err := note.Sign(&note.Note{Text: text}, signer)
	return string(signed), fault.Wrap(err, "signing %s", what)
}
