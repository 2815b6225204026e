package store

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/stdlib"
	"github.com/uptrace/bun"

	"assay/host/audit"
	"assay/host/internal/maintenance"
)

// Projection applies the contributions of recorded checks to the reputation graph, whichever host recorded them. Any
// number of hosts may run one: each contribution counts once, and a stopped host does not delay the others.
type Projection struct {
	store     *Store
	interval  time.Duration
	onApplied func(checks int, lag time.Duration)
	hint      chan struct{}
}

// ProjectionConfig configures a Projection.
type ProjectionConfig struct {
	Interval time.Duration // 0: 200 ms
	// OnApplied is called after a batch of the ledger was applied, with its number of checks and the time since it was
	// recorded. It may be nil.
	OnApplied func(checks int, lag time.Duration)
}

const (
	idleInterval   = time.Second
	lateAfter      = 5 * time.Second // contributions that wait longer are reported
	reportInterval = time.Minute
	applyChecks    = 1000 // checks applied in one transaction, unless one batch has more
	applyBatches   = 500  // the same for batches of the ledger
	applyTimeout   = 10 * time.Second
)

// NewProjection returns a projection. Run starts it.
func (s *Store) NewProjection(cfg ProjectionConfig) *Projection {
	p := &Projection{store: s, interval: cmp.Or(cfg.Interval, 200*time.Millisecond), onApplied: cfg.OnApplied,
		hint: make(chan struct{}, 1)}
	if p.onApplied == nil {
		p.onApplied = func(int, time.Duration) {}
	}
	return p
}

// Hint tells the projection that this host has recorded checks. It never blocks.
func (p *Projection) Hint() {
	select {
	case p.hint <- struct{}{}:
	default:
	}
}

// Run applies contributions until ctx ends.
func (p *Projection) Run(ctx context.Context) {
	var applied, reported time.Time
	failing := false
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-p.hint:
			if time.Since(applied) < p.store.Turn(p.interval) { // not idle: the next turn gathers more
				continue
			}
		}
		began := time.Now()
		n, oldest, err := p.store.applyContributions(ctx, p.onApplied)
		if n > 0 {
			applied = began
		}
		if late := oldest > lateAfter; (late || err != nil) && ctx.Err() == nil {
			if !failing || time.Since(reported) > reportInterval {
				p.store.log.Warn("the reputation graph is late", "waiting", oldest.Round(time.Millisecond), "error",
					err)
				reported = time.Now()
			}
			failing = true
		} else {
			failing = false
		}
		wait := p.interval
		if n == 0 { // other hosts apply what they record, unless they stop
			wait = max(wait, idleInterval)
		}
		timer.Reset(p.store.Turn(wait))
	}
}

// progress records which contributions of a chain are applied.
type progress struct {
	Chain            int
	Applied, Forgets int64
	Last             int64 // the last contribution
}

// applyContributions applies the waiting contributions, and returns the number of checks and how long the oldest had
// waited. A chain that fails does not delay the others. Without the keys in use, it leaves them all to other hosts.
func (s *Store) applyContributions(ctx context.Context, onApplied func(checks int, lag time.Duration)) (n int,
	oldest time.Duration, err error) {
	if !s.holdsKeys() {
		return 0, 0, nil
	}
	ctx, cancel := context.WithTimeout(ctx, applyTimeout)
	defer cancel()
	waiting, err := s.waitingContributions(ctx)
	if err != nil {
		return 0, 0, fmt.Errorf("looking for contributions to the reputation graph: %w", err)
	}
	for _, p := range waiting {
		for p.Applied < p.Last {
			applied, age, err2 := s.applyNext(ctx, p, onApplied)
			oldest = max(oldest, age)
			if err2 != nil {
				err = errors.Join(err, fmt.Errorf("applying contributions of chain %d: %w", p.Chain, err2))
			}
			if applied.checks == 0 {
				break // failed, or another host is applying them
			}
			p.Applied = applied.upTo
			n += applied.checks
		}
	}
	return n, oldest, err
}

// waitingContributions returns the chains whose contributions are not all applied.
func (s *Store) waitingContributions(ctx context.Context) (waiting []progress, err error) {
	err = s.db.NewRaw(`SELECT p.chain, p.applied, p.forgets, max(c.seq) AS last
		FROM graph_progress AS p JOIN graph_contributions AS c ON c.chain = p.chain AND c.seq > p.applied
		GROUP BY p.chain, p.applied, p.forgets ORDER BY p.chain`).Scan(ctx, &waiting)
	return waiting, err
}

