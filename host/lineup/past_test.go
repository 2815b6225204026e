package lineup

import (
	"context"
	"errors"
	"testing"

	"assay/host/check"
	"assay/host/entity"
	"assay/host/store/postgres/postgrestest"
	"assay/registry"
	"assay/registry/expect"
)

// A lineup that was in force can be opened again, one at a time, and leaves nothing open.
func TestPast(t *testing.T) {
	t.Parallel()
	h := newHost(t, postgrestest.Database(t))
	h.publish(t, module(t, "probe", "1.0.0", 10), module(t, "second", "1.0.0", 20))
	first := h.activate(t, lineupOf(-1, "probe@1.0.0", "second@1.0.0"))
	never := h.storeLineup(t, lineupOf(-3, "probe@1.0.0"))
	last := h.activate(t, lineupOf(-2, "probe@1.0.0"))
	h.follow(t, last)
	open := h.openPlugins()
	past := NewPast(h.follower)

	l, release, err := past.Open(t.Context(), first)
	expect.NoError(t, err)
	expect.That(t, l.Revision == first && len(l.Scoring(entity.Domain)) == 2 && l.Terms(entity.Domain).Bias == -1,
		"opened %+v", l)
	expect.Equal(t, "plugins open with the past", h.openPlugins(), open+1)
	o, _, err := l.Scoring(entity.Domain)[1].Run(t.Context(), entity.Domain, check.Input{})
	expect.NoError(t, err)
	expect.Equal(t, "score of a layer of the past", o.Score, 20)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, _, err = past.Open(ended, first)
	expect.Error(t, "a second one at the same time", err, context.Canceled)
	release()
	expect.Equal(t, "plugins open afterwards", h.openPlugins(), open)

	for _, revision := range []int64{never.Revision, 4711} {
		_, _, err = past.Open(t.Context(), revision)
		expect.That(t, errors.Is(err, registry.ErrNoRevision), "revision %d, which was never in force: %v", revision,
			err)
	}
	_, release, err = past.Open(t.Context(), last) // a failure leaves the turn to the next
	expect.NoError(t, err)
	release()
}
