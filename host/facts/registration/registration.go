// Package registration is the fact source "rdap": when and through which registrar a domain was registered, from RDAP
// (RFC 9082, RFC 9083). Checks read stored records only, and a rate-limited background fetcher queries the registries.
// It is the only package that uses openrdap.
package registration

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"assay/host/access/admission"
	"assay/host/entity"
	"assay/host/facts"
	"assay/host/internal/lru"
)

// Outcome is the result of querying a registry about a domain.
type Outcome string

// The outcomes, as stored.
const (
	Registered Outcome = "registered"
	Absent     Outcome = "absent"   // the registry has no such domain
	Unserved   Outcome = "unserved" // the suffix has no RDAP server
	Failed     Outcome = "failed"   // every query so far has failed
)

// Record is the known registration data of a domain.
type Record struct {
	Outcome   Outcome
	Created   time.Time // zero if unknown
	Expires   time.Time // zero if unknown
	Changed   time.Time // last change of the registry's record; zero if unknown
	Registrar string    // at most 80 bytes; "" if unknown
	Status    string    // status values with "_" for spaces, sorted, separated by spaces
	Fetched   time.Time // last query
	NextFetch time.Time // earliest time of the next query
	Failures  int       // consecutive failed queries
}

// Store keeps records across restarts and shares them between hosts.
type Store interface {
	// Registration returns the record of a domain; ok reports whether there is one.
	Registration(ctx context.Context, domain string) (r Record, ok bool, err error)
	// SaveRegistration replaces the record of a domain, unless the stored one was fetched later, or is an answer that
	// is not due and the query for r failed.
	SaveRegistration(ctx context.Context, domain string, r Record) error
}

// Config configures a Source.
type Config struct {
	Store  Store
	URL    string   // base URL of the only RDAP server to query; "" means the registries' servers (RFC 9224)
	DNS    []string // DNS resolver for the names of RDAP servers, host:port; only the first is used; nil: the system's
	Logger *slog.Logger
	Now    func() time.Time // default: time.Now
}

const (
	cacheEntries = 100_000
	cacheBytes   = 32 << 20
	// Another host may store a newer record meanwhile, so cached results expire.
	recordTTL   = 10 * time.Minute
	noRecordTTL = 20 * time.Second
)

// Source is the source "rdap". It queries registries only about domains that are checked while a layer reads its facts.
type Source struct {
	store   Store
	log     *slog.Logger
	now     func() time.Time
	cache   *lru.Cache[string, cacheEntry] // by domain
	fetcher *fetcher
}

var (
	_ facts.Source = (*Source)(nil)
	_ facts.Memory = (*Source)(nil)
)

// cacheEntry is a cached result of Store.Registration.
type cacheEntry struct {
	record  Record
	ok      bool
	expires time.Time
}

// New returns the source. It returns an error if the URL is invalid.
func New(cfg Config) (*Source, error) {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	c, err := newClient(cfg.URL, cfg.DNS, cfg.Now)
	if err != nil {
		return nil, err
	}
	s := &Source{
		store: cfg.Store, log: cfg.Logger, now: cfg.Now, cache: lru.New[string, cacheEntry](cacheEntries, cacheBytes),
	}
	s.fetcher = newFetcher(c, s)
	return s, nil
}

// Close cancels the background fetches and waits for them to end.
func (s *Source) Close() error {
	s.fetcher.close()
	return nil
}

// Name implements facts.Source.
func (*Source) Name() string { return "rdap" }

// Table implements facts.Source.
func (*Source) Table() []entity.Fact { return slices.Clone(table) }

var table = []entity.Fact{
	entity.YesNoFact("rdap.found", "yes", "yes or no: whether the registry has the registrable domain; absent "+
		"while unknown"),
	entity.TextFact("rdap.created", 10, "1995-08-14", "date of registration, UTC"),
	entity.NumberFact("rdap.age_days", "3", "whole days from registration until the check"),
	entity.NumberFact("rdap.unchanged_days", "412", "whole days since the registry last changed its record of the "+
		"domain: for as long, name servers, registrar and holder are the same; at most rdap.age_days"),
	entity.TextFact("rdap.expires", 10, "2026-08-13", "date on which the registration expires, UTC"),
	entity.TextFact("rdap.registrar", 80, "NameSilo, LLC", "name of the registrar according to the registry, at "+
		"most 80 bytes"),
	entity.ListFact("rdap.status", 1024, "client_hold", "status values (RFC 8056) with \"_\" for spaces, sorted, "+
		"separated by spaces"),
}

// Recall implements facts.Memory. It knows the facts if the record is in the cache and not due. Otherwise the domain
// may have to be queued, for an account that only Observe learns.
func (s *Source) Recall(e entity.Entity, wants func(string) bool) (entity.Facts, bool, error) {
	domain, ok := registeredDomain(e, wants)
	if !ok {
		return nil, true, nil
	}
	cached, ok := s.cached(domain)
	if !ok || s.isDue(cached.record, cached.ok) {
		return nil, false, nil
	}
	found, err := s.report(cached.record, cached.ok, wants)
	return found, true, err
}

