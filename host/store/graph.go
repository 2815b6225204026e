package store

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/uptrace/bun"

	"assay/host/access/keyring"
	"assay/host/audit"
	"assay/host/customer/privacy"
	"assay/host/entity"
	"assay/host/facts/reputation"
)

// nodeNames computes the names of nodes of the reputation graph. It is not safe for concurrent use.
type nodeNames struct{ hashes *audit.Pseudonyms }

func newNodeNames(keys *keyring.Ring) nodeNames { return nodeNames{audit.NewPseudonyms(keys.Graph)} }

// nodeBytes is the length of a node's name. Two of 10^12 nodes have the same name with a probability below 10^-14.
const nodeBytes = 16

// of returns the name of a node: the first bytes of a keyed hash.
func (n nodeNames) of(kind, value string) []byte {
	return n.hashes.Of(nil, kind, value)[:nodeBytes:nodeBytes]
}

// node returns the name of a node of the reputation graph.
func (s *Store) node(n reputation.Node) []byte { return newNodeNames(s.keys).of(n.Kind, n.Value) }

// graphAccount returns the number of an account in the reputation graph, or 0 for "". It must return the number that
// graph_account in functions.sql returns.
func graphAccount(id string) int64 {
	if id == "" {
		return 0
	}
	hash := sha256.Sum256([]byte(id))
	return int64(binary.BigEndian.Uint64(hash[:]))
}

// Limits of the aggregates. See reputation.Aggregate.
const (
	minCustomers   = 3
	voteHalfLife   = 30 * 24 * time.Hour
	sightingMaxAge = privacy.GraphDays * 24 * time.Hour
	maxChecks      = 10  // checks counted per customer
	maxCustomers   = 500 // customers read per node; more would hardly change a share
	maxVia         = 16  // linked nodes from which the second hop starts
	maxLinks       = 128 // links of a node; a node with more is a hub, such as a large provider, and is ignored
	maxSubjects    = 256 // subjects in one query

	// linksShare is the maximum number of links of a node that are read for one customer. Fewer than minCustomers
	// cannot make a node a hub, which would hide other customers' data about its neighbours.
	linksShare = maxLinks/minCustomers + 1
)

// GraphAggregates returns the aggregates of each subject, in the order of subjects. A subject has a non-zero aggregate
// only if at least three customers checked the subject itself, or one of its parents that is not a hub. Most subjects
// fail this condition, so one cheap statement filters them out first.
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
	now := s.now().UTC()
	r := &graphReader{store: s, now: now, oldest: now.Add(-sightingMaxAge)}
	known, err := r.known(ctx, subjects)
	if err != nil || len(known) == 0 {
		return r.aggregates, err
	}
	return r.aggregates, r.aggregate(ctx, known)
}

// ForgetAccountSightings deletes an account's contributions to the graph, including those not applied yet, and returns
// how many were deleted. Revoke its keys first, because further checks contribute again.
func (s *Store) ForgetAccountSightings(ctx context.Context, accountID string) (sightings, links int64, err error) {
	if err := s.CatchUp(ctx); err != nil { // only for the counts
		s.log.Warn("forgetting an account before the reputation graph is complete", "error", err)
	}
	_, err = s.db.ExecContext(ctx, "SELECT graph_forget_pending(?, '')", accountID)
	if err == nil {
		links, err = s.deleteOf(ctx, "graph_edges", accountID)
	}
	if err == nil {
		sightings, err = s.deleteOf(ctx, "graph_sightings", accountID)
	}
	return sightings, links / 2, wrap(err, "deleting an account from the reputation graph") // one in each direction
}

// deleteOf deletes an account's rows from a table of the graph. It is a statement that commits by itself: the
// projection and erasures wait for these rows, and this host may stop.
func (s *Store) deleteOf(ctx context.Context, table, accountID string) (n int64, err error) {
	err = again(func() error {
		return s.onLongConn(ctx, func(ctx context.Context, conn *pgx.Conn) error {
			deleted, err := conn.Exec(ctx, "DELETE FROM "+table+" WHERE account = $1", graphAccount(accountID))
			n = deleted.RowsAffected()
			return err
		})
	})
	return n, err
}

// ForgetSightings deletes an entity from the graph: its sightings, its links, and its share of its parents' sightings,
// including those that are not applied yet. It returns how many sightings and links there were. An empty account
// selects those of all accounts.
func (s *Store) ForgetSightings(ctx context.Context, accountID string, e entity.Entity) (sightings, links int,
	err error) {
	if err := s.CatchUp(ctx); err != nil { // only for the counts
		s.log.Warn("forgetting an entity before the reputation graph is complete", "error", err)
	}
	type counts struct{ Sightings, Links int }
	var deleted counts
	err = again(func() (err error) {
		deleted, err = once[counts](ctx, s, "SELECT sightings, links FROM graph_forget_node(?account, ?node)", named{
			"account": accountID, "node": s.node(reputation.Node{Kind: string(e.Type), Value: e.Value})})
		return err
	})
	return deleted.Sightings, deleted.Links, wrap(err, "deleting an entity from the reputation graph")
}

// readSightings reads an account's contribution to the reputation graph about a subject, including contributions that
// are not applied yet, or nil if there is none.
func (s *Store) readSightings(ctx context.Context, tx bun.Tx, r requester, p subject) (*privacy.Sightings, error) {
	if p.node == nil {
		return nil, nil
	}
	var rows []sightingRow
	owner := graphAccount(r.AccountID)
	err := query(tx, "export_sightings", named{"node": p.node, "account": owner}).Scan(ctx, &rows)
	if err != nil {
		return nil, err
	}
	waiting, err := s.waitingSightings(ctx, tx, r.Chain)
	if err != nil {
		return nil, err
	}
	var others [][]byte
	if len(rows) > 0 {
		err = tx.NewRaw("SELECT other FROM graph_edges WHERE node = ? AND account = ?", p.node, owner).
			Scan(ctx, &others)
		if err != nil {
			return nil, err
		}
	}
	if w := waiting.nodes[rowKey(owner, p.node)]; w != nil {
		if len(rows) == 0 {
			rows = []sightingRow{{FirstSeen: w.firstSeen, LastSeen: w.lastSeen}}
		}
		rows[0].Checks += int(w.checks)
		rows[0].Blocked += int(w.blocked)
		rows[0].Reviewed += int(w.reviewed)
		rows[0].LastSeen = later(rows[0].LastSeen, w.lastSeen)
	}
	if len(rows) == 0 {
		return nil, nil
	}
	for _, e := range waiting.edges {
		known := slices.ContainsFunc(others, func(other []byte) bool { return bytes.Equal(other, e.other) })
		if bytes.Equal(e.node, p.node) && e.account == owner && !known {
			others = append(others, e.other)
		}
	}
	row := rows[0]
	return &privacy.Sightings{Checks: row.Checks, Blocked: row.Blocked, Reviewed: row.Reviewed, Links: len(others),
		FirstSeen: privacy.Time{Time: row.FirstSeen}, LastSeen: privacy.Time{Time: row.LastSeen}}, nil
}

// sightingRow is the exported part of a row of graph_sightings.
type sightingRow struct {
	Checks, Blocked, Reviewed int
	FirstSeen, LastSeen       time.Time
}
