package lineup

import (
	"context"
	"errors"
	"fmt"
	"time"

	"assay/registry"
	"assay/registry/activation"
)

// ownSteps are the steps that hosts have taken themselves since an operator's last activation and that are still in
// force.
type ownSteps struct {
	of        registry.Digest // hash of the activation in force
	sentences []string
	retry     time.Time // if they could not be read
}

// noteSteps finds the hosts' steps that led to the activation in force, unless they are known.
func (f *Follower) noteSteps(ctx context.Context) {
	f.mu.Lock()
	a, known := f.inForce, f.steps
	f.mu.Unlock()
	if a.Number == 0 || known.of == a.Hash && (known.retry.IsZero() || time.Now().Before(known.retry)) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, verifyTimeout)
	defer cancel()
	steps := ownSteps{of: a.Hash}
	var err error
	if steps.sentences, err = f.verifier.ownSteps(ctx, a); err != nil {
		if ctx.Err() == nil {
			f.log.Warn("reading what hosts changed failed", "error", err)
		}
		steps.retry = time.Now().Add(f.retryDelay)
		steps.sentences = append(steps.sentences, "what hosts changed by themselves cannot be read: see the log")
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.steps = steps
}

// ownSteps returns a sentence for each step that hosts took since an operator's last activation and that is still in
// force, the last one first. An activation of newer built-in layers counts as a host's step, although an operator's key
// signs it.
func (v *Verifier) ownSteps(ctx context.Context, inForce Verified) (sentences []string, err error) {
	later := inForce.Signed
	for later.Role == activation.Host || later.Author == activation.BuiltIn {
		if later.Previous == (registry.Digest{}) {
			return sentences, nil
		}
		text, _, err := v.Before(ctx, later.Activation)
		if err != nil {
			return sentences, err
		}
		earlier, err := v.Trust.Open(text)
		if err != nil {
			return sentences, fmt.Errorf("the activation before %d: %w", later.Number, err)
		}
		if later.Role == activation.Host {
			what, err := v.step(ctx, earlier.Activation, later.Activation, inForce)
			if err != nil {
				return sentences, err
			}
			if what != "" {
				sentences = append(sentences, fmt.Sprintf("%s by %s: %s", what, later.Author, later.Reason))
			}
		}
		later = earlier
	}
	return sentences, nil
}

// step describes a host's step, or returns "" if it is no longer in force.
func (v *Verifier) step(ctx context.Context, earlier, later activation.Activation, inForce Verified) (string, error) {
	if earlier.Lineup == later.Lineup {
		if earlier.Canary == nil || inForce.Canary != nil {
			return "", nil
		}
		return fmt.Sprintf("the canary, revision %d, was withdrawn", earlier.Canary.Revision), nil
	}
	before, err := v.Document(ctx, earlier.Lineup)
	if err != nil {
		return "", err
	}
	after, err := v.Document(ctx, later.Lineup)
	if err != nil {
		return "", err
	}
	for _, layer := range before.Layers {
		name, _, _ := layer.Ref()
		if layer.Runs() == registry.ModeLive && isShadow(after, name) {
			if isShadow(inForce.Document, name) {
				return fmt.Sprintf("layer %s was moved to shadow", name), nil
			}
			return "", nil
		}
	}
	return "", errors.New("a host's step moved no layer to shadow")
}

// isShadow reports whether a layer (its name) is in shadow in a lineup.
func isShadow(l registry.LineupDocument, name string) bool {
	layer := l.Layer(name)
	return layer != nil && layer.Runs() == registry.ModeShadow
}
