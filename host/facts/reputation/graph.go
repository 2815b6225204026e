package reputation

import (
	"context"
	"math"
	"slices"
	"strconv"
	"time"

	"assay/host/entity"
	"assay/host/facts"
	"assay/host/store"
)

// Graph is the source "graph": what customers together know of an entity. Its facts are aggregates over at least three
// customers, rounded so that one more check of one of them does not show.
type Graph struct {
	reads coalescer[store.Subject, store.Reputation]
	now   func() time.Time
}

var _ facts.Source = (*Graph)(nil)

// NewGraph returns the source on a store.
func NewGraph(s Store) *Graph {
	g := &Graph{now: time.Now}
	g.reads.most = 64
	g.reads.ask = s.Reputations
	return g
}

// Name implements facts.Source.
func (*Graph) Name() string { return "graph" }

// Table implements facts.Source.
func (*Graph) Table() []entity.Fact { return slices.Clone(graphTable) }

var graphTable = []entity.Fact{
	{Name: "graph.customers", Format: "how many customers met it within 90 days, rounded down to 3, 5, 10, 20, 50, ...; absent below 3, and with it " +
		"seen, blocked_share and first_seen_days", Example: "5"},
	{Name: "graph.seen", Format: "how often they did, each counted 10 times at most and half as much every 30 days, rounded likewise", Example: "20"},
	{Name: "graph.blocked_share", Format: "percent of these checks that were blocked, each customer one vote, rounded to 5; what this graph, " +
		"lists and similarity said does not count", Example: "65"},
	{Name: "graph.first_seen_days", Format: "whole days since a third customer first met it", Example: "41"},
	{Name: "graph.neighbours", Format: "other entities that were seen together with it or hang on the same domain, name servers, network, number " +
		"range or bank, rounded down likewise; absent below 3 customers who tie them to it", Example: "10"},
	{Name: "graph.neighbour_risk", Format: "percent of them that were blocked or are listed, each customer one vote, rounded to 5", Example: "80"},
}

// Observe implements facts.Source.
func (g *Graph) Observe(ctx context.Context, e entity.Entity, wants func(string) bool) (entity.Facts, error) {
	if !anyWanted(graphTable, wants) {
		return nil, nil
	}
	r, err := g.reads.get(ctx, subject(e))
	if err != nil {
		return nil, err
	}
	found := entity.Facts{}
	if r.Customers > 0 {
		found["graph.customers"] = rounded(r.Customers)
		found["graph.seen"] = rounded(int(math.Round(r.Seen)))
		found["graph.blocked_share"] = percent(r.BlockedShare)
		found["graph.first_seen_days"] = days(r.Since, g.now())
	}
	if r.Neighbours > 0 {
		found["graph.neighbours"] = rounded(r.Neighbours)
		found["graph.neighbour_risk"] = percent(r.NeighbourRisk)
	}
	return found, nil
}

// subject is an entity and what it hangs on. A registrable domain is what others hang on as well.
func subject(e entity.Entity) store.Subject {
	s := store.Subject{Entity: selfNode(e)}
	for _, h := range e.Parents() {
		s.Holders = append(s.Holders, store.Node{Kind: h.Kind, Value: h.Value})
	}
	if e.Type == entity.Domain {
		if e.Value == e.Facts["domain.registrable"] {
			s.Holders = append(s.Holders, store.Node{Kind: "registrable", Value: e.Value})
		}
		s.Holders = append(s.Holders, store.Node{Kind: "maildomain", Value: e.Value})
	}
	return s
}

// rounded rounds n from 3 on down to 3, 5, 10, 20, 50, 100, ...
func rounded(n int) string {
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

// percent rounds a share to 5 percent.
func percent(share float64) string { return strconv.Itoa(int(math.Round(share*20)) * 5) }
