package store

import (
	"bytes"
	"encoding/binary"
	"maps"
	"math"
	"net/netip"
	"slices"
	"strings"
	"time"

	"assay/host/check"
	"assay/host/entity"
	"assay/host/internal/internet"
)

// sightings adds up contributions to the reputation graph.
type sightings struct {
	nodes map[string]*sighting
	edges map[string]*edge
}

// sighting holds an account's observations of a node. The counts are as wide as in the database, where they stop at
// their maximum.
type sighting struct {
	node                      []byte
	account                   int64
	kind                      string
	checks, blocked, reviewed int32
	firstSeen, lastSeen       time.Time
	recent                    []byte // as in the database; empty: the node is not an entity
}

// edge is a link from a node to another.
type edge struct {
	node, other []byte
	account     int64
	checks      int32
	lastSeen    time.Time
}

func newSightings() *sightings {
	return &sightings{nodes: map[string]*sighting{}, edges: map[string]*edge{}}
}

// add counts a check.
func (g *sightings) add(c contribution) {
	for i, n := range c.nodes {
		id := rowKey(c.account, n.node)
		row, ok := g.nodes[id]
		if !ok {
			row = &sighting{node: n.node, account: c.account, kind: n.kind, firstSeen: c.at, lastSeen: c.at,
				recent: []byte{}}
			g.nodes[id] = row
		}
		row.checks++
		row.lastSeen = later(row.lastSeen, c.at)
		if isEntity(n.kind) {
			row.recent = addRecent(row.recent, c.at)
		}
		switch {
		case i != c.scored:
		case c.verdict == check.Block:
			row.blocked++
		case c.verdict == check.Review:
			row.reviewed++
		}
	}
	for _, l := range c.links {
		a, b := c.nodes[l[0]].node, c.nodes[l[1]].node
		if !bytes.Equal(a, b) {
			g.link(c, a, b)
			g.link(c, b, a)
		}
	}
}

func (g *sightings) link(c contribution, node, other []byte) {
	id := rowKey(c.account, node, other)
	row, ok := g.edges[id]
	if !ok {
		row = &edge{node: node, other: other, account: c.account, lastSeen: c.at}
		g.edges[id] = row
	}
	row.checks++
	row.lastSeen = later(row.lastSeen, c.at)
}

// rowKey returns the key of an account's row for a node or a link. It sorts as the row's primary key does, except for
// the sign of the account's number.
func rowKey(account int64, nodes ...[]byte) string {
	return string(binary.BigEndian.AppendUint64(bytes.Join(nodes, nil), uint64(account)))
}

// isEntity reports whether nodes of a kind are entities, not things that entities have in common.
func isEntity(kind string) bool {
	switch entity.Type(kind) {
	case entity.Domain, entity.Email, entity.Phone, entity.IBAN:
		return true
	}
	return false
}

// The times of an entity's latest checks by an account: seconds since 1970 as 32-bit integers, newest first.
const (
	recentBytes = 4
	maxRecent   = 64
)

// addRecent adds the latest time.
func addRecent(recent []byte, at time.Time) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(at.Unix())), recent[:min(len(recent),
		(maxRecent-1)*recentBytes)]...)
}

// countRecent returns the number of times after the given one.
func countRecent(recent []byte, after time.Time) (n int) {
	for times := range slices.Chunk(recent, recentBytes) {
		if len(times) == recentBytes && int64(binary.BigEndian.Uint32(times)) > after.Unix() {
			n++
		}
	}
	return n
}

// sorted returns the rows in the order of their keys, so that concurrent transactions lock them in the same order.
func sorted[T any](rows map[string]*T) []*T {
	return column(slices.Sorted(maps.Keys(rows)), func(id string) *T { return rows[id] })
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// firstHandVerdict returns the verdict without the contributions of second-hand layers, by the bands of contract
// section 6. With them, a block caused by the graph would reinforce itself, and a withdrawn list would live on in the
// blocks it caused. Clearing contributions stay: the graph must not count a block that no customer received. Scores
// near 0 and 100 are clamped and hide how far the sum exceeded them, so the result errs on the mild side.
//
// An override is an account's opinion, not evidence for others: for a blocked entity, the graph counts the layers'
// findings. No customer received an accusation of an allowed one, so the graph counts neither a block nor a review.
func firstHandVerdict(d *check.Decision) check.Verdict {
	score, verdict := d.Score, d.Verdict
	if o := d.Override; o != nil {
		if o.Verdict == check.Allow {
			return check.Allow
		}
		score, verdict = o.Score, o.Found
	}
	secondHand := 0.0
	for _, o := range d.Layers {
		if o.ReadsReputation && o.Contribution > 0 {
			secondHand += o.Contribution
		}
	}
	if secondHand == 0 {
		return verdict
	}
	p := min(max(float64(score)/100, 0.005), 0.995)
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
		if addr, err := netip.ParseAddr(text); err == nil {
			add("network", internet.Network(netip.PrefixFrom(addr, addr.BitLen())).String())
		}
	}
	return parents
}

// values splits a fact that holds several values.
func values(fact string) []string {
	return strings.FieldsFunc(fact, func(r rune) bool { return r == ' ' || r == ',' })
}
