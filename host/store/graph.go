package store

import (
	"context"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/uptrace/bun"

	"assay/host/audit"
	"assay/host/entity"
)

// Node is what the reputation graph holds under a keyed hash: an entity by its type, or what entities hang on by the
// kinds of entity.Holder.
type Node struct{ Kind, Value string }

// node is the keyed hash of a node.
func (s *Store) node(n Node) []byte { return audit.Pseudonym(s.keys.Graph, nil, n.Kind, n.Value) }

// Subject is an entity whose reputation is asked for, and what parsing knows it to hang on.
type Subject struct {
	Entity  Node
	Holders []Node
}

// Reputation is what customers together know of an entity: aggregates over at least three customers, or zeros, so that
// nobody can tell what one or two did. A customer has one vote in each share, however often it asked; the vote halves
// every 30 days. The no-key endpoint's callers have none.
type Reputation struct {
	Customers    int       // that met it within the last 90 days; when it is 0, what follows is zero too
	Seen         float64   // their checks, at most 10 of each customer, halved every 30 days
	BlockedShare float64   // 0 to 1: of their checks, by the word of layers that do not know the graph
	Since        time.Time // when the third of them first met it

	// other entities that were seen together with it, or hang on the same, by the checks of at least three customers
	Neighbours    int
	NeighbourRisk float64 // 0 to 1: how many of them were blocked or are listed
}

// The bounds of what is read for one subject, and of what counts.
const (
	minCustomers = 3
	halfLife     = 30 * 24 * time.Hour
	forgotten    = 90 * 24 * time.Hour
	seenAtMost   = 10  // checks of one customer
	votersAtMost = 500 // customers of one node: more would change no share
	nearAtMost   = 16  // nodes one hop away that the second hop starts from
	linksAtMost  = 128 // of a node: what more hangs on is a hub, a large provider say, and ties nothing together
	askedAtMost  = 256 // subjects in one query
)

// Reputations returns what is known of each subject, in their order, by a few queries for all. Of a subject that fewer
// than three customers met, and that hangs on nothing which three met and which is no hub, nothing is known. That is
// most of them, so the first query only looks at a few keys each, and the next ask about those that are left.
func (s *Store) Reputations(ctx context.Context, subjects []Subject) ([]Reputation, error) {
	all := make([]Reputation, len(subjects))
	for start := 0; start < len(subjects); start += askedAtMost {
		part := subjects[start:min(start+askedAtMost, len(subjects))]
		left, err := s.touched(ctx, part)
		if err == nil && len(left) > 0 {
			var met []int
			if met, err = s.metByMany(ctx, pick(part, left)); err == nil {
				left = pick(left, met)
			}
		}
		if err == nil && len(left) > 0 {
			found := make([]Reputation, len(left))
			if err = s.reputations(ctx, pick(part, left), found); err == nil {
				for i, at := range left {
					all[start+at] = found[i]
				}
			}
		}
		if err != nil {
			return nil, fmt.Errorf("reading the reputation graph: %w", err)
		}
	}
	return all, nil
}

// pick returns the elements at the given places.
func pick[T any](from []T, places []int) []T {
	picked := make([]T, len(places))
	for i, at := range places {
		picked[i] = from[at]
	}
	return picked
}

// touched returns which of the subjects are themselves, or hang on, nodes that enough customers met.
func (s *Store) touched(ctx context.Context, subjects []Subject) (at []int, err error) {
	owners := map[string][]int{}
	var keys strings.Builder
	for i, sub := range subjects {
		for _, n := range append([]Node{sub.Entity}, sub.Holders...) {
			key := s.node(n)
			if owners[string(key)] == nil {
				if keys.Len() > 0 {
					keys.WriteString(", ")
				}
				keys.WriteString(`'\x` + hex.EncodeToString(key) + "'")
			}
			owners[string(key)] = append(owners[string(key)], i)
		}
	}
	var met [][]byte
	err = s.db.NewRaw("SELECT near FROM unnest(ARRAY["+keys.String()+"]::bytea[]) AS near WHERE "+metByEnough("near"),
		s.now().UTC(), s.now().UTC().Add(-forgotten), publicAccount).Scan(ctx, &met)
	for _, key := range met {
		at = append(at, owners[string(key)]...)
	}
	slices.Sort(at)
	return slices.Compact(at), err
}

