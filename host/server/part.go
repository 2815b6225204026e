package server

import (
	"context"
	"sync"

	"assay/host/internal/maintenance"
	"assay/host/store"
	"assay/host/telemetry"
	"assay/host/web/admin"
)

// part is an open part of a host. It sets only the fields that it needs; the zero part is turned off.
type part struct {
	Collect   func(*telemetry.Metrics) // adds its metrics, before it runs
	Run       []func(context.Context)  // work in the background until their contexts end
	Load      func(context.Context)    // reads what checks need, before Run, once the host serves; logs a failure
	Jobs      jobs                     // run periodically
	Changed   map[store.Topic]func()   // act on changes in the database at once; must not wait
	Erased    func(subject []byte)     // forgets an erased subject
	Obstacles func() []obstacle        // keep the host from answering checks
	Problems  []problems               // do not keep the host from answering
	Close     func() error             // closes the part
}

// obstacle is a reason why the host is not ready, and what to do about it.
type obstacle struct {
	admin.Problem
	remedy string
}

// unless returns no obstacle if err is nil.
func unless(part string, err error, remedy string) []obstacle {
	if err == nil {
		return nil
	}
	return []obstacle{{admin.Problem{Part: part, Err: err}, remedy}}
}

// problems describe what works worse than it should, a sentence each, and how to fix it.
type problems struct {
	sentences func() []string
	remedy    string
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
	mailJobs              // they wait for the mail server
)

// startJobs starts the background work of the parts, until the host is closed. start starts the work of a part later.
func (h *host) startJobs(ctx context.Context) (start func(part)) {
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	start = func(p part) {
		for _, run := range p.Run {
			running.Go(func() { run(ctx) })
		}
	}
	all := jobs{}
	for _, p := range h.parts {
		if p.Load == nil {
			start(p)
		}
		for l, more := range p.Jobs {
			for _, j := range more {
				if j.Shared {
					j.Run = h.store.Once(j.Name, j.Every, j.Run, j.Elsewhere)
				}
				all[l] = append(all[l], j)
			}
		}
	}
	for _, one := range all {
		running.Go(func() { maintenance.Run(ctx, h.log, one) })
	}
	parts := h.parts // parts that are added later need no notifications
	listening := sync.OnceFunc(func() { close(h.listening) })
	running.Go(func() {
		h.store.Listen(ctx, func(topic store.Topic) {
			listening()
			notify(parts, topic)
		})
	})
	h.add(part{Close: func() error { stop(); running.Wait(); return nil }})
	return start
}

// notify tells the parts that something changed in the database.
func notify(parts []part, topic store.Topic) {
	subject, erased := topic.Erased()
	for _, p := range parts {
		if changed := p.Changed[topic]; changed != nil {
			changed()
		}
		if erased && p.Erased != nil {
			p.Erased(subject)
		}
	}
}
