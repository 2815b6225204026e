package audit_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"assay/host/audit"
	"assay/registry/expect"
)

var rotated = time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)

// rotation returns a signer whose second key signs from rotated on, and the statement. Its clock is at a time.
func rotation(t *testing.T, uses audit.Use, now time.Time) (s *audit.Signer, statement string) {
	t.Helper()
	s = audit.NewSigner(origin, sequence(0, 32))
	s.Now = func() time.Time { return now }
	return s, must(s.Introduce(s.Hold(sequence(32, 32)), uses, rotated))
}

func TestRotation(t *testing.T) {
	t.Parallel()
	head := audit.TreeHead{Chain: 1, Size: 3, Root: leaf(1)}
	for name, test := range map[string]struct {
		uses     audit.Use
		now      time.Time
		replaced bool // the first key signs it, and is replaced later
	}{
		"before":          {audit.Checkpoints | audit.Records, rotated.Add(-time.Second), true},
		"at the time":     {audit.Checkpoints | audit.Records, rotated, false},
		"for checkpoints": {audit.Checkpoints, rotated.Add(time.Hour), false},
		"for records":     {audit.Records, rotated.Add(time.Hour), false},
	} {
		s, statement := rotation(t, test.uses, test.now)
		first := audit.NewSigner(origin, sequence(0, 32)).Public
		key := must(first.With([]string{statement}))
		tree := must(s.SignTree(head))
		got, err := key.OpenSigned(tree)
		expect.That(t, err == nil && got.TreeHead == head && got.Replaced.IsZero() != test.replaced, "%s: %+v, %v",
			name, got, err)
		bySecond := !test.replaced && test.uses&audit.Checkpoints != 0
		_, err = first.OpenTree(tree)
		expect.That(t, (err != nil) == bySecond, "%s: the first key alone: %v", name, err)
		expect.That(t, len(first.Statements()) == 0 && len(key.Statements()) == 1 && key.Origin(1) == first.Origin(1),
			"%s: %v, %v", name, first.Statements(), key.Statements())
		opened, err := key.OpenPromise(must(s.SignPromise(audit.Promise{Chain: 1, Leaf: leaf(1), Until: rotated})))
		expect.That(t, err == nil && opened.Replaced.IsZero() == (test.uses&audit.Records == 0 || !test.replaced),
			"%s: %+v, %v", name, opened, err)
		by, err := key.OpenAnchor(must(s.Anchor(cut)))
		expect.That(t, err == nil && by.Head == cut.Head && by.Before == cut.Before &&
			by.Replaced.IsZero() != (test.replaced && test.uses&audit.Checkpoints != 0), "%s: anchor %+v, %v", name, by,
			err)
		own := must(audit.NewSigner(origin, sequence(0, 32)).SignTree(head))
		expect.Equal(t, name+": without the witness", key.Own(own+"\u2014 witness.example AAAA\n"), own)
	}
	stale := audit.NewSigner(origin, sequence(0, 32))
	_, statement := rotation(t, audit.Checkpoints, rotated)
	expect.NoError(t, stale.Learn([]string{statement}))
	_, err := stale.SignTree(head)
	expect.That(t, errors.Is(err, audit.ErrKeyElsewhere) && stale.Ready(audit.Checkpoints) != nil,
		"without the key that signs now: %v", err)
	expect.Error(t, "with the key for records", stale.Ready(audit.Records), nil)
}

func TestStatementsThatAreRefused(t *testing.T) {
	t.Parallel()
	both := audit.Checkpoints | audit.Records
	s, second := rotation(t, both, rotated)
	third := must(s.Introduce(s.Hold(sequence(64, 32)), both, rotated.Add(time.Hour)))
	thief := audit.NewSigner(origin, sequence(0, 32)) // has the first key
	other := must(thief.Introduce(thief.Hold(sequence(96, 32)), both, rotated))
	records, _ := rotation(t, audit.Records, rotated)
	lesser := audit.NewSigner(origin, sequence(32, 32)) // the key for records alone
	lesser.Public = records.Public
	_, err := lesser.Introduce(lesser.Hold(sequence(64, 32)), both, rotated)
	expect.Error(t, "a key for records introduced another", err, audit.ErrKeyElsewhere)
	_, err = s.Introduce(s.Hold(sequence(0, 32)), both, rotated.Add(2*time.Hour))
	expect.ErrorText(t, "an earlier key", err, "an earlier key again")
	_, err = s.Introduce(s.Hold(sequence(128, 32)), both, rotated)
	expect.ErrorText(t, "an earlier time", err, "begins earlier than the previous key")
	text, signatures, _ := strings.Cut(second, "\n\n")
	lines := strings.SplitAfter(signatures, "\n")
	for name, test := range map[string]struct {
		statements []string
		reason     string
	}{
		"all":                 {[]string{second, third}, ""},
		"again":               {[]string{second, second, third, second}, ""},
		"a missing one":       {[]string{third}, "the statement about key 2 is missing"},
		"two that contradict": {[]string{second, other}, "there are two statements about key 2"},
		"another use":         {[]string{strings.Replace(second, "checkpoints records", "records", 1)}, "must sign it"},
		"another time":        {[]string{strings.Replace(second, "01-02T", "01-03T", 1)}, "must sign it"},
		"not the key before":  {[]string{text + "\n\n" + lines[1]}, "must sign it"},
		"not the new key":     {[]string{text + "\n\n" + lines[0]}, "must sign it"},
		"again, one signed":   {[]string{second, text + "\n\n" + lines[1]}, "must sign it"},
		"another version":     {[]string{strings.Replace(second, "version 1", "version 2", 1)}, "does not introduce"},
		"another log":         {[]string{strings.Replace(second, "assay/5", "assay/6", 1)}, "does not introduce"},
		"nothing":             {[]string{""}, "does not introduce"},
	} {
		key, err := audit.NewSigner(origin, sequence(0, 32)).Public.With(test.statements)
		if test.reason != "" {
			expect.ErrorText(t, name, err, test.reason)
		} else if err != nil || !slices.Equal(key.Statements(), []string{second, third}) {
			t.Errorf("%s: %v, %q", name, err, key.Statements())
		}
	}
}

