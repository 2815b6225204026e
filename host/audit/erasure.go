package audit

import (
	"crypto/ed25519"
	"encoding/binary"
)

// Erased is a record whose content was erased: its number and its leaf, which stay.
type Erased struct {
	Seq  int64
	Leaf Hash
}

// SignErasure returns the Digest of the record of an erasure: an Ed25519 signature, by the key grown from seed, of what
// was erased, in the order of the chain. So neither can the list beside the record be changed, nor can who has the
// database alone blank a row and append an erasure that covers it.
func SignErasure(seed []byte, chain int, erased []Erased) []byte {
	return ed25519.Sign(ed25519.NewKeyFromSeed(seed), erasure(chain, erased))
}

// erasure is the one byte string of an erasure. It begins as no checkpoint does, which the same key signs.
func erasure(chain int, erased []Erased) []byte {
	b := append(make([]byte, 0, 64+40*len(erased)), "assay erasure, version 1\n"...)
	b = binary.BigEndian.AppendUint32(b, uint32(chain))
	for _, e := range erased {
		b = binary.BigEndian.AppendUint64(b, uint64(e.Seq))
		b = append(b, e.Leaf[:]...)
	}
	return b
}