// metByMany returns which of the subjects enough customers met, or something that they hang on, in their order.
func (s *Store) metByMany(ctx context.Context, subjects []Subject) (at []int, err error) {
	asked, known := s.graphValues(subjects)
	now := s.now().UTC()
	err = s.db.NewRaw(fmt.Sprintf(metQuery, asked, known), now, now.Add(-forgotten), publicAccount).Scan(ctx, &at)
	return at, err
}

func (s *Store) reputations(ctx context.Context, subjects []Subject, into []Reputation) error {
	var rows []struct {
		Asked         int
		Customers     int
		Seen          float64
		Share         float64
		Since         time.Time
		Neighbours    int
		NeighbourRisk float64
	}
	asked, known := s.graphValues(subjects)
	now := s.now().UTC()
	query := fmt.Sprintf(reputationQuery, asked, known)
	if err := s.db.NewRaw(query, now, now.Add(-forgotten), publicAccount).Scan(ctx, &rows); err != nil {
		return err
	}
	for _, r := range rows {
		to := &into[r.Asked]
		*to = Reputation{Customers: r.Customers, Seen: r.Seen, BlockedShare: r.Share, Neighbours: r.Neighbours,
			NeighbourRisk: r.NeighbourRisk}
		if r.Customers > 0 {
			to.Since = r.Since.UTC()
		}
	}
	return nil
}

// graphValues writes subjects as rows of (number, node), and what they hang on likewise.
func (s *Store) graphValues(subjects []Subject) (asked, known string) {
	var a, k strings.Builder
	write := func(b *strings.Builder, i int, n Node) {
		if b.Len() > 0 {
			b.WriteString(", ")
		}
		b.WriteString("(" + strconv.Itoa(i) + `, '\x` + hex.EncodeToString(s.node(n)) + "'::bytea)")
	}
	for i, sub := range subjects {
		write(&a, i, sub.Entity)
		for _, h := range sub.Holders {
			write(&k, i, h)
		}
	}
	if k.Len() == 0 {
		k.WriteString("(-1, ''::bytea)")
	}
	return a.String(), k.String()
}

// metQuery takes the two lists of graphValues; its parameters are those of reputationQuery.
var metQuery = strings.NewReplacer("@links", strconv.Itoa(linksAtMost)).Replace(`
WITH asked (asked, self) AS (VALUES %s),
known (asked, near) AS (VALUES %s)
SELECT asked FROM asked WHERE ` + metByEnough("self") + `
UNION
SELECT asked FROM known WHERE ` + metByEnough("near") + ` AND (SELECT count(*) FROM (
	(SELECT 1 FROM graph_links WHERE low = near AND account_id <> ?2 AND last_seen > ?1 LIMIT @links + 1)
	UNION ALL
	(SELECT 1 FROM graph_links WHERE high = near AND account_id <> ?2 AND last_seen > ?1 LIMIT @links + 1)
) AS link) <= @links
ORDER BY asked`)

// metByEnough is true of a node that enough customers met lately.
func metByEnough(node string) string {
	return `(SELECT count(*) FROM (SELECT 1 FROM graph_sightings WHERE node = ` + node +
		` AND account_id <> ?2 AND last_seen > ?1 LIMIT ` + strconv.Itoa(minCustomers) + `) AS met) = ` +
		strconv.Itoa(minCustomers)
}

