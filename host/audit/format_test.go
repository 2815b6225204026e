package audit_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"assay/host/audit"
	"assay/registry/expect"
)

// TestFormatVectors recomputes the vectors of docs/audit-format.md. Their hashes come from an independent
// implementation (Python's hashlib). They must never change, because stored logs depend on them.
func TestFormatVectors(t *testing.T) {
	t.Parallel()
	text := string(must(os.ReadFile("../../docs/audit-format.md")))
	_, text, _ = strings.Cut(text, "```json\n")
	text, _, _ = strings.Cut(text, "```")
	want := map[string]json.RawMessage{}
	expect.NoError(t, json.Unmarshal([]byte(text), &want))
	// The encoding is that of the package if its hash is the leaf.
	encoding := must(hex.DecodeString(strings.Join(parts(t, want["encoding"]), "")))
	entry := sha256.Sum256(slices.Concat([]byte{0}, nonce, encoding))
	expect.Equal(t, "the leaf of the encoded record", entry, audit.Leaf(nonce, record))
	leaves := []audit.Hash{audit.Leaf(nonce, record), audit.Leaf(nonce, audit.Record{}), audit.Leaf(nonce, record)}
	tree, stored, head := &audit.Tree{}, tiles{}, audit.Genesis(0)
	roots, chain := []audit.Hash{tree.Root()}, []audit.Hash{head.Hash}
	for _, leaf := range leaves {
		tree.Append(leaf)
		head = head.Next(leaf)
		roots, chain = append(roots, tree.Root()), append(chain, head.Hash)
	}
	stored.keep(t, tree.Take())
	treeHead := tree.Head(0)
	for name, hashes := range map[string][]audit.Hash{
		"leaves": leaves, "roots": roots, "chain_hashes": chain,
		"inclusion":   must(audit.ProveInclusion(treeHead, 0, stored.read)),
		"consistency": must(audit.ProveConsistency(2, treeHead, stored.read)),
	} {
		var got []string
		for _, h := range hashes {
			got = append(got, hex.EncodeToString(h[:]))
		}
		expect.NoDiff(t, name, parts(t, want[name]), got)
	}
	id := audit.TileID{Width: 3}
	key := audit.NewSigner("assay/audit", sequence(0, 32))
	erased := []audit.Erased{{Seq: 1, Leaf: leaves[0]}}
	later := audit.NewSigner("assay/audit", sequence(0, 32))
	statement := must(later.Introduce(later.Hold(sequence(32, 32)), audit.Checkpoints|audit.Records, rotated))
	for name, got := range map[string]string{
		"origin":           key.Origin(0),
		"verifier_key":     key.TreeKey(0),
		"checkpoint":       must(key.SignTree(treeHead)),
		"tile":             id.Path() + " " + hex.EncodeToString(stored[audit.TileID{}]),
		"anchor":           must(key.Anchor(audit.Anchor{Head: head, Before: cut.Before})),
		"erasure":          hex.EncodeToString(must(key.SignErasure(0, erased))),
		"statement":        statement,
		"later_checkpoint": must(later.SignTree(treeHead)),
	} {
		expect.NoDiff(t, name, strings.Join(parts(t, want[name]), ""), got)
	}
	expect.Equal(t, "vectors in the document", len(want), 15)
}

func parts(t *testing.T, list json.RawMessage) (parts []string) {
	t.Helper()
	expect.NoError(t, json.Unmarshal(list, &parts))
	return parts
}
