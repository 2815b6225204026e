package store

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/uptrace/bun"
	"github.com/uptrace/bun/schema"

	"assay/host/audit"
	"assay/host/check"
	"assay/host/entity"
)

// writer writes one batch within one transaction.
type writer struct {
	store *Store
	tx    bun.Tx
	heads map[int]*audit.Head
	start map[int]int64 // the heads' numbers when they were locked
	refs  []string      // of the records that were written
}

// caller is what the transaction itself knows of an account and the key that is used.
type caller struct {
	AccountID string
	KeyID     string // empty on the no-key endpoint
	State     string
	Quota     int
	Salt      []byte
	Chain     int
	Endpoint  bool // it has a webhook URL
}

// usageKey is what quota is counted by.
type usageKey struct {
	account string
	period  time.Time
}

// write puts the batch into the transaction and returns what to tell each: nil, check.ErrUnauthorized or a
// *check.QuotaError.
func (w *writer) write(ctx context.Context, batch []*pending) ([]error, error) {
	// Lock first, then read: from here on nobody else counts these accounts.
	if err := w.lock(ctx, batch); err != nil {
		return nil, err
	}
	callers, err := w.callers(ctx, batch)
	if err != nil {
		return nil, err
	}
	used, err := w.used(ctx, batch)
	if err != nil {
		return nil, err
	}
	verdicts := make([]error, len(batch))
	added := map[usageKey]int{}
	var rows []auditRow
	var events []eventRow
	graph := newSightings(w.store.keys.Graph)
	for i, p := range batch {
		c, ok := callers[p.caller().Account+"/"+p.caller().Key]
		if !ok || (c.KeyID != "" && c.State != "valid") {
			verdicts[i] = check.ErrUnauthorized
			continue
		}
		if verdicts[i] = take(c, p.records, used, added); verdicts[i] != nil {
			continue
		}
		for _, r := range p.records {
			rows = append(rows, w.auditRow(c, r))
			graph.add(c.AccountID, r)
			if event, ok, err := w.store.event(c, r); err != nil {
				return nil, err
			} else if ok {
				events = append(events, event)
			}
			w.refs = append(w.refs, r.Decision.Ref)
		}
	}
	if len(rows) == 0 {
		return verdicts, nil
	}
	return verdicts, w.flush(ctx, added, rows, events, graph)
}

// take counts records against their caller's months, all of them or none.
func take(c caller, records []check.Record, used, added map[usageKey]int) error {
	if c.AccountID == publicAccount {
		return nil
	}
	needed := map[usageKey]int{}
	for _, r := range records {
		needed[usageKey{c.AccountID, period(r.Decision.At)}]++
	}
	for key, n := range needed {
		if left := c.Quota - used[key] - added[key]; n > left {
			return &check.QuotaError{Quota: c.Quota, Left: max(0, left), Needed: n, ResetAt: key.period.AddDate(0, 1, 0)}
		}
	}
	for key, n := range needed {
		added[key] += n
	}
	return nil
}

// callers reads the accounts and keys of a batch.
func (w *writer) callers(ctx context.Context, batch []*pending) (map[string]caller, error) {
	var keys, open []string
	for _, p := range batch {
		if c := p.caller(); c.Key != "" {
			keys = append(keys, c.Key)
		} else {
			open = append(open, c.Account)
		}
	}
	slices.Sort(keys)
	slices.Sort(open)
	var found []caller
	err := w.tx.NewRaw(`
		SELECT a.id AS account_id, k.id AS key_id, k.state, a.quota, a.salt, a.chain,
			EXISTS (SELECT FROM webhook_endpoints AS e WHERE e.account_id = a.id) AS endpoint
		FROM api_keys AS k JOIN accounts AS a ON a.id = k.account_id WHERE k.id IN (?)
		UNION ALL
		SELECT a.id, '', '', a.quota, a.salt, a.chain, false FROM accounts AS a WHERE a.id IN (?)`,
		bun.List(slices.Compact(keys)), bun.List(slices.Compact(open))).Scan(ctx, &found)
	if err != nil {
		return nil, fmt.Errorf("reading accounts: %w", err)
	}
	callers := make(map[string]caller, len(found))
	for _, c := range found {
		callers[c.AccountID+"/"+c.KeyID] = c
	}
	return callers, nil
}

// lock takes the heads of the chains that the batch's accounts are recorded in.
func (w *writer) lock(ctx context.Context, batch []*pending) error {
	accounts := make([]string, len(batch))
	for i, p := range batch {
		accounts[i] = p.caller().Account
	}
	slices.Sort(accounts)
	heads, err := lockHeads(ctx, w.tx, w.tx.NewSelect().Table("accounts").Column("chain").Where("id IN (?)", bun.List(slices.Compact(accounts))))
	if err != nil {
		return err
	}
	w.heads, w.start = heads, make(map[int]int64, len(heads))
	for chain, head := range heads {
		w.start[chain] = head.Seq
	}
	return nil
}

