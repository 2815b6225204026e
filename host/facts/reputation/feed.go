package reputation

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"assay/host/entity"
	"assay/host/facts"
	"assay/host/feed"
	"assay/host/store"
)

// Feed is the source "feed": what the imported lists say of an entity.
type Feed struct {
	none  func() bool
	reads coalescer[[]store.Node, []store.Listing]
	now   func() time.Time
}

var _ facts.Source = (*Feed)(nil)

// NewFeed returns the source on a store. While none, which may lag behind the store as other hosts do, says that there
// are no lists, nothing is looked up.
func NewFeed(s Store, none func() bool) *Feed {
	f := &Feed{none: none, now: time.Now}
	f.reads.most = 256
	f.reads.ask = func(ctx context.Context, asked [][]store.Node) ([][]store.Listing, error) {
		var nodes []store.Node
		var owner []int // of each node, the question that it belongs to
		first := make([]int, len(asked))
		for i, q := range asked {
			first[i] = len(nodes)
			nodes = append(nodes, q...)
			for range q {
				owner = append(owner, i)
			}
		}
		listings, err := s.Listings(ctx, nodes)
		if err != nil {
			return nil, err
		}
		answers := make([][]store.Listing, len(asked))
		for _, l := range listings {
			i := owner[l.Asked]
			l.Asked -= first[i]
			answers[i] = append(answers[i], l)
		}
		return answers, nil
	}
	return f
}

// Name implements facts.Source.
func (*Feed) Name() string { return "feed" }

// Table implements facts.Source.
func (*Feed) Table() []entity.Fact { return slices.Clone(feedTable) }

var feedTable = []entity.Fact{
	{Name: "feed.listed", Format: "the lists of known bad entities that hold it, the first 3, joined by \", \"; absent when none", Example: "URLhaus, CERT Polska"},
	{Name: "feed.lists", Format: "how many do", Example: "2"},
	{Name: "feed.match", Format: "what they hold: exact (the entity itself), parent (a name that it lies under, up to the registrable domain), " +
		"mail_domain (the domain of the address), or page (only pages on the host)", Example: "exact"},
	{Name: "feed.category", Format: "the threat that most of them name (section 6); absent when none is named",
		Example: "phishing"},
	{Name: "feed.days", Format: "whole days since the first of them was found to hold it", Example: "12"},
	{Name: "feed.good", Format: "the lists of known good entities that hold it, as in feed.listed", Example: "Tranco"},
	{Name: "feed.good_match", Format: "what they hold: exact, parent or mail_domain", Example: "exact"},
}

// maxNamed bounds how many lists a fact names.
const maxNamed = 3

// asked is a node that is looked up, and what a listing of it means for the entity.
type asked struct {
	node  store.Node
	match string
}

// The ways in which a list can hold an entity, the most telling first.
const (
	matchExact      = "exact"
	matchMailDomain = "mail_domain"
	matchParent     = "parent"
	matchPage       = "page"
)

var matchOrder = []string{matchExact, matchMailDomain, matchParent, matchPage}

// listable lists what of an entity can be on a list. Names above it count up to the registrable domain: under a shared
// suffix of the public suffix list that is the customer's own name, so a listing of the whole host never falls on its
// customers. A large mail provider's domain says nothing of a mailbox there.
func listable(e entity.Entity) []asked {
	all := []asked{{selfNode(e), matchExact}}
	name, match := e.Value, matchParent
	switch e.Type {
	case entity.Domain:
	case entity.Email:
		if e.Facts["email.provider"] != "" {
			return all
		}
		name = e.Facts["domain.ascii"]
		all = append(all, asked{store.Node{Kind: string(entity.Domain), Value: name}, matchMailDomain})
		match = matchMailDomain
	default:
		return all
	}
	registrable := e.Facts["domain.registrable"]
	for range maxParents {
		_, above, found := strings.Cut(name, ".")
		if !found || registrable == "" || name == registrable {
			break
		}
		name = above
		all = append(all, asked{store.Node{Kind: string(entity.Domain), Value: name}, match})
	}
	if name != registrable && registrable != "" {
		all = append(all, asked{store.Node{Kind: string(entity.Domain), Value: registrable}, match})
	}
	return all
}

// maxParents bounds how many names above a long one are looked up, besides the registrable domain.
const maxParents = 4

// Observe implements facts.Source.
func (f *Feed) Observe(ctx context.Context, e entity.Entity, wants func(string) bool) (entity.Facts, error) {
	if !anyWanted(feedTable, wants) || f.none() {
		return nil, nil
	}
	asks := listable(e)
	nodes := make([]store.Node, len(asks))
	for i, a := range asks {
		nodes[i] = a.node
	}
	listings, err := f.reads.get(ctx, nodes)
	if err != nil {
		return nil, err
	}
	found := entity.Facts{}
	bad, good := standing(asks, listings, feed.Bad), standing(asks, listings, feed.Good)
	if len(bad.names) > 0 {
		found["feed.listed"] = joined(bad.names, maxNamed)
		found["feed.lists"] = strconv.Itoa(len(bad.names))
		found["feed.match"] = bad.match
		found["feed.category"] = bad.category
		found["feed.days"] = days(bad.since, f.now())
	}
	if len(good.names) > 0 {
		found["feed.good"] = joined(good.names, maxNamed)
		found["feed.good_match"] = good.match
	}
	for name, value := range found {
		if value == "" {
			delete(found, name)
		}
	}
	return found, nil
}

// stand is what the lists of one kind say together: those that hold the entity in the most telling way.
type stand struct {
	names    []string
	match    string
	category string
	since    time.Time
}

func standing(asks []asked, listings []store.Listing, kind feed.Kind) (s stand) {
	// way is how telling a listing is. A page says a little of the host that it is on, and nothing of what else goes by
	// its name; of a host it says nothing good.
	way := func(l store.Listing) int {
		match := asks[l.Asked].match
		switch {
		case l.Kind != kind, l.Page && (kind == feed.Good || match != matchExact):
			return len(matchOrder)
		case l.Page:
			match = matchPage
		}
		return slices.Index(matchOrder, match)
	}
	best := len(matchOrder)
	for _, l := range listings {
		best = min(best, way(l))
	}
	if best == len(matchOrder) {
		return s
	}
	s.match = matchOrder[best]
	votes := map[string]int{}
	for _, l := range listings {
		if way(l) != best || slices.Contains(s.names, l.Name) {
			continue
		}
		s.names = append(s.names, l.Name)
		if l.Category != "" {
			votes[l.Category]++
		}
		if s.since.IsZero() || l.FirstSeen.Before(s.since) {
			s.since = l.FirstSeen
		}
	}
	for category, n := range votes {
		if n > votes[s.category] || n == votes[s.category] && cmp.Less(category, s.category) {
			s.category = category
		}
	}
	return s
}
