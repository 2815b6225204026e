package store

import (
	"bytes"
	"maps"
	"math"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/uptrace/bun"
	"github.com/uptrace/bun/schema"

	"assay/host/audit"
	"assay/host/check"
	"assay/host/entity"
)

// sightings collects the additions of one batch to the reputation graph.
type sightings struct {
	names *audit.Pseudonyms
	nodes map[string]*sightingRow
	links map[string]*linkRow
}

type sightingRow struct {
	bun.BaseModel `bun:"table:graph_sightings,alias:g"`

	Node      []byte
	AccountID string
	Kind      string
	Checks    int
	Blocked   int
	Reviewed  int
	FirstSeen time.Time
	LastSeen  time.Time
}

type linkRow struct {
	bun.BaseModel `bun:"table:graph_links,alias:g"`

	Low       []byte
	High      []byte
	AccountID string
	Checks    int
	LastSeen  time.Time
}

func newSightings(key []byte) *sightings {
	return &sightings{names: audit.NewPseudonyms(key), nodes: map[string]*sightingRow{}, links: map[string]*linkRow{}}
}

// add counts a check: the scored entity, its parents, and the other entities of the request. It returns the node of the
// scored entity. Only that node gets a verdict, because the other entities were not scored.
func (g *sightings) add(account string, r check.Record) (node []byte) {
	d := r.Decision
	scored := g.node(account, string(r.Entity.Type), r.Entity.Value, d.At)
	switch firstHandVerdict(d) {
	case check.Block:
		scored.Blocked++
	case check.Review:
		scored.Reviewed++
	}
	linkParents := func(node *sightingRow, parents []entity.Parent) {
		for _, p := range parents {
			g.link(account, node, g.node(account, p.Kind, p.Value, d.At), d.At)
		}
	}
	linkParents(scored, r.Entity.Parents())
	if r.Entity.Facts["email.provider"] == "" { // the servers of a mail provider would link millions of strangers
		linkParents(scored, observedParents(r.LookedUp))
	}
	for _, e := range r.Linked {
		node := g.node(account, string(e.Type), e.Value, d.At)
		linkParents(node, e.Parents())
		g.link(account, scored, node, d.At)
	}
	return scored.Node
}

// node counts a check of a node.
func (g *sightings) node(account, kind, value string, at time.Time) *sightingRow {
	name := g.names.Of(nil, kind, value)
	id := string(name) + account
	row, ok := g.nodes[id]
	if !ok {
		row = &sightingRow{Node: name, AccountID: account, Kind: kind, FirstSeen: at, LastSeen: at}
		g.nodes[id] = row
	}
	row.Checks++
	row.LastSeen = later(row.LastSeen, at)
	return row
}

// link counts a check that links two nodes.
func (g *sightings) link(account string, a, b *sightingRow, at time.Time) {
	low, high := a.Node, b.Node
	switch bytes.Compare(low, high) {
	case 0:
		return
	case 1:
		low, high = high, low
	}
	id := string(low) + string(high) + account
	row, ok := g.links[id]
	if !ok {
		row = &linkRow{Low: low, High: high, AccountID: account, LastSeen: at}
		g.links[id] = row
	}
	row.Checks++
	row.LastSeen = later(row.LastSeen, at)
}

// queries returns the upserts of all rows.
func (g *sightings) queries(tx bun.Tx) []schema.QueryAppender {
	nodes := sorted(g.nodes)
	queries := []schema.QueryAppender{
		tx.NewInsert().Model(&nodes).On("CONFLICT (node, account_id) DO UPDATE").
			Set("checks = g.checks + EXCLUDED.checks, blocked = g.blocked + EXCLUDED.blocked").
			Set("reviewed = g.reviewed + EXCLUDED.reviewed").
			Set("last_seen = greatest(g.last_seen, EXCLUDED.last_seen)"),
	}
	if len(g.links) > 0 {
		links := sorted(g.links)
		queries = append(queries, tx.NewInsert().Model(&links).On("CONFLICT (low, high, account_id) DO UPDATE").
			Set("checks = g.checks + EXCLUDED.checks, last_seen = greatest(g.last_seen, EXCLUDED.last_seen)"))
	}
	return queries
}

// sorted returns the rows in the order of their keys, so that concurrent transactions lock them in the same order.
func sorted[T any](rows map[string]*T) []*T {
	list := make([]*T, 0, len(rows))
	for _, id := range slices.Sorted(maps.Keys(rows)) {
		list = append(list, rows[id])
	}
	return list
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// firstHandVerdict returns the verdict without the contributions of second-hand layers, by the bands of contract
// section 6. With them, a block caused by the graph would reinforce itself, and a withdrawn list would live on in the
// blocks it caused. What clears an entity stays: the graph must not count a block that nobody was told. Scores near 0
// and 100 are clamped and hide how far the sum exceeded them, so the result errs on the mild side.
func firstHandVerdict(d *check.Decision) check.Verdict {
	secondHand := 0.0
	for _, o := range d.Layers {
		if o.ReadsReputation && o.Contribution > 0 {
			secondHand += o.Contribution
		}
	}
	if secondHand == 0 {
		return d.Verdict
	}
	p := min(max(float64(d.Score)/100, 0.005), 0.995)
	rest := math.Log(p/(1-p)) - secondHand
	return check.Bands{Review: 40, Block: 70}.Verdict(int(math.Round(100 / (1 + math.Exp(-rest)))))
}

// maxObserved bounds the observed parents of each kind: enough to link the domains of one owner, few enough to keep a
// check's writes small.
const maxObserved = 2

// observedParents returns the parents of a domain that lookups found: the registrable domains of its name servers
// ("nameserver") and the /24 or /48 networks of its addresses ("network").
func observedParents(facts entity.Facts) []entity.Parent {
	var parents []entity.Parent
	add := func(kind, value string) {
		p := entity.Parent{Kind: kind, Value: value}
		n := 0
		for _, other := range parents {
			if other.Kind == kind {
				n++
			}
		}
		if n < maxObserved && !slices.Contains(parents, p) {
			parents = append(parents, p)
		}
	}
	for _, host := range values(facts["dns.ns"]) {
		if e, err := entity.Parse(entity.Domain, host, ""); err == nil && e.Facts["domain.registrable"] != "" {
			add("nameserver", e.Facts["domain.registrable"])
		}
	}
	for _, text := range append(values(facts["dns.a"]), values(facts["dns.aaaa"])...) {
		addr, err := netip.ParseAddr(text)
		if err != nil {
			continue
		}
		bits := 24
		if addr.Is6() {
			bits = 48
		}
		if network, err := addr.Prefix(bits); err == nil {
			add("network", network.String())
		}
	}
	return parents
}

// values splits a fact that holds several values.
func values(fact string) []string {
	return strings.FieldsFunc(fact, func(r rune) bool { return r == ' ' || r == ',' })
}
