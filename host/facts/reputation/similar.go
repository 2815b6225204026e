package reputation

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"assay/host/entity"
	"assay/host/facts"
	"assay/host/facts/feed"
)

// Similar is the source "similar": the known scam name that is nearest to an entity's name. It keeps the names of all
// lists in memory, with a separate index for each list, so that withdrawing a list removes all its names.
type Similar struct {
	store   Store
	log     *slog.Logger
	now     func() time.Time
	hints   chan struct{}
	poll    time.Duration
	lists   atomic.Pointer[[]*indexedList] // by name; nil until the lists have been loaded once
	noLists atomic.Pointer[time.Time]      // when Load last found no list at all; nil if it found one
	failing atomic.Pointer[failure]        // of the last Load; nil if it succeeded
}

// failure is a series of failed loads.
type failure struct {
	since time.Time // of the first one
	err   error     // of the last one
}

var (
	_ facts.Source = (*Similar)(nil)
	_ facts.Memory = (*Similar)(nil)
)

// indexedList holds the names of one version of a list. It is immutable once published.
type indexedList struct {
	feed.List
	goodVersions string     // goodListVersions when a bad list was read, because good lists remove pages from it
	domains      *nameIndex // of a bad list, by registrable label
	mailboxes    *nameIndex // of a bad list, by local part
	goodForms    []uint64   // of a good list, sorted: formHash of each domain's registrable label
}

const (
	pollInterval = time.Second // polling finds changes even if a hint is lost
	pageSize     = 20_000      // names to read in one query

	// noListsFor is how long Load's finding that there are no lists counts. A list that another host imports has an
	// effect within this time, even if this host cannot load it.
	noListsFor = 3 * pollInterval
	// maxFailing is how long the last loaded lists are used while loading newer ones fails.
	maxFailing = 30 * time.Second
	// loadTimeout limits one query of Load, so that a database that hangs is a failure.
	loadTimeout = 10 * time.Second
)

// minMailbox is the minimum length of a mailbox's form that is compared. Most shorter ones are personal names.
const minMailbox = 12

// errNotLoaded means that the lists have not been loaded yet.
var errNotLoaded = errors.New("known scam names are still loading")

// NewSimilar returns a source that reads lists from s. Until Load or Run has loaded them, Observe fails (see Ready).
func NewSimilar(s Store, log *slog.Logger) *Similar {
	return &Similar{store: s, log: log, now: time.Now, hints: make(chan struct{}, 1), poll: pollInterval}
}

// Name implements facts.Source.
func (*Similar) Name() string { return "similar" }

// Table implements facts.Source.
func (*Similar) Table() []entity.Fact { return slices.Clone(similarTable) }

var similarTable = []entity.Fact{
	entity.TextFact("similar.nearest", 253, "secure-paypal-login.xyz", "the nearest known scam domain, as listed; "+
		"absent if none is near, if a good list has the same registrable label under any suffix, and for "+
		"mailboxes, which would identify a person"),
	entity.TextFact("similar.part", 6, "domain", "the part that matches: domain (the registrable label) or user "+
		"(the mailbox of an address)"),
	entity.NumberFact("similar.distance", "1", "edit distance between the two names, 0 to 3, ignoring the suffix, "+
		"hyphens and the digits within a run of digits"),
	entity.NumberFact("similar.letters", "17", "length of the longer of the two names without the ignored "+
		"characters, 7 to 63"),
	entity.TextFact("similar.category", 15, "phishing", "the threat that the list names (section 6); absent if it "+
		"names none"),
	entity.TextFact("similar.list", 40, "CERT Polska", "name of the list"),
}

// NoLists reports whether Load has just found that no list, bad or good, was imported. If Load has not run for a while,
// NoLists returns false.
func (s *Similar) NoLists() bool {
	seen := s.noLists.Load()
	return seen != nil && s.now().Sub(*seen) < noListsFor
}

