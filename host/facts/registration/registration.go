// Package registration knows when and through whom a domain was registered, by RDAP (RFC 9082, RFC 9083): the source
// "rdap". A check is only ever answered from what is kept; registries are asked in the background, slowly. The openrdap
// library lives here and nowhere else.
package registration

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"time"

	"assay/host/entity"
	"assay/host/facts"
	"assay/host/lru"
)

// Outcome says what asking about a domain led to.
type Outcome string

// The outcomes, as they are kept.
const (
	Registered Outcome = "registered"
	Absent     Outcome = "absent"   // the registry knows no such domain
	Unserved   Outcome = "unserved" // no registry of that suffix offers RDAP
	Failed     Outcome = "failed"   // it was never answered
)

// Kept is what is kept of a domain.
type Kept struct {
	Outcome   Outcome
	Created   time.Time // zero when the registry does not tell
	Expires   time.Time // likewise
	Registrar string
	Status    string    // EPP states, sorted, joined by spaces
	Fetched   time.Time // when the registry was asked last
	Next      time.Time // when to ask it again
	Failures  int       // since it last answered
}

// Store keeps answers over restarts and among hosts.
type Store interface {
	// Registration returns what was kept last of a domain; ok is false when nothing was.
	Registration(ctx context.Context, domain string) (k Kept, ok bool, err error)
	// KeepRegistration keeps k in place of what was kept before.
	KeepRegistration(ctx context.Context, domain string, k Kept) error
}

// Config says where answers come from and go to.
type Config struct {
	Store  Store
	URL    string   // base of the one RDAP server to ask; "": the registries' own, as IANA lists them
	DNS    []string // resolvers, host:port, through which servers are found; none: the system's
	Logger *slog.Logger
	Now    func() time.Time // nil: the system's clock
}

const (
	cacheEntries = 100_000
	cacheBytes   = 32 << 20
	rememberKept = 10 * time.Minute // without a look at the store: another host may have asked again
	rememberNone = 20 * time.Second
)

// Source is the source "rdap". It asks nobody until a fact of its own is wanted.
type Source struct {
	store   Store
	log     *slog.Logger
	now     func() time.Time
	cache   *lru.Cache[string, remembered]
	fetcher *fetcher
}

var _ facts.Source = (*Source)(nil)

// remembered is what the store said, until it should be asked again.
type remembered struct {
	kept  Kept
	known bool
	until time.Time
}

// New returns the source. Error: the URL is none.
func New(cfg Config) (*Source, error) {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	c, err := newClient(cfg.URL, cfg.DNS, cfg.Now)
	if err != nil {
		return nil, err
	}
	s := &Source{store: cfg.Store, log: cfg.Logger, now: cfg.Now, cache: lru.New[string, remembered](cacheEntries,
		cacheBytes)}
	s.fetcher = newFetcher(c, s)
	return s, nil
}

// Close ends what goes on in the background and waits for it.
func (s *Source) Close() error {
	s.fetcher.close()
	return nil
}

// Name implements facts.Source.
func (*Source) Name() string { return "rdap" }

// Table implements facts.Source.
func (*Source) Table() []entity.Fact { return slices.Clone(table) }

var table = []entity.Fact{
	{Name: "rdap.found", Format: "yes or no: the registry has the registrable domain; absent while it is not known",
		Example: "yes"},
	{Name: "rdap.created", Format: "date of the registration, UTC", Example: "1995-08-14"},
	{Name: "rdap.age_days", Format: "whole days since then, at the time of the check", Example: "3"},
	{Name: "rdap.expires", Format: "date on which the registration ends, UTC", Example: "2026-08-13"},
	{Name: "rdap.registrar", Format: "the registrar's name as the registry has it, at most 80 bytes",
		Example: "NameSilo, LLC"},
	{Name: "rdap.status", Format: "states of the registration (RFC 8056), with \"_\" for blanks, sorted, joined by spaces", Example: "client_hold"},
}

// ErrPending means that the registry has not been asked yet, or has not answered.
var ErrPending = errors.New("the registration is not known yet")

