package store

import (
	"crypto/rand"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"assay/host/audit"
	"assay/host/check"
)

// row is a check as ledger_append takes it. The goroutine of the check prepares it.
type row struct {
	at                        time.Time
	atText, ref, typ, verdict string
	score                     int
	revision                  int64
	pseudonym, nonce, leaf    []byte
	sealedNode                []byte
	digest                    []byte // of the override that decided; nil: none
	item                      []byte // for the graph
	event                     string // the name of the webhook event; empty: none
	payload                   []byte // of the event, encrypted; nil: none
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
			at: d.At, atText: record.At, ref: d.Ref, typ: record.Type, verdict: record.Verdict, score: d.Score,
			revision: d.Revision, pseudonym: record.Pseudonym, nonce: nonce, leaf: leaf[:],
			digest:     record.Digest,
			sealedNode: s.keys.SealNode(node, nodeContext(d.Ref)), item: item,
		}
		if !r.Caller.Plan.Webhooks || d.Verdict == check.Allow {
			continue
		}
		if !a.Endpoint {
			lacking = true
			continue
		}
		event, ok, err := s.eventOf(r.Caller.Account, d)
		if err != nil {
			return nil, false, err
		}
		if ok {
			rows[i].event, rows[i].payload = event.Event, event.SealedPayload
		}
	}
	return rows, lacking, nil
}

// batchCallers are the accounts and keys of a batch, each once. Positions start at 1, as in Postgres.
type batchCallers struct {
	accounts, keys, owners *array // owners are the positions of the keys' accounts
	needed                 []int  // the number of each account's records
	accountPlaces          map[string]int
	keyPlaces              map[[2]string]int // by account and key
}

func newBatchCallers() *batchCallers {
	return &batchCallers{accounts: textArray(0), keys: textArray(0), owners: intArray(0),
		accountPlaces: map[string]int{}, keyPlaces: map[[2]string]int{}}
}

// add counts the records of a call and returns the place of its key.
func (c *batchCallers) add(caller check.Caller, records int) int {
	owner, ok := c.accountPlaces[caller.Account]
	if !ok {
		c.accounts.text(caller.Account)
		c.needed = append(c.needed, 0)
		owner = len(c.needed)
		c.accountPlaces[caller.Account] = owner
	}
	c.needed[owner-1] += records
	id := [2]string{caller.Account, caller.Key}
	place, ok := c.keyPlaces[id]
	if !ok {
		c.keys.text(caller.Key)
		c.owners.int(owner)
		place = len(c.keyPlaces) + 1
		c.keyPlaces[id] = place
	}
	return place
}

// counts returns the number of each account's records.
func (c *batchCallers) counts() *array {
	counts := intArray(len(c.needed))
	for _, n := range c.needed {
		counts.int(n)
	}
	return counts
}

// appendParams returns the parameters of ledger_append for a batch of calls. last is the last batch that this host
// answered for.
func appendParams(chain int, id []byte, lockTimeout time.Duration, batch []*pending, last answeredBatch) []param {
	n := countRecords(batch)
	known := newBatchCallers()
	callers, sizes := intArray(n), intArray(n)
	lacking := newArray(pgtype.BoolArrayOID, pgtype.BoolOID, 5*n)
	callerOf, recordedAt, at, refs := intArray(n), timeArray(n), textArray(32*n), textArray(40*n)
	types, pseudonyms, nonces := textArray(12*n), bytesArray(36*n), bytesArray(20*n)
	scores, verdicts := intArray(n), textArray(12*n)
	revisions := newArray(pgtype.Int8ArrayOID, pgtype.Int8OID, 12*n)
	leaves, nodes, items, digests := bytesArray(36*n), bytesArray(64*n), bytesArray(400*n), bytesArray(4*n)
	eventOf, events, payloads := intArray(0), textArray(0), bytesArray(0)
	onceOf, firsts, onceKeys, requests, answers := intArray(0), intArray(0), bytesArray(0), bytesArray(0), bytesArray(0)

	record := 0 // its place
	for i, p := range batch {
		if p.answer != nil {
			onceOf.int(i + 1)
			firsts.int(record + 1)
			onceKeys.bytes(p.answer.key)
			requests.bytes(p.answer.request)
			answers.bytes(p.answer.sealed)
		}
		caller := known.add(p.caller(), len(p.rows))
		callers.int(caller)
		sizes.int(len(p.rows))
		lacking.bool(p.lacking)
		for i := range p.rows {
			r := &p.rows[i]
			record++
			callerOf.int(caller)
			recordedAt.time(r.at)
			at.text(r.atText)
			refs.text(r.ref)
			types.text(r.typ)
			pseudonyms.bytes(r.pseudonym)
			nonces.bytes(r.nonce)
			scores.int(r.score)
			verdicts.text(r.verdict)
			revisions.long(r.revision)
			leaves.bytes(r.leaf)
			digests.bytes(r.digest)
			nodes.bytes(r.sealedNode)
			items.framed(r.item)
			if r.payload != nil {
				eventOf.int(record)
				events.text(r.event)
				payloads.bytes(r.payload)
			}
		}
	}
	params := []param{intParam(chain), {pgtype.ByteaOID, id}, intParam(int(lockTimeout.Milliseconds()))}
	for _, c := range []*array{known.accounts, known.counts(), known.keys, known.owners, callers, sizes, lacking,
		callerOf, recordedAt, at, refs, types, pseudonyms, nonces, scores, verdicts, revisions, leaves, nodes, items,
		eventOf, events, payloads, digests, onceOf, firsts, onceKeys, requests, answers} {
		params = append(params, c.param())
	}
	return append(params, longParam(last.Seq), timeParam(last.At), param{pgtype.ByteaOID, last.Hash})
}

// settleParams returns the parameters of ledger_settle for a batch.
func (b *batcher) settleParams(id []byte, batch []*pending) []param {
	refs, at, tombstones := textArray(0), timeArray(0), bytesArray(0)
	for _, p := range batch {
		first := &p.rows[0]
		refs.text(first.ref)
		at.time(first.at)
		tombstones.bytes(b.ledger.store.tombstone(requester{AccountID: p.caller().Account}, "ref", first.ref))
	}
	return []param{intParam(b.chain), {pgtype.ByteaOID, id}, intParam(int(b.ledger.lockTimeout().Milliseconds())),
		refs.param(), at.param(), tombstones.param()}
}
