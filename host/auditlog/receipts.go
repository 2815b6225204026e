package auditlog

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"assay/host/audit"
	"assay/host/check"
	"assay/host/store"
	"assay/registry/fault"
	"assay/sdk/receipt"
)

// promised is the maximum time until a check's record is in a signed tree. Hosts take seconds; the rest is for repairs.
const promised = 24 * time.Hour

// Receipts issues receipts of recorded checks.
type Receipts struct {
	Store  *store.Store
	Signer *audit.Signer
}

// Receipt returns a check's receipt as JSON, see receipt.Receipt. Without prove it has no proof, and is the same each
// time. proved reports whether it has a proof: there is none until a checkpoint covers the record, which takes seconds.
// It fails with feedback.ErrUnknownCheck, check.ErrUnauthorized or a *check.UnavailableError.
func (r Receipts) Receipt(ctx context.Context, c check.Caller, ref string, prove bool) (text json.RawMessage,
	proved bool, err error) {
	found, err := r.Store.CheckRecord(ctx, c, ref)
	if err != nil {
		return nil, false, err
	}
	made := receipt.Receipt{Format: receipt.Format, Record: receipt.NewRecord(found.Nonce, found.Record),
		Activation: found.Activation, Keys: r.Signer.Statements()}
	if found.First == 0 {
		return nil, false, &check.UnavailableError{Part: "audit log"} // a host will begin the tree soon
	}
	at, err := time.Parse(check.TimeFormat, found.Record.At)
	if err != nil {
		return nil, false, fmt.Errorf("issuing receipt of %s: %w", ref, err)
	}
	index := found.Seq - found.First
	made.Promise, err = r.Signer.SignPromise(audit.Promise{Chain: found.Chain, Index: index, Leaf: found.Leaf,
		Until: at.Add(promised).Truncate(time.Second)})
	if err == nil && prove {
		made.Proof, err = r.prove(ctx, found.Chain, index)
	}
	if err == nil {
		text, err = json.Marshal(made)
	}
	return text, made.Proof != nil, fault.Wrap(err, "issuing receipt of %s", ref)
}

// prove returns the proof that a leaf is in the tree of a checkpoint: the newest that a witness has signed, or else the
// newest. It returns nil if no checkpoint covers the leaf yet.
func (r Receipts) prove(ctx context.Context, chain int, index int64) (*receipt.Proof, error) {
	signed, err := r.Store.NewestCosigned(ctx, chain, index+1)
	if err == nil && signed == "" {
		signed, err = r.Store.NewestCheckpoint(ctx, chain)
	}
	if err != nil || signed == "" {
		return nil, err
	}
	head, err := r.Signer.OpenTree(signed)
	if err != nil || head.Size <= index {
		return nil, err
	}
	hashes, err := audit.ProveInclusion(head, index, reading(ctx, r.Store, chain))
	if err != nil {
		return nil, err
	}
	proof := &receipt.Proof{Index: index, Checkpoint: signed, Hashes: []byte{}}
	for _, h := range hashes {
		proof.Hashes = append(proof.Hashes, h[:]...)
	}
	return proof, nil
}
