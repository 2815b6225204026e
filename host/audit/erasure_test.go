package audit_test

import (
	"crypto/ed25519"
	"math/rand/v2"
	"testing"

	"assay/host/audit"
	"assay/registry/expect"
)

// erasure returns a signed erasure's row.
func erasure(chain int, erased []audit.Erased) audit.Row {
	return audit.Row{Nonce: nonce, Erased: erased, Record: audit.Record{
		Kind: audit.Erasure, At: "2026-01-02T03:04:05.006Z", Account: "acct_1", Digest: must(erasers.SignErasure(chain,
			erased)),
	}}
}

// Records before the anchor are pruned, erased or not; erasures after it must still be verified.
func TestErasuresAcrossAnAnchor(t *testing.T) {
	t.Parallel()
	tr := wholeLog(rand.New(rand.NewPCG(15, 16)), 12)
	blank := func(i int) audit.Erased {
		tr.rows[i].Nonce, tr.rows[i].Record = nil, audit.Record{Kind: audit.Blank}
		return audit.Erased{Seq: tr.rows[i].Seq, Leaf: tr.rows[i].Leaf}
	}
	tr.rows[9] = erasure(tr.head.Chain, []audit.Erased{blank(2), blank(4), blank(6)})
	tr.link(9)
	for anchor, erased := range []int64{3, 3, 3, 2, 2, 1, 1, 0, 0, 0} {
		v, left := audit.NewVerifier(tr.at(anchor), erasers.Public, nil), tr
		if anchor > 0 {
			left = tr.prunedAt(anchor, tr.at(anchor))
		}
		for _, row := range left.rows {
			err := v.Add(row)
			expect.Must(t, err == nil, "from %d: %v", anchor, err)
		}
		if err := v.Close(left.head); err != nil || v.Erased != erased || v.Erasures != 1 {
			t.Errorf("from %d: %v, %d erased by %d", anchor, err, v.Erased, v.Erasures)
		}
	}
}

// The signed encoding must never change, because stored erasures depend on it.
func TestErasureIsSignedAsDocumented(t *testing.T) {
	t.Parallel()
	erased := []audit.Erased{{Seq: 258, Leaf: audit.Hash(sequence(0, 32))},
		{Seq: 259, Leaf: audit.Hash(sequence(32, 32))}}
	message := "assay erasure, version 1\n" + "\x00\x00\x00\x03" +
		"\x00\x00\x00\x00\x00\x00\x01\x02" + string(sequence(0, 32)) + "\x00\x00\x00\x00\x00\x00\x01\x03" +
		string(sequence(32, 32))
	expect.That(t, ed25519.Verify(ed25519.NewKeyFromSeed(seed).Public().(ed25519.PublicKey), []byte(message),
		must(erasers.SignErasure(3, erased))), "another message was signed")
}
