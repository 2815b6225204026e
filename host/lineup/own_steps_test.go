package lineup

import (
	"context"
	"strings"
	"testing"

	"assay/host/store/postgres/postgrestest"
	"assay/registry"
	"assay/registry/activation"
	"assay/registry/expect"
)

// What hosts changed by themselves is listed as degraded, on each host and after a restart, until an operator activates
// something.
func TestOwnStepsAreDegraded(t *testing.T) {
	t.Parallel()
	database := postgrestest.Database(t)
	h := newHost(t, database)
	h.publish(t, module(t, "probe", "1.0.0", 10), module(t, "second", "1.0.0", 20), module(t, "third", "1.0.0", 5))
	base := h.storeLineup(t, lineupOf(-1, "probe@1.0.0", "second@1.0.0", "third@1.0.0"))
	trial := h.storeLineup(t, lineupOf(-3, "probe@1.0.0"))
	h.change(t, Proposal{Lineup: base, Canary: &activation.Canary{Lineup: trial, Share: 5}})
	degraded := func(h *host) string {
		t.Helper()
		h.follow(t, h.last(t).Lineup.Revision)
		return strings.Join(h.follower.Degraded(), "\n")
	}
	expect.Equal(t, "an operator's canary", degraded(h), "")

	expect.Value(h.steps().DemoteLayer(t.Context(), base.Revision, "second", "Second fails"))(t)
	const second = "layer second was moved to shadow by host test:1: Second fails"
	expect.Equal(t, "after a demotion", degraded(h), second)
	expect.Value(h.steps().WithdrawCanary(t.Context(), trial.Revision, "It flips"))(t)
	const canary = "the canary, revision 2, was withdrawn by host test:1: It flips"
	expect.Equal(t, "after a withdrawal", degraded(h), canary+"\n"+second)
	expect.Value(h.steps().DemoteLayer(t.Context(), h.last(t).Lineup.Revision, "third", "Third fails"))(t)
	const third = "layer third was moved to shadow by host test:1: Third fails"
	expect.Equal(t, "after another demotion", degraded(h), third+"\n"+canary+"\n"+second)
	expect.Equal(t, "on another host", degraded(newHost(t, database)), third+"\n"+canary+"\n"+second)

	// A start with newer built-in layers is no operator's decision.
	last := h.last(t)
	upgrade := Proposal{Base: last, Lineup: last.Lineup, Author: activation.BuiltIn, At: last.At}
	expect.NoError(t, h.store.Activate(t.Context(), expect.Value(upgrade.Sign(operator, trust))(t)))
	expect.Equal(t, "after an upgrade", degraded(h), third+"\n"+canary+"\n"+second)

	// Newer built-in layers can bring a layer back.
	mended := lineupOf(-1, "probe@1.0.0", "second@1.0.0", "third@1.0.0")
	mended.Layers[1].Mode = registry.ModeShadow
	upgrade.Base, upgrade.Lineup = h.last(t), h.storeLineup(t, mended)
	expect.NoError(t, h.store.Activate(t.Context(), expect.Value(upgrade.Sign(operator, trust))(t)))
	expect.Equal(t, "after an upgrade that mends a layer", degraded(h), canary+"\n"+second)

	h.change(t, Proposal{Lineup: h.last(t).Lineup})
	expect.Equal(t, "after an operator's activation", degraded(h), "")
}

// A host that cannot read what hosts changed says so, and goes on. It tries again.
func TestOwnStepsThatCannotBeRead(t *testing.T) {
	t.Parallel()
	h := newHost(t, postgrestest.Database(t))
	h.publish(t, module(t, "probe", "1.0.0", 10), module(t, "second", "1.0.0", 20))
	revision := h.activate(t, lineupOf(-1, "probe@1.0.0", "second@1.0.0"))
	h.follow(t, revision)
	expect.Value(h.steps().DemoteLayer(t.Context(), revision, "second", "It fails"))(t)
	records := h.follower.verifier.Records
	h.follower.retryDelay = 0
	h.follow(t, revision+1)
	h.follower.steps = ownSteps{}
	h.follower.verifier.Records = forgetful{records}
	h.follow(t, revision+1)
	expect.Equal(t, "degraded", strings.Join(h.follower.Degraded(), "\n"),
		"what hosts changed by themselves cannot be read: see the log")
	h.follower.verifier.Records = records
	h.follow(t, revision+1)
	expect.Equal(t, "degraded later", strings.Join(h.follower.Degraded(), "\n"),
		"layer second was moved to shadow by host test:1: It fails")
}

// forgetful are records without lineups.
type forgetful struct{ Records }

func (forgetful) LineupText(context.Context, int64) ([]byte, error) {
	return nil, registry.ErrNoRevision
}
