package registration

import (
	"context"
	"errors"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Registries ban who asks too fast; some allow one question a second.
const (
	perSecond    = 1
	burst        = 2
	maxPending   = 4096 // domains waiting, all servers together
	maxQueue     = 512  // domains waiting for one server
	fetchTimeout = 10 * time.Second
	keepTimeout  = 5 * time.Second
)

// fetcher asks registries in the background, each in a lane of its own, so that a slow one holds up no other. A lane
// has a goroutine only while something waits in it.
type fetcher struct {
	client *client
	source *Source

	base    context.Context
	stop    context.CancelFunc
	mu      sync.Mutex
	closed  bool
	pending map[string]bool
	lanes   map[string]*lane
	running sync.WaitGroup
}

// lane is the queue for one server. The one without a server finds out which server each domain belongs to.
type lane struct {
	server  string
	limiter *rate.Limiter
	queue   []string
	working bool
	pause   time.Time // until when the server wants to be left alone
}

func newFetcher(c *client, s *Source) *fetcher {
	f := &fetcher{client: c, source: s, pending: map[string]bool{}, lanes: map[string]*lane{}}
	f.base, f.stop = context.WithCancel(context.Background())
	return f
}

// close ends all work and waits for it.
func (f *fetcher) close() {
	f.mu.Lock()
	f.closed = true
	f.mu.Unlock()
	f.stop()
	f.running.Wait()
}

// enqueue has domain fetched soon, unless it waits already or too many do: then a later check brings it up again.
func (f *fetcher) enqueue(domain string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed || f.pending[domain] || len(f.pending) >= maxPending {
		return
	}
	f.pending[domain] = true
	f.push("", domain)
}

// push puts domain in a lane, under the lock.
func (f *fetcher) push(server, domain string) {
	l := f.lanes[server]
	if l == nil {
		limit := rate.Limit(perSecond)
		if server == "" || server == f.client.fixed {
			limit = rate.Inf // a server of the operator's own choice
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
		f.running.Go(func() { f.work(l) })
	}
}

// work empties a lane.
func (f *fetcher) work(l *lane) {
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
		if server := f.one(l, domain); server != "" {
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

// one takes domain a step further: it returns the server whose lane it belongs in, or "" when it is done.
func (f *fetcher) one(l *lane, domain string) (server string) {
	ctx, cancel := context.WithTimeout(f.base, keepTimeout)
	before, known, err := f.source.store.Registration(ctx, domain)
	cancel()
	if err != nil {
		return "" // without a database nothing could be kept, and every host would ask again
	}
	now := f.source.now()
	if known && now.Before(before.Next) { // another host was faster
		f.source.remember(domain, before, true)
		return ""
	}
	if now.Before(l.pause) {
		if !known {
			before.Outcome = Failed
		}
		before.Next = l.pause
		f.source.remember(domain, before, true)
		return ""
	}
	var k Kept
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
		k, err = f.client.fetch(ctx, l.server, domain)
	}
	if f.base.Err() != nil {
		return ""
	}
	now = f.source.now()
	var pause *pauseError
	switch {
	case errors.Is(err, errUnserved):
		k, err = Kept{Outcome: Unserved}, nil
	case errors.As(err, &pause):
		l.pause = now.Add(pause.wait)
	}
	if err != nil {
		f.source.log.Debug("a registration could not be fetched", "server", l.server, "error", err)
	}
	ctx, cancel = context.WithTimeout(f.base, keepTimeout)
	defer cancel()
	f.source.keep(ctx, domain, after(before, k, err, now))
	return ""
}
