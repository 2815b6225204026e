package audit

import (
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/mod/sumdb/note"
)

// Use is the set of things that a key signs.
type Use int

const (
	// Checkpoints are checkpoints of trees, anchors, and statements that introduce later keys.
	Checkpoints Use = 1 << iota
	// Records are promises, erasures and acceptances of losses, which hosts and commands sign during their work.
	Records
)

// String returns the use as written in a statement.
func (u Use) String() string {
	switch u {
	case Checkpoints:
		return "checkpoints"
	case Records:
		return "records"
	case Checkpoints | Records:
		return "checkpoints records"
	}
	return "nothing"
}

// Statement introduces a key, which replaces the previous key for the same uses at the given time. Two keys sign the
// statement: the previous one for checkpoints, and the new one. A verifier that has any earlier key can follow the
// statements, as with the root keys of The Update Framework (section 5.3 of its specification).
type Statement struct {
	Number int // of the key; the first key has number 1 and no statement
	Uses   Use
	Key    ed25519.PublicKey
	From   time.Time // in whole seconds
}

// Overlap is how long after its replacement a key's signatures may still cover new records, because clocks differ and a
// request may be in progress.
const Overlap = time.Hour

// Late reports whether a record is too new for a key that was replaced; a key was not replaced if the time is zero.
func Late(replaced, record time.Time) bool {
	return !replaced.IsZero() && record.After(replaced.Add(Overlap))
}

// introduced is a verified statement.
type introduced struct {
	Statement
	note string
}

// pointer points to the statements that the copies of a Public share.
type pointer = atomic.Pointer[[]introduced]

// statementLine is the first line of a statement. Nothing else that the keys sign begins with it.
const statementLine = "assay key, version 1"

func (s Statement) text(installation string) string {
	return fmt.Sprintf("%s\n%s\n%d\n%s\n%s\n%s\n", statementLine, installation, s.Number, s.Uses,
		base64.StdEncoding.EncodeToString(encoded(s.Key)), s.From.UTC().Format(time.RFC3339))
}

// parseStatement parses a statement without its signatures.
func parseStatement(text, installation string) (s Statement, err error) {
	bad := fmt.Errorf("%.200q does not introduce a key of this installation", text)
	lines := strings.Split(text, "\n")
	if len(lines) != 7 {
		return s, bad
	}
	if s.Number, err = strconv.Atoi(lines[2]); err != nil {
		return s, bad
	}
	for _, u := range []Use{Checkpoints, Records, Checkpoints | Records} {
		if u.String() == lines[3] {
			s.Uses = u
		}
	}
	key, err := base64.StdEncoding.Strict().DecodeString(lines[4])
	if err != nil || len(key) != 1+ed25519.PublicKeySize {
		return s, bad
	}
	s.Key = key[1:]
	if s.From, err = time.Parse(time.RFC3339, lines[5]); err != nil || s.Uses == 0 || s.text(installation) != text {
		return s, bad
	}
	return s, nil
}

func (p Public) introductions() []introduced {
	if p.later == nil || p.later.Load() == nil {
		return nil
	}
	return *p.later.Load()
}

// Statements returns the signed statements that introduce the keys after the first, oldest first.
func (p Public) Statements() (notes []string) {
	for _, s := range p.introductions() {
		notes = append(notes, s.note)
	}
	return notes
}

// With returns p with the keys that statements introduce, oldest first; p does not change. With fails if a statement
// contradicts one of p's, because then the previous key signed both.
func (p Public) With(statements []string) (Public, error) {
	known := slices.Clone(p.introductions())
	for _, signed := range statements {
		text, _, _ := strings.Cut(signed, "\n\n")
		s, err := parseStatement(text+"\n", p.installation())
		if err != nil {
			return p, err
		}
		if i := s.Number - 2; i >= 0 && i < len(known) {
			if known[i].text(p.installation()) != text+"\n" {
				return p, fmt.Errorf("there are two statements about key %d: keep the one that was published first, "+
					"and regard the keys before it as stolen", s.Number)
			}
			if _, err := p.holding(known[:i]).With([]string{signed}); err != nil {
				return p, err // other verifiers could not follow it
			}
			continue
		}
		p = p.holding(known)
		if err := p.verify(s, signed); err != nil {
			return p, fmt.Errorf("following the statement about key %d: %w", s.Number, err)
		}
		known = append(known, introduced{s, signed})
	}
	return p.holding(known), nil
}

func (p Public) holding(known []introduced) Public {
	next := Public{name: p.name, key: p.key, later: new(pointer)}
	next.later.Store(&known)
	return next
}

