// Package receipt verifies receipts of checks without the service that issued them: that the service promised to add a
// check's record to the audit log, or that the record is there. docs/audit-format.md describes receipts.
package receipt

import (
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
	"golang.org/x/mod/sumdb/note"

	"assay/host/audit"
	"assay/host/audit/witness"
)

// Format is the format of receipts.
const Format = "assay-receipt-1"

// Receipt is the proof that a customer can show about a check.
type Receipt struct {
	Format     string `json:"format"`
	Record     Record `json:"record"`
	Activation Hex    `json:"activation,omitempty"` // the hash of the activation of the lineup that decided
	Promise    string `json:"promise"`              // see audit.Promise
	Proof      *Proof `json:"proof"`                // nil: promised, but not proved yet

	Keys []string `json:"keys,omitempty"` // the statements that introduce keys after the first, see audit.Statement
}

// Record is the content of a record of the audit log, and its nonce.
type Record struct {
	Nonce     Hex        `json:"nonce,omitempty"`
	Kind      audit.Kind `json:"kind"`
	At        string     `json:"at,omitempty"`
	Ref       string     `json:"ref,omitempty"`
	Account   string     `json:"account,omitempty"`
	Key       string     `json:"key,omitempty"`
	Type      string     `json:"type,omitempty"`
	Pseudonym Hex        `json:"pseudonym,omitempty"`
	Score     int        `json:"score,omitempty"`
	Verdict   string     `json:"verdict,omitempty"`
	Revision  int64      `json:"revision,omitempty"`
	Digest    Hex        `json:"digest,omitempty"`
}

// Proof is the proof that the record is in the tree of a checkpoint.
type Proof struct {
	Index      int64  `json:"index"`  // of the record's leaf
	Hashes     []byte `json:"hashes"` // RFC 6962, section 2.1.1; 32 bytes each, together in base 64
	Checkpoint string `json:"checkpoint"`
}

// Hex holds bytes that are encoded as lowercase hexadecimal in JSON.
type Hex []byte

// MarshalText implements encoding.TextMarshaler.
func (h Hex) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, h), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (h *Hex) UnmarshalText(text []byte) (err error) {
	if *h, err = hex.AppendDecode(nil, text); err == nil && hex.EncodeToString(*h) != string(text) {
		err = errors.New("upper-case hexadecimal")
	}
	return err
}

// NewRecord returns a record with its nonce. nonce is nil if it was erased.
func NewRecord(nonce []byte, r audit.Record) Record {
	return Record{Nonce: nonce, Kind: r.Kind, At: r.At, Ref: r.Ref, Account: r.Account, Key: r.Key, Type: r.Type,
		Pseudonym: r.Pseudonym, Score: r.Score, Verdict: r.Verdict, Revision: r.Revision, Digest: r.Digest}
}

// Content returns the record as the audit log hashes it.
func (r Record) Content() audit.Record {
	return audit.Record{Kind: r.Kind, At: r.At, Ref: r.Ref, Account: r.Account, Key: r.Key, Type: r.Type,
		Pseudonym: r.Pseudonym, Score: r.Score, Verdict: r.Verdict, Revision: r.Revision, Digest: r.Digest}
}

// Result is the statement that a valid receipt proves.
type Result struct {
	audit.Promise
	Size int64 // of the tree that contains the record; 0: the record is only promised
}

// ErrBroken means that the service did not keep its promise. The receipt and the checkpoint are the evidence.
var ErrBroken = errors.New("the promise was broken")

// Parse reads a receipt. A member that Verify does not verify, such as "Score" next to "score", is an error.
func Parse(text []byte) (*Receipt, error) {
	r := Receipt{Proof: &Proof{Index: -1}} // stays if the member is missing; null replaces it
	if err := json.Unmarshal(text, &r, json.RejectUnknownMembers(true)); err != nil {
		return nil, fmt.Errorf("reading receipt: %w", err)
	}
	if r.Format != Format {
		return nil, fmt.Errorf("reading receipt: its format is %q, not %q", r.Format, Format)
	}
	if r.Proof != nil && r.Proof.Index < 0 {
		return nil, errors.New("reading receipt: it lacks the proof, or the proof its index")
	}
	return &r, nil
}

