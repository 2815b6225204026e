package audit_test

import (
	"bytes"
	"math"
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

func checkpoint(tb testing.TB, h audit.Head) string {
	tb.Helper()
	signed := must(signer.Checkpoint(h))
	return signed
}

func TestCheckpointRoundTrip(t *testing.T) {
	t.Parallel()
	first := audit.Genesis(0).Next(audit.Leaf(nonce, record))
	for name, head := range map[string]audit.Head{
		"empty chain": audit.Genesis(0),
		"first":       first,
		"far on":      {Chain: 12, Seq: math.MaxInt64, Hash: first.Hash},
		"zero hash":   {Chain: 3, Seq: 10},
	} {
		got, err := signer.OpenCheckpoint(checkpoint(t, head))
		if err != nil || got != head {
			t.Errorf("%s: %+v opened as %+v, %v", name, head, got, err)
		}
	}
}

func TestCheckpointText(t *testing.T) {
	t.Parallel()
	signed := checkpoint(t, audit.Genesis(0).Next(audit.Leaf(nonce, record)))
	text, signature, _ := strings.Cut(signed, "\n\n")
	expect.NoDiff(t, "text", origin+"/chain/0\n1\nSHBPVPAlSUT9Wq/xARRTVqnY/6Rt5b4G0xKLprYNM+M=", text)
	if !strings.HasPrefix(signature, "\u2014 "+origin+" ") {
		t.Errorf("the signature line is %q", signature)
	}
}

func TestSignerAgreesWithSignedNoteTools(t *testing.T) {
	t.Parallel()
	verifier := must(note.NewVerifier(signer.VerifierKey()))
	if verifier.Name() != signer.Name() || verifier.KeyHash() != signer.KeyHash() {
		t.Errorf("verifier %s %08x, signer %s %08x", verifier.Name(), verifier.KeyHash(), signer.Name(),
			signer.KeyHash())
	}
}

func TestCheckpointOfOthersIsRefused(t *testing.T) {
	t.Parallel()
	signed := checkpoint(t, audit.Genesis(0))
	for name, key := range map[string]audit.Public{
		"another key":  audit.NewSigner(origin, sequence(1, 32)).Public,
		"another name": audit.NewSigner("assay.example/other", sequence(0, 32)).Public,
		"no key":       {},
	} {
		if head, err := key.OpenCheckpoint(signed); err == nil || head != (audit.Head{}) {
			t.Errorf("%s: opened as %+v, %v", name, head, err)
		}
	}
	for name, key := range map[string]string{
		"no key":                 "",
		"an invalid key":         "assay.example/audit+00000000+AAAA",
		"a key without its name": strings.TrimPrefix(signer.VerifierKey(), origin),
	} {
		expect.Failure(t, expect.ErrorOf(audit.ParsePublic(origin, key)), "%s: read", name)
	}
}

func TestAlteredCheckpointIsRefused(t *testing.T) {
	t.Parallel()
	want := audit.Genesis(0).Next(audit.Leaf(nonce, record))
	signed := checkpoint(t, want)
	for i := range len(signed) {
		for bit := range 8 {
			altered := []byte(signed)
			altered[i] ^= 1 << bit
			if head, err := signer.OpenCheckpoint(string(altered)); err == nil && head != want {
				t.Errorf("with bit %d of byte %d (%q) flipped it opens as %+v", bit, i, signed[i], head)
			} else if err == nil && i < strings.Index(signed, "\n\n") {
				t.Errorf("bit %d of byte %d of the text is not covered", bit, i)
			}
		}
		expect.Failure(t, expect.ErrorOf(signer.OpenCheckpoint(signed[:i])), "opens when cut at byte %d", i)
	}
}

func TestInvalidCheckpointText(t *testing.T) {
	t.Parallel()
	const hash = "SHBPVPAlSUT9Wq/xARRTVqnY/6Rt5b4G0xKLprYNM+M="
	for name, text := range map[string]string{
		"another origin":       "other/chain/0\n1\n" + hash + "\n",
		"origin, no chain":     origin + "\n1\n" + hash + "\n",
		"chain is a word":      origin + "/chain/one\n1\n" + hash + "\n",
		"chain with a zero":    origin + "/chain/01\n1\n" + hash + "\n",
		"size is a word":       origin + "/chain/0\none\n" + hash + "\n",
		"size with a zero":     origin + "/chain/0\n01\n" + hash + "\n",
		"size beyond":          origin + "/chain/0\n9223372036854775808\n" + hash + "\n",
		"hash is short":        origin + "/chain/0\n1\nAAAA\n",
		"hash with loose bits": origin + "/chain/0\n1\nSHBPVPAlSUT9Wq/xARRTVqnY/6Rt5b4G0xKLprYNM+N=\n",
		"no hash":              origin + "/chain/0\n1\n",
		"a line more":          origin + "/chain/0\n1\n" + hash + "\nmore\n",
		"nothing":              "\n",
	} {
		expect.Failure(t, expect.ErrorOf(signer.OpenCheckpoint(signedText(t, text, signer))), "%s: opens",
			name)
	}
	expect.Error(t, "the valid text does not open either",
		expect.ErrorOf(signer.OpenCheckpoint(signedText(t, origin+"/chain/0\n1\n"+hash+"\n", signer))), nil)
}

func TestOriginMayContainAnyText(t *testing.T) {
	t.Parallel()
	odd := audit.NewSigner("assay.example/chain/7", sequence(0, 32))
	signed := expect.Value(odd.Checkpoint(audit.Genesis(1)))(t)
	if head, err := odd.OpenCheckpoint(signed); err != nil || head != audit.Genesis(1) {
		t.Errorf("opened as %+v, %v", head, err)
	}
	if signed, err := audit.NewSigner("two words", sequence(0, 32)).Checkpoint(audit.Genesis(1)); err == nil {
		t.Errorf("an invalid name signed %q", signed)
	}
}

func TestSplitCheckpoints(t *testing.T) {
	t.Parallel()
	a, b, c := checkpoint(t, audit.Genesis(0)), checkpoint(t, audit.Genesis(1)), checkpoint(t, audit.Genesis(2))
	witness := audit.NewSigner("witness.example", sequence(9, 32))
	opened := must(note.Open([]byte(b), note.VerifierList(must(note.NewVerifier(signer.VerifierKey())))))
	cosigned := string(must(note.Sign(opened, witness)))
	for name, split := range map[string]struct {
		file string
		want []string
	}{
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
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			expect.NoDiff(t, "parts", split.want, audit.SplitCheckpoints(split.file))
		})
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func FuzzOpenCheckpoint(f *testing.F) {
	f.Add(checkpoint(f, audit.Genesis(0)))
	f.Add(checkpoint(f, audit.Genesis(1)) + checkpoint(f, audit.Genesis(2)))
	f.Add(signedText(f, origin+"/chain/\n1\n\n", signer))
	f.Add("")
	f.Fuzz(func(t *testing.T, signed string) {
		head, err := signer.OpenCheckpoint(signed)
		if err != nil {
			if head != (audit.Head{}) {
				t.Errorf("an error was returned with the head %+v", head)
			}
			return
		}
		if again, err := signer.OpenCheckpoint(checkpoint(t, head)); err != nil || again != head {
			t.Errorf("%+v, signed again, opened as %+v, %v", head, again, err)
		}
	})
}

func FuzzSignedText(f *testing.F) {
	f.Add(origin + "/chain/0\n1\nSHBPVPAlSUT9Wq/xARRTVqnY/6Rt5b4G0xKLprYNM+M=\n")
	f.Add(origin + "/chain/0\n0\n0000000000000000000000000000000000000000001=\n")
	f.Add(origin + "/chain/00\n-0\n\n")
	f.Fuzz(func(t *testing.T, text string) {
		signed, err := note.Sign(&note.Note{Text: text}, signer)
		if err != nil {
			return
		}
		head, err := signer.OpenCheckpoint(string(signed))
		if err == nil && signedText(t, text, signer) != checkpoint(t, head) {
			t.Errorf("%q opens as %+v, whose text differs", text, head)
		}
	})
}

func FuzzSplitCheckpoints(f *testing.F) {
	one, two := checkpoint(f, audit.Genesis(0)), checkpoint(f, audit.Genesis(1))
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
			if strings.TrimSpace(p) == "" {
				t.Errorf("a part of white space: %q", parts)
			}
		}
		// Text before a checkpoint, ended by an empty line, must not hide it.
		if clean := strings.ToValidUTF8(file, ""); !strings.HasSuffix(clean, "\n\n") &&
			bytes.IndexByte([]byte(clean), 0) < 0 {
			parts = audit.SplitCheckpoints(clean + "\n\n\n" + one)
			expect.Equal(t, "a checkpoint after other text", parts[len(parts)-1], one)
		}
	})
}
