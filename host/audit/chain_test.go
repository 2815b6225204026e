package audit_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"assay/host/audit"
	"assay/registry/expect"
)

// The expected values of this file were computed by an independent implementation (Python's hashlib and hmac) from the
// formulas in the package comment. They must never change, because stored chains depend on them.

func sequence(from, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(from + i)
	}
	return b
}

var (
	nonce  = sequence(16, audit.NonceBytes)
	record = audit.Record{
		Kind: audit.Check, At: "2026-01-02T03:04:05.006Z", Ref: "chk_01", Account: "acct_1", Key: "key_1",
		Type:      "domain",
		Pseudonym: sequence(0, 32), Score: 91, Verdict: "block", Revision: 7, Digest: []byte{0xde, 0xad},
	}
)

// TestFormatVectors has the vectors of ordinary records, and of chain 0.
func TestVectors(t *testing.T) {
	t.Parallel()
	leaf := audit.Leaf(nonce, record)
	genesis, first := audit.Genesis(1), audit.Genesis(1).Next(leaf)
	for name, c := range map[string]struct {
		hash audit.Hash
		want string
	}{
		"leaf below zero": {audit.Leaf(nonce, audit.Record{Kind: "lineup", Score: -1, Revision: -1 << 63}),
			"07d581ea27d48e9474fb30b1ba9822f9a5edfe6ff33e170d5cc9bb20a427b8e1"},
		"empty chain 1":         {genesis.Hash, "ad1cdea753f2cd01f12eca3434f0754816122d38c5a6db02e92d28630d502426"},
		"first record, chain 1": {first.Hash, "cc0e50e5dc12b00d811d984a9bd7fca345c1d160378f574ce87fccf1b4492dcc"},
		"second, of equal leaf": {audit.Genesis(0).Next(leaf).Next(leaf).Hash,
			"609758de166b8744b1ddcb662a6d8fa031e0df8fce1355df2d9d76d2c167a6d1"},
	} {
		expect.Equal(t, name, hex.EncodeToString(c.hash[:]), c.want)
	}
	expect.Equal(t, "the first head", first, audit.Head{Chain: 1, Seq: 1, Hash: first.Hash})
}

func TestPseudonymVectors(t *testing.T) {
	t.Parallel()
	key := bytes.Repeat([]byte{'k'}, 32)
	for name, c := range map[string]struct {
		key, salt         []byte
		kind, value, want string
	}{
		"an email": {key, []byte("salt"), "email", "jane@example.com",
			"090c3dc7963db413816d0937fe1a72ee7b3aae8ea110c68d234392237142f440"},
		"nothing": {nil, nil, "", "", "0f3745a9b8c3b5f1013d683d3dae5db39d9a6108df353b4909019b3c0506f232"},
	} {
		several := audit.NewPseudonyms(c.key)
		several.Of([]byte("another"), "domain", "another.example")
		for _, p := range [][]byte{audit.Pseudonym(c.key, c.salt, c.kind, c.value), several.Of(c.salt, c.kind,
			c.value)} {
			expect.Equal(t, name, hex.EncodeToString(p), c.want)
		}
	}
}

// flip returns r with the lowest bit of a field inverted; ok is false for fields of a kind that it cannot invert.
func flip(r audit.Record, field int) (changed audit.Record, ok bool) {
	switch f := reflect.ValueOf(&r).Elem().Field(field); f.Kind() {
	case reflect.String:
		if s := f.String(); s == "" {
			f.SetString("\x00")
		} else {
			f.SetString(s[:len(s)-1] + string(s[len(s)-1]^1))
		}
	case reflect.Int, reflect.Int64:
		f.SetInt(f.Int() ^ 1)
	case reflect.Slice:
		if b := bytes.Clone(f.Bytes()); len(b) == 0 {
			f.SetBytes([]byte{0})
		} else {
			b[len(b)-1] ^= 1
			f.SetBytes(b)
		}
	default:
		return r, false
	}
	return r, true
}

func TestLeafCommitsToEveryField(t *testing.T) {
	t.Parallel()
	kind := reflect.TypeFor[audit.Record]()
	for name, r := range map[string]audit.Record{"full": record, "empty": {}} {
		leaf := audit.Leaf(nonce, r)
		for i := range kind.NumField() {
			changed, ok := flip(r, i)
			expect.That(t, ok, "%s: the test has no other value for %s", name, kind.Field(i).Name)
			expect.That(t, audit.Leaf(nonce, changed) != leaf, "%s: the leaf does not depend on %s", name, kind.Field(
				i).Name)
		}
	}
	other := bytes.Clone(nonce)
	expect.That(t, audit.Leaf(append(other[:15:15], other[15]^1), record) != audit.Leaf(nonce, record),
		"the leaf does not depend on the nonce")
}

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
