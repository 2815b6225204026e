// Package resolver asks a recursive DNS resolver, trusting nothing that comes back: answers are matched to their
// questions, bounded, cleaned and cached. The miekg/dns library lives here and nowhere else.
package resolver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/sync/singleflight"

	"assay/host/lru"
)

// Kind is a type of record that can be asked for.
type Kind uint16

// The kinds, by their numbers in the DNS.
const (
	A    = Kind(dns.TypeA)
	AAAA = Kind(dns.TypeAAAA)
	NS   = Kind(dns.TypeNS)
	MX   = Kind(dns.TypeMX)
	TXT  = Kind(dns.TypeTXT)
	DS   = Kind(dns.TypeDS)
)

// Question is what can be asked.
type Question struct {
	Name string // A-labels, with or without the trailing dot
	Kind Kind
}

// Config says whom to ask and how. Zero values of the times are their defaults.
type Config struct {
	Servers  []string // host:port, asked in this order
	Now      func() time.Time
	Patience time.Duration // until the same question is sent once more, to the next server if there is one; 35 ms
	// of a question: it goes on after its asker gave up, so that the answer is there next time; 1.5 s
	Lifetime time.Duration
	// for a server that may be dead to answer a question that each can, and between two such questions; 1 s
	Pulse time.Duration
}

// The bounds of what is kept and done at once.
const (
	cacheEntries = 200_000
	cacheBytes   = 64 << 20
	maxFlights   = 512 // different questions under way

	minTTL     = 30 * time.Second // less, and a name that everybody checks would be asked for all the time
	maxTTL     = time.Hour
	minMissTTL = 5 * time.Second
	// of a name or record that does not exist: it may be made any time (RFC 2308 section 5)
	maxMissTTL = 15 * time.Minute
	failTTL    = 5 * time.Second // of an answer that is none (RFC 9520 section 3.2: 1 s to 5 min)
	lostTTL    = time.Second     // of no answer at all
	staleFor   = 6 * time.Hour   // after its time, an answer still serves where no other can be had (RFC 8767)
)

var (
	// ErrBusy means that too many questions are under way.
	ErrBusy = errors.New("too many questions are under way")
	// ErrClosed means that the resolver was closed.
	ErrClosed = errors.New("the resolver is closed")
)

// Resolver asks and remembers. It is safe for concurrent use.
type Resolver struct {
	cfg     Config
	cache   *lru.Cache[Question, kept]
	flights singleflight.Group
	slots   chan struct{}
	pulse   pulse

	base    context.Context // ends when the resolver is closed
	stop    context.CancelFunc
	mu      sync.Mutex // guards closed, and running against being waited for while it grows from nothing
	closed  bool
	running sync.WaitGroup
}

// kept is what is remembered of a question.
type kept struct {
	answer Answer
	err    error
	until  time.Time // when to ask again
	good   *Answer   // the last that said something, for when no other can be had
	goodBy time.Time // when even that has to go
}

// New returns a resolver. It holds no resources until it is asked.
func New(cfg Config) *Resolver {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Patience == 0 {
		cfg.Patience = 35 * time.Millisecond
	}
	if cfg.Lifetime == 0 {
		cfg.Lifetime = 1500 * time.Millisecond
	}
	if cfg.Pulse == 0 {
		cfg.Pulse = time.Second
	}
	r := &Resolver{cfg: cfg, cache: lru.New[Question, kept](cacheEntries, cacheBytes),
		slots: make(chan struct{}, maxFlights)}
	r.base, r.stop = context.WithCancel(context.Background())
	return r
}

// Close ends all questions under way and waits for them.
func (r *Resolver) Close() error {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.stop()
	r.running.Wait()
	return nil
}

// SystemServers lists the resolvers of the machine as resolv.conf names them. Without any it is the one on the machine
// itself, as for every program (resolv.conf(5)).
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

// Ask returns the answer to a question: a fresh one, from memory or from a server, or an old one where no server
// answers. It returns when ctx ends at the latest. The error means that nothing is known; what does not exist is an
// answer.
func (r *Resolver) Ask(ctx context.Context, q Question) (Answer, error) {
	q.Name = strings.ToLower(dns.Fqdn(q.Name))
	if _, ok := dns.IsDomainName(q.Name); !ok || len(q.Name) > 254 {
		return Answer{Status: NXDomain}, nil // no server could hold it
	}
	now := r.cfg.Now()
	k, known := r.cache.Get(q)
	if known && now.Before(k.until) {
		return k.say(now)
	}
	if err := ctx.Err(); err != nil {
		return k.fallback(now, fmt.Errorf("asking for %s: %w", q, err))
	}
	if r.pulse.dead.Load() {
		return k.fallback(now, fmt.Errorf("asking for %s: %w", q, ErrDead))
	}
	flight := r.flights.DoChan(q.String(), func() (any, error) { return r.look(q, k) })
	select {
	case landed := <-flight:
		if landed.Err != nil {
			return k.fallback(now, landed.Err)
		}
		return landed.Val.(kept).say(now)
	case <-ctx.Done():
		r.missed()
		return k.fallback(now, fmt.Errorf("asking for %s: %w", q, ctx.Err()))
	}
}

// String is the question as error texts name it.
func (q Question) String() string { return q.Name + " " + dns.TypeToString[uint16(q.Kind)] }

// say gives the answer, or the last good one in place of none.
func (k kept) say(now time.Time) (Answer, error) {
	if k.err != nil || k.answer.Status == ServFail {
		if a, err := k.fallback(now, k.err); err == nil && a.Stale {
			return a, nil
		}
	}
	return k.answer, k.err
}

// fallback gives the last good answer while it may still serve, else the error.
func (k kept) fallback(now time.Time, err error) (Answer, error) {
	if k.good == nil || !now.Before(k.goodBy) {
		return Answer{}, err
	}
	a := *k.good
	a.Stale = true
	return a, nil
}

// look asks the servers and remembers what they say. It runs once for all who ask the same, apart from their contexts.
func (r *Resolver) look(q Question, before kept) (k kept, err error) {
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		return k, ErrClosed
	}
	r.running.Add(1)
	r.mu.Unlock()
	defer r.running.Done()
	select {
	case r.slots <- struct{}{}:
		defer func() { <-r.slots }()
	default:
		return k, ErrBusy
	}
	ctx, cancel := context.WithTimeout(r.base, r.cfg.Lifetime)
	defer cancel()
	k = kept{good: before.good, goodBy: before.goodBy}
	ttl := lostTTL
	m, err := r.exchange(ctx, q)
	if err == nil {
		r.pulse.heard()
		k.answer, ttl, err = decode(q, m)
	}
	if err != nil {
		if r.base.Err() != nil {
			return k, ErrClosed
		}
		k.err = fmt.Errorf("asking for %s: %w", q, err)
	}
	now := r.cfg.Now()
	k.until = now.Add(ttl)
	switch {
	case k.err == nil && k.answer.Status == OK:
		k.good, k.goodBy = &k.answer, k.until.Add(staleFor)
	case k.err == nil && k.answer.Status != ServFail:
		k.good = nil // it is known to be gone
	}
	r.cache.Put(q, k, len(q.Name)+k.answer.bytes()+200)
	return k, nil
}
