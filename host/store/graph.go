package store

import (
	"context"
	_ "embed"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/pgdialect"

	"assay/host/audit"
	"assay/host/entity"
	"assay/host/facts/reputation"
)

// node returns the keyed hash under which a node of the reputation graph is stored.
func (s *Store) node(n reputation.Node) []byte {
	return audit.Pseudonym(s.keys.Graph, nil, n.Kind, n.Value)
}

// Limits of the aggregates. See reputation.Aggregate.
const (
	minCustomers   = 3
	voteHalfLife   = 30 * 24 * time.Hour
	sightingMaxAge = 90 * 24 * time.Hour
	maxChecks      = 10  // checks counted per customer
	maxCustomers   = 500 // customers read per node; more would hardly change a share
	maxVia         = 16  // linked nodes from which the second hop starts
	maxLinks       = 128 // links of a node; a node with more is a hub, such as a large provider, and is ignored
	maxSubjects    = 256 // subjects in one query
)

// GraphAggregates returns the aggregates of each subject, in the order of subjects. A subject has a non-zero aggregate
// only if at least three customers checked the subject itself, or one of its parents that is not a hub. Most subjects
// fail this condition, so two cheap queries filter them out first.
func (s *Store) GraphAggregates(ctx context.Context, subjects []reputation.Subject) ([]reputation.Aggregate, error) {
	all := make([]reputation.Aggregate, 0, len(subjects))
	for batch := range slices.Chunk(subjects, maxSubjects) {
		found, err := s.graphAggregates(ctx, batch)
		if err != nil {
			return nil, fmt.Errorf("reading the reputation graph: %w", err)
		}
		all = append(all, found...)
	}
	return all, nil
}

func (s *Store) graphAggregates(ctx context.Context, subjects []reputation.Subject) ([]reputation.Aggregate, error) {
	found := make([]reputation.Aggregate, len(subjects))
	candidates, err := s.subjectsWithKnownNodes(ctx, subjects)
	if err != nil || len(candidates) == 0 {
		return found, err
	}
	var known []int // 1-based indexes into candidates
	if err := s.queryGraph(ctx, knownSubjectsQuery, pick(subjects, candidates), &known); err != nil || len(known) == 0 {
		return found, err
	}
	for i, number := range known {
		known[i] = candidates[number-1]
	}
	var rows []struct {
		Subject       int // 1-based index into known
		Customers     int
		Seen          float64
		BlockedShare  float64
		Since         time.Time
		Neighbours    int
		NeighbourRisk float64
	}
	if err := s.queryGraph(ctx, aggregatesQuery, pick(subjects, known), &rows); err != nil {
		return nil, err
	}
	for _, r := range rows {
		a := reputation.Aggregate{Customers: r.Customers, Seen: r.Seen, BlockedShare: r.BlockedShare,
			Neighbours: r.Neighbours, NeighbourRisk: r.NeighbourRisk}
		if r.Customers > 0 {
			a.Since = r.Since.UTC()
		}
		found[known[r.Subject-1]] = a
	}
	return found, nil
}

// pick returns the elements of from at the given indexes.
func pick[T any](from []T, indexes []int) []T {
	picked := make([]T, len(indexes))
	for i, at := range indexes {
		picked[i] = from[at]
	}
	return picked
}

//go:embed sql/graph_known_nodes.sql
var knownNodesQuery string

// subjectsWithKnownNodes returns the indexes of the subjects for which enough customers checked the entity or a parent.
func (s *Store) subjectsWithKnownNodes(ctx context.Context, subjects []reputation.Subject) ([]int, error) {
	names := audit.NewPseudonyms(s.keys.Graph)
	owners := map[string][]int{}
	nodes := [][]byte{}
	for i, subject := range subjects {
		for _, n := range append([]reputation.Node{subject.Entity}, subject.Parents...) {
			node := names.Of(nil, n.Kind, n.Value)
			if owners[string(node)] == nil {
				nodes = append(nodes, node)
			}
			owners[string(node)] = append(owners[string(node)], i)
		}
	}
	var known [][]byte
	args := s.graphArgs()
	args["nodes"] = pgdialect.Array(nodes)
	if err := s.db.NewRaw(knownNodesQuery, args).Scan(ctx, &known); err != nil {
		return nil, err
	}
	var indexes []int
	for _, node := range known {
		indexes = append(indexes, owners[string(node)]...)
	}
	slices.Sort(indexes)
	return slices.Compact(indexes), nil
}

//go:embed sql/graph_known_subjects.sql
var knownSubjectsQuery string

//go:embed sql/graph_aggregates.sql
var aggregatesQuery string

