// Package resolver is a caching DNS stub resolver that does not trust its servers: it matches each response to its
// query, and bounds and cleans the answer. It is the only package that uses miekg/dns; package network decides what an
// answer says about an entity.
package resolver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/miekg/dns"

	"assay/host/access/admission"
	"assay/host/internal/lru"
)

// Type is a DNS record type.
type Type uint16

// The record types that Answer has fields for. Lookups of other types report only a status and a number of records.
const (
	A    = Type(dns.TypeA)
	AAAA = Type(dns.TypeAAAA)
	NS   = Type(dns.TypeNS)
	MX   = Type(dns.TypeMX)
	TXT  = Type(dns.TypeTXT)
	DS   = Type(dns.TypeDS)
)

// Question is the question of a DNS query.
type Question struct {
	Name string // A-labels, with or without the trailing dot
	Type Type
}

// String returns the name and the type, such as "example.com. MX", for error texts.
func (q Question) String() string { return q.Name + " " + dns.TypeToString[uint16(q.Type)] }

// Config configures a Resolver. Zero values mean the defaults.
type Config struct {
	Servers []string         // recursive resolvers in order of preference, host:port; at least one
	Now     func() time.Time // default: time.Now
	// RetryAfter is how long a query waits for a response before it is sent once more, to the next server if there is
	// one. Default: 35 ms.
	RetryAfter time.Duration
	// Timeout limits a query with its retry. A query continues after its caller has given up, so that the answer is
	// cached for the next caller. Default: 1.5 s.
	Timeout time.Duration
	// Patience is how long a lookup waits for an answer. Default: 80 ms.
	Patience time.Duration
	// ProbeInterval is the timeout of a health probe, and the pause after all servers have failed one. Default: 1 s.
	ProbeInterval time.Duration
	// After is like time.After. Default: time.After.
	After func(time.Duration) <-chan time.Time
}

const (
	cacheEntries = 200_000
	cacheBytes   = 64 << 20
	maxInFlight  = 2048 // queries; accounts share them, see admission.Shares

	minTTL         = 30 * time.Second // shorter TTLs would cause a query for nearly every check of a popular name
	maxTTL         = time.Hour
	minNegativeTTL = 5 * time.Second
	// maxNegativeTTL limits negative caching (RFC 2308 section 5), because a name may be registered at any time.
	maxNegativeTTL = 15 * time.Minute
	failureTTL     = 5 * time.Second // of responses without an answer; RFC 9520 section 3.2 requires 1 s to 5 min
	noResponseTTL  = time.Second
)

var (
	// ErrUnanswered means that the servers had the time to answer and did not, or that their response is unusable. All
	// other errors are this host's own.
	ErrUnanswered = errors.New("no DNS server answered")
	// ErrLate means that this host was too busy to tell whether a server would have answered in time.
	ErrLate = errors.New("this host was too busy to ask a DNS server in time")
	// ErrBusy means that all concurrent queries, or the caller's share of them, are in use.
	ErrBusy = errors.New("too many DNS queries are in progress")
	// ErrClosed means that the resolver was closed.
	ErrClosed = errors.New("the DNS resolver is closed")
)

// Resolver queries recursive resolvers and caches their answers. It is safe for concurrent use.
type Resolver struct {
	cfg    Config
	cache  *lru.Cache[Question, entry]
	health health
	trust  atomic.Pointer[trust]
	slots  *admission.Shares

	base context.Context // ends when the resolver is closed
	stop context.CancelFunc
	// mu guards flights and closed. running grows from zero only while mu is held and closed is false, so Close waits
	// for every query.
	mu      sync.Mutex
	flights map[Question]*flight
	closed  bool
	watched bool // watchStalls runs
	running sync.WaitGroup

	stalled atomic.Pointer[time.Time] // when this host last noticed that it had been late; nil before
	ticked  atomic.Pointer[time.Time] // when watchStalls last ran; nil while it does not
}

// flight is a query in progress. Concurrent lookups of the same question share it.
type flight struct {
	sent     atomic.Pointer[time.Time] // when the first packet was sent; nil before
	delayed  atomic.Pointer[time.Time] // when the retry was sent, if that was late
	followed atomic.Bool               // a packet was sent after a response, such as over TCP
	trust    *trust                    // under which the query was sent
	done     chan struct{}             // closed when entry is set
	entry    entry

	mu      sync.Mutex
	sockets []syscall.RawConn // of the packets sent
}

// entry is the cached result of a question.
type entry struct {
	answer  Answer
	err     error
	trust   *trust // under which it was received
	expires time.Time
}

// New returns a resolver. It starts nothing before the first lookup.
func New(cfg Config) *Resolver {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	cfg.RetryAfter = cmp.Or(cfg.RetryAfter, 35*time.Millisecond)
	cfg.Timeout = cmp.Or(cfg.Timeout, 1500*time.Millisecond)
	cfg.ProbeInterval = cmp.Or(cfg.ProbeInterval, time.Second)
	cfg.Patience = cmp.Or(cfg.Patience, 80*time.Millisecond)
	if cfg.After == nil {
		cfg.After = time.After
	}
	r := &Resolver{
		cfg: cfg, cache: lru.New[Question, entry](cacheEntries, cacheBytes), flights: map[Question]*flight{},
		slots: admission.NewShares(maxInFlight),
	}
	r.trust.Store(&trust{servers: cfg.Servers, problems: make([]string, len(cfg.Servers))})
	r.base, r.stop = context.WithCancel(context.Background())
	return r
}

