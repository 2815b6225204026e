package override

import (
	"context"
	"crypto/hmac"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"assay/host/audit"
	"assay/host/check"
	"assay/host/entity"
)

// Source reads overrides.
type Source interface {
	// OverridesSince returns the overrides of the accounts that had changes after the given one, or of all accounts if
	// since is 0.
	OverridesSince(ctx context.Context, since int64) (Changes, error)
}

// Changes is a Source's state at one moment.
type Changes struct {
	Last     int64              // the number of the latest change; if it is less than since, the source went back
	Accounts map[string][]Entry // all entries of each account that changed
}

const (
	pollInterval = time.Second
	// reloadInterval is how often all overrides are read, which limits the effect of rows that were altered without
	// recording a change.
	reloadInterval = time.Minute
	// maxAge is the age from which overrides are no longer used.
	maxAge = 5 * time.Second
	// reloadTimeout limits reading all again, so that following the changes resumes before maxAge.
	reloadTimeout = 3 * time.Second
)

// Index finds overrides in memory. It follows a source by notification and polling.
type Index struct {
	source Source
	keys   Keys
	log    *slog.Logger
	now    func() time.Time // the database's clock, for expiry
	host   func() time.Time // monotonic, for the age of the overrides
	hints  chan struct{}

	reloaded time.Time                 // when a read of everything last began, by host; used by Load only
	loaded   atomic.Pointer[snapshot]  // nil: nothing was read yet
	readAt   atomic.Pointer[time.Time] // when the last successful read began, by host
}

// snapshot is immutable.
type snapshot struct {
	last     int64
	accounts map[string]*scope
	ignored  []string // ids of entries whose MAC is wrong
}

// scope holds the overrides of one account, or those for all.
type scope struct {
	entries map[string]Entry // by Match
	kinds   map[Kind]bool
	ignored []string
}

// NewIndex returns an index that has read nothing. now is the database's clock.
func NewIndex(source Source, keys Keys, now func() time.Time, log *slog.Logger) *Index {
	return &Index{source: source, keys: keys, log: log, now: now, host: time.Now, hints: make(chan struct{}, 1)}
}

// Hint makes Run read now. It never blocks.
func (x *Index) Hint() {
	select {
	case x.hints <- struct{}{}:
	default:
	}
}

// Run keeps the index up to date until ctx ends.
func (x *Index) Run(ctx context.Context) {
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	failing := false
	for {
		err := x.Load(ctx)
		if err != nil && ctx.Err() == nil && !failing {
			x.log.Warn("reading overrides failed", "error", err)
		}
		failing = err != nil
		select {
		case <-ctx.Done():
			return
		case <-x.hints:
		case <-tick.C:
		}
	}
}

// Load reads the changes, or everything at first and after each reloadInterval. Calls must not overlap.
func (x *Index) Load(ctx context.Context) error {
	current := x.loaded.Load()
	if current == nil {
		if err := x.read(ctx, 0); err != nil || !x.old() {
			return err
		}
		current = x.loaded.Load() // reading took so long that there may be newer changes
	} else if x.host().Sub(x.reloaded) >= reloadInterval {
		bounded, cancel := context.WithTimeout(ctx, reloadTimeout)
		defer cancel()
		err := x.read(bounded, 0)
		if err == nil || ctx.Err() != nil {
			return err
		}
		x.log.Warn("reading all overrides again failed", "error", err)
	}
	return x.read(ctx, current.last)
}

// read reads the changes after the one with the given number, or everything if it is 0.
func (x *Index) read(ctx context.Context, since int64) error {
	asked := x.host()
	if since == 0 {
		x.reloaded = asked
	}
	changes, err := x.source.OverridesSince(ctx, since)
	if err != nil {
		return fmt.Errorf("reading overrides: %w", err)
	}
	if changes.Last < since { // such as after restoring a backup
		return x.read(ctx, 0)
	}
	if since == 0 || changes.Last > since || len(changes.Accounts) > 0 {
		x.publish(x.loaded.Load(), since, changes)
	}
	x.readAt.Store(&asked)
	return nil
}

// publish replaces the snapshot. Entries whose MAC is wrong are left out and reported once.
func (x *Index) publish(current *snapshot, since int64, changes Changes) {
	next := &snapshot{last: changes.Last, accounts: map[string]*scope{}}
	if since != 0 {
		next.accounts = maps.Clone(current.accounts)
	}
	for account, entries := range changes.Accounts {
		delete(next.accounts, account)
		if s := x.newScope(account, entries); len(s.entries)+len(s.ignored) > 0 {
			next.accounts[account] = s
		}
	}
	for _, account := range slices.Sorted(maps.Keys(next.accounts)) {
		next.ignored = append(next.ignored, next.accounts[account].ignored...)
	}
	for _, id := range next.ignored {
		if current == nil || !slices.Contains(current.ignored, id) {
			x.log.Error("an override is ignored: its row was altered, or was not written by a host", "override", id)
		}
	}
	x.loaded.Store(next)
}

