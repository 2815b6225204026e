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
	"assay/host/feed"
	"assay/host/store"
)

// Similar is the source "similar": the known scam name that is nearest to an entity's. It keeps the names of all lists
// in memory, a part for each list, so that what a list does to the answers goes with it.
type Similar struct {
	store Store
	log   *slog.Logger
	now   func() time.Time
	hints chan struct{}
	poll  time.Duration
	parts atomic.Pointer[[]*part] // nil until the lists have been read once
	none  atomic.Bool             // there were no lists
}

var _ facts.Source = (*Similar)(nil)

// part is what similarity keeps of one version of a list. It is never changed once it is in use.
type part struct {
	feed    store.Feed
	beside  string   // the good lists in force when a bad one was read: pages on their hosts are left out of it
	domains *index   // of a bad list, by registrable label
	users   *index   // by mailbox
	good    []uint64 // of a good list: the forms' hashes, sorted
}

// How the lists are followed.
const (
	pollFeeds = time.Second // the hint may be lost; this is the truth
	retryRead = 10 * time.Second
	perPage   = 20_000 // entries read at a time
)

// NewSimilar returns the source on a store. It knows nothing until Load or Run has read the lists.
func NewSimilar(s Store, log *slog.Logger) *Similar {
	return &Similar{store: s, log: log, now: time.Now, hints: make(chan struct{}, 1), poll: pollFeeds}
}

// Name implements facts.Source.
func (*Similar) Name() string { return "similar" }

// Table implements facts.Source.
func (*Similar) Table() []entity.Fact { return slices.Clone(similarTable) }

var similarTable = []entity.Fact{
	{Name: "similar.nearest", Format: "the known scam name that is nearest to the registrable domain's, as its list has it; absent when none is near, " +
		"when a list of known good ones holds that name under any suffix, and for a mailbox, which is somebody's",
		Example: "secure-paypal-login.xyz"},
	{Name: "similar.part", Format: "what is near: domain (its registrable label), or user (the mailbox of an address)",
		Example: "domain"},
	{Name: "similar.distance", Format: "letters to be changed, added or dropped to get from one name to the other, 0 to 3: hyphens, and which digits " +
		"stand in a run of them, do not count, nor does the suffix", Example: "1"},
	{Name: "similar.letters", Format: "letters of the longer of the two, 7 to 63", Example: "17"},
	{Name: "similar.category", Format: "the threat that the list names (section 6); absent when none",
		Example: "phishing"},
	{Name: "similar.list", Format: "the list", Example: "CERT Polska"},
}

// NoLists says that there were no lists, good ones included, when they were last looked for.
func (s *Similar) NoLists() bool { return s.none.Load() }

// Hint tells that lists may have changed. It never blocks.
func (s *Similar) Hint() {
	select {
	case s.hints <- struct{}{}:
	default:
	}
}

// Run follows the lists until ctx ends: at once when hinted, else by polling.
func (s *Similar) Run(ctx context.Context) {
	tick := time.NewTicker(s.poll)
	defer tick.Stop()
	var failed time.Time
	for {
		if time.Since(failed) > retryRead {
			if err := s.Load(ctx); err != nil && ctx.Err() == nil {
				failed = time.Now()
				s.log.Warn("known scam patterns cannot be read; what was read before counts", "error", err)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-s.hints:
			failed = time.Time{}
		case <-tick.C:
		}
	}
}

// Load brings the memory up to what the store has: lists that were withdrawn go first and at once, then new and changed
// ones are read. One call at a time.
func (s *Similar) Load(ctx context.Context) error {
	feeds, err := s.store.Feeds(ctx)
	if err != nil {
		return err
	}
	s.none.Store(len(feeds) == 0)
	held := map[int]*part{}
	if parts := s.parts.Load(); parts != nil {
		for _, p := range *parts {
			held[p.feed.ID] = p
		}
	}
	wanted := map[int]*part{}
	good := goodLists(feeds, s.now())
	var stale []store.Feed
	for _, f := range feeds {
		p := held[f.ID]
		if p == nil || p.feed.Version != f.Version || f.Kind == feed.Bad && p.beside != good {
			stale = append(stale, f)
		}
		if p != nil {
			wanted[f.ID] = p
		}
	}
	if len(wanted) != len(held) {
		s.publish(wanted)
	}
	for _, f := range stale {
		p, err := s.read(ctx, f, good)
		if err != nil {
			return err
		}
		wanted[f.ID] = p
	}
	if len(stale) > 0 || s.parts.Load() == nil {
		s.publish(wanted)
	}
	return nil
}

func (s *Similar) publish(parts map[int]*part) {
	list := slices.SortedFunc(maps.Values(parts),
		func(a, b *part) int { return strings.Compare(a.feed.Name, b.feed.Name) })
	s.parts.Store(&list)
}

// goodLists names the good lists in force and their versions.
func goodLists(feeds []store.Feed, now time.Time) string {
	var all strings.Builder
	for _, f := range feeds {
		if f.Kind == feed.Good && f.InForce(now) {
			fmt.Fprintf(&all, "%d.%d ", f.ID, f.Version)
		}
	}
	return all.String()
}

// read reads one list whole, beside the good lists in force.
func (s *Similar) read(ctx context.Context, f store.Feed, good string) (*part, error) {
	p := &part{feed: f, beside: good, domains: newIndex(), users: newIndex()}
	var after []byte
	for {
		entries, err := s.store.FeedEntries(ctx, f.ID, after, perPage)
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			p.add(e)
		}
		if len(entries) < perPage {
			slices.Sort(p.good)
			p.good = slices.Clip(slices.Compact(p.good))
			return p, nil
		}
		after = entries[len(entries)-1].Node
	}
}

