package audit_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"

	"assay/host/audit"
	"assay/registry/expect"
)

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