// Observe implements facts.Source. It never asks a registry itself; what is unknown or old is put in the queue.
func (s *Source) Observe(ctx context.Context, e entity.Entity, wants func(string) bool) (entity.Facts, error) {
	domain := e.Facts["domain.registrable"]
	// A name under a private suffix was given out by whoever owns the suffix, and no registry knows of it.
	if domain == "" || e.Facts["domain.suffix_kind"] != "icann" ||
		!slices.ContainsFunc(table, func(f entity.Fact) bool { return wants(f.Name) }) {
		return nil, nil
	}
	k, known, err := s.kept(ctx, domain)
	if err != nil {
		return nil, err
	}
	now := s.now()
	if !known || !now.Before(k.Next) {
		s.fetcher.enqueue(domain)
	}
	if !known || k.Outcome == Failed {
		return nil, ErrPending
	}
	found := k.facts(now)
	maps.DeleteFunc(found, func(fact, _ string) bool { return !wants(fact) })
	return found, nil
}

// kept returns what is kept of domain, from memory or from the store.
func (s *Source) kept(ctx context.Context, domain string) (Kept, bool, error) {
	if r, ok := s.cache.Get(domain); ok && s.now().Before(r.until) {
		return r.kept, r.known, nil
	}
	k, known, err := s.store.Registration(ctx, domain)
	if err != nil {
		return Kept{}, false, err
	}
	s.remember(domain, k, known)
	return k, known, nil
}

func (s *Source) remember(domain string, k Kept, known bool) {
	r := remembered{k, known, s.now().Add(rememberNone)}
	if known {
		r.until = s.now().Add(rememberKept)
	}
	s.cache.Put(domain, r, 250+len(domain)+len(k.Registrar)+len(k.Status))
}

// keep remembers k and stores it.
func (s *Source) keep(ctx context.Context, domain string, k Kept) {
	s.remember(domain, k, true)
	if err := s.store.KeepRegistration(ctx, domain, k); err != nil && ctx.Err() == nil {
		s.log.Warn("a registration could not be kept", "error", err)
	}
}

// facts are what k tells at the time now.
func (k Kept) facts(now time.Time) entity.Facts {
	switch k.Outcome {
	case Absent:
		return entity.Facts{"rdap.found": "no"}
	case Registered:
	default:
		return nil
	}
	f := entity.Facts{"rdap.found": "yes"}
	add := func(name, value string) {
		if value != "" {
			f[name] = value
		}
	}
	if !k.Created.IsZero() {
		f["rdap.created"] = k.Created.UTC().Format(time.DateOnly)
		f["rdap.age_days"] = strconv.Itoa(max(0, int(now.Sub(k.Created)/(24*time.Hour))))
	}
	if !k.Expires.IsZero() {
		f["rdap.expires"] = k.Expires.UTC().Format(time.DateOnly)
	}
	add("rdap.registrar", k.Registrar)
	add("rdap.status", k.Status)
	return f
}

// The times after which a registry is asked again.
const (
	refreshOld      = 7 * 24 * time.Hour
	refreshYoung    = 24 * time.Hour
	youngFor        = 30 * 24 * time.Hour
	refreshAbsent   = time.Hour // it may be registered any moment, and used at once
	refreshUnserved = 7 * 24 * time.Hour
	firstBackoff    = 5 * time.Minute // doubles with each failure
	maxBackoff      = 24 * time.Hour
)

// after returns what to keep once the registry answered k, or failed with err, given what was kept before.
func after(before, k Kept, err error, now time.Time) Kept {
	if err != nil {
		k = before
		if k.Outcome == "" {
			k.Outcome = Failed
		}
		k.Failures++
		k.Fetched, k.Next = now, now.Add(min(firstBackoff<<min(k.Failures-1, 10), maxBackoff))
		return k
	}
	k.Fetched, k.Failures = now, 0
	switch {
	case k.Outcome == Absent:
		k.Next = now.Add(refreshAbsent)
	case k.Outcome == Unserved:
		k.Next = now.Add(refreshUnserved)
	case now.Sub(k.Created) < youngFor:
		k.Next = now.Add(refreshYoung)
	default:
		k.Next = now.Add(refreshOld)
	}
	return k
}
