package registration

import (
	"context"
	"errors"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

const (
	// Registries block clients that query too fast; some allow one query a second.
	queriesPerSecond = 1
	burst            = 2

	maxPending   = 4096 // domains queued or being fetched, for all servers
	maxQueue     = 512  // domains queued for one server
	fetchTimeout = 10 * time.Second
	storeTimeout = 5 * time.Second
)

// fetcher queries registries in the background. Each server has its own lane, so that a slow server delays no other. A
// lane has a goroutine only while its queue is not empty.
type fetcher struct {
	client *client
	source *Source

	base    context.Context
	stop    context.CancelFunc
	mu      sync.Mutex // guards the fields below and each lane's queue and working
	closed  bool
	pending map[string]bool  // domains that are queued or being fetched
	lanes   map[string]*lane // by server
	running sync.WaitGroup
}

// lane is the queue of one server. A new domain is first in the lane of the server "", which determines its server.
type lane struct {
	server  string
	limiter *rate.Limiter
	queue   []string
	working bool      // the lane's goroutine is running
	resume  time.Time // no queries before; used by the lane's goroutine only
}

func newFetcher(c *client, s *Source) *fetcher {
	f := &fetcher{client: c, source: s, pending: map[string]bool{}, lanes: map[string]*lane{}}
	f.base, f.stop = context.WithCancel(context.Background())
	return f
}

// close cancels all fetches and waits for them to end.
func (f *fetcher) close() {
	f.mu.Lock()
	f.closed = true
	f.mu.Unlock()
	f.stop()
	f.running.Wait()
}

// enqueue queues domain, unless it is already pending. If too many are, it does nothing: a later check will enqueue it.
func (f *fetcher) enqueue(domain string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed || f.pending[domain] || len(f.pending) >= maxPending {
		return
	}
	f.pending[domain] = true
	f.push("", domain)
}

// push adds domain to the lane of a server, which it creates if needed. The caller holds f.mu.
func (f *fetcher) push(server, domain string) {
	l := f.lanes[server]
	if l == nil {
		limit := rate.Limit(queriesPerSecond)
		if server == "" || server == f.client.baseURL {
			limit = rate.Inf // no server, or one that the operator has chosen
		}
		l = &lane{server: server, limiter: rate.NewLimiter(limit, burst)}
		f.lanes[server] = l
	}
	if f.closed || len(l.queue) >= maxQueue {
		delete(f.pending, domain)
		return
	}
	l.queue = append(l.queue, domain)
	if !l.working {
		l.working = true
		f.running.Go(func() { f.drain(l) })
	}
}

// drain processes a lane until its queue is empty.
func (f *fetcher) drain(l *lane) {
	for {
		f.mu.Lock()
		if f.closed || len(l.queue) == 0 {
			l.working = false
			f.mu.Unlock()
			return
		}
		domain := l.queue[0]
		l.queue = l.queue[1:]
		f.mu.Unlock()
		if server := f.process(l, domain); server != "" {
			f.mu.Lock()
			f.push(server, domain)
			f.mu.Unlock()
			continue
		}
		f.mu.Lock()
		delete(f.pending, domain)
		f.mu.Unlock()
	}
}

// process fetches and saves the record of domain and returns "". In the lane without a server, it returns the server
// that domain belongs to, if there is one.
func (f *fetcher) process(l *lane, domain string) (server string) {
	ctx, cancel := context.WithTimeout(f.base, storeTimeout)
	previous, ok, err := f.source.store.Registration(ctx, domain)
	cancel()
	if err != nil {
		return "" // a record that cannot be stored would be fetched again and again, by every host
	}
	now := f.source.now()
	if ok && now.Before(previous.NextFetch) { // another host has fetched it
		f.source.cacheRecord(domain, previous, true)
		return ""
	}
	if now.Before(l.resume) {
		if !ok {
			previous.Outcome = Failed
		}
		previous.NextFetch = l.resume
		f.source.cacheRecord(domain, previous, true)
		return ""
	}
	var r Record
	if l.server == "" {
		ctx, cancel := context.WithTimeout(f.base, fetchTimeout)
		defer cancel()
		if server, err = f.client.server(ctx, domain); err == nil {
			return server
		}
	} else {
		if l.limiter.Wait(f.base) != nil {
			return ""
		}
		ctx, cancel := context.WithTimeout(f.base, fetchTimeout)
		defer cancel()
		r, err = f.client.fetch(ctx, l.server, domain)
	}
	if f.base.Err() != nil {
		return ""
	}
	now = f.source.now()
	var pause *pauseError
	switch {
	case errors.Is(err, errNoServer):
		r, err = Record{Outcome: Unserved}, nil
	case errors.As(err, &pause):
		l.resume = now.Add(pause.duration)
	}
	if err != nil {
		f.source.log.Debug("registration could not be fetched", "server", l.server, "error", err)
	}
	ctx, cancel = context.WithTimeout(f.base, storeTimeout)
	defer cancel()
	f.source.save(ctx, domain, afterQuery(previous, r, err, now))
	return ""
}
