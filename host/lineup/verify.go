package lineup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"assay/registry"
	"assay/registry/activation"
	"assay/registry/fault"
)

// Records provides stored activations and lineups. Nothing that it returns is trusted before a Verifier has verified
// it.
type Records interface {
	// LastActivation returns the signed activation that was stored last as a signed note, "" if none is signed. ok is
	// false before the first.
	LastActivation(ctx context.Context) (signed string, ok bool, err error)
	// Activation fails with activation.ErrNone.
	Activation(ctx context.Context, hash registry.Digest) (signed string, err error)
	// LineupText returns the canonical text of a revision. It fails with registry.ErrNoRevision.
	LineupText(ctx context.Context, revision int64) (canonical []byte, err error)
}

// Verifier decides which activations a host may run: those that are signed by a trusted key with the right to do so,
// and are newer than the last one that the host ran.
type Verifier struct {
	Records Records
	Trust   activation.Trust
	Memory  *Memory
}

// Verified is an activation that may run, with its lineups.
type Verified struct {
	activation.Signed
	Document registry.LineupDocument
	Trial    *registry.LineupDocument // of the canary; nil if there is none
	Began    int64                    // number of the activation that started the canary
}

// Layers returns the layers of the lineup and of its canary.
func (a Verified) Layers() []registry.LineupLayer {
	if a.Trial == nil {
		return a.Document.Layers
	}
	return slices.Concat(a.Document.Layers, a.Trial.Layers)
}

// Current returns the signed activation that was stored last; it has the number 0 before the first.
func (v *Verifier) Current(ctx context.Context) (Verified, error) {
	signed, _, err := v.Records.LastActivation(ctx)
	if err != nil || signed == "" {
		return Verified{}, err
	}
	return v.Verify(ctx, signed)
}

// Verify reads a signed activation and its lineups. The error says why a host must not run it.
func (v *Verifier) Verify(ctx context.Context, signed string) (Verified, error) {
	s, err := v.Trust.Open(signed)
	if err != nil {
		return Verified{}, err
	}
	return v.verify(ctx, s)
}

// VerifyCandidate is like Verify for an activation that this host should prepare, see activation.SignCandidate. It must
// name no plugin that the trust file revokes.
func (v *Verifier) VerifyCandidate(ctx context.Context, signed string) (Verified, error) {
	s, err := v.Trust.OpenCandidate(signed)
	if err != nil {
		return Verified{}, err
	}
	verified, err := v.verify(ctx, s)
	return verified, cmp.Or(err, v.refuseRevoked(verified.Layers()))
}

// refuseRevoked fails if the trust file revokes the plugin of one of the layers.
func (v *Verifier) refuseRevoked(layers []registry.LineupLayer) error {
	if revoked := v.revoked(layers); len(revoked) > 0 {
		return registry.Refuse(registry.RevokedPlugin, "the trust file revokes %s", strings.Join(revoked, ", "))
	}
	return nil
}

// revoked names the layers whose plugins the trust file revokes. A layer in force keeps scoring until an operator takes
// it out: a mistake in a file must not stop all checks.
func (v *Verifier) revoked(layers []registry.LineupLayer) (names []string) {
	for _, layer := range layers {
		if digest, ok := layer.ModuleDigest(); ok && v.Trust.Revoked(digest) && !slices.Contains(names, layer.Layer) {
			names = append(names, layer.Layer)
		}
	}
	return names
}

func (v *Verifier) verify(ctx context.Context, s activation.Signed) (verified Verified, err error) {
	verified = Verified{Signed: s}
	if err := v.checkPlace(ctx, s); err != nil {
		return Verified{}, fmt.Errorf("verifying activation %d: %w", s.Number, err)
	}
	if verified.Document, err = v.Document(ctx, s.Lineup); err != nil {
		return Verified{}, fmt.Errorf("verifying activation %d: %w", s.Number, err)
	}
	if s.Canary != nil {
		trial, err := v.Document(ctx, s.Canary.Lineup)
		if err != nil {
			return Verified{}, fmt.Errorf("verifying activation %d: canary: %w", s.Number, err)
		}
		verified.Trial, verified.Began = &trial, v.began(ctx, s.Activation)
	}
	return verified, nil
}