func (p *part) add(e store.FeedEntry) {
	f, ok := formOf(e.Name)
	if !ok {
		return
	}
	switch {
	case p.feed.Kind == feed.Good:
		if e.Type == string(entity.Domain) {
			p.good = append(p.good, hash64(string(f)))
		}
	case e.Type == string(entity.Domain):
		p.domains.add(f, e.Value, e.Category)
	case e.Type == string(entity.Email) && len(f) >= minUser:
		p.users.add(f, e.Value, e.Category)
	}
}

// minUser is the shortest form of a mailbox that is compared: most shorter ones are people's names.
const minUser = 12

// errNotRead means that the lists have not been read yet.
var errNotRead = errors.New("known scam patterns are still being read")

// Observe implements facts.Source.
func (s *Similar) Observe(_ context.Context, e entity.Entity, wants func(string) bool) (entity.Facts, error) {
	if !anyWanted(similarTable, wants) {
		return nil, nil
	}
	held := s.parts.Load()
	if held == nil {
		return nil, errNotRead
	}
	now := s.now()
	parts := slices.DeleteFunc(slices.Clone(*held), func(p *part) bool { return !p.feed.InForce(now) })
	if e.Type == entity.Domain || e.Type == entity.Email && e.Facts["email.provider"] == "" {
		if found := nearestDomain(parts, e.Facts["domain.name"], e.Facts["domain.registrable"]); found != nil {
			return found, nil
		}
	}
	if e.Type == entity.Email {
		return nearestUser(parts, e.Facts["email.user"], e.Value), nil
	}
	return nil, nil
}

// nearestDomain looks for a registrable label among those of bad lists. What a good list holds is what scams are made
// to be like.
func nearestDomain(parts []*part, label, registrable string) entity.Facts {
	f, ok := formOf(label)
	if !ok {
		return nil
	}
	key := hash64(string(f))
	for _, p := range parts {
		if _, good := slices.BinarySearch(p.good, key); good {
			return nil
		}
	}
	return nearest(parts, f, "domain", func(p *part) *index { return p.domains }, func(listed string) bool {
		return listed == registrable || strings.HasSuffix(listed, "."+registrable)
	})
}

func nearestUser(parts []*part, user, address string) entity.Facts {
	f, ok := formOf(user)
	if !ok || len(f) < minUser {
		return nil
	}
	found := nearest(parts, f, "user", func(p *part) *index { return p.users },
		func(listed string) bool { return listed == address })
	delete(found, "similar.nearest")
	return found
}

// nearest looks through all bad lists. A name that is the entity itself is no neighbour: that it is listed, the source
// "feed" tells.
func nearest(parts []*part, f form, what string, in func(*part) *index, self func(listed string) bool) entity.Facts {
	var best found
	var of *part
	for _, p := range parts {
		if got, ok := in(p).nearest(f); ok && (of == nil || got.distance < best.distance) &&
			!self(in(p).name(got.entry)) {
			best, of = got, p
		}
	}
	if of == nil {
		return nil
	}
	x := in(of)
	facts := entity.Facts{
		"similar.nearest": x.name(best.entry), "similar.part": what, "similar.list": of.feed.Name,
		"similar.distance": strconv.Itoa(best.distance), "similar.letters": strconv.Itoa(best.length),
	}
	if category := x.categoryOf(best.entry); category != "" {
		facts["similar.category"] = category
	}
	return facts
}
