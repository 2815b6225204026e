package reputation

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"assay/host/entity"
	"assay/host/facts"
	"assay/host/facts/feed"
	"assay/sdk"
)

// Feed is the source "feed": entries for an entity in the imported lists.
type Feed struct {
	noLists  func() bool
	listings batcher[[]Node, []Listing]
	now      func() time.Time
}

var (
	_ facts.Source = (*Feed)(nil)
	_ facts.Memory = (*Feed)(nil)
)

// NewFeed returns a source that reads from s. It skips lookups while noLists reports that no list is imported, a
// finding that must be at most seconds old (see Similar.NoLists).
func NewFeed(s Store, noLists func() bool) *Feed {
	f := &Feed{noLists: noLists, now: time.Now}
	f.listings.maxBatch = 256
	f.listings.run = func(ctx context.Context, queries [][]Node) ([][]Listing, error) {
		var nodes []Node
		var owner []int // for each node, its query
		first := make([]int, len(queries))
		for i, query := range queries {
			first[i] = len(nodes)
			nodes = append(nodes, query...)
			for range query {
				owner = append(owner, i)
			}
		}
		found, err := s.Listings(ctx, nodes)
		if err != nil {
			return nil, err
		}
		results := make([][]Listing, len(queries))
		for _, l := range found {
			i := owner[l.Index]
			l.Index -= first[i]
			results[i] = append(results[i], l)
		}
		return results, nil
	}
	return f
}

// Name implements facts.Source.
func (*Feed) Name() string { return "feed" }

// Table implements facts.Source.
func (*Feed) Table() []entity.Fact { return slices.Clone(feedTable) }

var feedTable = []entity.Fact{
	entity.TextFact("feed.listed", 160, "URLhaus, CERT Polska", "names of the bad lists that have the best match "+
		"in feed.match: the first 3, joined by \", \", then the number of others; absent if there is none"),
	entity.NumberFact("feed.lists", "2", "number of lists in feed.listed"),
	entity.TextFact("feed.match", 11, "exact", "best match on a bad list: exact (the entity itself), mail_domain "+
		"(the domain of the address, or one above it), parent (a domain above the name, up to the registrable "+
		"domain), or page (only pages on the host)"),
	entity.TextFact("feed.category", 15, "phishing", "the threat that most of these lists name (section 6), but "+
		"disposable only if all name it; absent if none names one"),
	entity.NumberFact("feed.days", "12", "whole days since the oldest of these entries was imported"),
	entity.TextFact("feed.good", 160, "Tranco", "names of the good lists that have the best match in "+
		"feed.good_match, as in feed.listed"),
	entity.NumberFact("feed.rank", "8410", "best rank of the domain, of the mail domain, or of a domain above them "+
		"up to the registrable domain, on the ranked lists; 1 is the most popular; absent for addresses at large "+
		"mail providers"),
	entity.TextFact("feed.rank_list", 40, "Tranco", "name of the list in which it has this rank"),
	entity.YesNoFact("feed.fresh", "yes", "yes or no: whether at least one of the lists in feed.listed is not out "+
		"of date; those of disposable mail count only if all are"),
	entity.TextFact("feed.good_match", 11, "exact", "best match on a good list: exact, mail_domain or parent"),
}

// maxNamedLists bounds the list names in one fact.
const maxNamedLists = 3

// lookup is a node to look up, and how an entry for it matches the entity.
type lookup struct {
	node  Node
	match string
}

// Matches between an entry and an entity.
const (
	matchExact      = "exact"
	matchMailDomain = "mail_domain"
	matchParent     = "parent"
	matchPage       = "page"
)

// matchOrder orders matches from the strongest to the weakest.
var matchOrder = []string{matchExact, matchMailDomain, matchParent, matchPage}

// maxParents bounds the parent domains to look up: half of them nearest to the name, half to the registrable domain.
const maxParents = 10