// began returns the number of the activation that started the canary of a, as far back as they can be read: a canary
// that starts again after its end is another one.
func (v *Verifier) began(ctx context.Context, a activation.Activation) int64 {
	for later := a; ; {
		_, earlier, err := v.Before(ctx, later)
		if err != nil || earlier.Canary == nil || earlier.Canary.Lineup != a.Canary.Lineup {
			return later.Number
		}
		later = earlier
	}
}

// Document reads a lineup by its revision, and verifies its hash.
func (v *Verifier) Document(ctx context.Context, l activation.Lineup) (registry.LineupDocument, error) {
	text, err := v.Records.LineupText(ctx, l.Revision)
	if err != nil {
		return registry.LineupDocument{}, err
	}
	document, err := registry.OpenLineup(text, l.Hash)
	return document, fault.Wrap(err, "revision %d", l.Revision)
}

// checkPlace verifies that an activation is later than the one that this host ran, and that its key may sign the step
// from the previous one.
//
// An operator's signature is enough for any step forward, even one that skips activations that this host ran, so that
// an operator can continue after restoring a backup. Activations signed by a host's key must follow, step by step, from
// one that an operator signed or this host ran; otherwise that key could bring back an early lineup.
func (v *Verifier) checkPlace(ctx context.Context, s activation.Signed) error {
	number, hash := v.Memory.Last()
	if s.Number == number && s.Hash == hash {
		return nil
	}
	if s.Number <= number {
		return fmt.Errorf("its number is not above %d, which this host ran", number)
	}
	if s.Role == activation.Operator {
		if s.Previous == (registry.Digest{}) || s.Previous == hash { // this host ran the previous one
			return nil
		}
		_, _, err := v.Before(ctx, s.Activation)
		return err
	}
	for later := s; ; {
		if later.Previous == (registry.Digest{}) {
			return errors.New("a host's key may not sign the first activation")
		}
		signed, _, err := v.Before(ctx, later.Activation)
		if err != nil {
			return err
		}
		earlier, err := v.Trust.Open(signed)
		if err != nil {
			return fmt.Errorf("the activation before: %w", err)
		}
		if err := v.permit(ctx, earlier.Activation, later); err != nil {
			return err
		}
		switch {
		case earlier.Hash == hash:
			return nil
		case earlier.Number <= number:
			return fmt.Errorf("a host's key signed it after activation %d, but this host ran activation %d",
				earlier.Number, number)
		case earlier.Role == activation.Operator:
			return nil
		}
		later = earlier
	}
}

// Before returns the activation before a, with its signed note. The signature is not verified.
func (v *Verifier) Before(ctx context.Context, a activation.Activation) (
	signed string, earlier activation.Activation, err error) {
	signed, err = v.Records.Activation(ctx, a.Previous)
	if errors.Is(err, activation.ErrNone) {
		return "", earlier, fmt.Errorf("the chain of activations is broken: %s, the predecessor of %d, is missing",
			a.Previous, a.Number)
	}
	if err != nil {
		return "", earlier, err
	}
	earlier, err = activation.Unverified(signed)
	if err != nil {
		return "", earlier, fmt.Errorf("the chain of activations is broken before %d: %w", a.Number, err)
	}
	if earlier.Hash() != a.Previous || earlier.Number >= a.Number {
		return "", earlier, fmt.Errorf("the chain of activations is broken: the predecessor of %d was altered",
			a.Number)
	}
	return signed, earlier, nil
}

// permit reports an error unless the key that signed later may sign the step to it.
func (v *Verifier) permit(ctx context.Context, earlier activation.Activation, later activation.Signed) error {
	from, to := activation.Step{Activation: earlier}, activation.Step{Activation: later.Activation}
	var err error
	if from.Document, err = v.Document(ctx, earlier.Lineup); err != nil {
		return err
	}
	if to.Document, err = v.Document(ctx, later.Lineup); err != nil {
		return err
	}
	err = activation.Permit(later.Role, from, to)
	if err != nil && later.Role == activation.Former {
		err = fmt.Errorf("%w: give key %s its role back until `assay lineup set` has signed anew", err, later.Key)
	}
	return err
}

