package audit

import (
	"crypto/ed25519"
	"encoding/binary"
	"fmt"
	"slices"
	"time"
)

// Erased identifies a record whose content was erased. Its number and leaf remain.
type Erased struct {
	Seq  int64
	Leaf Hash
}

// SignErasure returns the Digest of an erasure record: an Ed25519 signature over the erased records in the order of the
// chain. The stored list therefore cannot be changed, and an attacker with only the database cannot blank a row and
// append a matching erasure.
func (s *Signer) SignErasure(chain int, erased []Erased) ([]byte, error) {
	key, err := s.current(Records)
	if err != nil {
		return nil, fmt.Errorf("signing erasure: %w", err)
	}
	return key.sign(erasure(chain, erased))
}

// erased reports whether a key that was not replaced at the time of an erasure record signed its list.
func (p Public) erased(r Record, chain int, erased []Erased) bool {
	at, err := time.Parse(time.RFC3339, r.At)
	return slices.ContainsFunc(p.terms(Records), func(t term) bool {
		return (t.until.IsZero() || err == nil && !Late(t.until, at)) &&
			ed25519.Verify(t.key, erasure(chain, erased), r.Digest)
	})
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
