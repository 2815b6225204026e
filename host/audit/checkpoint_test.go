package audit_test

import (
	"bytes"
	"math"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"

	"assay/host/audit"
	"assay/registry/expect"
)

const origin = "assay.example/audit"

var signer = audit.NewSigner(origin, sequence(0, 32))

// signedText signs an arbitrary text in place of a checkpoint.
func signedText(tb testing.TB, text string, by note.Signer) string {
	tb.Helper()
	return string(must(note.Sign(&note.Note{Text: text}, by)))
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
		got, want := squeeze(strings.Join(parts, "\n")), squeeze(file)
		expect.That(t, got == want, "%q is missing from the parts %q", want, got)
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

func TestTreeHeadRoundTrip(t *testing.T) {
	t.Parallel()
	for name, head := range map[string]audit.TreeHead{
		"empty":  {Chain: 0, Root: audit.EmptyRoot},
		"leaves": {Chain: 12, Size: 1 << 40, Root: leaf(1)},
	} {
		signed := must(signer.SignTree(head))
		expect.Equal(t, name+": signed as", must(signer.SignTree(head)), signed)
		origin := signer.Origin(head.Chain)
		expect.That(t, strings.HasPrefix(signed, origin+"\n") && strings.Contains(signed, "\n\n\u2014 "+origin+" "),
			"%s: the origin is not also the key's name: %q", name, signed)
		got, err := signer.OpenTree(signed)
		expect.That(t, err == nil && got == head, "%s: opened as %+v, %v", name, got, err)
		got, err = must(audit.ParsePublic(audit.KeyName, signer.TreeKey(head.Chain))).OpenTree(signed)
		expect.That(t, err == nil && got == head, "%s: opened with the public key as %+v, %v", name, got, err)
		expect.Failure(t, expect.ErrorOf(signer.OpenAnchor(signed)), "%s: opens as an anchor of the chain", name)
	}
}

// The same key signs heads of chains, anchors and trees of several chains: none may pass for another.
func TestInvalidTreeHeads(t *testing.T) {
	t.Parallel()
	head := audit.TreeHead{Chain: 1, Size: 5, Root: leaf(1)}
	signed := must(signer.SignTree(head))
	text := must(note.Open([]byte(signed), note.VerifierList(must(note.NewVerifier(signer.TreeKey(1)))))).Text
	tree := audit.NewSigner(signer.Origin(1), sequence(0, 32)) // the key under the tree's name
	for name, other := range map[string]string{
		"another size":        strings.Replace(signed, "\n5\n", "\n6\n", 1),
		"another chain":       strings.ReplaceAll(signed, "/chain/1", "/chain/2"),
		"a chain with a zero": strings.ReplaceAll(signed, "/chain/1", "/chain/01"),
		"of another key":      must(audit.NewSigner(origin, sequence(1, 32)).SignTree(head)),
		"a chain's anchor":    anchor(1),
		"a line more":         signedText(t, text+"more\n", tree),
		"a size with a zero":  signedText(t, strings.Replace(text, "\n5\n", "\n05\n", 1), tree),
		"a size below zero":   signedText(t, strings.Replace(text, "\n5\n", "\n-5\n", 1), tree),
		"a short root":        signedText(t, signer.Origin(1)+"\n5\nAAAA\n", tree),
		"no root":             signedText(t, signer.Origin(1)+"\n5\n", tree),
		"no signature":        text,
		"nothing":             "",
	} {
		expect.Failure(t, expect.ErrorOf(signer.OpenTree(other)), "%s: opens", name)
	}
	got, err := signer.OpenTree(signedText(t, text, tree))
	expect.That(t, err == nil && got == head, "the valid text opens as %+v, %v", got, err)
}

func TestPromises(t *testing.T) {
	t.Parallel()
	promise := audit.Promise{Chain: 2, Index: 7, Leaf: leaf(1), Until: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	signed := must(signer.SignPromise(promise))
	got, err := signer.OpenPromise(signed)
	expect.That(t, err == nil && got == promise, "opened as %+v, %v", got, err)
	for name, text := range map[string]string{
		"another index":   strings.Replace(signed, "\n7\n", "\n8\n", 1),
		"another chain":   strings.ReplaceAll(signed, "/chain/2", "/chain/3"),
		"another version": strings.Replace(signed, "version 1", "version 2", 1),
		"a checkpoint":    must(signer.SignTree(audit.TreeHead{Chain: 2, Size: 7, Root: leaf(1)})),
		"cut off":         signed[:len(signed)/2],
		"nothing":         "",
	} {
		expect.Failure(t, expect.ErrorOf(signer.OpenPromise(text)), "%s: opens", name)
	}
	expect.Failure(t, expect.ErrorOf(signer.OpenTree(signed)), "a promise opens as a checkpoint")
}

var cut = audit.Anchor{Head: audit.Genesis(3).Next(audit.Leaf(nonce, record)), Before: time.Date(2030, 5, 1, 0, 0, 0, 0,
	time.UTC)}

// anchor returns the anchor of a chain without records.
func anchor(chain int) string {
	return must(signer.Anchor(audit.Anchor{Head: audit.Genesis(chain), Before: cut.Before}))
}

func TestAnchorRoundTrip(t *testing.T) {
	t.Parallel()
	for name, head := range map[string]audit.Head{
		"empty chain": audit.Genesis(0),
		"first":       cut.Head,
		"far on":      {Chain: 12, Seq: math.MaxInt64, Hash: cut.Hash},
		"zero hash":   {Chain: 3, Seq: 10},
	} {
		want := audit.Anchor{Head: head, Before: cut.Before}
		got, err := signer.OpenAnchor(must(signer.Anchor(want)))
		expect.That(t, err == nil && got == want, "%s: opened as %+v, %v", name, got, err)
	}
	odd := audit.NewSigner("assay.example/chain/7", sequence(0, 32))
	got, err := odd.OpenAnchor(must(odd.Anchor(cut)))
	expect.That(t, err == nil && got == cut, "with a chain in the key's name: %+v, %v", got, err)
	expect.Failure(t, expect.ErrorOf(audit.NewSigner("two words", sequence(0, 32)).Anchor(cut)),
		"an invalid name signs")
}

func TestAlteredAnchorIsRefused(t *testing.T) {
	t.Parallel()
	signed := must(signer.Anchor(cut))
	for i := range len(signed) {
		for bit := range 8 {
			altered := []byte(signed)
			altered[i] ^= 1 << bit
			if got, err := signer.OpenAnchor(string(altered)); err == nil && got != cut {
				t.Errorf("with bit %d of byte %d (%q) flipped it opens as %+v", bit, i, signed[i], got)
			} else if err == nil && i < strings.Index(signed, "\n\n") {
				t.Errorf("bit %d of byte %d of the text is not covered", bit, i)
			}
		}
		expect.Failure(t, expect.ErrorOf(signer.OpenAnchor(signed[:i])), "opens when cut at byte %d", i)
	}
}

// Checkpoints are public: none may serve as permission to prune.
func TestInvalidAnchors(t *testing.T) {
	t.Parallel()
	const chain, hash = origin + "/chain/3\n1\n", "SHBPVPAlSUT9Wq/xARRTVqnY/6Rt5b4G0xKLprYNM+M=\n"
	const pruned = "pruned before 2030-05-01\n"
	for name, text := range map[string]string{
		"a checkpoint":         chain + hash,
		"another line":         chain + hash + "more\n",
		"no date":              chain + hash + "pruned before \n",
		"an invalid date":      chain + hash + "pruned before 2030-13-01\n",
		"a time":               chain + hash + "pruned before 2030-05-01T00:00:00Z\n",
		"two lines":            chain + hash + pruned + pruned,
		"another origin":       "other/chain/0\n1\n" + hash + pruned,
		"origin, no chain":     origin + "\n1\n" + hash + pruned,
		"chain is a word":      origin + "/chain/one\n1\n" + hash + pruned,
		"chain with a zero":    origin + "/chain/01\n1\n" + hash + pruned,
		"size is a word":       origin + "/chain/0\none\n" + hash + pruned,
		"size with a zero":     origin + "/chain/0\n01\n" + hash + pruned,
		"size beyond":          origin + "/chain/0\n9223372036854775808\n" + hash + pruned,
		"hash is short":        chain + "AAAA\n" + pruned,
		"hash with loose bits": chain + "SHBPVPAlSUT9Wq/xARRTVqnY/6Rt5b4G0xKLprYNM+N=\n" + pruned,
		"no hash":              chain + pruned,
		"nothing":              "\n",
	} {
		expect.Failure(t, expect.ErrorOf(signer.OpenAnchor(signedText(t, text, signer))), "%s: opens", name)
	}
	valid := chain + hash + pruned
	expect.Error(t, "the valid text", expect.ErrorOf(signer.OpenAnchor(signedText(t, valid, signer))), nil)
	for name, signed := range map[string]string{
		"of another key":  signedText(t, valid, audit.NewSigner(origin, sequence(1, 32))),
		"of another name": signedText(t, valid, audit.NewSigner("assay.example/other", sequence(0, 32))),
		"not signed":      valid,
		"nothing":         "",
	} {
		expect.Failure(t, expect.ErrorOf(signer.OpenAnchor(signed)), "%s: opens", name)
	}
	expect.Failure(t, expect.ErrorOf(audit.Public{}.OpenAnchor(signedText(t, valid, signer))), "opens without a key")
}

func FuzzOpenAnchor(f *testing.F) {
	f.Add(anchor(0))
	f.Add(anchor(1) + anchor(2))
	f.Add(signedText(f, origin+"/chain/\n1\n\n", signer))
	f.Add("")
	f.Fuzz(func(t *testing.T, signed string) {
		got, err := signer.OpenAnchor(signed)
		if err != nil {
			expect.That(t, got == (audit.Anchor{}), "an error was returned with the anchor %+v", got)
			return
		}
		again, err := signer.OpenAnchor(must(signer.Anchor(got)))
		expect.That(t, err == nil && again == got, "%+v, signed again, opened as %+v, %v", got, again, err)
	})
}

func FuzzSignedText(f *testing.F) {
	f.Add(origin + "/chain/0\n1\nSHBPVPAlSUT9Wq/xARRTVqnY/6Rt5b4G0xKLprYNM+M=\npruned before 2030-05-01\n")
	f.Add(origin + "/chain/0\n0\n0000000000000000000000000000000000000000001=\npruned before 2030-05-01\n")
	f.Add(origin + "/chain/00\n-0\n\n")
	f.Fuzz(func(t *testing.T, text string) {
		signed, err := note.Sign(&note.Note{Text: text}, signer)
		if err != nil {
			return
		}
		got, err := signer.OpenAnchor(string(signed))
		expect.That(t, err != nil || signedText(t, text, signer) == must(signer.Anchor(got)),
			"%q opens as %+v, whose text differs", text, got)
	})
}