// lookups returns the nodes to look up for an entity. The parents of a domain count up to its registrable domain. Under
// a private suffix (publicsuffix.org), the registrable domain belongs to one customer of the hosting service, so an
// entry for the service never affects its customers. An entry for a large mail provider's domain does not affect its
// mailboxes.
func lookups(e entity.Entity) []lookup {
	all := []lookup{{entityNode(e), matchExact}}
	name, match := e.Value, matchParent
	switch e.Type {
	case entity.Domain:
	case entity.Email:
		if e.Facts["email.provider"] != "" {
			return all
		}
		name = e.Facts["domain.ascii"]
		all = append(all, lookup{Node{Kind: string(entity.Domain), Value: name}, matchMailDomain})
		match = matchMailDomain
	default:
		return all
	}
	registrable := e.Facts["domain.registrable"]
	var parents []lookup
	for strings.HasSuffix(name, "."+registrable) {
		_, name, _ = strings.Cut(name, ".")
		parents = append(parents, lookup{Node{Kind: string(entity.Domain), Value: name}, match})
	}
	if n := len(parents); n > maxParents {
		parents = slices.Delete(parents, maxParents/2, n-maxParents/2)
	}
	return append(all, parents...)
}

// Recall implements facts.Memory.
func (f *Feed) Recall(_ entity.Entity, wants func(string) bool) (entity.Facts, bool, error) {
	return nil, !anyWanted(feedTable, wants) || f.noLists(), nil
}

// Observe implements facts.Source.
func (f *Feed) Observe(ctx context.Context, e entity.Entity, wants func(string) bool) (entity.Facts, error) {
	if found, ok, err := f.Recall(e, wants); ok {
		return found, err
	}
	looked := lookups(e)
	nodes := make([]Node, len(looked))
	for i, l := range looked {
		nodes[i] = l.node
	}
	listings, err := f.listings.get(ctx, nodes)
	if err != nil {
		return nil, err
	}
	found := entity.Facts{}
	bad, good := bestMatch(looked, listings, feed.Bad), bestMatch(looked, listings, feed.Good)
	if len(bad.lists) > 0 {
		found["feed.listed"] = joinNames(bad.lists, maxNamedLists)
		found["feed.lists"] = strconv.Itoa(len(bad.lists))
		found["feed.match"] = bad.match
		found["feed.days"] = facts.Days(bad.since, f.now())
		found["feed.fresh"] = map[bool]string{true: "yes", false: "no"}[bad.fresh]
		if bad.category != "" {
			found["feed.category"] = bad.category
		}
	}
	if len(good.lists) > 0 {
		found["feed.good"] = joinNames(good.lists, maxNamedLists)
		found["feed.good_match"] = good.match
	}
	if rank, list := bestRank(listings); rank > 0 {
		found["feed.rank"], found["feed.rank_list"] = strconv.Itoa(rank), list
	}
	return found, nil
}

// matched combines the entries of one kind that have the strongest match.
type matched struct {
	lists    []string
	match    string
	category string // named by most lists, in a tie the first by name; disposable only if all name it
	since    time.Time
	fresh    bool // at least one of the lists is fresh
}

func bestMatch(looked []lookup, listings []Listing, kind feed.Kind) (m matched) {
	// A bad page counts only for its own host, and a good page never counts.
	rank := func(l Listing) int {
		match := looked[l.Index].match
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
		best = min(best, rank(l))
	}
	if best == len(matchOrder) {
		return m
	}
	m.match = matchOrder[best]
	nearest := map[string]Listing{} // for each list, its entry for the name nearest to the entity's
	for _, l := range listings {
		if rank(l) != best {
			continue
		}
		known, ok := nearest[l.Name]
		if !ok {
			m.lists = append(m.lists, l.Name)
		}
		if !ok || l.Index < known.Index {
			nearest[l.Name] = l
		}
		if m.since.IsZero() || l.FirstSeen.Before(m.since) {
			m.since = l.FirstSeen
		}
	}
	// Disposable mail scores least, so it must not hide another list's category.
	others := maps.Clone(nearest)
	maps.DeleteFunc(others, func(_ string, l Listing) bool { return l.Category == string(sdk.Disposable) })
	if len(others) == 0 {
		others = nearest
	}
	categories := map[string]int{}
	for _, l := range others {
		categories[l.Category]++
		m.fresh = m.fresh || l.Fresh
	}
	delete(categories, "")
	for category, n := range categories {
		if n > categories[m.category] || n == categories[m.category] && cmp.Less(category, m.category) {
			m.category = category
		}
	}
	return m
}

// bestRank returns the best rank in ranked lists, or 0.
func bestRank(listings []Listing) (rank int, list string) {
	for _, l := range listings {
		if l.Kind == feed.Ranked && (rank == 0 || l.Rank < rank) {
			rank, list = l.Rank, l.Name
		}
	}
	return rank, list
}