// reputationQuery takes the two lists of graphValues; ?0 is now, ?1 the oldest sighting that counts, ?2 the account
// that does not. OFFSET 0 keeps the planner from turning a few hundred look-ups by key into a scan.
var reputationQuery = strings.NewReplacer(
	"@min", strconv.Itoa(minCustomers), "@seen", strconv.Itoa(seenAtMost), "@voters", strconv.Itoa(votersAtMost),
	"@near", strconv.Itoa(nearAtMost), "@links", strconv.Itoa(linksAtMost), "@halflife",
	strconv.Itoa(int(halfLife.Seconds())),
).Replace(`
WITH asked (asked, self) AS (VALUES %s),
known (asked, near) AS (VALUES %s),
own AS (
	SELECT a.asked, count(*) AS customers, sum(least(g.checks, @seen) * g.vote) AS seen,
		sum(g.vote * g.blocked / g.checks) / sum(g.vote) AS share, (array_agg(g.first_seen ORDER BY g.first_seen))[@min] AS since
	FROM asked AS a CROSS JOIN LATERAL (
		SELECT checks, blocked, first_seen, ` + vote + ` AS vote FROM graph_sightings
		WHERE node = a.self AND account_id <> ?2 AND last_seen > ?1 LIMIT @voters
	) AS g
	GROUP BY a.asked HAVING count(*) >= @min
),
tied AS (
	SELECT a.asked, a.self, l.* FROM asked AS a CROSS JOIN LATERAL (` + linksOf("a.self") + `) AS l
),
around AS (
	SELECT k.asked, a.self, k.near FROM known AS k JOIN asked AS a ON a.asked = k.asked
	UNION
	SELECT asked, self, other FROM (
		SELECT asked, self, other, dense_rank() OVER (PARTITION BY asked ORDER BY other) AS place FROM tied
	) AS t WHERE place <= @near
),
pairs AS (
	SELECT asked, other, account_id, vote, 1.0::float8 AS weight FROM tied
	UNION ALL
	SELECT r.asked, l.other, l.account_id, l.vote, 0.5::float8
	FROM around AS r CROSS JOIN LATERAL (` + linksOf("r.near") + `) AS l WHERE l.other <> r.self
),
told AS (
	SELECT p.asked, p.account_id, p.other, max(p.weight) AS weight, max(p.vote) AS vote,
		max(CASE WHEN listed.bad THEN 1 ELSE g.share END) AS bad
	FROM pairs AS p
	CROSS JOIN LATERAL (
		SELECT blocked::float8 / checks AS share FROM graph_sightings
		WHERE node = p.other AND account_id = p.account_id AND kind IN ('domain', 'email', 'phone', 'iban') OFFSET 0
	) AS g
	CROSS JOIN LATERAL (
		SELECT coalesce(bool_or(f.kind = 'bad' AND NOT e.page) AND NOT bool_or(f.kind = 'good'), false) AS bad
		FROM feed_entries AS e JOIN feeds AS f ON f.id = e.feed_id
		WHERE e.node = p.other AND (f.expires_at IS NULL OR f.expires_at > ?0) OFFSET 0
	) AS listed
	GROUP BY p.asked, p.account_id, p.other
),
votes AS (
	SELECT asked, max(vote) AS vote, sum(weight * bad) / sum(weight) AS share FROM told GROUP BY asked, account_id
),
neighbourhood AS (
	SELECT asked, sum(vote * share) / sum(vote) AS risk FROM votes GROUP BY asked HAVING count(*) >= @min
),
counted AS (
	SELECT asked, count(DISTINCT other) AS neighbours FROM told GROUP BY asked
)
SELECT a.asked, coalesce(o.customers, 0) AS customers, coalesce(o.seen, 0) AS seen, coalesce(o.share, 0) AS share,
	coalesce(o.since, 'epoch') AS since, coalesce(n.risk, 0) AS neighbour_risk,
	CASE WHEN n.asked IS NULL THEN 0 ELSE c.neighbours END AS neighbours
FROM asked AS a LEFT JOIN own AS o ON o.asked = a.asked
LEFT JOIN neighbourhood AS n ON n.asked = a.asked LEFT JOIN counted AS c ON c.asked = a.asked`)

// vote is what a sighting or a link still counts. A clock that runs behind another host's gives no more than one.
const vote = `power(0.5, greatest(0, extract(epoch FROM ?0 - last_seen)) / @halflife)::float8`

// linksOf selects what a node is linked with and by whom, nothing when it is a hub.
func linksOf(node string) string {
	return `SELECT other, account_id, vote FROM (
		SELECT *, count(*) OVER () AS links FROM (
			(SELECT high AS other, account_id, ` + vote + ` AS vote FROM graph_links
				WHERE low = ` + node + ` AND account_id <> ?2 AND last_seen > ?1 LIMIT @links + 1)
			UNION ALL
			(SELECT low, account_id, ` + vote + ` FROM graph_links
				WHERE high = ` + node + ` AND account_id <> ?2 AND last_seen > ?1 LIMIT @links + 1)
		) AS side
	) AS counted WHERE links <= @links`
}

