// Package audit defines the tamper-evident audit log as an algorithm: how a record becomes a leaf, leaves become a hash
// chain, and chain heads become signed checkpoints. It stores nothing; package store does.
//
//	leaf_n = SHA-256(0x00 || nonce || canonical(record_n))
//	hash_n = SHA-256(0x01 || hash_{n-1} || chain || n || leaf_n)
//
// A record is erased by deleting its content and nonce. The leaf stays, so the chain still verifies, and without the
// nonce a guess at the content cannot be tested against the leaf. A later record of kind Erasure proves that the
// erasure was legitimate.
package audit

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"
)

// Hash is a SHA-256 value.
type Hash [sha256.Size]byte

// NonceBytes is the length of a record's nonce: long enough that a guess at a record cannot be confirmed by its leaf.
const NonceBytes = 16

// Kind is the subject of a record.
type Kind string

// The kinds of record.
const (
	Check      Kind = "check"      // a decision; if an override decided, Digest is its MAC
	Activation Kind = "activation" // the activation of lineup Revision with hash Digest
	Erasure    Kind = "erasure"    // the erasure of the records that Digest signs, see SignErasure
	Export     Kind = "export"     // the export of Pseudonym's data to the holder of Key
	// Override is the addition of an override, Verdict allow or block, or its removal, Verdict OverrideRemoved. Ref
	// names it, Digest is the MAC of its row, and Revision the time in Unix milliseconds at which it expires.
	Override Kind = "override"
	Pruning  Kind = "pruning" // the pruning of the records up to number Revision with hash Digest, see Anchor
	// State is a row that affects decisions, as it is stored after a change, in a chain of states. Type is the kind of
	// row, such as account, key or lineup, Key or Account is its ID, and Digest its SHA-256, or nil if it was removed.
	// Revision is the time in Unix milliseconds at which a key or an override ends or has ended, or 0.
	// docs/audit-format.md lists all types, and explains Verdict and Score.
	State Kind = "state"
	// Loss is the acceptance of a loss. Revision is the number of the last record that is known to have survived, 0 if
	// none is, and Digest the SHA-256 of the signed acceptance, see LossAcceptance.
	Loss Kind = "loss"
)

// StateChain is the number of the chain with the records of kind State about the installation. Records about accounts,
// with their keys and overrides, are in one more chain for each chain of checks: see StatesOf. These numbers are higher
// than those of chains of checks, so that their heads are locked last. Their records are not pruned, because they must
// stay as long as the rows that they cover.
const StateChain = 1_000_000

// StatesOf returns the number of the chain with the states of the accounts whose checks are in a chain.
func StatesOf(chain int) int { return StateChain + 1 + chain }

// OfStates reports whether a chain is a chain of states.
func OfStates(chain int) bool { return chain >= StateChain }

// Blank is the Kind of a record whose content was erased.
const Blank Kind = "erased"

// OverrideRemoved is the Verdict of the removal of an override, and follows its id and a hyphen in Ref.
const OverrideRemoved = "removed"

// Record is the content of one link. A check's record contains what contract section 2.4 lists and nothing else about
// the subject, plus its reference, key and lineup revision.
type Record struct {
	Kind      Kind
	At        string // the time as the client saw it, hashed as text so that rounding cannot break the chain
	Ref       string
	Account   string // the caller; empty for the host itself
	Key       string // the caller's key; empty on the no-key endpoint
	Type      string // of the entity
	Pseudonym []byte // of the entity, see Pseudonym
	Score     int
	Verdict   string
	Revision  int64  // of the lineup that decided or was activated, the number of an anchor, or an override's expiry
	Digest    []byte // of activation, lineup or anchor; the signature of an erasure; the MAC of an override, see Check
}

// canonical returns a record's unique encoding: a version, then every field in order, strings prefixed by their length.
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

// blank reports whether a record has no content but its kind.
func (r Record) blank() bool { return bytes.Equal(r.canonical(), Record{Kind: r.Kind}.canonical()) }

// Leaf returns the commitment to a record under a nonce of NonceBytes.
func Leaf(nonce []byte, r Record) Hash {
	h := sha256.New()
	h.Write([]byte{0x00})
	h.Write(nonce)
	h.Write(r.canonical())
	return Hash(h.Sum(nil))
}

// Head is the end of a chain.
type Head struct {
	Chain int
	Seq   int64 // number of records so far
	Hash  Hash
}

// Genesis returns the head of an empty chain.
func Genesis(chain int) Head {
	return Head{Chain: chain, Hash: sha256.Sum256(fmt.Appendf(nil, "assay audit chain %d, version 1", chain))}
}

// Next returns the head after appending leaf.
func (h Head) Next(leaf Hash) Head {
	b := make([]byte, 0, 1+len(h.Hash)+4+8+len(leaf))
	b = append(b, 0x01)
	b = append(b, h.Hash[:]...)
	b = binary.BigEndian.AppendUint32(b, uint32(h.Chain))
	b = binary.BigEndian.AppendUint64(b, uint64(h.Seq+1))
	b = append(b, leaf[:]...)
	return Head{Chain: h.Chain, Seq: h.Seq + 1, Hash: sha256.Sum256(b)}
}

// Pseudonym returns an entity's keyed one-way name within one account: HMAC-SHA256 over the account's salt, the
// entity's type and its normalised value. key must stay outside the database, or phone numbers and IBANs could be found
// by brute force. The salt keeps the records of two accounts from being joined.
func Pseudonym(key, salt []byte, entityType, value string) []byte {
	return NewPseudonyms(key).Of(salt, entityType, value)
}

// Pseudonyms computes many pseudonyms under one key faster than [Pseudonym]. It is not safe for concurrent use.
type Pseudonyms struct {
	mac  hash.Hash
	text []byte // reused
}

// NewPseudonyms returns a source of pseudonyms under a key.
func NewPseudonyms(key []byte) *Pseudonyms { return &Pseudonyms{mac: hmac.New(sha256.New, key)} }

// Of returns the same as [Pseudonym].
func (p *Pseudonyms) Of(salt []byte, entityType, value string) []byte {
	b := binary.BigEndian.AppendUint32(p.text[:0], uint32(len(salt)))
	b = append(b, salt...)
	for _, s := range [...]string{entityType, value} {
		b = binary.BigEndian.AppendUint32(b, uint32(len(s)))
		b = append(b, s...)
	}
	p.text = b
	p.mac.Reset()
	p.mac.Write(b)
	return p.mac.Sum(make([]byte, 0, sha256.Size))
}