// Ready returns an error while the source has no facts: before the lists have been loaded once, and after loading has
// failed for so long that the loaded ones may be out of date. In between, they are as old as the last successful load.
func (s *Similar) Ready() error {
	failing := s.failing.Load()
	switch {
	case s.lists.Load() == nil && failing != nil:
		return fmt.Errorf("loading known scam names: %w", failing.err)
	case s.lists.Load() == nil:
		return errNotLoaded
	case failing != nil && s.now().Sub(failing.since) > maxFailing:
		return fmt.Errorf("known scam names are out of date: %w", failing.err)
	}
	return nil
}

// Hint makes Run reload the lists now. It never blocks.
func (s *Similar) Hint() {
	select {
	case s.hints <- struct{}{}:
	default:
	}
}

// Run keeps the lists up to date until ctx ends: on a hint at once, otherwise by polling.
func (s *Similar) Run(ctx context.Context) {
	tick := time.NewTicker(s.poll)
	defer tick.Stop()
	for {
		again := s.failing.Load() != nil
		if err := s.Load(ctx); err != nil && ctx.Err() == nil && !again {
			s.log.Warn("loading known scam names failed; the last loaded ones stay in use", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-s.hints:
		case <-tick.C:
		}
	}
}

// Load brings the memory up to date with the store. It drops withdrawn lists first, then reads new and changed ones.
// Calls must not overlap.
func (s *Similar) Load(ctx context.Context) error {
	err := s.load(ctx)
	if err == nil {
		s.failing.Store(nil)
		return nil
	}
	since := s.now()
	if before := s.failing.Load(); before != nil {
		since = before.since
	}
	s.failing.Store(&failure{since, err})
	return err
}

func (s *Similar) load(ctx context.Context) error {
	asked := s.now()
	lists, err := limited(ctx, s.store.Feeds)
	if err != nil {
		return err
	}
	s.noLists.Store(nil)
	if len(lists) == 0 {
		s.noLists.Store(&asked)
	}
	loaded := map[int]*indexedList{}
	if current := s.lists.Load(); current != nil {
		for _, l := range *current {
			loaded[l.ID] = l
		}
	}
	next := map[int]*indexedList{}
	good := goodListVersions(lists, s.now())
	var stale []feed.List
	for _, list := range lists {
		l := loaded[list.ID]
		if l == nil || l.Version != list.Version || list.Kind == feed.Bad && l.goodVersions != good {
			stale = append(stale, list)
		}
		if l != nil {
			current := *l
			if l.Version == list.Version { // confirming a list extends it without a new version
				current.ExpiresAt = list.ExpiresAt
			}
			next[list.ID] = &current
		}
	}
	if s.lists.Load() != nil {
		s.publish(next)
	}
	for _, list := range stale {
		l, err := s.read(ctx, list, good)
		if err != nil {
			return err
		}
		next[list.ID] = l
	}
	if len(stale) > 0 || s.lists.Load() == nil {
		s.publish(next)
	}
	return nil
}

// limited runs a query of Load for at most loadTimeout.
func limited[T any](ctx context.Context, query func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, loadTimeout)
	defer cancel()
	return query(ctx)
}

func (s *Similar) publish(lists map[int]*indexedList) {
	sorted := slices.SortedFunc(maps.Values(lists), func(a, b *indexedList) int {
		return strings.Compare(a.Name, b.Name)
	})
	s.lists.Store(&sorted)
}

// goodListVersions identifies the good lists in force and their versions.
func goodListVersions(lists []feed.List, now time.Time) string {
	var all strings.Builder
	for _, l := range lists {
		if l.Kind == feed.Good && l.InForce(now) {
			fmt.Fprintf(&all, "%d.%d ", l.ID, l.Version)
		}
	}
	return all.String()
}

// read indexes a whole list.
func (s *Similar) read(ctx context.Context, list feed.List, goodVersions string) (*indexedList, error) {
	l := &indexedList{List: list, goodVersions: goodVersions, domains: newNameIndex(), mailboxes: newNameIndex()}
	var after []byte
	for {
		names, err := limited(ctx, func(ctx context.Context) ([]ListedName, error) {
			return s.store.FeedNames(ctx, list.ID, after, pageSize)
		})
		if err != nil {
			return nil, err
		}
		for _, n := range names {
			l.add(n)
		}
		if len(names) < pageSize {
			slices.Sort(l.goodForms)
			l.goodForms = slices.Clip(slices.Compact(l.goodForms))
			return l, nil
		}
		after = names[len(names)-1].Node
	}
}

