package store

import (
	"bytes"
	"cmp"
	"context"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/uptrace/bun/dialect/pgdialect"

	"assay/host/customer/feedback"
	"assay/host/facts/reputation"
)

// graphReader computes the aggregates of a batch of subjects. Each statement looks up nodes by their key.
type graphReader struct {
	store      *Store
	now        time.Time
	oldest     time.Time // older sightings and links do not count
	subjects   []graphSubject
	aggregates []reputation.Aggregate
}

// seenBy is a node as an account saw it.
type seenBy struct {
	node    string
	account int64
}

// graphSubject holds the names of a subject's nodes, as strings.
type graphSubject struct {
	entity  string
	account int64 // the account whose own checks count too; 0: none
	parents []string
}

// known returns the nodes that enough customers checked. It also aggregates the checks of the callers' own accounts.
func (r *graphReader) known(ctx context.Context, subjects []reputation.Subject) (map[string]bool, error) {
	r.aggregates = make([]reputation.Aggregate, len(subjects))
	r.subjects = make([]graphSubject, len(subjects))
	names := newNodeNames(r.store.keys)
	// A node is looked up once, or once for each account that asks about it as an entity.
	places := map[seenBy]int{}
	var nodes [][]byte
	var accounts []int64
	ask := func(node string, account int64) {
		q := seenBy{node, account}
		if _, ok := places[q]; !ok {
			places[q] = len(nodes)
			nodes, accounts = append(nodes, []byte(node)), append(accounts, account)
		}
	}
	for i, subject := range subjects {
		sub := graphSubject{entity: string(names.of(subject.Entity.Kind, subject.Entity.Value))}
		if subject.Account != publicAccount { // which belongs to nobody
			sub.account = graphAccount(subject.Account)
		}
		ask(sub.entity, sub.account)
		for _, p := range subject.Parents {
			node := string(names.of(p.Kind, p.Value))
			sub.parents = append(sub.parents, node)
			ask(node, 0)
		}
		r.subjects[i] = sub
	}
	var rows []struct {
		I         int // from 1
		Known     bool
		FirstSeen *time.Time
		Recent    []byte
	}
	err := r.store.db.NewRaw("SELECT * FROM graph_known(?::bytea[], ?::bigint[], ?, ?, ?)", pgdialect.Array(nodes),
		pgdialect.Array(accounts), graphAccount(publicAccount), r.oldest, minCustomers).Scan(ctx, &rows)
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	known, own := map[string]bool{}, map[int]int{}
	for n, row := range rows {
		if row.Known {
			known[string(nodes[row.I-1])] = true
		}
		if row.FirstSeen != nil {
			own[row.I-1] = n
		}
	}
	for i, sub := range r.subjects {
		if n, ok := own[places[seenBy{sub.entity, sub.account}]]; ok {
			r.aggregates[i].Own = reputation.History{Since: rows[n].FirstSeen.UTC(),
				Hour: countRecent(rows[n].Recent, r.now.Add(-time.Hour)),
				Day:  countRecent(rows[n].Recent, r.now.Add(-24*time.Hour))}
		}
	}
	return known, nil
}

// observed holds an account's observations of a node.
type observed struct {
	Node            []byte
	Account         int64
	Checks, Blocked int
	Label           string
	FirstSeen       time.Time
	LastSeen        time.Time
	Recent          []byte
}

// bad returns the share of the account's checks that were blocked, or what the account reported instead.
func (o observed) bad() float64 {
	switch {
	case o.Label == string(feedback.Fraud):
		return 1
	case o.Label != "":
		return 0
	}
	return float64(o.Blocked) / float64(max(1, o.Checks))
}

// linked is a link from a node, as an account observed it.
type linked struct {
	Node     []byte
	Other    []byte // nil: the node is a hub
	Account  int64
	LastSeen time.Time
}

// vote returns the weight of an account's vote: it halves every voteHalfLife. A clock that lags behind another host's
// must not give it more than one vote.
func (r *graphReader) vote(lastSeen time.Time) float64 {
	return math.Pow(0.5, max(0, r.now.Sub(lastSeen).Seconds())/voteHalfLife.Seconds())
}

