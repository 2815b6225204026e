package lineup

import (
	"context"
	"errors"
	"time"

	"assay/registry"
	"assay/registry/activation"
	"assay/registry/fault"
)

// Steps takes the steps that a host may take itself, signed with its own key (see activation.Permit): it ends a canary,
// or moves a layer to shadow. Several hosts may want the same step at once; one of them takes it, and the others find
// it taken.
type Steps struct {
	Verifier *Verifier
	Catalog  Catalog
	Key      func() (activation.Key, error) // with the role activation.Host in the trust file
	Author   string                         // such as "host web-1:8080"; see activation.Activation
	Now      func() time.Time
}

// WithdrawCanary ends the canary with the given revision, unless it has ended already. It returns the activation that
// ended it, whose number is 0 if there was nothing to do.
func (s *Steps) WithdrawCanary(ctx context.Context, revision int64, reason string) (activation.Signed, error) {
	signed, err := s.take(ctx, reason, func(inForce Verified) (step, error) {
		if inForce.Canary == nil || inForce.Canary.Revision != revision {
			return step{}, errTaken
		}
		return step{inForce.Document, nil}, nil
	})
	return signed, fault.Wrap(err, "withdrawing the canary, revision %d", revision)
}

// DemoteLayer moves a layer (its name) from live to shadow, unless a lineup other than revision is in force by now: the
// findings about a layer apply to its module and settings in that revision. A canary stays. DemoteLayer returns the
// activation, whose number is 0 if there was nothing to do. It fails if the layer is required.
func (s *Steps) DemoteLayer(ctx context.Context, revision int64, layer, reason string) (activation.Signed, error) {
	signed, err := s.take(ctx, reason, func(inForce Verified) (step, error) {
		if inForce.Lineup.Revision != revision {
			return step{}, errTaken
		}
		next, err := demoted(inForce.Document, layer)
		if err == nil && inForce.Trial != nil && next.Same(*inForce.Trial) {
			err = errors.New("the canary is the lineup with that layer in shadow: promote it, or stop it")
		}
		return step{next, inForce.Canary}, err
	})
	return signed, fault.Wrap(err, "moving layer %s to shadow", layer)
}

// demoted returns a lineup with a layer moved to shadow.
func demoted(l registry.LineupDocument, layer string) (registry.LineupDocument, error) {
	item := l.Layer(layer)
	switch {
	case item == nil || item.Runs() != registry.ModeLive:
		return l, errTaken
	case item.Required:
		return l, errors.New("it is required")
	}
	next := *item
	next.Mode = registry.ModeShadow
	return l.With(next), nil
}

// step is the state to put in force.
type step struct {
	document registry.LineupDocument
	canary   *activation.Canary
}

// errTaken means that there is nothing left to do.
var errTaken = errors.New("the step was taken already")

// take puts the step in force that next returns for the activation in force. It retries if another activation is
// faster.
func (s *Steps) take(
	ctx context.Context, reason string, next func(inForce Verified) (step, error),
) (signed activation.Signed, err error) {
	for range attempts {
		signed, err = s.try(ctx, reason, next)
		if !errors.Is(err, activation.ErrSuperseded) {
			break
		}
	}
	if errors.Is(err, errTaken) {
		return activation.Signed{}, nil
	}
	return signed, err
}

func (s *Steps) try(
	ctx context.Context, reason string, next func(inForce Verified) (step, error),
) (activation.Signed, error) {
	inForce, err := s.Verifier.Current(ctx)
	if err != nil {
		return activation.Signed{}, err
	}
	if inForce.Number == 0 {
		return activation.Signed{}, errTaken
	}
	to, err := next(inForce)
	if err != nil {
		return activation.Signed{}, err
	}
	p := Proposal{Base: inForce.Activation, Lineup: inForce.Lineup, Canary: to.canary, Author: s.Author, Reason: reason,
		At: s.Now()}
	if !to.document.Same(inForce.Document) {
		// Its origin keeps hosts of the previous release from replacing it with their built-in lineup.
		if p.Lineup, err = StoreLineup(ctx, s.Catalog, to.document, registry.OriginOperator); err != nil {
			return activation.Signed{}, err
		}
	}
	key, err := s.Key()
	if err != nil {
		return activation.Signed{}, err
	}
	signed, err := p.Sign(key, s.Verifier.Trust)
	if err != nil {
		return signed, err
	}
	// Every host would refuse a step that this key may not sign, and the database would hold it as the last one.
	from := activation.Step{Activation: inForce.Activation, Document: inForce.Document}
	err = activation.Permit(signed.Role, from, activation.Step{Activation: signed.Activation, Document: to.document})
	if err != nil {
		return signed, err
	}
	return signed, s.Catalog.Activate(ctx, signed)
}
