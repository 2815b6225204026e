package registration

import (
	"context"
	"errors"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"assay/host/access/admission"
)

const (
	// Registries block clients that query too fast; some allow one query a second.
	queriesPerSecond = 1
	burst            = 2

	// Accounts share both; see admission.Shares.
	maxPending = 4096 // domains queued or being fetched, for all servers
	maxQueue   = 512  // domains queued for one server

	fetchTimeout = 10 * time.Second
	storeTimeout = 5 * time.Second
)

// fetcher queries registries in the background. Each server has its own lane, so that a slow server does not delay
// others. A lane has a goroutine only while its queue is not empty.
type fetcher struct {
	client *client
	source *Source

	base    context.Context
	stop    context.CancelFunc
	mu      sync.Mutex // guards the fields below and each lane's queues, turns and working
	closed  bool
	slots   *admission.Shares
	pending map[asked]func() // releases the slot of each domain that is queued or being fetched
	lanes   map[string]*lane // by server
	running sync.WaitGroup
}

// lane is the queue of one server. A new domain starts in the lane of the server "", which determines its server.
type lane struct {
	server  string
	limiter *rate.Limiter
	slots   *admission.Shares
	queues  map[string][]query // by account; none is empty
	turns   []string           // the accounts with queues, the next one first
	working bool               // the lane's goroutine is running
	resume  time.Time          // no queries before this time; used only by the lane's goroutine
}

// asked is a domain that an account asked for. If several accounts ask for it, it is fetched at the first of their
// turns, so no account waits for another's queue.
type asked struct{ account, domain string }

// query is a queued domain.
type query struct {
	asked
	leave func() // releases its slot in the lane
}

func newFetcher(c *client, s *Source) *fetcher {
	f := &fetcher{client: c, source: s, slots: admission.NewShares(maxPending), pending: map[asked]func(){},
		lanes: map[string]*lane{}}
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

// enqueue queues domain for an account, unless it is pending for it already. If the account has too many pending
// domains, it does nothing: a later check will enqueue it.
func (f *fetcher) enqueue(account, domain string) {
	a := asked{account, domain}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed || f.pending[a] != nil {
		return
	}
	if release, err := f.slots.Take(account); err == nil {
		f.pending[a] = release
		f.push("", a)
	}
}

// finish removes a domain from the pending ones and releases its slot. The caller holds f.mu.
func (f *fetcher) finish(a asked) {
	f.pending[a]()
	delete(f.pending, a)
}

// push adds a domain to the lane of a server, which it creates if needed. The caller holds f.mu.
func (f *fetcher) push(server string, a asked) {
	l := f.lanes[server]
	if l == nil {
		limit := rate.Limit(queriesPerSecond)
		if server == "" || server == f.client.baseURL {
			limit = rate.Inf // no server, or one that the operator has chosen
		}
		l = &lane{server: server, limiter: rate.NewLimiter(limit, burst), slots: admission.NewShares(maxQueue),
			queues: map[string][]query{}}
		f.lanes[server] = l
	}
	leave, err := l.slots.Take(a.account)
	if f.closed || err != nil {
		f.finish(a)
		return
	}
	if l.queues[a.account] == nil {
		l.turns = append(l.turns, a.account)
	}
	l.queues[a.account] = append(l.queues[a.account], query{a, leave})
	if !l.working {
		l.working = true
		f.running.Go(func() { f.drain(l) })
	}
}

// next removes the domain whose turn it is. Accounts take turns, so an account's first domain waits for at most one
// domain of each other account. The caller holds the fetcher's mu.
func (l *lane) next() query {
	account := l.turns[0]
	l.turns = l.turns[1:]
	q := l.queues[account][0]
	if l.queues[account] = l.queues[account][1:]; len(l.queues[account]) > 0 {
		l.turns = append(l.turns, account)
	} else {
		delete(l.queues, account)
	}
	q.leave()
	return q
}

// drain processes a lane until its queue is empty.
func (f *fetcher) drain(l *lane) {
	for {
		f.mu.Lock()
		if f.closed || len(l.turns) == 0 {
			l.working = false
			f.mu.Unlock()
			return
		}
		q := l.next()
		f.mu.Unlock()
		server := f.process(l, q.domain)
		f.mu.Lock()
		if server != "" {
			f.push(server, q.asked)
		} else {
			f.finish(q.asked)
		}
		f.mu.Unlock()
	}
}

// previous returns the stored record of domain, if there is one, and whether the registry must be asked. It caches a
// record that another host has fetched.
func (f *fetcher) previous(domain string) (r Record, ok, due bool) {
	ctx, cancel := context.WithTimeout(f.base, storeTimeout)
	defer cancel()
	r, ok, err := f.source.store.Registration(ctx, domain)
	if err != nil {
		return r, false, false // a record that cannot be stored would be fetched again and again, by every host
	}
	if due = f.source.isDue(r, ok); !due {
		f.source.cacheRecord(domain, r, true)
	}
	return r, ok, due
}

// process fetches and saves the record of domain and returns "". In the lane without a server, it returns the server
// that domain belongs to, if there is one.
func (f *fetcher) process(l *lane, domain string) (server string) {
	previous, ok, due := f.previous(domain)
	if !due {
		return ""
	}
	if f.source.now().Before(l.resume) {
		if !ok {
			previous.Outcome = Failed
		}
		previous.NextFetch = l.resume
		f.source.cacheRecord(domain, previous, true)
		return ""
	}
	var r Record
	var err error
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
	now := f.source.now()
	var pause *pauseError
	switch {
	case errors.Is(err, errNoServer):
		r, err = Record{Outcome: Unserved}, nil
	case errors.As(err, &pause):
		l.resume = now.Add(pause.duration)
	}
	if err != nil {
		f.source.log.Debug("registration could not be fetched", "server", l.server, "error", err)
		if previous, _, due = f.previous(domain); !due {
			return ""
		}
	}
	ctx, cancel := context.WithTimeout(f.base, storeTimeout)
	defer cancel()
	f.source.save(ctx, domain, afterQuery(previous, r, err, now))
	return ""
}
