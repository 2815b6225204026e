package store

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/pgdialect"

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
	item                      []byte // for the graph
	event                     string // the name of the webhook event; empty: none
	payload                   []byte // of the event, encrypted; nil: none
}

// rows prepares the checks of a call. lacking reports that an event would need a payload if the account had an
// endpoint, which it does not as far as this host knows: the payload contains the raw entity, so it is not stored
// without a reason.
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
		leaf := audit.Leaf(nonce, record)
		item, node := newContribution(s.keys, r.Caller.Account, r)
		rows[i] = row{
			at: d.At, atText: record.At, ref: d.Ref, typ: record.Type, verdict: record.Verdict, score: d.Score,
			revision: d.Revision, pseudonym: record.Pseudonym, nonce: nonce, leaf: leaf[:],
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

// param is a parameter of a statement in binary format.
type param struct {
	oid   uint32
	value []byte
}

func intParam(n int) param {
	return param{pgtype.Int4OID, binary.BigEndian.AppendUint32(nil, uint32(n))}
}

// array builds an array parameter.
type array struct {
	oid, element uint32 // types
	n            uint32
	data         []byte
}

func newArray(oid, element uint32, size int) *array {
	return &array{oid: oid, element: element, data: make([]byte, 20, 20+size)}
}

func textArray(size int) *array  { return newArray(pgtype.TextArrayOID, pgtype.TextOID, size) }
func bytesArray(size int) *array { return newArray(pgtype.ByteaArrayOID, pgtype.ByteaOID, size) }
func intArray(n int) *array      { return newArray(pgtype.Int4ArrayOID, pgtype.Int4OID, 8*n) }
func timeArray(n int) *array {
	return newArray(pgtype.TimestamptzArrayOID, pgtype.TimestamptzOID, 12*n)
}

func (c *array) text(s string) {
	c.n++
	c.data = binary.BigEndian.AppendUint32(c.data, uint32(len(s)))
	c.data = append(c.data, s...)
}

func (c *array) bytes(b []byte) {
	c.n++
	c.data = binary.BigEndian.AppendUint32(c.data, uint32(len(b)))
	c.data = append(c.data, b...)
}

// framed adds bytes preceded by their length.
func (c *array) framed(b []byte) {
	c.n++
	c.data = binary.BigEndian.AppendUint32(c.data, uint32(4+len(b)))
	c.data = binary.BigEndian.AppendUint32(c.data, uint32(len(b)))
	c.data = append(c.data, b...)
}

func (c *array) int(n int) {
	c.n++
	c.data = binary.BigEndian.AppendUint32(c.data, 4)
	c.data = binary.BigEndian.AppendUint32(c.data, uint32(n))
}

func (c *array) long(n int64) {
	c.n++
	c.data = binary.BigEndian.AppendUint32(c.data, 8)
	c.data = binary.BigEndian.AppendUint64(c.data, uint64(n))
}

func (c *array) bool(v bool) {
	c.n++
	c.data = binary.BigEndian.AppendUint32(c.data, 1)
	if v {
		c.data = append(c.data, 1)
	} else {
		c.data = append(c.data, 0)
	}
}

var postgresEpoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro()

func (c *array) time(t time.Time) { c.long(t.UnixMicro() - postgresEpoch) }

// param returns the array: the number of dimensions, whether there are nulls, the element's type, and the dimension's
// length and lower bound precede the elements.
func (c *array) param() param {
	if c.n == 0 {
		return param{c.oid, append(make([]byte, 8), binary.BigEndian.AppendUint32(nil, c.element)...)}
	}
	for i, v := range []uint32{1, 0, c.element, c.n, 1} {
		binary.BigEndian.PutUint32(c.data[4*i:], v)
	}
	return param{c.oid, c.data}
}

// appendParams returns the parameters of ledger_append for a batch of calls.
func appendParams(chain int, id []byte, lockTimeout time.Duration, batch []*pending) []param {
	n := countRecords(batch)
	accounts, needed := textArray(0), []int{}
	keys, owners := textArray(0), intArray(0)
	callers, sizes := intArray(n), intArray(n)
	lacking := newArray(pgtype.BoolArrayOID, pgtype.BoolOID, 5*n)
	callerOf, recordedAt, at, refs := intArray(n), timeArray(n), textArray(32*n), textArray(40*n)
	types, pseudonyms, nonces := textArray(12*n), bytesArray(36*n), bytesArray(20*n)
	scores, verdicts := intArray(n), textArray(12*n)
	revisions := newArray(pgtype.Int8ArrayOID, pgtype.Int8OID, 12*n)
	leaves, nodes, items := bytesArray(36*n), bytesArray(64*n), bytesArray(400*n)
	eventOf, events, payloads := intArray(0), textArray(0), bytesArray(0)

	// Places are counted from 1, as in Postgres.
	accountPlaces, callerPlaces := map[string]int{}, map[[2]string]int{}
	record := 0
	for _, p := range batch {
		id := p.caller()
		owner, ok := accountPlaces[id.Account]
		if !ok {
			accounts.text(id.Account)
			needed = append(needed, 0)
			owner = len(needed)
			accountPlaces[id.Account] = owner
		}
		needed[owner-1] += len(p.rows)
		caller, ok := callerPlaces[[2]string{id.Account, id.Key}]
		if !ok {
			keys.text(id.Key)
			owners.int(owner)
			caller = len(callerPlaces) + 1
			callerPlaces[[2]string{id.Account, id.Key}] = caller
		}
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
			nodes.bytes(r.sealedNode)
			items.framed(r.item)
			if r.payload != nil {
				eventOf.int(record)
				events.text(r.event)
				payloads.bytes(r.payload)
			}
		}
	}
	counts := intArray(len(needed))
	for _, n := range needed {
		counts.int(n)
	}
	params := []param{intParam(chain), {pgtype.ByteaOID, id}, intParam(int(lockTimeout.Milliseconds()))}
	for _, c := range []*array{accounts, counts, keys, owners, callers, sizes, lacking, callerOf, recordedAt, at, refs,
		types, pseudonyms, nonces, scores, verdicts, revisions, leaves, nodes, items, eventOf, events, payloads} {
		params = append(params, c.param())
	}
	return params
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

// batchSettled is the SQLSTATE with which ledger_append fails if ledger_settle has declared the batch lost.
const batchSettled = "AS001"

// connectLedger opens a pool whose connections never send a cancel request: a statement that waits for a synchronous
// standby would commit without it. pgconn would send one whenever a connection breaks.
func connectLedger(url string, connections int) (*bun.DB, error) {
	cfg, err := connConfig(url)
	if err != nil {
		return nil, err
	}
	cfg.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
	cfg.OnNotice = func(conn *pgconn.PgConn, n *pgconn.Notice) {
		if n.SeverityUnlocalized == "WARNING" {
			conn.CustomData()[warned] = n
		}
	}
	pool := stdlib.OpenDB(*cfg, stdlib.OptionBeforeConnect(func(_ context.Context, cfg *pgx.ConnConfig) error {
		var connected atomic.Bool
		dial := cfg.DialFunc
		cfg.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
			if connected.Load() {
				return nil, errors.New("statements of the ledger are never cancelled")
			}
			return dial(ctx, network, address)
		}
		cfg.AfterConnect = func(context.Context, *pgconn.PgConn) error {
			connected.Store(true)
			return nil
		}
		return nil
	}))
	pool.SetMaxOpenConns(connections)
	pool.SetMaxIdleConns(connections)
	pool.SetConnMaxIdleTime(5 * time.Minute)
	return bun.NewDB(pool, pgdialect.New()), nil
}