// CatchUp waits until everything that was recorded before the call is in the reputation graph.
func (s *Store) CatchUp(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, applyTimeout)
	defer cancel()
	waiting, err := s.waitingContributions(ctx)
	for targets := waiting; err == nil; {
		last := map[int]int64{}
		for _, p := range waiting {
			last[p.Chain] = p.Applied
		}
		pending := false
		for _, t := range targets {
			at, more := last[t.Chain]
			pending = pending || more && at < t.Last
		}
		if !pending {
			return nil
		}
		var n int
		n, _, err = s.applyContributions(ctx, func(int, time.Duration) {})
		if err == nil && n == 0 && !maintenance.Pause(ctx, 10*time.Millisecond) { // another host is applying them
			err = ctx.Err()
		}
		if err == nil {
			waiting, err = s.waitingContributions(ctx)
		}
	}
	return fmt.Errorf("waiting for the reputation graph: %w", err)
}

// applied is the result of a transaction.
type applied struct {
	upTo   int64
	checks int
}

// contributionRow is a row of graph_contributions.
type contributionRow struct {
	Seq   int64
	Items int
	Added []byte
	Age   float64 // seconds
}

// forgottenRow is a row of graph_forgotten.
type forgottenRow struct {
	Account int64
	Node    []byte
	UpTo    int64
}

// applyNext applies the next contributions of a chain, and returns how long the oldest had waited. It applies none if
// another host is doing so.
func (s *Store) applyNext(ctx context.Context, p progress, onApplied func(checks int, lag time.Duration)) (applied,
	time.Duration, error) {
	// Read after p: if a row is added later, p.Forgets is out of date and nothing is applied.
	forgotten, err := readForgotten(ctx, s.db, p.Chain)
	if err != nil {
		return applied{}, 0, err
	}
	var rows []contributionRow
	err = query(s.db, "waiting_contributions", named{"chain": p.Chain, "applied": p.Applied, "batches": applyBatches,
		"checks": applyChecks}).Scan(ctx, &rows)
	if err != nil || len(rows) == 0 {
		return applied{}, 0, err
	}
	read := time.Now()
	g := newSightings()
	var bad []badItem
	done := applied{upTo: rows[len(rows)-1].Seq}
	for _, row := range rows {
		done.checks += row.Items
		bad = append(bad, s.addUp(g, row, forgotten)...)
	}
	age := time.Duration(rows[0].Age * float64(time.Second))
	if bad != nil { // another host may be able to read them
		if err := s.lacksKeys(ctx); err != nil {
			return applied{}, age, err
		}
	}
	ok, err := s.writeGraph(ctx, p, done.upTo, len(rows), g, bad)
	if err != nil || !ok {
		return applied{}, age, err
	}
	for _, b := range bad {
		s.log.Error("a contribution to the reputation graph cannot be read and was set aside", "chain", p.Chain, "seq",
			b.seq)
	}
	for _, row := range rows {
		onApplied(row.Items, time.Duration(row.Age*float64(time.Second))+time.Since(read))
	}
	return done, age, nil
}

func readForgotten(ctx context.Context, db bun.IDB, chain int) (rows []forgottenRow, err error) {
	err = db.NewRaw("SELECT account, node, up_to FROM graph_forgotten WHERE chain = ?", chain).Scan(ctx, &rows)
	return rows, err
}

// waitingSightings adds up the contributions of a chain that are not applied in the transaction's snapshot.
func (s *Store) waitingSightings(ctx context.Context, tx bun.Tx, chain int) (*sightings, error) {
	g := newSightings()
	forgotten, err := readForgotten(ctx, tx, chain)
	if err != nil {
		return nil, err
	}
	var rows []contributionRow
	err = tx.NewRaw("SELECT seq, items, added FROM graph_contributions WHERE chain = ? ORDER BY seq", chain).
		Scan(ctx, &rows)
	for _, row := range rows {
		s.addUp(g, row, forgotten)
	}
	return g, err
}

// badItem is an item that cannot be read, with the number of its record.
type badItem struct {
	seq  int64
	item []byte
}