// Verify verifies a receipt with the service's public key. It also checks that each witness has signed the checkpoint.
func (r *Receipt) Verify(key audit.Public, witnesses ...witness.Verifier) (Result, error) {
	fail := func(err error) (Result, error) { return Result{}, fmt.Errorf("verifying receipt: %w", err) }
	key, err := key.With(r.Keys)
	if err != nil {
		return fail(err)
	}
	promise, err := key.OpenPromise(r.Promise)
	if err != nil {
		return fail(err)
	}
	if len(r.Record.Nonce) != audit.NonceBytes || audit.Leaf(r.Record.Nonce, r.Record.Content()) != promise.Leaf {
		return fail(errors.New("the promise is about another record"))
	}
	result := Result{Promise: promise}
	at, err := time.Parse(time.RFC3339, r.Record.At)
	if err != nil || audit.Late(promise.Replaced, at) {
		return fail(errors.New("the key of the promise was replaced before the check"))
	}
	switch {
	case r.Proof == nil && len(witnesses) > 0:
		return fail(errors.New("it has no proof yet, so no witness has signed a checkpoint"))
	case r.Proof == nil:
		return result, nil
	}
	head, err := key.OpenSigned(r.Proof.Checkpoint)
	if err != nil {
		return fail(err)
	}
	if audit.Late(head.Replaced, at) {
		return fail(errors.New("the key of the checkpoint was replaced before the check"))
	}
	if head.Chain != promise.Chain || r.Proof.Index != promise.Index {
		return fail(errors.New("the proof is about another place in the log"))
	}
	proof, err := splitHashes(r.Proof.Hashes)
	if err == nil {
		err = audit.CheckInclusion(head.TreeHead, promise.Index, promise.Leaf, proof)
	}
	if err != nil {
		return fail(err)
	}
	for _, w := range witnesses {
		if _, err := note.Open([]byte(r.Proof.Checkpoint), note.VerifierList(w)); err != nil {
			return fail(fmt.Errorf("the checkpoint has no signature of the witness %s", w.Name()))
		}
	}
	result.Size = head.Size
	return result, nil
}

// Compare compares a receipt with a later checkpoint of the log, reading the log's public tiles. The error wraps
// ErrBroken if the log has another record in the promised place, or no record there after the promised time.
func (r *Receipt) Compare(key audit.Public, checkpoint string, read audit.ReadTiles, now time.Time) (Result, error) {
	fail := func(err error) (Result, error) { return Result{}, fmt.Errorf("comparing receipt: %w", err) }
	result, err := r.Verify(key)
	if err != nil {
		return result, err
	}
	if key, err = key.With(r.Keys); err != nil {
		return fail(err)
	}
	head, err := key.OpenTree(checkpoint)
	switch {
	case err != nil:
		return fail(err)
	case head.Chain != result.Chain:
		return fail(errors.New("the checkpoint is of another chain"))
	case head.Size <= result.Index && result.Size > 0:
		return fail(fmt.Errorf("%w: the log has %d leaves, but a signed tree of %d had the record", ErrBroken,
			head.Size, result.Size))
	case head.Size <= result.Index && now.After(result.Until):
		return fail(fmt.Errorf("%w: the log has %d leaves, and the record should be leaf %d since %s", ErrBroken,
			head.Size, result.Index, result.Until.Format(time.RFC3339)))
	case head.Size <= result.Index:
		return result, nil
	}
	proof, err := audit.ProveInclusion(head, result.Index, read) // verifies the tiles
	if err != nil {
		return fail(err)
	}
	if audit.CheckInclusion(head, result.Index, result.Leaf, proof) != nil {
		return fail(fmt.Errorf("%w: the log has another record as leaf %d", ErrBroken, result.Index))
	}
	result.Size = head.Size
	return result, nil
}

func splitHashes(joined []byte) ([]audit.Hash, error) {
	const n = len(audit.Hash{})
	if len(joined)%n != 0 {
		return nil, errors.New("the hashes of the proof are not 32 bytes each")
	}
	hashes := make([]audit.Hash, len(joined)/n)
	for i := range hashes {
		hashes[i] = audit.Hash(joined[i*n:])
	}
	return hashes, nil
}