// aggregate completes the aggregates of subjects with a known node.
func (r *graphReader) aggregate(ctx context.Context, known map[string]bool) error {
	var entities, nodes []string
	for _, sub := range r.subjects {
		if known[sub.entity] {
			entities = append(entities, sub.entity)
		}
		if known[sub.entity] || slices.ContainsFunc(sub.parents, func(p string) bool { return known[p] }) {
			nodes = append(append(nodes, sub.entity), sub.parents...)
		}
	}
	sightings, err := r.sightings(ctx, entities)
	if err != nil {
		return err
	}
	for i, sub := range r.subjects {
		r.aggregates[i] = r.ofEntity(r.aggregates[i], sightings[sub.entity])
	}
	links, err := r.links(ctx, nodes)
	if err != nil {
		return err
	}
	var subjects []int
	via := map[int][]string{}
	nodes = nil
	for i, sub := range r.subjects {
		reached := known[sub.entity] || slices.ContainsFunc(sub.parents, func(p string) bool {
			return known[p] && !isHub(links[p])
		})
		if !reached {
			continue
		}
		subjects = append(subjects, i)
		via[i] = slices.Clone(sub.parents)
		customers := map[string]int{}
		for _, l := range withoutHub(links[sub.entity]) {
			customers[string(l.Other)]++
		}
		// Nodes seen by most customers first, so that one customer's own cannot crowd out the others'.
		others := slices.SortedFunc(maps.Keys(customers), func(a, b string) int {
			return cmp.Or(cmp.Compare(customers[b], customers[a]), cmp.Compare(a, b))
		})
		for _, other := range others[:min(maxVia, len(others))] {
			nodes = append(nodes, other)
			if !slices.Contains(via[i], other) {
				via[i] = append(via[i], other)
			}
		}
	}
	second, err := r.links(ctx, nodes)
	if err != nil {
		return err
	}
	maps.Copy(links, second)
	neighbours := map[int][]neighbour{}
	for _, i := range subjects {
		neighbours[i] = r.neighbours(r.subjects[i], via[i], links)
	}
	return r.judge(ctx, neighbours)
}

// ofEntity adds customers' observations of the subject itself, if there are enough customers.
func (r *graphReader) ofEntity(a reputation.Aggregate, rows []observed) reputation.Aggregate {
	if len(rows) < minCustomers {
		return a
	}
	votes, bad, reported := 0.0, 0.0, 0.0
	since := make([]time.Time, len(rows))
	var hour, day, inHour, inDay int // checks, and customers that made them
	for i, row := range rows {
		vote := r.vote(row.LastSeen)
		votes, bad = votes+vote, bad+vote*row.bad()
		if row.Label == string(feedback.Fraud) {
			reported += vote
		}
		a.Seen += float64(min(row.Checks, maxChecks)) * vote
		since[i] = row.FirstSeen
		if n := countRecent(row.Recent, r.now.Add(-time.Hour)); n > 0 {
			hour, inHour = hour+min(n, maxChecks), inHour+1
		}
		if n := countRecent(row.Recent, r.now.Add(-24*time.Hour)); n > 0 {
			day, inDay = day+min(n, maxChecks), inDay+1
		}
	}
	slices.SortFunc(since, time.Time.Compare)
	a.Customers, a.BlockedShare, a.Reported = len(rows), bad/votes, reported/votes
	a.Since = since[minCustomers-1].UTC()
	if inHour >= minCustomers {
		a.Hour = hour
	}
	if inDay >= minCustomers {
		a.Day = day
	}
	return a
}

// isHub reports whether a node with these links is a hub.
func isHub(links []linked) bool { return len(links) == 1 && links[0].Other == nil }

// withoutHub returns a node's links, none if it is a hub.
func withoutHub(links []linked) []linked {
	if isHub(links) {
		return nil
	}
	return links
}

// neighbour is an entity near a subject, as an account knows it.
type neighbour struct {
	seenBy

	weight, vote float64
}

// neighbours returns the entities one or two links away. The second hop has half the weight.
func (r *graphReader) neighbours(sub graphSubject, via []string, links map[string][]linked) []neighbour {
	found := map[seenBy]int{}
	var all []neighbour
	add := func(from string, weight float64) {
		for _, l := range withoutHub(links[from]) {
			k := seenBy{string(l.Other), l.Account}
			if weight < 1 && k.node == sub.entity {
				continue
			}
			n, ok := found[k]
			if !ok {
				n = len(all)
				found[k] = n
				all = append(all, neighbour{seenBy: k})
			}
			all[n].weight = max(all[n].weight, weight)
			all[n].vote = max(all[n].vote, r.vote(l.LastSeen))
		}
	}
	add(sub.entity, 1)
	for _, node := range via {
		add(node, 0.5)
	}
	return all
}

