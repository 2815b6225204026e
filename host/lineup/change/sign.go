package change

import (
	"context"
	"errors"
	"strings"
	"time"

	"assay/host/lineup"
	"assay/host/lineup/fleet"
	"assay/registry/activation"
)

// ErrNoKey means that the operator's key cannot be read.
var ErrNoKey = errors.New("the operator's key is needed to change the lineup")

// Complete returns the activation of a proposal, which begins now and has the operator as its author.
func (o *Operator) Complete(p lineup.Proposal) activation.Activation {
	remembered, _ := o.Memory.Last()
	p.Author, p.At, p.Above = o.Author, time.Now(), max(p.Above, remembered)
	p.Reason = strings.TrimSpace(p.Reason)
	return p.Activation()
}

// Candidate signs an activation for hosts to prepare, which verify it as if it were in force already. It fails if they
// would refuse it.
func (o *Operator) Candidate(ctx context.Context, next activation.Activation) (fleet.Candidate, error) {
	if o.Key == nil {
		return fleet.Candidate{}, ErrNoKey
	}
	signed, err := activation.SignCandidate(next, o.Key)
	if err == nil {
		_, err = o.VerifyCandidate(ctx, signed) // detects mistakes even if no host is alive
	}
	return fleet.Candidate{Signed: signed}, err
}

// Commit signs an activation and puts it in force.
func (o *Operator) Commit(ctx context.Context, next activation.Activation) (activation.Signed, error) {
	if o.Key == nil {
		return activation.Signed{}, ErrNoKey
	}
	note, err := activation.Sign(next, o.Key)
	if err != nil {
		return activation.Signed{}, err
	}
	signed, err := o.Trust.Open(note)
	if err != nil {
		return signed, err
	}
	if err = o.Storage.Activate(ctx, signed); err != nil {
		if _, missing := o.Records.Activation(ctx, signed.Hash); missing == nil { // only the reply was lost
			err = nil
		}
	}
	return signed, err
}

// Activate puts the activation of a proposal in force at once, without hosts that prepare it.
func (o *Operator) Activate(ctx context.Context, p lineup.Proposal) (activation.Signed, error) {
	next := o.Complete(p)
	if _, err := o.Candidate(ctx, next); err != nil {
		return activation.Signed{}, err
	}
	return o.Commit(ctx, next)
}
