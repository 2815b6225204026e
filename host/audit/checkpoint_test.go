package audit_test

import (
	"bytes"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/note"

	"assay/host/audit"
	"assay/registry/expect"
)

const origin = "assay.example/audit"

var signer = audit.NewSigner(origin, sequence(0, 32))

// signedText signs an arbitrary text in place of a checkpoint.
func signedText(tb testing.TB, text string, by note.Signer) string {
	tb.Helper()
	signed := must(note.Sign(&note.Note{Text: text}, by))
	return string(signed)
}

func TestSignerAgreesWithSignedNoteTools(t *testing.T) {
	t.Parallel()
	verifier := must(note.NewVerifier(signer.VerifierKey()))
	if verifier.Name() != signer.Name() || verifier.KeyHash() != signer.KeyHash() {
		t.Errorf("verifier %s %08x, signer %s %08x", verifier.Name(), verifier.KeyHash(), signer.Name(),
			signer.KeyHash())
	}
}

func TestKeysThatAreNone(t *testing.T) {
	t.Parallel()
	for name, key := range map[string]string{
		"no key":                 "",
		"an invalid key":         "assay.example/audit+00000000+AAAA",
		"a key without its name": strings.TrimPrefix(signer.VerifierKey(), origin),
	} {
		expect.Failure(t, expect.ErrorOf(audit.ParsePublic(origin, key)), "%s: read", name)
	}
}

func TestSplitCheckpoints(t *testing.T) {
	t.Parallel()
	a, b, c := anchor(0), anchor(1), anchor(2)
	witness := audit.NewSigner("witness.example", sequence(9, 32))
	opened := must(note.Open([]byte(b), note.VerifierList(must(note.NewVerifier(signer.VerifierKey())))))
	cosigned := string(must(note.Sign(opened, witness)))
	type testCase struct {
		file string
		want []string
	}
	expect.Each(t, map[string]testCase{
		"nothing":              {"", nil},
		"white space":          {"\n \n\n\n", nil},
		"one":                  {a, []string{a}},
		"without a last line":  {strings.TrimSuffix(a, "\n"), []string{a}},
		"one after the other":  {a + b + c, []string{a, b, c}},
		"a line between":       {a + "\n" + b + "\n" + c + "\n", []string{a, b, c}},
		"two lines between":    {a + "\n\n" + b + "\n\n" + c, []string{a, b, c}},
		"lines before":         {"\n\n\n" + a, []string{a}},
		"with two signatures":  {a + cosigned + c, []string{a, cosigned, c}},
		"text of another kind": {"hello\n", []string{"hello\n"}},
	}, func(t *testing.T, split testCase) {
		expect.NoDiff(t, "parts", split.want, audit.SplitCheckpoints(split.file))
	})
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func FuzzSplitCheckpoints(f *testing.F) {
	one, two := anchor(0), anchor(1)
	for _, file := range []string{"", one, one + two, one + "\n" + two, "\n\n\u2014 a", "a\n\n\u2014 ",
		"\u2014 x\n\n\u2014 y\n\nz"} {
		f.Add(file)
	}
	f.Fuzz(func(t *testing.T, file string) {
		squeeze := func(s string) string { return strings.Join(strings.Fields(s), "") }
		parts := audit.SplitCheckpoints(file)
		if got, want := squeeze(strings.Join(parts, "\n")), squeeze(file); got != want {
			t.Errorf("%q is missing from the parts %q", want, got)
		}
		for _, p := range parts {
			expect.That(t, strings.TrimSpace(p) != "", "a part of white space: %q", parts)
		}
		// Text before a checkpoint, ended by an empty line, must not hide it.
		if clean := strings.ToValidUTF8(file, ""); !strings.HasSuffix(clean, "\n\n") &&
			bytes.IndexByte([]byte(clean), 0) < 0 {
			parts = audit.SplitCheckpoints(clean + "\n\n\n" + one)
			expect.Equal(t, "a checkpoint after other text", parts[len(parts)-1], one)
		}
	})
}