// ForgetAccountSightings takes everything out of the graph that an account has put in, and says how much it was: what a
// bad actor claimed, or what a customer who leaves takes along. Its keys should have ended before, since checks of its
// own would wait, and put more in.
func (s *Store) ForgetAccountSightings(ctx context.Context, accountID string) (sightings, links int64, err error) {
	gone := map[string]int64{}
	for attempt := 1; ; attempt++ {
		err = s.slowly(ctx, func(ctx context.Context, tx pgx.Tx) error {
			for _, table := range []string{"graph_links", "graph_sightings"} {
				tag, err := tx.Exec(ctx, "DELETE FROM "+table+" WHERE account_id = $1", accountID)
				if err != nil {
					return err
				}
				gone[table] = tag.RowsAffected()
			}
			return nil
		})
		if err == nil {
			return gone["graph_sightings"], gone["graph_links"], nil
		}
		if attempt == 3 || !retryable(err) {
			return 0, 0, fmt.Errorf("taking an account out of the reputation graph: %w", err)
		}
	}
}

// prunedAtOnce bounds how many rows of the graph a check may have to wait for.
const prunedAtOnce = 5_000

// PruneSightings deletes what counts no longer from the graph. It reads all of the graph, since an index on when a node
// was last seen would cost every check more. Rows that a check holds are left for the next time, so neither ever waits
// for the other's end in a circle.
func (s *Store) PruneSightings(ctx context.Context) error {
	before := s.now().UTC().Add(-forgotten)
	for _, table := range []string{"graph_links", "graph_sightings"} {
		for gone := int64(prunedAtOnce); gone == prunedAtOnce; {
			err := s.slowly(ctx, func(ctx context.Context, tx pgx.Tx) error {
				tag, err := tx.Exec(ctx, "DELETE FROM "+table+" WHERE ctid IN (SELECT ctid FROM "+table+
					" WHERE last_seen <= $1 LIMIT $2 FOR UPDATE SKIP LOCKED)", before, prunedAtOnce)
				gone = tag.RowsAffected()
				return err
			})
			if err != nil {
				return fmt.Errorf("pruning the reputation graph: %w", err)
			}
		}
	}
	return nil
}

// ForgetSightings takes an entity out of the graph: its sightings, its links, and its share in what it hangs on. It
// says how many there were. An empty account means those of all accounts.
func (s *Store) ForgetSightings(ctx context.Context, accountID string, e entity.Entity) (sightings, links int,
	err error) {
	err = s.inTx(ctx, func(ctx context.Context, tx bun.Tx) (err error) {
		sightings, links, err = forgetNode(ctx, tx, accountID, s.node(Node{string(e.Type), e.Value}))
		return err
	})
	if err != nil {
		return 0, 0, fmt.Errorf("taking an entity out of the reputation graph: %w", err)
	}
	return sightings, links, nil
}

// forgetNode is ForgetSightings within a transaction, and says how much there was.
func forgetNode(ctx context.Context, tx bun.Tx, accountID string, node []byte) (sightings, links int, err error) {
	err = tx.NewRaw(`
		WITH links AS (
			DELETE FROM graph_links WHERE (low = ?0 OR high = ?0) AND (?1 = '' OR account_id = ?1)
			RETURNING CASE WHEN low = ?0 THEN high ELSE low END AS other, account_id, checks
		), own AS (
			DELETE FROM graph_sightings WHERE node = ?0 AND (?1 = '' OR account_id = ?1) RETURNING node
		), held AS (
			SELECT g.node, g.account_id, g.checks - l.checks AS left_over FROM graph_sightings AS g
			JOIN links AS l ON l.other = g.node AND l.account_id = g.account_id
			WHERE g.kind NOT IN ('domain', 'email', 'phone', 'iban') -- entities were seen in their own right
		), gone AS (
			DELETE FROM graph_sightings AS g USING held AS h WHERE g.node = h.node AND g.account_id = h.account_id AND h.left_over <= 0
		), fallen AS (
			UPDATE graph_sightings AS g SET checks = h.left_over FROM held AS h
			WHERE g.node = h.node AND g.account_id = h.account_id AND h.left_over > 0
		)
		SELECT (SELECT count(*) FROM own), (SELECT count(*) FROM links)`, node, accountID).Scan(ctx, &sightings, &links)
	return sightings, links, err
}