// Close cancels all queries and waits for them to end.
func (r *Resolver) Close() error {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.stop()
	r.running.Wait()
	return nil
}

// SystemServers returns the name servers in /etc/resolv.conf as host:port. If there are none, it returns the default
// of resolv.conf(5), a server on this machine.
func SystemServers() []string {
	file, err := dns.ClientConfigFromFile("/etc/resolv.conf")
	if err != nil || len(file.Servers) == 0 {
		return []string{"127.0.0.1:53"}
	}
	var servers []string
	for _, s := range file.Servers {
		servers = append(servers, net.JoinHostPort(s, file.Port))
	}
	return servers
}

// Lookup returns the answer to a question from the cache or from a server. It never returns an expired answer, so that
// decisions do not depend on a host's past. It returns no later than ctx ends. An error that wraps ErrUnanswered means
// that the servers are to blame; any other error is this host's. A name or record that does not exist is an answer.
func (r *Resolver) Lookup(ctx context.Context, q Question) (Answer, error) {
	q.Name = strings.ToLower(dns.Fqdn(q.Name))
	if _, ok := dns.IsDomainName(q.Name); !ok || len(q.Name) > 254 {
		return Answer{Status: NXDomain}, nil // beyond the limits of RFC 1035 section 2.3.4, so it cannot exist
	}
	a, err := r.lookUp(ctx, q)
	if err != nil {
		return Answer{}, fmt.Errorf("resolving %s: %w", q, err)
	}
	return a, nil
}

// lookUp implements Lookup for a name that may exist.
func (r *Resolver) lookUp(ctx context.Context, q Question) (Answer, error) {
	trust := r.trust.Load()
	if len(trust.servers) == 0 {
		return Answer{}, ErrUntrusted
	}
	now := r.cfg.Now()
	if cached, ok := r.cached(q, trust, now); ok {
		return cached.answer, cached.err
	}
	if err := ctx.Err(); err != nil {
		return Answer{}, err
	}
	if r.health.down.Load() {
		return Answer{}, ErrUnresponsive
	}
	f, err := r.join(admission.Holder(ctx), q, trust)
	if err != nil {
		return Answer{}, err
	}
	select {
	case <-f.done:
		return f.entry.answer, f.entry.err
	case <-r.cfg.After(r.cfg.Patience):
		// A busy host would otherwise take its own delay for a server's silence, and score with fewer facts.
		if r.late(f, now, r.cfg.Patience) || f.retriedLate(now) {
			return Answer{}, ErrLate
		}
		if f.unread() { // the server answered in time
			select {
			case <-f.done:
				return f.entry.answer, f.entry.err
			case <-r.cfg.After(lateness):
				return Answer{}, ErrLate
			case <-ctx.Done():
				return Answer{}, ctx.Err()
			}
		}
		r.recordTimeout()
		return Answer{}, ErrUnanswered
	case <-ctx.Done():
		return Answer{}, ctx.Err()
	}
}

// cached returns the cached entry of a question, unless it has expired or was received under another trust.
func (r *Resolver) cached(q Question, trust *trust, now time.Time) (entry, bool) {
	e, ok := r.cache.Get(q)
	return e, ok && e.trust == trust && now.Before(e.expires)
}

// join returns the query in progress for a question, or starts one in one of holder's slots. The query keeps its slot
// until it ends, because callers do not wait for slow ones.
func (r *Resolver) join(holder string, q Question, trust *trust) (*flight, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if f := r.flights[q]; f != nil && f.trust == trust {
		return f, nil
	}
	if r.closed {
		return nil, ErrClosed
	}
	release, err := r.slots.Take(holder)
	if err != nil {
		return nil, ErrBusy
	}
	f := &flight{trust: trust, done: make(chan struct{})}
	r.flights[q] = f
	if !r.watched {
		r.watched = true
		r.running.Go(r.watchStalls)
	}
	r.running.Go(func() {
		f.entry = r.refresh(f, q)
		r.mu.Lock()
		if r.flights[q] == f {
			delete(r.flights, q)
		}
		r.mu.Unlock()
		release()
		close(f.done)
	})
	return f, nil
}

// refresh queries the servers and caches the result, unless it is this host's own failure. It does not depend on the
// contexts of the lookups that wait for it.
func (r *Resolver) refresh(f *flight, q Question) entry {
	// A lookup may have read the cache before an earlier query for the same question ended.
	began := r.cfg.Now()
	if cached, ok := r.cached(q, f.trust, began); ok {
		return cached
	}
	ctx, cancel := context.WithTimeout(r.base, r.cfg.Timeout)
	defer cancel()
	e := entry{trust: f.trust}
	ttl := noResponseTTL
	m, err := r.exchange(ctx, f, q)
	switch {
	case err == nil:
		r.health.recordResponse()
		e.answer, ttl, err = decode(q, m)
	case r.base.Err() != nil:
		return entry{err: ErrClosed}
	case isOwn(err):
		return entry{err: err}
	case r.late(f, began, r.cfg.Timeout):
		return entry{err: ErrLate}
	}
	if err != nil {
		e.err = fmt.Errorf("%w: %w", ErrUnanswered, err)
	}
	e.expires = r.cfg.Now().Add(ttl)
	r.cache.Put(q, e, len(q.Name)+e.answer.size()+200)
	return e
}

// isOwn reports whether a query failed because this host lacks resources.
func isOwn(err error) bool {
	return slices.ContainsFunc([]error{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.EAGAIN,
		syscall.EADDRNOTAVAIL}, func(own error) bool { return errors.Is(err, own) })
}
