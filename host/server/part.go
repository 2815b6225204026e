package server

import (
	"context"
	"sync"

	"assay/host/internal/maintenance"
	"assay/host/store"
	"assay/host/telemetry"
	"assay/host/web/admin"
)

// part is a part of a host. It has those of the methods below that it needs.
type part any

type (
	// collector is a part with metrics. Collect adds them, once, before Run.
	collector interface{ Collect(m *telemetry.Metrics) }
	// runner is a part that works in the background until ctx ends.
	runner interface{ Run(ctx context.Context) }
	// loader is a runner that first reads what checks need, once the host serves customers. It logs a failure, and Run
	// tries again.
	loader interface {
		runner
		Load(ctx context.Context)
	}
	// worker is a part with periodic jobs.
	worker interface{ Jobs() jobs }
	// notified is a part that acts on changes in the database at once. Changed must not wait.
	notified interface{ Changed(topic store.Topic) }
	// requirement is a part that may keep the host from answering checks.
	requirement interface{ Obstacles() []obstacle }
	// fallible is a part whose problems do not keep the host from answering.
	fallible interface{ Problems() []problem }
	// closer is a part that must be closed.
	closer interface{ Close() error }
)

// obstacle is a reason why the host is not ready, and what to do about it.
type obstacle struct {
	admin.Problem
	remedy string
}

// problem is a sentence about something that works worse than it should, and what to do about it.
type problem struct{ sentence, remedy string }

// problemsOf returns problems that have the same remedy.
func problemsOf(sentences []string, remedy string) (all []problem) {
	for _, s := range sentences {
		all = append(all, problem{s, remedy})
	}
	return all
}

// jobs are periodic jobs by their lane.
type jobs map[lane][]maintenance.Job

// lane groups jobs: one job of each lane runs at a time.
type lane int

const (
	localJobs lane = iota // they hardly use the database
	shortJobs             // they use the database for a short time
	longJobs              // they read whole tables, and must not delay the others
	queueJobs             // they measure queues, and must not be late
)

// background is the part that ends what runs in the background.
type background struct {
	running sync.WaitGroup
	stop    context.CancelFunc
}

// Close implements closer.
func (b *background) Close() error {
	b.stop()
	b.running.Wait()
	return nil
}

// startJobs starts what runs in the background, until the host is closed, and returns the function that starts parts
// later.
func (h *host) startJobs(ctx context.Context) (start func(runner)) {
	b := &background{}
	ctx, b.stop = context.WithCancel(context.WithoutCancel(ctx))
	h.add(b)
	start = func(r runner) { b.running.Go(func() { r.Run(ctx) }) }
	for _, r := range partsOf[runner](h) {
		if _, later := r.(loader); !later {
			start(r)
		}
	}
	all := jobs{}
	for _, w := range partsOf[worker](h) {
		for l, more := range w.Jobs() {
			all[l] = append(all[l], more...)
		}
	}
	for _, one := range all {
		b.running.Go(func() { maintenance.Run(ctx, h.log, one) })
	}
	waiting := partsOf[notified](h)
	b.running.Go(func() {
		h.store.Listen(ctx, func(topic store.Topic) {
			for _, n := range waiting {
				n.Changed(topic)
			}
		})
	})
	return start
}

// together calls functions at the same time, and returns when all have.
func together(ctx context.Context, functions ...func(context.Context)) {
	var running sync.WaitGroup
	for _, f := range functions {
		running.Go(func() { f(ctx) })
	}
	running.Wait()
}
