package change

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"assay/host/lineup"
	"assay/host/lineup/fleet"
	"assay/registry"
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

// Candidate signs an activation for hosts to prepare. They verify it as if it were in force already. Candidate fails if
// they would refuse it.
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

// Activate puts the activation of a proposal in force at once, without hosts preparing it first.
func (o *Operator) Activate(ctx context.Context, p lineup.Proposal) (activation.Signed, error) {
	next := o.Complete(p)
	if _, err := o.Candidate(ctx, next); err != nil {
		return activation.Signed{}, err
	}
	return o.Commit(ctx, next)
}

// atOnce puts a proposal in force unprepared: every host has its lineup open already, or must have it at once.
func (o *Operator) atOnce(ctx context.Context, p lineup.Proposal) (Activated, error) {
	signed, err := o.Activate(ctx, p)
	if err != nil {
		return Activated{}, err
	}
	return o.await(ctx, o.rollout(), signed.Activation)
}

// warnOfCanary warns that a proposal ends or replaces the canary in force.
func (o *Operator) warnOfCanary(p lineup.Proposal) {
	if p.Base.Canary != nil && (p.Canary == nil || p.Canary.Lineup != p.Base.Canary.Lineup) {
		_ = o.observe(Event{EndsCanary: p.Base.Canary.Revision})
	}
}

// Errors of changes of a canary.
var (
	ErrNoCanary   = errors.New("there is no canary")
	ErrNoEvidence = errors.New("no host has compared a check that the canary scored")
)

// Promote makes the canary in force the lineup for all accounts. Unless it is forced, at least one host must have
// reported the canary's effect.
func (o *Operator) Promote(ctx context.Context, base activation.Activation, forced bool, reason string) (
	Activated, error) {
	if base.Canary == nil {
		return Activated{}, ErrNoCanary
	}
	hosts, err := o.Storage.Hosts(ctx)
	if err != nil {
		return Activated{}, err
	}
	if !forced && !slices.ContainsFunc(hosts, func(h fleet.Host) bool {
		return h.Activation == base.Number && h.Canary != ""
	}) {
		return Activated{}, ErrNoEvidence
	}
	return o.atOnce(ctx, lineup.Proposal{Base: base, Lineup: base.Canary.Lineup, Reason: reason})
}

// CanaryChange is a change of the canary in force that keeps its lineup.
type CanaryChange struct {
	End   bool
	Share int               // 0: unchanged
	Limit *activation.Limit // nil: unchanged
}

// of returns a canary with the change applied, or nil if the change ends it.
func (c CanaryChange) of(canary activation.Canary) *activation.Canary {
	if c.End {
		return nil
	}
	canary.Share = cmp.Or(c.Share, canary.Share)
	if c.Limit != nil {
		canary.Limit = *c.Limit
	}
	return &canary
}

// ChangeCanary changes or ends the canary in force.
func (o *Operator) ChangeCanary(ctx context.Context, base activation.Activation, c CanaryChange, reason string) (
	Activated, error) {
	if base.Canary == nil {
		return Activated{}, ErrNoCanary
	}
	return o.atOnce(ctx, lineup.Proposal{Base: base, Lineup: base.Lineup, Canary: c.of(*base.Canary), Reason: reason})
}

// Rollback puts a revision in force that was in force before; 0 means the one before the lineup in force. It is neither
// tried nor judged, because it must be available at once in an emergency.
func (o *Operator) Rollback(ctx context.Context, base activation.Activation, revision int64, reason string) (
	Activated, error) {
	target, err := o.earlierLineup(ctx, base, revision)
	if err != nil {
		return Activated{}, err
	}
	p := lineup.Proposal{Base: base, Lineup: target, Reason: reason}
	o.warnOfCanary(p)
	return o.atOnce(ctx, p)
}

// earlierLineup returns the lineup of a revision that was in force for all accounts; 0: the one before the lineup in
// force.
func (o *Operator) earlierLineup(ctx context.Context, inForce activation.Activation, revision int64) (
	activation.Lineup, error) {
	err := fmt.Errorf("reading lineup: %w", registry.ErrNoRevision)
	if revision == 0 {
		err = errors.New("there is no earlier lineup")
	}
	for a := inForce; ; {
		switch {
		case a.Lineup.Revision == revision || revision == 0 && a.Lineup != inForce.Lineup:
			return a.Lineup, nil
		case a.Canary != nil && a.Canary.Revision == revision:
			err = fmt.Errorf("revision %d was only a canary: `assay lineup set` puts it in force", revision)
		}
		if a.Previous == (registry.Digest{}) {
			return activation.Lineup{}, err
		}
		var broken error
		if _, a, broken = o.Before(ctx, a); broken != nil {
			return activation.Lineup{}, broken
		}
	}
}

// CanaryWithout stores the lineup of the canary in force without a layer, and returns the canary with it. It returns
// nil if there is no canary, or it would not differ from the lineup in force without that layer.
func (o *Operator) CanaryWithout(ctx context.Context, base lineup.Verified, layer string) (*activation.Canary, error) {
	if base.Trial == nil || base.Document.Without(layer).Same(base.Trial.Without(layer)) {
		return nil, nil
	}
	l := base.Trial.Without(layer)
	plugins, err := lineup.Manifests(ctx, o.Storage)
	if err != nil {
		return nil, err
	}
	if err := l.CheckFitness(l.ManifestsOf(plugins)); err != nil {
		return nil, fmt.Errorf("the canary, revision %d, without %s: %w", base.Canary.Revision, layer, err)
	}
	canary := *base.Canary
	canary.Lineup, err = lineup.StoreLineup(ctx, o.Storage, l, registry.OriginOperator)
	return &canary, err
}
