// Package audit is the tamper-evident trail as an algorithm: how a record becomes a leaf, leaves become a hash chain,
// and chain heads become signed checkpoints. It stores nothing.
//
//	leaf_n = SHA-256(0x00 || nonce || canonical(record_n))
//	hash_n = SHA-256(0x01 || hash_{n-1} || chain || n || leaf_n)
//
// A record's content can be erased by forgetting it and its nonce: the leaf stays, so the chain still verifies, and
// without the nonce nobody can test a guess at the content against the leaf. That it was erased rightly says a record
// of kind Erasure behind it.
package audit

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
)

// Hash is a SHA-256 value.
type Hash [sha256.Size]byte

// NonceBytes is the length of a record's nonce: enough that a guessed record cannot be confirmed from its leaf.
const NonceBytes = 16

// Kind says what a record is about.
type Kind string

// The kinds of record.
const (
	Check   Kind = "check"   // a decision
	Lineup  Kind = "lineup"  // a lineup came into force: Revision says which
	Erasure Kind = "erasure" // other records lost their content: Digest says which, see SignErasure
	Export  Kind = "export"  // what is held of Pseudonym was handed out to the holder of Key
	// the records up to number Revision, whose hash is Digest, were past their retention: see Anchor
	Pruning Kind = "pruning"
)

// Record is the content of one link. For a check: what spec section 2.4 lists and nothing else about the subject, with
// the reference, the key and the lineup that tie it to the rest.
type Record struct {
	Kind Kind
	// the time as the client saw it: hashed as text, so that no rounding in between can break the chain
	At        string
	Ref       string
	Account   string // who asked; empty for the host itself
	Key       string // with which key; empty on the no-key endpoint
	Type      string // of the entity
	Pseudonym []byte // of the entity, see Pseudonym
	Score     int
	Verdict   string
	Revision  int64  // of the lineup that decided, or that came into force; or the number of an anchor
	Digest    []byte // of the lineup, or of what was erased; or the hash of an anchor
}

// canonical is the one byte string of a record: a version, then every field in order, each led by its length.
func (r Record) canonical() []byte {
	b := make([]byte, 0, 256)
	field := func(s string) {
		b = binary.BigEndian.AppendUint32(b, uint32(len(s)))
		b = append(b, s...)
	}
	b = append(b, 1)
	field(string(r.Kind))
	field(r.At)
	field(r.Ref)
	field(r.Account)
	field(r.Key)
	field(r.Type)
	field(string(r.Pseudonym))
	b = binary.BigEndian.AppendUint64(b, uint64(int64(r.Score)))
	field(r.Verdict)
	b = binary.BigEndian.AppendUint64(b, uint64(r.Revision))
	field(string(r.Digest))
	return b
}

// blank says whether nothing is left of a record but what stands in place of its kind.
func (r Record) blank() bool { return bytes.Equal(r.canonical(), Record{Kind: r.Kind}.canonical()) }

// Leaf commits to a record under a nonce of NonceBytes.
func Leaf(nonce []byte, r Record) Hash {
	h := sha256.New()
	h.Write([]byte{0x00})
	h.Write(nonce)
	h.Write(r.canonical())
	return Hash(h.Sum(nil))
}

// Head is where a chain stands.
type Head struct {
	Chain int
	Seq   int64 // number of records so far
	Hash  Hash
}

// Genesis is the head of an empty chain.
func Genesis(chain int) Head {
	return Head{Chain: chain, Hash: sha256.Sum256(fmt.Appendf(nil, "assay audit chain %d, version 1", chain))}
}

// Next is the head after leaf has been appended.
func (h Head) Next(leaf Hash) Head {
	b := make([]byte, 0, 1+len(h.Hash)+4+8+len(leaf))
	b = append(b, 0x01)
	b = append(b, h.Hash[:]...)
	b = binary.BigEndian.AppendUint32(b, uint32(h.Chain))
	b = binary.BigEndian.AppendUint64(b, uint64(h.Seq+1))
	b = append(b, leaf[:]...)
	return Head{Chain: h.Chain, Seq: h.Seq + 1, Hash: sha256.Sum256(b)}
}

// Pseudonym is the keyed one-way name of an entity within one account: HMAC-SHA256 under key, which must be kept
// outside the database, over the account's salt, the entity's type and its normalised value. Without the key a phone
// number or an IBAN cannot be found by trying them all; without the salt two accounts' records of one entity cannot be
// joined.
func Pseudonym(key, salt []byte, entityType, value string) []byte {
	mac := hmac.New(sha256.New, key)
	var length [4]byte
	for _, s := range [][]byte{salt, []byte(entityType), []byte(value)} {
		binary.BigEndian.PutUint32(length[:], uint32(len(s)))
		mac.Write(length[:])
		mac.Write(s)
	}
	return mac.Sum(nil)
}