// queryGraph runs a query on subjects, which the query numbers from 1.
func (s *Store) queryGraph(ctx context.Context, query string, subjects []reputation.Subject, into any) error {
	entities, parents, owners := [][]byte{}, [][]byte{}, []int{}
	for i, subject := range subjects {
		entities = append(entities, s.node(subject.Entity))
		for _, p := range subject.Parents {
			parents, owners = append(parents, s.node(p)), append(owners, i+1)
		}
	}
	args := s.graphArgs()
	args["subjects"] = pgdialect.Array(entities)
	args["parents"] = pgdialect.Array(parents)
	args["parent_subjects"] = pgdialect.Array(owners)
	return s.db.NewRaw(query, args).Scan(ctx, into)
}

// graphArgs returns the arguments that all queries of the graph share.
func (s *Store) graphArgs() named {
	now := s.now().UTC()
	return named{
		"now": now, "oldest": now.Add(-sightingMaxAge), "half_life": int(voteHalfLife.Seconds()),
		"public": publicAccount, "min_customers": minCustomers, "max_customers": maxCustomers,
		"max_checks": maxChecks, "max_links": maxLinks, "max_via": maxVia,
	}
}

// ForgetAccountSightings deletes everything that an account contributed to the graph and returns how much that was. Its
// keys should be revoked first: further checks would wait for the deletion and contribute again.
func (s *Store) ForgetAccountSightings(ctx context.Context, accountID string) (sightings, links int64, err error) {
	for attempt := 1; ; attempt++ {
		err = s.inLongTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
			deleted, err := tx.Exec(ctx, "DELETE FROM graph_links WHERE account_id = $1", accountID)
			if err != nil {
				return err
			}
			links = deleted.RowsAffected()
			deleted, err = tx.Exec(ctx, "DELETE FROM graph_sightings WHERE account_id = $1", accountID)
			sightings = deleted.RowsAffected()
			return err
		})
		if err == nil {
			return sightings, links, nil
		}
		if attempt == 3 || !retryable(err) {
			return 0, 0, fmt.Errorf("deleting an account from the reputation graph: %w", err)
		}
	}
}

// graphPruneBatch bounds the rows of the graph that one transaction locks, because a check may have to wait for them.
const graphPruneBatch = 5_000

// PruneSightings deletes rows that are too old to count from the graph. It scans whole tables, because an index on
// last_seen would slow down every check. Rows locked by a check are skipped until the next run, so that the two cannot
// deadlock.
func (s *Store) PruneSightings(ctx context.Context) error {
	oldest := s.now().UTC().Add(-sightingMaxAge)
	for _, statement := range []string{
		`DELETE FROM graph_links WHERE ctid IN (
			SELECT ctid FROM graph_links WHERE last_seen <= $1 LIMIT $2 FOR UPDATE SKIP LOCKED)`,
		`DELETE FROM graph_sightings WHERE ctid IN (
			SELECT ctid FROM graph_sightings WHERE last_seen <= $1 LIMIT $2 FOR UPDATE SKIP LOCKED)`,
	} {
		for deleted := int64(graphPruneBatch); deleted == graphPruneBatch; {
			err := s.inLongTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
				tag, err := tx.Exec(ctx, statement, oldest, graphPruneBatch)
				deleted = tag.RowsAffected()
				return err
			})
			if err != nil {
				return fmt.Errorf("pruning the reputation graph: %w", err)
			}
		}
	}
	return nil
}

// ForgetSightings deletes an entity from the graph: its sightings, its links, and its share of its parents' sightings.
// It returns how many sightings and links there were. An empty account selects those of all accounts.
func (s *Store) ForgetSightings(ctx context.Context, accountID string, e entity.Entity) (sightings, links int,
	err error) {
	err = s.inTx(ctx, func(ctx context.Context, tx bun.Tx) (err error) {
		node := s.node(reputation.Node{Kind: string(e.Type), Value: e.Value})
		sightings, links, err = forgetNode(ctx, tx, accountID, node)
		return err
	})
	if err != nil {
		return 0, 0, fmt.Errorf("deleting an entity from the reputation graph: %w", err)
	}
	return sightings, links, nil
}

//go:embed sql/forget_node.sql
var forgetNodeStatement string

// forgetNode is ForgetSightings within a transaction.
func forgetNode(ctx context.Context, tx bun.Tx, accountID string, node []byte) (sightings, links int, err error) {
	err = tx.NewRaw(forgetNodeStatement, named{"node": node, "account": accountID}).Scan(ctx, &sightings, &links)
	return sightings, links, err
}
