package store

import (
	"crypto/rand"
	"time"

	"assay/host/audit"
	"assay/host/check"
)

// row is a check as ledger_append takes it. The goroutine of the check prepares it.
type row struct {
	at                     time.Time
	ref, typ, verdict      string
	score                  int
	revision               int64
	pseudonym, nonce, leaf []byte
	sealedNode             []byte
	digest                 []byte // of the override that decided; nil: none
	item                   []byte // for the graph
	event                  string // the name of the webhook event; empty: none
	payload                []byte // of the event, encrypted; nil: none
}

// rows prepares the checks of a call. lacking reports that an event would need a payload if the account had an
// endpoint. As far as this host knows, it has none: the payload contains the raw entity, so it is stored only if
// needed.
func (s *Store) rows(a accountInfo, records []check.Record) (rows []row, lacking bool, err error) {
	rows = make([]row, len(records))
	names := audit.NewPseudonyms(s.keys.Pseudonym)
	random := make([]byte, audit.NonceBytes*len(records))
	rand.Read(random)
	for i, r := range records {
		d := r.Decision
		nonce := random[i*audit.NonceBytes : (i+1)*audit.NonceBytes]
		record := audit.Record{
			Kind: audit.Check, At: d.At.Format(check.TimeFormat), Ref: d.Ref, Account: r.Caller.Account,
			Key: r.Caller.Key, Type: string(r.Entity.Type),
			Pseudonym: names.Of(a.Salt, string(r.Entity.Type), r.Entity.Value),
			Score:     d.Score, Verdict: string(d.Verdict), Revision: d.Revision,
		}
		if d.Override != nil {
			record.Digest = d.Override.Digest
		}
		records[i].Pseudonym = record.Pseudonym
		leaf := audit.Leaf(nonce, record)
		item, node := newContribution(s.keys, r.Caller.Account, r)
		rows[i] = row{
			at: d.At, ref: d.Ref, typ: record.Type, verdict: record.Verdict, score: d.Score,
			revision: d.Revision, pseudonym: record.Pseudonym, nonce: nonce, leaf: leaf[:],
			digest:     record.Digest,
			sealedNode: s.keys.SealNode(node, nodeContext(d.Ref)), item: item,
		}
		if d.Verdict == check.Allow {
			continue
		}
		if !a.Endpoint {
			lacking = true
			continue
		}
		if rows[i].event, rows[i].payload, err = s.eventOf(d); err != nil {
			return nil, false, err
		}
	}
	return rows, lacking, nil
}

// batchCallers are the accounts and keys of a batch, each once. Places start at 1, as in Postgres.
type batchCallers struct {
	accounts, keys []string
	needed         []int32 // the number of each account's records
	owners         []int32 // the places of the keys' accounts
	accountPlaces  map[string]int32
	keyPlaces      map[[2]string]int32 // by account and key
}

// add counts the records of a call and returns the place of its key.
func (c *batchCallers) add(caller check.Caller, records int) int32 {
	owner, ok := c.accountPlaces[caller.Account]
	if !ok {
		c.accounts, c.needed = append(c.accounts, caller.Account), append(c.needed, 0)
		owner = int32(len(c.accounts))
		c.accountPlaces[caller.Account] = owner
	}
	c.needed[owner-1] += int32(records)
	id := [2]string{caller.Account, caller.Key}
	place, ok := c.keyPlaces[id]
	if !ok {
		c.keys, c.owners = append(c.keys, caller.Key), append(c.owners, owner)
		place = int32(len(c.keys))
		c.keyPlaces[id] = place
	}
	return place
}

// appendParams returns the parameters of ledger_append for a batch of calls. last is the last batch that this host
// answered for.
func appendParams(chain int, id []byte, lockTimeout time.Duration, batch []*pending, last answeredBatch) []any {
	known := batchCallers{accountPlaces: map[string]int32{}, keyPlaces: map[[2]string]int32{}}
	callers, sizes, lacking := make([]int32, len(batch)), make([]int32, len(batch)), make([]bool, len(batch))
	rows := make([]*row, 0, countRecords(batch))
	callerOf := make([]int32, 0, cap(rows))
	// Never nil, which would be NULL.
	eventOf, events, payloads := []int32{}, []string{}, [][]byte{}
	onceOf, firsts, onceKeys, requests, answers := []int32{}, []int32{}, [][]byte{}, [][]byte{}, [][]byte{}
	for i, p := range batch {
		if a := p.answer; a != nil {
			onceOf, firsts = append(onceOf, int32(i+1)), append(firsts, int32(len(rows)+1))
			onceKeys, requests = append(onceKeys, a.key), append(requests, a.request)
			answers = append(answers, a.sealed)
		}
		callers[i], sizes[i], lacking[i] = known.add(p.caller(), len(p.rows)), int32(len(p.rows)), p.lacking
		for n := range p.rows {
			r := &p.rows[n]
			rows, callerOf = append(rows, r), append(callerOf, callers[i])
			if r.payload != nil {
				eventOf, events, payloads = append(eventOf, int32(len(rows))), append(events, r.event),
					append(payloads, r.payload)
			}
		}
	}
	text := func(value func(*row) string) []string { return column(rows, value) }
	bytes := func(value func(*row) []byte) [][]byte { return column(rows, value) }
	return []any{int32(chain), id, int32(lockTimeout.Milliseconds()),
		known.accounts, known.needed, known.keys, known.owners, callers, sizes, lacking, callerOf,
		column(rows, func(r *row) time.Time { return r.at }),
		text(func(r *row) string { return r.ref }),
		text(func(r *row) string { return r.typ }),
		bytes(func(r *row) []byte { return r.pseudonym }),
		bytes(func(r *row) []byte { return r.nonce }),
		column(rows, func(r *row) int32 { return int32(r.score) }),
		text(func(r *row) string { return r.verdict }),
		column(rows, func(r *row) int64 { return r.revision }),
		bytes(func(r *row) []byte { return r.leaf }),
		bytes(func(r *row) []byte { return r.sealedNode }),
		bytes(func(r *row) []byte { return r.item }),
		eventOf, events, payloads,
		bytes(func(r *row) []byte { return r.digest }),
		onceOf, firsts, onceKeys, requests, answers,
		last.Seq, last.At, last.Hash}
}

// settleParams returns the parameters of ledger_settle for a batch.
func (b *batcher) settleParams(id []byte, batch []*pending) []any {
	first := func(p *pending) *row { return &p.rows[0] }
	return []any{int32(b.chain), id, int32(b.ledger.lockTimeout().Milliseconds()),
		column(batch, func(p *pending) string { return first(p).ref }),
		column(batch, func(p *pending) time.Time { return first(p).at }),
		column(batch, func(p *pending) []byte {
			return b.ledger.store.tombstone(requester{AccountID: p.caller().Account}, "ref", first(p).ref)
		})}
}