func (x *Index) newScope(account string, entries []Entry) *scope {
	s := &scope{entries: map[string]Entry{}, kinds: map[Kind]bool{}}
	for _, e := range entries {
		if e.Account != account || !x.keys.Authentic(e) {
			s.ignored = append(s.ignored, e.ID)
			continue
		}
		// The table has one entry for each target; if copies were inserted, the latest counts.
		if other, ok := s.entries[string(e.Match)]; ok && other.ID > e.ID {
			continue
		}
		s.entries[string(e.Match)] = e
		s.kinds[e.Kind] = true
	}
	return s
}

// Authentic reports whether a host wrote the entry as it is.
func (k Keys) Authentic(e Entry) bool { return hmac.Equal(k.MAC(e), e.MAC) }

var (
	errNotLoaded = errors.New("overrides are still loading")
	errTooOld    = errors.New("overrides could not be read for too long")
)

// Ready returns an error while a check may be refused because overrides are unknown.
func (x *Index) Ready() error {
	s := x.loaded.Load()
	switch {
	case s == nil:
		return errNotLoaded
	case len(s.accounts) > 0 && x.old():
		return errTooOld
	}
	return nil
}

func (x *Index) old() bool {
	at := x.readAt.Load()
	return at == nil || x.host().Sub(*at) > maxAge
}

// Ignored returns the ids of the entries that are ignored because their MAC is wrong.
func (x *Index) Ignored() []string {
	if s := x.loaded.Load(); s != nil {
		return s.ignored
	}
	return nil
}

// Size returns the number of overrides in force.
func (x *Index) Size() (n int) {
	if s := x.loaded.Load(); s != nil {
		for _, of := range s.accounts {
			n += len(of.entries)
		}
	}
	return n
}

// Find implements check.Overrides. The most specific of an account's overrides counts, and the most specific of those
// for all accounts. The account's override takes precedence, except over an operator's block.
func (x *Index) Find(account string, e entity.Entity) (*check.Override, error) {
	s := x.loaded.Load()
	if s == nil {
		return nil, &check.UnavailableError{Part: "overrides", Err: errNotLoaded}
	}
	all, own := s.accounts[""], s.accounts[account]
	if account == "" {
		own = nil
	}
	if own == nil && !all.concerns(e.Type) {
		return nil, nil
	}
	if x.old() {
		return nil, &check.UnavailableError{Part: "overrides", Err: errTooOld}
	}
	names := audit.NewPseudonyms(x.keys.Targets)
	ofAll := all.find(names, "", e, x.now())
	if ofAll == nil || ofAll.Action != check.Block {
		if found := own.find(names, account, e, x.now()); found != nil {
			return &check.Override{ID: found.ID, Verdict: found.Action, Digest: found.MAC}, nil
		}
	}
	if ofAll == nil {
		return nil, nil
	}
	return &check.Override{ID: ofAll.ID, Verdict: ofAll.Action, Digest: ofAll.MAC, Operator: true}, nil
}

// concerns reports whether an override in s can cover an entity of type t.
func (s *scope) concerns(t entity.Type) bool {
	if s == nil {
		return false
	}
	return s.kinds[Kind(t)] || s.kinds[Registrable] && (t == entity.Domain || t == entity.Email) ||
		s.kinds[Range] && t == entity.Phone || s.kinds[Bank] && t == entity.IBAN
}

// shortestRange is the length of "+1" and two digits.
const shortestRange = 4

// find returns the most specific entry that covers e and has not expired, or nil.
func (s *scope) find(names *audit.Pseudonyms, account string, e entity.Entity, now time.Time) *Entry {
	if s == nil {
		return nil
	}
	lookup := func(kind Kind, value string) *Entry {
		if value == "" || !s.kinds[kind] {
			return nil
		}
		entry, ok := s.entries[string(names.Of([]byte(account), string(kind), value))]
		if !ok || !entry.ExpiresAt.After(now) {
			return nil
		}
		return &entry
	}
	if found := lookup(Kind(e.Type), e.Value); found != nil {
		return found
	}
	registrable, number, bank := e.Groups()
	for n := len(number); n >= shortestRange; n-- {
		if found := lookup(Range, number[:n]); found != nil {
			return found
		}
	}
	if found := lookup(Registrable, registrable); found != nil {
		return found
	}
	return lookup(Bank, bank)
}