// judge adds the risk of each subject's neighbours.
func (r *graphReader) judge(ctx context.Context, neighbours map[int][]neighbour) error {
	var wanted []neighbour
	for _, all := range neighbours {
		wanted = append(wanted, all...)
	}
	known, err := r.badness(ctx, wanted)
	if err != nil {
		return err
	}
	for i, all := range neighbours {
		type share struct{ vote, weight, bad float64 }
		accounts := map[int64]*share{}
		others := map[string]bool{}
		for _, n := range all {
			bad, ok := known[n.seenBy]
			if !ok {
				continue
			}
			others[n.node] = true
			a := accounts[n.account]
			if a == nil {
				a = &share{}
				accounts[n.account] = a
			}
			a.vote, a.weight, a.bad = max(a.vote, n.vote), a.weight+n.weight, a.bad+n.weight*bad
		}
		if len(accounts) < minCustomers {
			continue
		}
		votes, bad := 0.0, 0.0
		for _, a := range accounts {
			votes, bad = votes+a.vote, bad+a.vote*a.bad/a.weight
		}
		r.aggregates[i].Neighbours, r.aggregates[i].NeighbourRisk = len(others), bad/votes
	}
	return nil
}

// badness returns the badness, from 0 to 1, of each neighbour that is an entity.
func (r *graphReader) badness(ctx context.Context, neighbours []neighbour) (map[seenBy]float64, error) {
	bad := map[seenBy]float64{}
	if len(neighbours) == 0 {
		return bad, nil
	}
	nodes, accounts, distinct := [][]byte{}, []int64{}, [][]byte{}
	asked, pairs := map[string]bool{}, map[seenBy]bool{}
	for _, n := range neighbours {
		if !asked[n.node] {
			asked[n.node] = true
			distinct = append(distinct, []byte(n.node))
		}
		if !pairs[n.seenBy] {
			pairs[n.seenBy] = true
			nodes, accounts = append(nodes, []byte(n.node)), append(accounts, n.account)
		}
	}
	var rows []observed
	err := query(r.store.db, "graph_badness", named{"nodes": pgdialect.Array(nodes),
		"accounts": pgdialect.Array(accounts), "distinct": pgdialect.Array(distinct)}).Scan(ctx, &rows)
	if err != nil {
		return nil, err
	}
	var listed [][]byte
	err = query(r.store.db, "graph_listed", named{"nodes": pgdialect.Array(distinct), "now": r.now}).
		Scan(ctx, &listed)
	if err != nil {
		return nil, err
	}
	for _, row := range rows {
		by := seenBy{string(row.Node), row.Account}
		bad[by] = row.bad()
		if slices.ContainsFunc(listed, func(node []byte) bool { return bytes.Equal(node, row.Node) }) {
			bad[by] = 1
		}
	}
	return bad, nil
}

// sightings returns customers' observations of each node.
func (r *graphReader) sightings(ctx context.Context, nodes []string) (map[string][]observed, error) {
	return ofNodes(ctx, r, nodes, func(o observed) []byte { return o.Node },
		`SELECT node, account, checks, blocked, label, first_seen, last_seen,
			CASE WHEN last_seen > ?4 THEN recent END AS recent
		FROM graph_rows(?0::bytea[], ?1, ?2, ?3)`, maxCustomers, r.now.Add(-24*time.Hour))
}

// links returns the links of each node.
func (r *graphReader) links(ctx context.Context, nodes []string) (map[string][]linked, error) {
	return ofNodes(ctx, r, nodes, func(l linked) []byte { return l.Node },
		"SELECT node, other, account, last_seen FROM graph_neighbours(?::bytea[], ?, ?, ?, ?)", maxLinks, linksShare)
}

// ofNodes returns the rows of a statement by node. Its first arguments are the nodes, the account of callers without a
// key and r.oldest.
func ofNodes[T any](ctx context.Context, r *graphReader, nodes []string, nodeOf func(T) []byte, statement string,
	args ...any) (map[string][]T, error) {
	found := map[string][]T{}
	if len(nodes) == 0 {
		return found, nil
	}
	slices.Sort(nodes)
	distinct := column(slices.Compact(nodes), func(node string) []byte { return []byte(node) })
	var rows []T
	err := r.store.db.NewRaw(statement, append([]any{pgdialect.Array(distinct), graphAccount(publicAccount), r.oldest},
		args...)...).Scan(ctx, &rows)
	for _, row := range rows {
		found[string(nodeOf(row))] = append(found[string(nodeOf(row))], row)
	}
	return found, err
}