// warned is the key of a connection's last warning.
const warned = "warned"

// connection is a connection of the ledger, taken from its pool.
type connection struct {
	sql bun.Conn
	pg  *pgconn.PgConn

	mu       sync.Mutex
	released bool
}

func acquire(ctx context.Context, db *bun.DB) (*connection, error) {
	c := &connection{}
	var err error
	if c.sql, err = db.Conn(ctx); err != nil {
		return nil, err
	}
	err = c.sql.Raw(func(driver any) error {
		c.pg = driver.(*stdlib.Conn).Conn().PgConn()
		return nil
	})
	return c, err
}

// release returns the connection to the pool, which drops it if it is broken.
func (c *connection) release() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.released = true
	return c.sql.Close()
}

// abandon closes the connection under a statement that is still waiting for its reply.
func (c *connection) abandon() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.released {
		c.pg.Conn().Close()
	}
}

// query runs a statement in one round trip and calls scan with each row of its result. It does not use named prepared
// statements, which poolers do not pass on.
func (c *connection) query(function string, params []param, scan func(values [][]byte) error) error {
	values, oids := make([][]byte, len(params)), make([]uint32, len(params))
	places := make([]string, len(params))
	for i, p := range params {
		values[i], oids[i], places[i] = p.value, p.oid, fmt.Sprintf("$%d", i+1)
	}
	delete(c.pg.CustomData(), warned)
	r := c.pg.ExecParams(context.Background(), "SELECT * FROM "+function+"("+strings.Join(places, ",")+")", values,
		oids, []int16{pgx.BinaryFormatCode}, []int16{pgx.BinaryFormatCode})
	var err error
	for r.NextRow() {
		if err == nil {
			err = scan(r.Values())
		}
	}
	if _, closeErr := r.Close(); closeErr != nil {
		return closeErr
	}
	if err != nil {
		return err
	}
	if n, ok := c.pg.CustomData()[warned].(*pgconn.Notice); ok {
		// Such as "the transaction has already committed locally, but might not have been replicated to the standby".
		return &inDoubtError{(*pgconn.PgError)(n)}
	}
	return nil
}

// append sends a batch and returns the error of each call.
func (c *connection) append(params []param, batch []*pending) ([]error, error) {
	calls := make([]error, len(batch))
	err := c.query("ledger_append", params, func(v [][]byte) error {
		call := int(binary.BigEndian.Uint32(v[0]))
		if call >= len(calls) {
			return fmt.Errorf("ledger_append returned call %d of %d", call, len(calls))
		}
		switch outcome := string(v[1]); outcome {
		case "unauthorized":
			calls[call] = check.ErrUnauthorized
		case "quota":
			calls[call] = &check.QuotaError{
				Quota: int(int32(binary.BigEndian.Uint32(v[2]))), Left: int(int32(binary.BigEndian.Uint32(v[3]))),
				Needed:  len(batch[call].rows),
				ResetAt: time.UnixMicro(int64(binary.BigEndian.Uint64(v[4])) + postgresEpoch).UTC(),
			}
		case "event":
			calls[call] = errNeedsEvent
		case "moved":
			calls[call] = errMoved
		default:
			return fmt.Errorf("ledger_append returned the unknown outcome %q", outcome)
		}
		return nil
	})
	if sqlState(err) == batchSettled {
		err = errLost
	}
	return calls, err
}

// settle returns the places of the calls that are recorded.
func (c *connection) settle(params []param) (recorded []int, err error) {
	err = c.query("ledger_settle", params, func(v [][]byte) error {
		recorded = append(recorded, int(binary.BigEndian.Uint32(v[0])))
		return nil
	})
	return recorded, err
}
