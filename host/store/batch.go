package store

import (
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
)

// writer writes one batch in one transaction.
type writer struct {
	store *Store
	tx    bun.Tx
	heads map[int]*audit.Head
	start map[int]int64 // the sequence number of each head when it was locked
	first *auditRow     // the first row written; nil: none
	event bool          // a webhook event was written
	names *audit.Pseudonyms
}

// caller is an account and one of its keys, as read within the transaction.
type caller struct {
	AccountID string
	KeyID     string // empty on the no-key endpoint
	State     string
	Quota     int
	Salt      []byte
	Chain     int
	Endpoint  bool // the account has a webhook endpoint
	ExpiresAt time.Time
	UsedAt    time.Time // last use of the key, see keysUsed
}

// isValid reports whether the key may be used.
func (c caller) isValid(now time.Time) bool {
	return c.State == "valid" && (c.ExpiresAt.IsZero() || now.Before(c.ExpiresAt))
}

// usageKey identifies a count of checks: quotas are per account and month.
type usageKey struct {
	account string
	period  time.Time
}

// write writes the batch and returns a result for each call: nil, check.ErrUnauthorized or a *check.QuotaError.
func (w *writer) write(ctx context.Context, batch []*pending) ([]error, error) {
	// Lock before reading, so that no other host changes the counts of these accounts.
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
	results := make([]error, len(batch))
	added := map[usageKey]int{}
	var rows []auditRow
	var events []eventRow
	items := map[int][][]byte{}
	for i, p := range batch {
		// The last moment at which a caller can withdraw its call.
		if !p.send() {
			continue
		}
		c, ok := callers[p.caller().Account+"/"+p.caller().Key]
		if !ok || (c.KeyID != "" && !c.isValid(w.store.now())) {
			results[i] = check.ErrUnauthorized
			continue
		}
		if w.heads[c.Chain] == nil {
			return nil, fmt.Errorf("audit chain %d has no head", c.Chain)
		}
		if results[i] = reserveQuota(c, p.records, used, added); results[i] != nil {
			continue
		}
		for _, r := range p.records {
			item, node := newContribution(w.store.keys, c.AccountID, r)
			items[c.Chain] = append(items[c.Chain], item)
			rows = append(rows, w.auditRow(c, r, node))
			if event, ok, err := w.store.event(c, r); err != nil {
				return nil, err
			} else if ok {
				events = append(events, event)
			}
		}
	}
	if len(rows) == 0 {
		return results, nil
	}
	w.first = &rows[0]
	return results, w.flush(ctx, added, rows, events, items, w.keysUsed(callers, rows))
}

// reserveQuota adds records to their caller's counts in added, either all of them or none.
func reserveQuota(c caller, records []check.Record, used, added map[usageKey]int) error {
	if c.AccountID == publicAccount {
		return nil
	}
	needed := map[usageKey]int{}
	for _, r := range records {
		needed[usageKey{c.AccountID, period(r.Decision.At)}]++
	}
	for key, n := range needed {
		if left := c.Quota - used[key] - added[key]; n > left {
			return &check.QuotaError{Quota: c.Quota, Left: max(0, left), Needed: n,
				ResetAt: key.period.AddDate(0, 1, 0)}
		}
	}
	for key, n := range needed {
		added[key] += n
	}
	return nil
}

// keysUsed returns the keys used for rows whose last_used_at is due for an update. It is updated at most once a minute.
func (w *writer) keysUsed(callers map[string]caller, rows []auditRow) []string {
	var ids []string
	for _, r := range rows {
		c := callers[r.AccountID+"/"+r.KeyID]
		if c.KeyID != "" && r.RecordedAt.Sub(c.UsedAt) >= time.Minute {
			ids = append(ids, c.KeyID)
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
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
		SELECT a.id AS account_id, k.id AS key_id, k.state, k.expires_at, k.last_used_at AS used_at, a.quota,
			a.salt, a.chain,
			EXISTS (SELECT FROM webhook_endpoints AS e WHERE e.account_id = a.id) AS endpoint
		FROM api_keys AS k JOIN accounts AS a ON a.id = k.account_id WHERE k.id IN (?)
		UNION ALL
		SELECT a.id, '', '', NULL, NULL, a.quota, a.salt, a.chain, false FROM accounts AS a WHERE a.id IN (?)`,
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

// lock locks the heads of the chains that record the batch's accounts.
func (w *writer) lock(ctx context.Context, batch []*pending) error {
	accounts := make([]string, len(batch))
	for i, p := range batch {
		accounts[i] = p.caller().Account
	}
	slices.Sort(accounts)
	heads, err := lockHeads(ctx, w.tx, w.tx.NewSelect().Table("accounts").Column("chain").Where("id IN (?)",
		bun.List(slices.Compact(accounts))))
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

// used reads the counts of the batch's accounts.
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

func (w *writer) auditRow(c caller, r check.Record, node []byte) auditRow {
	d := r.Decision
	row := link(w.heads[c.Chain], audit.Record{
		Kind: audit.Check, At: d.At.Format(check.TimeFormat), Ref: d.Ref, Account: c.AccountID, Key: c.KeyID,
		Type:      string(r.Entity.Type),
		Pseudonym: w.names.Of(c.Salt, string(r.Entity.Type), r.Entity.Value),
		Score:     d.Score, Verdict: string(d.Verdict), Revision: d.Revision,
	}, d.At)
	row.SealedNode = w.store.keys.SealNode(node, nodeContext(d.Ref))
	return row
}

// flush sends all writes of a batch in one round trip. Rows are ordered by their keys, so that transactions with common
// rows cannot deadlock.
func (w *writer) flush(ctx context.Context, added map[usageKey]int, rows []auditRow, events []eventRow,
	items map[int][][]byte, keys []string) error {
	usage := make([]usageRow, 0, len(added))
	for key, n := range added {
		usage = append(usage, usageRow{AccountID: key.account, Period: key.period, Used: n})
	}
	slices.SortFunc(usage, func(a, b usageRow) int {
		return cmp.Or(cmp.Compare(a.AccountID, b.AccountID), a.Period.Compare(b.Period))
	})
	var queries []schema.QueryAppender
	if len(usage) > 0 {
		queries = append(queries, w.tx.NewInsert().Model(&usage).On("CONFLICT (account_id, period) DO UPDATE").
			Set("used = q.used + EXCLUDED.used"))
	}
	queries = append(queries, w.tx.NewInsert().Model(&rows))
	if len(events) > 0 {
		queries = append(queries, addEvents(w.tx, events))
		w.event = true
	}
	for chain, added := range items {
		queries = append(queries, addContributions(w.tx, chain, w.heads[chain].Seq, added))
	}
	if len(keys) > 0 {
		queries = append(queries, w.tx.NewUpdate().Model((*keyRow)(nil)).Set("last_used_at = ?",
			w.store.now()).Where("id IN (?)", bun.List(keys)))
	}
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
	// The result is that of the last statement, which updates the last head and must find it unchanged.
	if n, err := result.RowsAffected(); err != nil || n != 1 {
		return errors.Join(errors.New("writing batch: an audit head moved under its lock"), err)
	}
	return nil
}

// moveHead updates a chain's head if its sequence number is still from.
func moveHead(tx bun.Tx, head audit.Head, from int64) *bun.UpdateQuery {
	return tx.NewUpdate().Model((*headRow)(nil)).Set("seq = ?, hash = ?", head.Seq, head.Hash[:]).
		Where("chain = ? AND seq = ?", head.Chain, from)
}