func (l *indexedList) add(n ListedName) {
	f, ok := formOf(n.Name)
	if !ok {
		return
	}
	switch {
	case l.Kind == feed.Good:
		if n.Type == string(entity.Domain) {
			l.goodForms = append(l.goodForms, formHash(f))
		}
	case n.Type == string(entity.Domain):
		l.domains.add(f, n.Value, n.Category)
	case n.Type == string(entity.Email) && len(f) >= minMailbox:
		l.mailboxes.add(f, n.Value, n.Category)
	}
}

// Recall implements facts.Memory.
func (s *Similar) Recall(e entity.Entity, wants func(string) bool) (entity.Facts, bool, error) {
	found, err := s.Observe(context.Background(), e, wants)
	return found, true, err
}

// Observe implements facts.Source.
func (s *Similar) Observe(_ context.Context, e entity.Entity, wants func(string) bool) (entity.Facts, error) {
	if !anyWanted(similarTable, wants) {
		return nil, nil
	}
	if err := s.Ready(); err != nil {
		return nil, err
	}
	loaded, now := s.lists.Load(), s.now()
	if len(*loaded) == 0 {
		return nil, nil
	}
	lists := slices.DeleteFunc(slices.Clone(*loaded), func(l *indexedList) bool { return !l.InForce(now) })
	if e.Type == entity.Domain || e.Type == entity.Email && e.Facts["email.provider"] == "" {
		if found := nearestDomain(lists, e.Facts["domain.name"], e.Facts["domain.registrable"]); found != nil {
			return found, nil
		}
	}
	if e.Type == entity.Email {
		return nearestMailbox(lists, e.Facts["email.user"], e.Value), nil
	}
	return nil, nil
}

// nearestDomain compares a registrable label with those of bad lists. A label on a good list is never compared, because
// scam names imitate it.
func nearestDomain(lists []*indexedList, label, registrable string) entity.Facts {
	f, ok := formOf(label)
	if !ok {
		return nil
	}
	hash := formHash(f)
	for _, l := range lists {
		if _, good := slices.BinarySearch(l.goodForms, hash); good {
			return nil
		}
	}
	return nearestName(lists, f, "domain", func(l *indexedList) *nameIndex { return l.domains },
		func(name string) bool { return name == registrable || strings.HasSuffix(name, "."+registrable) })
}

func nearestMailbox(lists []*indexedList, mailbox, address string) entity.Facts {
	f, ok := formOf(mailbox)
	if !ok || len(f) < minMailbox {
		return nil
	}
	found := nearestName(lists, f, "user", func(l *indexedList) *nameIndex { return l.mailboxes },
		func(name string) bool { return name == address })
	delete(found, "similar.nearest")
	return found
}

// nearestName searches one index of each list. A match for which self reports true is the entity's own entry, which the
// source "feed" reports.
func nearestName(lists []*indexedList, f form, part string, indexOf func(*indexedList) *nameIndex,
	self func(name string) bool) entity.Facts {
	var best nameMatch
	var list *indexedList
	for _, l := range lists {
		if m, ok := indexOf(l).nearest(f); ok && (list == nil || m.distance < best.distance) &&
			!self(indexOf(l).name(m.entry)) {
			best, list = m, l
		}
	}
	if list == nil {
		return nil
	}
	x := indexOf(list)
	found := entity.Facts{
		"similar.nearest": x.name(best.entry), "similar.part": part, "similar.list": list.Name,
		"similar.distance": strconv.Itoa(best.distance), "similar.letters": strconv.Itoa(best.length),
	}
	if category := x.categories[x.category[best.entry]]; category != "" {
		found["similar.category"] = category
	}
	return found
}