func (w *writer) chains() []int {
	numbers := make([]int, 0, len(w.heads))
	for chain := range w.heads {
		numbers = append(numbers, chain)
	}
	slices.Sort(numbers)
	return numbers
}

// used reads what the batch's accounts have used of their months.
func (w *writer) used(ctx context.Context, batch []*pending) (map[usageKey]int, error) {
	var accounts []string
	oldest := batch[0].records[0].Decision.At
	for _, p := range batch {
		accounts = append(accounts, p.caller().Account)
		for _, r := range p.records {
			if r.Decision.At.Before(oldest) {
				oldest = r.Decision.At
			}
		}
	}
	slices.Sort(accounts)
	var rows []usageRow
	err := w.tx.NewSelect().Model(&rows).Where("account_id IN (?)", bun.List(slices.Compact(accounts))).
		Where("period >= ?", period(oldest)).Scan(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading quota: %w", err)
	}
	used := make(map[usageKey]int, len(rows))
	for _, r := range rows {
		used[usageKey{r.AccountID, r.Period.UTC()}] = r.Used
	}
	return used, nil
}

type usageRow struct {
	bun.BaseModel `bun:"table:quota_usage,alias:q"`

	AccountID string
	Period    time.Time `bun:"type:date"`
	Used      int
}

func (w *writer) auditRow(c caller, r check.Record) auditRow {
	d := r.Decision
	return link(w.heads[c.Chain], audit.Record{
		Kind: audit.Check, At: d.At.Format(check.TimeFormat), Ref: d.Ref, Account: c.AccountID, Key: c.KeyID, Type: string(r.Entity.Type),
		Pseudonym: audit.Pseudonym(w.store.keys.Pseudonym, c.Salt, string(r.Entity.Type), r.Entity.Value),
		Score:     d.Score, Verdict: string(d.Verdict), Revision: d.Revision,
	}, d.At)
}

// flush sends all of a batch's writes in one round trip. Rows go in the order of their keys, so that two transactions that
// touch the same ones cannot wait for each other.
func (w *writer) flush(ctx context.Context, added map[usageKey]int, rows []auditRow, events []eventRow, graph *sightings) error {
	usage := make([]usageRow, 0, len(added))
	for key, n := range added {
		usage = append(usage, usageRow{AccountID: key.account, Period: key.period, Used: n})
	}
	slices.SortFunc(usage, func(a, b usageRow) int {
		return cmp.Or(cmp.Compare(a.AccountID, b.AccountID), a.Period.Compare(b.Period))
	})
	var queries []schema.QueryAppender
	if len(usage) > 0 {
		queries = append(queries, w.tx.NewInsert().Model(&usage).On("CONFLICT (account_id, period) DO UPDATE").Set("used = q.used + EXCLUDED.used"))
	}
	queries = append(queries, w.tx.NewInsert().Model(&rows))
	if len(events) > 0 {
		queries = append(queries, w.tx.NewInsert().Model(&events))
	}
	queries = append(queries, graph.queries(w.tx)...)
	for _, chain := range w.chains() {
		head := w.heads[chain]
		if head.Seq > w.start[chain] {
			queries = append(queries, moveHead(w.tx, *head, w.start[chain]))
		}
	}
	var sql strings.Builder
	gen := w.store.db.QueryGen()
	for i, q := range queries {
		text, err := q.AppendQuery(gen, nil)
		if err != nil {
			return fmt.Errorf("writing batch: %w", err)
		}
		if i > 0 {
			sql.WriteString(";\n")
		}
		sql.Write(text)
	}
	result, err := w.tx.Tx.ExecContext(ctx, sql.String())
	if err != nil {
		return fmt.Errorf("writing batch: %w", err)
	}
	// The last statement moves the last head; it must have found it where it was locked.
	if n, err := result.RowsAffected(); err != nil || n != 1 {
		return errors.Join(errors.New("writing batch: an audit head moved under its lock"), err)
	}
	return nil
}

// moveHead sets a chain's head, if it still stands where it was read.
func moveHead(tx bun.Tx, head audit.Head, from int64) *bun.UpdateQuery {
	return tx.NewUpdate().Model((*headRow)(nil)).Set("seq = ?, hash = ?", head.Seq, head.Hash[:]).
		Where("chain = ? AND seq = ?", head.Chain, from)
}

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

// add counts the scored entity, what it hangs on, and what was sent along with it. Only the scored entity's sighting carries
// the verdict: what came along was not judged.
func (g *sightings) add(account string, r check.Record) {
	d := r.Decision
	scored := g.node(account, string(r.Entity.Type), r.Entity.Value, d.At)
	switch d.Verdict {
	case check.Block:
		scored.Blocked++
	case check.Review:
		scored.Reviewed++
	}
	hang := func(node *sightingRow, holders []entity.Holder) {
		for _, h := range holders {
			g.link(account, node, g.node(account, h.Kind, h.Value, d.At), d.At)
		}
	}
	hang(scored, r.Entity.Holders())
	for _, e := range r.Also {
		node := g.node(account, string(e.Type), e.Value, d.At)
		hang(node, e.Holders())
		g.link(account, scored, node, d.At)
	}
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
