package audit

import (
	"crypto/ed25519"
	"encoding/binary"
)

// Erased identifies a record whose content was erased. Its number and leaf remain.
type Erased struct {
	Seq  int64
	Leaf Hash
}

// SignErasure returns the Digest of an erasure record: an Ed25519 signature, with the key derived from seed, over the
// erased records in the order of the chain. The stored list therefore cannot be changed, and an attacker with only the
// database cannot blank a row and append a matching erasure.
func SignErasure(seed []byte, chain int, erased []Erased) []byte {
	return ed25519.Sign(ed25519.NewKeyFromSeed(seed), erasure(chain, erased))
}

// erasure returns the signed encoding of an erasure. Its first line differs from any checkpoint's, which the same key
// signs.
func erasure(chain int, erased []Erased) []byte {
	b := append(make([]byte, 0, 64+40*len(erased)), "assay erasure, version 1\n"...)
	b = binary.BigEndian.AppendUint32(b, uint32(chain))
	for _, e := range erased {
		b = binary.BigEndian.AppendUint64(b, uint64(e.Seq))
		b = append(b, e.Leaf[:]...)
	}
	return b
}
