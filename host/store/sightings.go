package store

import (
	"bytes"
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

// sightings gathers what a batch adds to the reputation graph.
type sightings struct {
	key   []byte
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
	return &sightings{key: key, nodes: map[string]*sightingRow{}, links: map[string]*linkRow{}}
}

// add counts the scored entity, what it hangs on, and what was sent along with it, and returns the entity's node. Only
// the scored entity's sighting carries a verdict: what came along was not judged.
func (g *sightings) add(account string, r check.Record) (node []byte) {
	d := r.Decision
	scored := g.node(account, string(r.Entity.Type), r.Entity.Value, d.At)
	switch firstHand(d) {
	case check.Block:
		scored.Blocked++
	case check.Review:
		scored.Reviewed++
	}
	hang := func(node *sightingRow, holders []entity.Parent) {
		for _, h := range holders {
			g.link(account, node, g.node(account, h.Kind, h.Value, d.At), d.At)
		}
	}
	hang(scored, r.Entity.Parents())
	if r.Entity.Facts["email.provider"] == "" { // a provider's machines tie millions of strangers together
		hang(scored, observedHolders(r.LookedUp))
	}
	for _, e := range r.Linked {
		node := g.node(account, string(e.Type), e.Value, d.At)
		hang(node, e.Parents())
		g.link(account, scored, node, d.At)
	}
	return scored.Node
}

func (g *sightings) node(account, kind, value string, at time.Time) *sightingRow {
	name := audit.Pseudonym(g.key, nil, kind, value)
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

func (g *sightings) queries(tx bun.Tx) []schema.QueryAppender {
	nodes := sorted(g.nodes)
	queries := []schema.QueryAppender{
		tx.NewInsert().Model(&nodes).On("CONFLICT (node, account_id) DO UPDATE").
			Set("checks = g.checks + EXCLUDED.checks, blocked = g.blocked + EXCLUDED.blocked, reviewed = g.reviewed + EXCLUDED.reviewed").
			Set("last_seen = greatest(g.last_seen, EXCLUDED.last_seen)"),
	}
	if len(g.links) > 0 {
		links := sorted(g.links)
		queries = append(queries, tx.NewInsert().Model(&links).On("CONFLICT (low, high, account_id) DO UPDATE").
			Set("checks = g.checks + EXCLUDED.checks, last_seen = greatest(g.last_seen, EXCLUDED.last_seen)"))
	}
	return queries
}

func sorted[T any](rows map[string]*T) []*T {
	ids := make([]string, 0, len(rows))
	for id := range rows {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	list := make([]*T, len(ids))
	for i, id := range ids {
		list[i] = rows[id]
	}
	return list
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// firstHand is the verdict as it would be without the layers that repeat what others said, by the bands of the contract
// (spec section 6). Were their say counted, a block that the graph caused would make the graph surer of the next one,
// and a list that is withdrawn would live on in what it blocked. A score near 0 or 100 no longer tells how far beyond
// it the sum was, so what is left counts rather too mild.
func firstHand(d *check.Decision) check.Verdict {
	said := 0.0
	for _, o := range d.Layers {
		if o.ReadsReputation {
			said += o.Contribution
		}
	}
	if said == 0 {
		return d.Verdict
	}
	p := min(max(float64(d.Score)/100, 0.005), 0.995)
	rest := math.Log(p/(1-p)) - said
	return check.Bands{Review: 40, Block: 70}.Verdict(int(math.Round(100 / (1 + math.Exp(-rest)))))
}

// Of the name servers and addresses that a lookup found, so many are what a domain hangs on: enough to tie the names of
// one owner together, few enough that a check writes a handful of rows.
const maxObserved = 2

// observedHolders lists what a domain or mail domain was found to hang on: the registrable domain of its name servers
// ("nameserver") and the networks of its addresses ("network"), /24 or /48.
func observedHolders(facts entity.Facts) []entity.Parent {
	var held []entity.Parent
	add := func(kind, value string) {
		h := entity.Parent{Kind: kind, Value: value}
		n := 0
		for _, other := range held {
			if other.Kind == kind {
				n++
			}
		}
		if n < maxObserved && !slices.Contains(held, h) {
			held = append(held, h)
		}
	}
	for _, host := range listed(facts["dns.ns"]) {
		if e, err := entity.Parse(entity.Domain, host, ""); err == nil && e.Facts["domain.registrable"] != "" {
			add("nameserver", e.Facts["domain.registrable"])
		}
	}
	for _, text := range append(listed(facts["dns.a"]), listed(facts["dns.aaaa"])...) {
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
	return held
}

// listed splits a fact that holds several values.
func listed(fact string) []string {
	return strings.FieldsFunc(fact, func(r rune) bool { return r == ' ' || r == ',' })
}