// Observe implements facts.Source. It never waits for a registry: if a record is missing or due for a refresh, it
// queues the domain for the fetcher. It fails if the stored record cannot be read: that depends only on this host.
func (s *Source) Observe(ctx context.Context, e entity.Entity, wants func(string) bool) (entity.Facts, error) {
	domain, ok := registeredDomain(e, wants)
	if !ok {
		return nil, nil
	}
	r, ok, err := s.load(ctx, domain)
	if err != nil {
		return nil, fmt.Errorf("reading the stored registration: %w", err)
	}
	if s.isDue(r, ok) {
		s.fetcher.enqueue(admission.Holder(ctx), domain)
	}
	return s.report(r, ok, wants)
}

// isDue reports whether the registry must be queried about a domain with this record, if there is one.
func (s *Source) isDue(r Record, ok bool) bool { return !ok || !s.now().Before(r.NextFetch) }

// registeredDomain returns the domain whose registration the wanted facts are about, and whether there is one.
func registeredDomain(e entity.Entity, wants func(string) bool) (string, bool) {
	domain := e.Facts["domain.registrable"]
	// Names under private suffixes are assigned by the suffix's owner. Registries do not know them.
	ok := domain != "" && e.Facts["domain.suffix_kind"] == "icann" &&
		slices.ContainsFunc(table, func(f entity.Fact) bool { return wants(f.Name) })
	return domain, ok
}

// report returns the wanted facts of a domain's record, if there is one. A domain that could not be queued counts as
// pending too, because a later check queues it; ErrUnanswered would count it as a failure of the registries.
func (s *Source) report(r Record, ok bool, wants func(string) bool) (entity.Facts, error) {
	if !ok {
		return nil, facts.ErrPending
	}
	if r.Outcome == Failed {
		return nil, facts.ErrUnanswered
	}
	found := r.facts(s.now())
	maps.DeleteFunc(found, func(fact, value string) bool { return value == "" || !wants(fact) })
	return found, nil
}

// cached returns the cached result for a domain, if it has not expired.
func (s *Source) cached(domain string) (cacheEntry, bool) {
	e, ok := s.cache.Get(domain)
	return e, ok && s.now().Before(e.expires)
}

// load returns the record of domain from the cache or the store.
func (s *Source) load(ctx context.Context, domain string) (Record, bool, error) {
	if e, ok := s.cached(domain); ok {
		return e.record, e.ok, nil
	}
	r, ok, err := s.store.Registration(ctx, domain)
	if err != nil {
		return Record{}, false, err
	}
	s.cacheRecord(domain, r, ok)
	return r, ok, nil
}

// cacheRecord caches a record of domain, or that the store has none.
func (s *Source) cacheRecord(domain string, r Record, ok bool) {
	ttl := recordTTL
	if r.Fetched.IsZero() { // the store has none
		ttl = noRecordTTL
	}
	s.cache.Put(domain, cacheEntry{r, ok, s.now().Add(ttl)}, 250+len(domain)+len(r.Registrar)+len(r.Status))
}

// save caches and stores a record.
func (s *Source) save(ctx context.Context, domain string, r Record) {
	s.cacheRecord(domain, r, true)
	if err := s.store.SaveRegistration(ctx, domain, r); err != nil && ctx.Err() == nil {
		s.log.Warn("registration could not be stored", "error", err)
	}
}

// facts returns the facts of the record at the given time; unknown facts are empty or missing.
func (r Record) facts(now time.Time) entity.Facts {
	switch r.Outcome {
	case Absent:
		return entity.Facts{"rdap.found": "no"}
	case Registered:
	default:
		return nil
	}
	f := entity.Facts{"rdap.found": "yes", "rdap.registrar": r.Registrar, "rdap.status": r.Status}
	if !r.Created.IsZero() {
		f["rdap.created"] = r.Created.UTC().Format(time.DateOnly)
		f["rdap.age_days"] = facts.Days(r.Created, now)
	}
	if !r.Changed.IsZero() && !r.Changed.Before(r.Created) {
		f["rdap.unchanged_days"] = facts.Days(r.Changed, now)
	}
	if !r.Expires.IsZero() {
		f["rdap.expires"] = r.Expires.UTC().Format(time.DateOnly)
	}
	return f
}

// Intervals between queries about the same domain.
const (
	refreshOld      = 7 * 24 * time.Hour
	refreshYoung    = 24 * time.Hour // of domains registered less than youngFor ago
	youngFor        = 30 * 24 * time.Hour
	refreshAbsent   = time.Hour // the domain may be registered at any time, and used at once
	refreshUnserved = 7 * 24 * time.Hour
	firstBackoff    = 5 * time.Minute // doubles with each failure
	maxBackoff      = 24 * time.Hour
)

// afterQuery returns the record to store after a query that returned r or err. If the query failed, it is the previous
// record with the time of the next attempt.
func afterQuery(previous, r Record, err error, now time.Time) Record {
	if err != nil {
		r = previous
		r.Outcome = cmp.Or(r.Outcome, Failed)
		r.Failures++
		r.Fetched, r.NextFetch = now, now.Add(min(firstBackoff<<min(r.Failures-1, 10), maxBackoff))
		return r
	}
	interval := refreshOld
	switch {
	case r.Outcome == Absent:
		interval = refreshAbsent
	case r.Outcome == Unserved:
		interval = refreshUnserved
	case now.Sub(r.Created) < youngFor:
		interval = refreshYoung
	}
	r.Fetched, r.NextFetch, r.Failures = now, now.Add(interval), 0
	return r
}
