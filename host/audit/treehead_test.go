package audit_test

import (
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/note"

	"assay/host/audit"
	"assay/registry/expect"
)

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
		if got, err := signer.OpenTree(signed); err != nil || got != head {
			t.Errorf("%s: opened as %+v, %v", name, got, err)
		}
		got, err := must(audit.ParsePublic(audit.KeyName, signer.TreeKey(head.Chain))).OpenTree(signed)
		expect.That(t, err == nil && got == head, "%s: opened with the public key as %+v, %v", name, got, err)
		expect.Failure(t, expect.ErrorOf(signer.OpenAnchor(signed)), "%s: opens as an anchor of the chain", name)
	}
}

// The same key signs heads of chains, anchors and trees of several chains: none may pass for another.
func TestInvalidTreeHeads(t *testing.T) {
	t.Parallel()
	head := audit.TreeHead{Chain: 1, Size: 5, Root: leaf(1)}
	signed := must(signer.SignTree(head))
	key := must(note.NewVerifier(signer.TreeKey(1)))
	text := must(note.Open([]byte(signed), note.VerifierList(key))).Text
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
