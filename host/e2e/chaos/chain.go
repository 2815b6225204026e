package chaos

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
)

// chain verifies a chain from its beginning to its head.
func (c *checker) chain(head Head) {
	hash := sha256.Sum256(fmt.Appendf(nil, "assay audit chain %d, version 1", head.Chain))
	erasures := map[int64]ErasedRecord{}
	for _, e := range c.state.Erased {
		if e.Chain == head.Chain {
			erasures[e.Seq] = e
			c.tombstones[string(e.Ref)] = true
		}
	}
	records := map[int64]*Record{}
	var seq int64
	for i := range c.state.Records {
		r := &c.state.Records[i]
		if r.Chain != head.Chain {
			continue
		}
		if seq++; r.Seq != seq {
			c.differ("chain %d has record %d in place %d", head.Chain, r.Seq, seq)
			return
		}
		e, erased := erasures[seq]
		switch {
		case r.Kind == "erased" && (!erased || !bytes.Equal(e.Leaf, r.Leaf) || e.Erasure <= seq):
			c.differ("record %d of chain %d is blank, and no erasure names it", seq, head.Chain)
		case r.Kind != "erased" && erased:
			c.differ("record %d of chain %d is not blank, although an erasure names it", seq, head.Chain)
		case r.Kind != "erased" && !bytes.Equal(r.Leaf, r.leaf()):
			c.differ("record %d of chain %d (%s) does not have the content of its leaf", seq, head.Chain, r.Ref)
		}
		records[seq] = r
		hash = link(hash, head.Chain, seq, r.Leaf)
		if !bytes.Equal(r.Hash, hash[:]) {
			c.differ("chain %d breaks at record %d", head.Chain, seq)
			return
		}
	}
	if head.Seq != seq || !bytes.Equal(head.Hash, hash[:]) {
		c.differ("the head of chain %d is %d, and its last record %d", head.Chain, head.Seq, seq)
	}
	for _, e := range erasures {
		by := records[e.Erasure]
		if records[e.Seq] == nil || by == nil || by.Kind != "erasure" {
			c.differ("record %d of chain %d was erased by %d, which is not an erasure", e.Seq, head.Chain, e.Erasure)
		}
	}
}

// link returns the hash of a record from that of the record before.
func link(hash [sha256.Size]byte, chain int, seq int64, leaf []byte) [sha256.Size]byte {
	text := append([]byte{1}, hash[:]...)
	text = binary.BigEndian.AppendUint32(text, uint32(chain))
	text = binary.BigEndian.AppendUint64(text, uint64(seq))
	return sha256.Sum256(append(text, leaf...))
}

// leaf returns the hash of a record's content.
func (r *Record) leaf() []byte {
	text := append(append([]byte{0}, r.Nonce...), 1)
	field := func(s string) {
		text = append(binary.BigEndian.AppendUint32(text, uint32(len(s))), s...)
	}
	for _, s := range []string{r.Kind, r.At, r.Ref, r.Account, r.Key, r.Type, string(r.Pseudonym)} {
		field(s)
	}
	text = binary.BigEndian.AppendUint64(text, uint64(r.Score))
	field(r.Verdict)
	text = binary.BigEndian.AppendUint64(text, uint64(r.Revision))
	field(string(r.Digest))
	sum := sha256.Sum256(text)
	return sum[:]
}