// A key that was replaced does not cover erasures of later times.
func TestErasureAfterRotation(t *testing.T) {
	t.Parallel()
	s, statement := rotation(t, audit.Records, rotated)
	erased := []audit.Erased{{Seq: 1, Leaf: leaf(1)}}
	for name, test := range map[string]struct {
		at         time.Time
		old, valid bool
	}{
		"new key":           {rotated.Add(2 * time.Hour), false, true},
		"old key, in time":  {rotated.Add(-time.Hour), true, true},
		"old key, overlap":  {rotated.Add(audit.Overlap), true, true},
		"old key, too late": {rotated.Add(audit.Overlap + time.Second), true, false},
	} {
		by := s
		if test.old {
			by = audit.NewSigner(origin, sequence(0, 32))
		}
		r := audit.Record{Kind: audit.Erasure, At: test.at.Format(time.RFC3339)}
		v := audit.NewVerifier(audit.Genesis(0), must(s.With([]string{statement})), nil)
		blank := audit.Leaf(nonce, record)
		erasedRow := audit.Row{Seq: 1, Leaf: blank, Hash: audit.Genesis(0).Next(blank).Hash,
			Record: audit.Record{Kind: audit.Blank}}
		erased[0].Leaf = blank
		r.Digest = must(by.SignErasure(0, erased))
		expect.NoError(t, v.Add(erasedRow))
		last := audit.Leaf(nonce, r)
		err := v.Add(audit.Row{Seq: 2, Leaf: last, Hash: v.Head.Next(last).Hash, Nonce: nonce, Record: r,
			Erased: erased})
		expect.That(t, (err == nil) == test.valid, "%s: %v", name, err)
	}
}

func TestFilesOfKeys(t *testing.T) {
	t.Parallel()
	s := audit.NewSigner(audit.KeyName, sequence(0, 32))
	second := must(s.Introduce(s.Hold(sequence(32, 32)), audit.Checkpoints, rotated))
	keys := s.TreeKeys(audit.TreeHead{Chain: 3})
	key, err := audit.ParseKeys("# of us\nstarting the database ...\nverifier key: " + keys[0] + "\n" + keys[1] +
		"\n\n" + second + "\n")
	expect.That(t, err == nil && slices.Equal(key.Statements(), []string{second}) &&
		key.VerifierKey() == s.VerifierKey(), "%v, %q", err, key.Statements())
	for name, text := range map[string]string{"no statement": keys[0] + "\n" + keys[1] + "\n", "no first key": second,
		"a cut statement": keys[0] + "\n" + second[:len(second)/2], "a later key alone": keys[1]} {
		expect.Failure(t, expect.ErrorOf(audit.ParseKeys(text)), "%s: read", name)
	}
	log := audit.NewSigner("other.example/log", sequence(7, 32)).VerifierKey()
	trusted, err := audit.TrustedKeys(log + "\n" + s.TreeKey(0) + "\n" + second + "\n" + s.TreeKey(4))
	want := append(append([]string{log}, s.TreeKeys(audit.TreeHead{})...), s.TreeKeys(audit.TreeHead{Chain: 4})...)
	expect.That(t, err == nil && slices.Equal(trusted, want), "%q, %v, want %q", trusted, err, want)
}

func FuzzStatements(f *testing.F) {
	s := audit.NewSigner(origin, sequence(0, 32))
	f.Add(must(s.Introduce(s.Hold(sequence(32, 32)), audit.Records, rotated)))
	f.Add("assay key, version 1\n\n")
	f.Fuzz(func(t *testing.T, text string) {
		_, _ = s.With([]string{text})
		_, _ = audit.ParseKeys(text)
		_, _ = audit.TrustedKeys(text)
	})
}
