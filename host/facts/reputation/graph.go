package reputation

import (
	"context"
	"math"
	"slices"
	"strconv"
	"time"

	"assay/host/entity"
	"assay/host/facts"
)

// Graph is the source "graph": aggregates over the checks of all customers. Its facts cover at least three customers
// and are rounded, so that a single additional check is not visible. Facts about the caller's own account are exact and
// reveal nothing about others.
type Graph struct {
	aggregates batcher[Subject, Aggregate]
	now        func() time.Time
}

var _ facts.Source = (*Graph)(nil)

// NewGraph returns a source that reads from s.
func NewGraph(s Store) *Graph {
	g := &Graph{now: time.Now}
	g.aggregates.maxBatch = 64
	g.aggregates.run = s.GraphAggregates
	return g
}

// Name implements facts.Source.
func (*Graph) Name() string { return "graph" }

// Table implements facts.Source.
func (*Graph) Table() []entity.Fact { return slices.Clone(graphTable) }

var graphTable = []entity.Fact{
	entity.NumberFact("graph.customers", "5", "customers that checked the entity within 90 days, rounded down to "+
		"3, 5, 10, 20, 50, ...; absent below 3, and so are seen, blocked_share, reported_share and first_seen_days"),
	entity.NumberFact("graph.seen", "20", "checks by these customers, at most 10 per customer, halved every 30 "+
		"days, rounded down likewise"),
	entity.NumberFact("graph.blocked_share", "65", "percentage of their checks that were blocked, or whose entity "+
		"they reported as fraud, rounded to 5; each customer has one vote; the contributions of the graph, feed "+
		"and similarity layers are left out"),
	entity.NumberFact("graph.reported_share", "20", "the part of blocked_share of the customers who reported the "+
		"entity as fraud, rounded to 5"),
	entity.NumberFact("graph.first_seen_days", "41", "whole days since the third customer first checked the entity"),
	entity.NumberFact("graph.neighbours", "10", "other entities that were sent in the same request or share a "+
		"domain, name server, network, number range or bank, rounded down likewise; absent unless 3 customers link "+
		"them"),
	entity.NumberFact("graph.neighbour_risk", "80", "percentage of the neighbours that were blocked or are on a "+
		"bad list, rounded to 5; each customer has one vote"),
	entity.NumberFact("history.first_seen_days", "41", "whole days since the third customer first checked the "+
		"entity; absent below 3 customers within 90 days"),
	entity.NumberFact("history.seen_1h", "20", "checks of the entity within the last hour, at most 10 per "+
		"customer, rounded down to 3, 5, 10, 20, 50, ...; absent unless 3 customers made some of them"),
	entity.NumberFact("history.seen_24h", "50", "checks of the entity within the last 24 hours, counted like "+
		"history.seen_1h"),
	entity.NumberFact("history.own_first_seen_days", "12", "whole days since the caller's own account first "+
		"checked the entity; absent if it has not within 90 days, and so are own_seen_1h and own_seen_24h"),
	entity.NumberFact("history.own_seen_1h", "2", "the account's checks of the entity within the last hour, "+
		"without this one; exact up to 64, which means 64 or more"),
	entity.NumberFact("history.own_seen_24h", "7", "the account's checks of the entity within the last 24 hours, "+
		"counted like history.own_seen_1h"),
}

// Observe implements facts.Source.
func (g *Graph) Observe(ctx context.Context, e entity.Entity, wants func(string) bool) (entity.Facts, error) {
	if !anyWanted(graphTable, wants) {
		return nil, nil
	}
	asked := subject(e)
	asked.Account = facts.Account(ctx)
	a, err := g.aggregates.get(ctx, asked)
	if err != nil {
		return nil, err
	}
	found := entity.Facts{}
	if a.Customers > 0 {
		found["graph.customers"] = roundDown(a.Customers)
		found["graph.seen"] = roundDown(int(math.Round(a.Seen)))
		found["graph.blocked_share"] = percent(a.BlockedShare)
		found["graph.reported_share"] = percent(a.Reported)
		found["graph.first_seen_days"] = facts.Days(a.Since, g.now())
		found["history.first_seen_days"] = found["graph.first_seen_days"]
	}
	if a.Hour > 0 {
		found["history.seen_1h"] = roundDown(a.Hour)
	}
	if a.Day > 0 {
		found["history.seen_24h"] = roundDown(a.Day)
	}
	if !a.Own.Since.IsZero() {
		found["history.own_first_seen_days"] = facts.Days(a.Own.Since, g.now())
		found["history.own_seen_1h"] = strconv.Itoa(a.Own.Hour)
		found["history.own_seen_24h"] = strconv.Itoa(a.Own.Day)
	}
	if a.Neighbours > 0 {
		found["graph.neighbours"] = roundDown(a.Neighbours)
		found["graph.neighbour_risk"] = percent(a.NeighbourRisk)
	}
	return found, nil
}

// subject returns an entity with its parents. A domain is also a parent itself: of its mailboxes, and of its subdomains
// if it is registrable.
func subject(e entity.Entity) Subject {
	s := Subject{Entity: entityNode(e), Parents: make([]Node, 0, 3)}
	for _, h := range e.Parents() {
		s.Parents = append(s.Parents, Node(h))
	}
	if e.Type == entity.Domain {
		if e.Value == e.Facts["domain.registrable"] {
			s.Parents = append(s.Parents, Node{Kind: "registrable", Value: e.Value})
		}
		s.Parents = append(s.Parents, Node{Kind: "maildomain", Value: e.Value})
	}
	return s
}

// roundDown rounds a number from 3 upwards down to 3, 5, 10, 20, 50, 100, ...
func roundDown(n int) string {
	step := min(n, 3)
	for ten := 5; ten <= n; ten *= 10 {
		for _, next := range []int{ten, 2 * ten, 4 * ten} {
			if next <= n {
				step = next
			}
		}
	}
	return strconv.Itoa(step)
}

// percent converts a share from 0 to 1 to a percentage, rounded to 5.
func percent(share float64) string { return strconv.Itoa(int(math.Round(share*20)) * 5) }