// Earlier returns an earlier lineup or canary, by its revision, as it was signed. It fails with registry.ErrNoRevision.
func (v *Verifier) Earlier(ctx context.Context, inForce activation.Activation, revision int64) (
	activation.Lineup, registry.LineupDocument, error) {
	for a := inForce; ; {
		if a.Lineup.Revision == revision {
			document, err := v.Document(ctx, a.Lineup)
			return a.Lineup, document, err
		}
		if a.Canary != nil && a.Canary.Revision == revision {
			document, err := v.Document(ctx, a.Canary.Lineup)
			return a.Canary.Lineup, document, err
		}
		if a.Previous == (registry.Digest{}) {
			return activation.Lineup{}, registry.LineupDocument{}, registry.ErrNoRevision
		}
		var err error
		if _, a, err = v.Before(ctx, a); err != nil {
			return activation.Lineup{}, registry.LineupDocument{}, err
		}
	}
}

// Ran reports whether a layer's module is or was in force as that version, as far back as the signed chain leads.
func (v *Verifier) Ran(ctx context.Context, layer registry.LineupLayer) (ran bool, err error) {
	inForce, err := v.Current(ctx)
	for a := inForce.Activation; err == nil && !ran && a.Number > 0; {
		lineups := []activation.Lineup{a.Lineup}
		if a.Canary != nil {
			lineups = append(lineups, a.Canary.Lineup)
		}
		for _, l := range lineups {
			document, failure := v.Document(ctx, l)
			err = cmp.Or(err, failure)
			ran = ran || slices.ContainsFunc(document.Layers, layer.SameVersion)
		}
		if a.Previous == (registry.Digest{}) {
			break
		}
		if err == nil {
			_, a, err = v.Before(ctx, a)
		}
	}
	return ran, err
}

// Proposal is a proposed change of the lineup or the canary in force.
type Proposal struct {
	Base   activation.Activation // in force; the zero value if nothing is signed yet
	Lineup activation.Lineup     // see StoreLineup
	Canary *activation.Canary
	Author string
	Reason string
	At     time.Time
	// Above is the number of an activation that hosts ran but the database no longer has, if it is higher than Base's.
	Above int64
}

// Activation returns the activation that makes the change.
func (p Proposal) Activation() activation.Activation {
	a := activation.Activation{Number: max(p.Base.Number, p.Above) + 1, Lineup: p.Lineup, Canary: p.Canary,
		Author: p.Author, Reason: p.Reason, At: p.At.UTC().Truncate(time.Millisecond)}
	if p.Base.Number != 0 {
		a.Previous = p.Base.Hash()
	}
	return a
}

// Sign returns the activation that makes the change, signed with a key that trust lists.
func (p Proposal) Sign(key activation.Key, trust activation.Trust) (activation.Signed, error) {
	note, err := activation.Sign(p.Activation(), key)
	if err != nil {
		return activation.Signed{}, err
	}
	return trust.Open(note)
}

// StoreLineup stores a lineup whose layers have digests, see Pin, and returns its description for an activation.
func StoreLineup(ctx context.Context, lineups Store, l registry.LineupDocument, origin registry.LineupOrigin) (
	activation.Lineup, error) {
	text, err := l.Canonical()
	if err != nil {
		return activation.Lineup{}, fmt.Errorf("storing lineup: %w", err)
	}
	stored := activation.Lineup{Hash: registry.LineupHash(text)}
	if _, err := registry.OpenLineup(text, stored.Hash); err != nil {
		return activation.Lineup{}, fmt.Errorf("storing lineup: %w", err)
	}
	stored.Revision, err = lineups.StoreLineup(ctx, text, origin)
	return stored, err
}

// Pin adds digests to layers that have none: that of base if it has the same version, otherwise the published one. The
// error joins those of the layers that it cannot find.
func Pin(ctx context.Context, source Source, l, base registry.LineupDocument) (registry.LineupDocument, error) {
	digests := map[string]string{}
	for _, item := range base.Layers {
		digests[item.Layer] = item.Digest
	}
	layers := make([]registry.LineupLayer, len(l.Layers))
	var errs []error
	for i, item := range l.Layers {
		item.Digest = cmp.Or(item.Digest, digests[item.Layer])
		if item.Digest == "" {
			name, version, _ := item.Ref()
			published, err := source.Plugin(ctx, name, version)
			if err == nil {
				item.Digest = published.Digest.String()
			}
			errs = append(errs, err)
		}
		layers[i] = item
	}
	l.Layers = layers
	return l, errors.Join(errs...)
}