// verify verifies the statement that follows the known ones.
func (p Public) verify(s Statement, signed string) error {
	known := p.introductions()
	if s.Number != len(known)+2 {
		return fmt.Errorf("the statement about key %d is missing", len(known)+2)
	}
	if n := len(known); n > 0 && s.From.Before(known[n-1].From) {
		return errors.New("it begins earlier than the previous key")
	}
	if p.Knows(s.Key) {
		return errors.New("it introduces an earlier key again")
	}
	signers := p.terms(Checkpoints)
	for _, key := range []ed25519.PublicKey{signers[len(signers)-1].key, s.Key} {
		v, err := note.NewVerifier(verifierKey(p.installation(), key))
		if err == nil {
			_, err = note.Open([]byte(signed), note.VerifierList(v))
		}
		if err != nil {
			return fmt.Errorf("the previous key and the new one must sign it: %w", err)
		}
	}
	return nil
}

// Knows reports whether a key is one of the installation's.
func (p Public) Knows(key ed25519.PublicKey) bool {
	return slices.ContainsFunc(p.terms(Checkpoints|Records), func(t term) bool { return t.key.Equal(key) })
}

// term is the period in which a key signs.
type term struct {
	key         ed25519.PublicKey
	from, until time.Time // until is zero for the last
}

// terms returns the terms of the keys for any of the uses, oldest first.
func (p Public) terms(uses Use) []term {
	terms := []term{{key: p.key}}
	for _, s := range p.introductions() {
		if s.Uses&uses != 0 {
			terms[len(terms)-1].until = s.From
			terms = append(terms, term{key: s.Key, from: s.From})
		}
	}
	return terms
}

// open verifies a note that keys for a use signed under a name. by is the term of the newest of these keys.
func (p Public) open(signed, name string, use Use) (text string, by term, err error) {
	terms := p.terms(use)
	var verifiers []note.Verifier
	for _, t := range terms {
		v, err := note.NewVerifier(verifierKey(name, t.key))
		if err != nil {
			return "", by, err
		}
		verifiers = append(verifiers, v)
	}
	n, err := note.Open([]byte(signed), note.VerifierList(verifiers...))
	if err != nil {
		return "", by, err
	}
	for i, t := range terms {
		if slices.ContainsFunc(n.Sigs, func(s note.Signature) bool { return s.Hash == verifiers[i].KeyHash() }) {
			by = t
		}
	}
	return n.Text, by, nil
}

// cutStatements separates a file of keys into its verifier keys, without labels, and its statements.
func cutStatements(text string) (keys, statements []string) {
	lines := strings.Split(text, "\n")
	for i := 0; i < len(lines); i++ {
		line := strings.TrimSpace(lines[i])
		switch {
		case line == statementLine:
			end := i
			for end < len(lines) && lines[end] != "" {
				end++
			}
			for end++; end < len(lines) && strings.HasPrefix(lines[end], "\u2014 "); {
				end++
			}
			statements = append(statements, strings.Join(lines[i:min(end, len(lines))], "\n")+"\n")
			i = end - 1
		case line != "" && !strings.HasPrefix(line, "#"):
			// A key has no space, but a message of the command that wrote the file has.
			if key := strings.TrimPrefix(line, "verifier key: "); !strings.Contains(key, " ") {
				keys = append(keys, key)
			}
		}
	}
	return keys, statements
}

// TrustedKeys reads the verifier keys of any logs from a file, one a line. If the file also has an installation's
// statements, TrustedKeys adds the later keys of each of its trees whose first key is in the file.
func TrustedKeys(text string) (keys []string, err error) {
	lines, statements := cutStatements(text)
	of := map[string][]string{} // by installation
	for _, s := range statements {
		installation := strings.SplitN(s, "\n", 3)[1]
		of[installation] = append(of[installation], s)
	}
	for _, line := range lines {
		keys = append(keys, line)
		name, _, _ := strings.Cut(line, "+")
		installation, _, _ := strings.Cut(name, "/chain/")
		notes := of[installation]
		if len(notes) == 0 {
			continue
		}
		key, err := ParsePublic(KeyName, line)
		if err != nil {
			continue // a later key
		}
		if key, err = key.With(notes); err != nil {
			return nil, fmt.Errorf("reading verifier keys: %w", err)
		}
		if tree, ok := key.ofOrigin(name); ok {
			keys = append(keys, key.TreeKeys(tree)[1:]...)
		}
	}
	return keys, nil
}
