package change

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"assay/host/lineup"
	"assay/registry"
	"assay/registry/activation"
)

// ConflictError means that the activation in force is not the one from which a change derives.
type ConflictError struct {
	InForce   activation.Activation
	Meanwhile bool // it was activated after the change began
	// Unknown means that the database lacks the activation from which the change derives, so that the differences are
	// not known.
	Unknown bool
	Theirs  []registry.Change // made by the lineup in force
	Own     []registry.Change // made by the change
}

func (e *ConflictError) Error() string {
	if e.Meanwhile {
		return fmt.Sprintf("nothing was changed: %v: %d by %s", activation.ErrSuperseded, e.InForce.Number,
			e.InForce.Author)
	}
	return fmt.Sprintf("the file derives from another activation than %d, which is in force", e.InForce.Number)
}

// Unwrap returns activation.ErrSuperseded.
func (e *ConflictError) Unwrap() error { return activation.ErrSuperseded }

// CheckBase fails with a *ConflictError if a lineup names a base other than the activation in force.
func (o *Operator) CheckBase(ctx context.Context, l registry.LineupDocument, inForce lineup.Verified) error {
	if l.Base == "" {
		return o.observe(Event{NoBase: inForce.Number})
	}
	if l.Base == inForce.Hash.String() {
		return nil
	}
	hash, err := registry.ParseDigest(l.Base)
	if err != nil {
		return fmt.Errorf("reading the file's base: %w", err)
	}
	signed, err := o.Records.Activation(ctx, hash)
	if errors.Is(err, activation.ErrNone) {
		return &ConflictError{InForce: inForce.Activation, Unknown: true}
	}
	if err != nil {
		return err
	}
	s, err := o.Trust.Open(signed)
	if err != nil {
		return err
	}
	from, err := o.Document(ctx, s.Lineup)
	if err != nil {
		return err
	}
	return conflict(inForce, from, l)
}

// unchanged explains why a lineup that derives from base was not put in force. If another operator was faster, that is
// the reason, regardless of the hosts' answers.
func (o *Operator) unchanged(ctx context.Context, base lineup.Verified, next registry.LineupDocument,
	reason error) error {
	now, err := o.Current(ctx)
	if err != nil || now.Hash == base.Hash {
		return errors.Join(err, stays(base, reason))
	}
	c := conflict(now, base.Document, next)
	c.Meanwhile = true
	return c
}

// stays adds the revision that stays in force to the reason why nothing was changed.
func stays(base lineup.Verified, reason error) error {
	return fmt.Errorf("nothing was changed, revision %d stays in force: %w", base.Lineup.Revision, reason)
}

// conflict returns how the lineup in force and another one differ from the lineup from which both derive.
func conflict(inForce lineup.Verified, from, own registry.LineupDocument) *ConflictError {
	changes := func(to registry.LineupDocument) []registry.Change {
		to.Layers = slices.Clone(to.Layers)
		for i, item := range to.Layers { // a layer without a digest keeps that of its version
			for _, before := range from.Layers {
				if item.Layer == before.Layer && item.Digest == "" {
					to.Layers[i].Digest = before.Digest
				}
			}
		}
		return registry.Diff(from, to, nil)
	}
	return &ConflictError{InForce: inForce.Activation, Theirs: changes(inForce.Document), Own: changes(own)}
}
