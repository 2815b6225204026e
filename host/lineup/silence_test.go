package lineup

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"assay/host/lineup/fleet"
	"assay/host/store/postgres/postgrestest"
	"assay/host/store/storetest"
	"assay/registry"
	"assay/registry/expect"
)

// A poll whose connection is cut off silently gives up, and a host follows again.
func TestFollowerSurvivesASilentCut(t *testing.T) {
	t.Parallel()
	database := postgrestest.Database(t)
	proxy := storetest.NewProxy(t, database)
	h, other := newHost(t, proxy.URL), newHost(t, database)
	other.publish(t, module(t, "probe", "1.0.0", 10))
	h.follow(t, 0)
	h.follower.pollInterval = time.Millisecond
	cut := proxy.Once(storetest.Silences, false, func(message string) bool {
		return strings.Contains(message, "lineup_activations")
	})
	storetest.Background(t, h.follower.Run)
	<-cut
	revision := other.activate(t, lineupOf(-1, "probe@1.0.0"))
	expect.Until(t, "the host to follow", func() bool { return h.follower.State().Revision == revision })
}

// limits notes the statements of a host that have more time than they are allowed.
type limits struct {
	Source
	Records
	candidates Candidates

	mu   sync.Mutex
	seen map[string]bool // whether each kind of statement was within its limit
}

func (l *limits) note(ctx context.Context, statement string, limit time.Duration) {
	deadline, ok := ctx.Deadline()
	l.mu.Lock()
	defer l.mu.Unlock()
	within, before := l.seen[statement]
	l.seen[statement] = ok && time.Until(deadline) <= limit && (within || !before)
}

func (l *limits) LastActivation(ctx context.Context) (string, bool, error) {
	l.note(ctx, "last activation", readTimeout)
	return l.Records.LastActivation(ctx)
}

func (l *limits) Activation(ctx context.Context, hash registry.Digest) (string, error) {
	l.note(ctx, "activation", verifyTimeout)
	return l.Records.Activation(ctx, hash)
}

func (l *limits) LineupText(ctx context.Context, revision int64) ([]byte, error) {
	l.note(ctx, "lineup", verifyTimeout)
	return l.Records.LineupText(ctx, revision)
}

func (l *limits) Plugins(ctx context.Context) ([]registry.PublishedPlugin, error) {
	l.note(ctx, "plugins", moduleTimeout)
	return l.Source.Plugins(ctx)
}

func (l *limits) Module(ctx context.Context, digest registry.Digest) (registry.Module, error) {
	l.note(ctx, "module", moduleTimeout)
	return l.Source.Module(ctx, digest)
}

func (l *limits) Candidates(ctx context.Context) ([]fleet.Candidate, error) {
	l.note(ctx, "candidates", readTimeout)
	return l.candidates.Candidates(ctx)
}

func (l *limits) Answer(ctx context.Context, a fleet.Answer) error {
	l.note(ctx, "answer", readTimeout)
	return l.candidates.Answer(ctx, a)
}

// Every statement of what follows lineups and prepares candidates has a deadline.
func TestStatementsInTheBackgroundAreBounded(t *testing.T) {
	t.Parallel()
	h := newHost(t, postgrestest.Database(t))
	l := &limits{Source: h.store, Records: h.store, candidates: h.store, seen: map[string]bool{}}
	h.follower.open.source, h.verifier.Records = l, l
	h.follower.pollInterval = time.Millisecond
	h.publish(t, module(t, "probe", "1.0.0", 10), module(t, "second", "1.0.0", 20))
	h.activate(t, lineupOf(-1, "probe@1.0.0"))
	h.activate(t, lineupOf(-2, "probe@1.0.0")) // the one before is read to verify it
	storetest.Background(t, h.follower.Run)
	h.follower.PluginsPublished()
	p := &Preparer{Candidates: l, Follower: h.follower, Host: "host_a", Log: storetest.Discard(),
		polling: time.Millisecond}
	storetest.Background(t, p.Run)
	h.propose(t, "cand_1", lineupOf(-1, "second@1.0.0"))
	seen := func() int {
		l.mu.Lock()
		defer l.mu.Unlock()
		return len(l.seen)
	}
	expect.Until(t, "all kinds of statements", func() bool { return seen() == 7 })
	l.mu.Lock()
	defer l.mu.Unlock()
	for statement, within := range l.seen {
		expect.That(t, within, "reading or writing %s has no deadline, or a longer one than it needs", statement)
	}
}