// addUp adds the checks of one row to g, without forgotten items. It returns the items that cannot be read.
func (s *Store) addUp(g *sightings, row contributionRow, forgotten []forgottenRow) (bad []badItem) {
	items := splitItems(row.Added)
	if len(items) != row.Items {
		return []badItem{{row.Seq, row.Added}}
	}
	for i, item := range items {
		seq := row.Seq - int64(len(items)-1-i)
		c, err := openContribution(s.keys, item)
		if err != nil {
			bad = append(bad, badItem{seq, item})
			continue
		}
		keep := true
		for _, f := range forgotten {
			switch {
			case seq > f.UpTo || f.Account != 0 && f.Account != c.account:
			case len(f.Node) == 0:
				keep = false
			default:
				c = c.without(f.Node)
			}
		}
		if keep {
			g.add(c)
		}
	}
	return bad
}

// splitItems returns the items of graph_contributions, each preceded by its length, or nil if b is damaged.
func splitItems(b []byte) (items [][]byte) {
	for len(b) > 0 {
		if len(b) < 4 || uint64(binary.BigEndian.Uint32(b)) > uint64(len(b)-4) {
			return nil
		}
		n := 4 + int(binary.BigEndian.Uint32(b))
		items, b = append(items, b[4:n]), b[n:]
	}
	return items
}

// writeGraph applies the sums of a chain's contributions after p.Applied up to number upTo. It reports false if another
// host has applied them, is applying them, or if something was forgotten since they were read.
func (s *Store) writeGraph(ctx context.Context, p progress, upTo int64, batches int, g *sightings, bad []badItem) (bool,
	error) {
	nodes, edges := sorted(g.nodes), sorted(g.edges)
	return callFunction(ctx, s.db, "graph_apply",
		int32(p.Chain), p.Applied, p.Forgets, upTo, int32(batches),
		column(nodes, func(r *sighting) []byte { return r.node }),
		column(nodes, func(r *sighting) int64 { return r.account }),
		column(nodes, func(r *sighting) string { return r.kind }),
		column(nodes, func(r *sighting) int32 { return r.checks }),
		column(nodes, func(r *sighting) int32 { return r.blocked }),
		column(nodes, func(r *sighting) int32 { return r.reviewed }),
		column(nodes, func(r *sighting) time.Time { return r.firstSeen }),
		column(nodes, func(r *sighting) time.Time { return r.lastSeen }),
		column(nodes, func(r *sighting) []byte { return r.recent }),
		column(edges, func(r *edge) []byte { return r.node }),
		column(edges, func(r *edge) []byte { return r.other }),
		column(edges, func(r *edge) int64 { return r.account }),
		column(edges, func(r *edge) int32 { return r.checks }),
		column(edges, func(r *edge) time.Time { return r.lastSeen }),
		column(bad, func(b badItem) int64 { return b.seq }),
		column(bad, func(b badItem) []byte { return b.item }))
}

// column returns one value of each row; never nil, which would be NULL.
func column[R, T any](rows []R, value func(R) T) []T {
	values := make([]T, len(rows))
	for i, r := range rows {
		values[i] = value(r)
	}
	return values
}

// convert returns each row converted, unless reading them or converting one fails.
func convert[R, T any](rows []R, err error, to func(R) (T, error)) ([]T, error) {
	values := make([]T, len(rows))
	for i, r := range rows {
		if err == nil {
			values[i], err = to(r)
		}
	}
	return values, err
}

// callFunction calls a function of the database that returns a boolean, in one round trip and a transaction of its own.
func callFunction(ctx context.Context, db *bun.DB, name string, args ...any) (result bool, err error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return false, err
	}
	defer conn.Close()
	err = conn.Raw(func(driver any) error {
		reader, err := call(ctx, driver.(*stdlib.Conn).Conn(), name, args)
		if err != nil {
			return err
		}
		r := reader.Read()
		result = r.Err == nil && len(r.Rows) == 1 && r.Rows[0][0][0] == 1
		return r.Err
	})
	return result, err
}

// createProgress adds the rows of graph_progress for new chains, so that their contributions can be applied.
func createProgress(ctx context.Context, tx bun.Tx) error {
	_, err := tx.ExecContext(ctx,
		`INSERT INTO graph_progress (chain) SELECT DISTINCT chain FROM audit_heads WHERE chain < ?
		ON CONFLICT DO NOTHING`, audit.StateChain)
	return err
}
