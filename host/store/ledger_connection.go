package store

import (
	"context"
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

// batchSettled is the SQLSTATE with which ledger_append fails if ledger_settle has declared the batch lost.
const batchSettled = "AS001"

// connectLedger opens a pool whose connections never send a cancel request: a statement that waits for a synchronous
// standby would commit without it. pgconn would send one whenever a connection breaks. If url is a pooler's and cannot
// be reached, connections go to direct.
func connectLedger(url, direct string, connections int) (*bun.DB, error) {
	cfg, err := connConfig(url)
	if err != nil {
		return nil, err
	}
	if direct != url {
		past, err := connConfig(direct)
		if err != nil {
			return nil, err
		}
		cfg.Fallbacks = append(cfg.Fallbacks, &pgconn.FallbackConfig{Host: past.Host, Port: past.Port,
			TLSConfig: past.TLSConfig})
	}
	cfg.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
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

// connection is a connection that was taken from its pool.
type connection struct {
	sql bun.Conn
	pg  *pgx.Conn

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
		c.pg = driver.(*stdlib.Conn).Conn()
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
		c.pg.PgConn().Conn().Close()
	}
}

// query calls a function in one round trip, and scan with each row of its result. It does not use named prepared
// statements, which poolers do not pass on.
func (c *connection) query(function string, args []any, scan func(values [][]byte) error) error {
	c.forgetWarning()
	r, err := call(context.Background(), c.pg, function, args)
	if err != nil {
		return err
	}
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
	return c.warning()
}

// warned is the key of a connection's last warning.
const warned = "warned"

// keepWarning stores a warning, which the method warning returns.
func keepWarning(conn *pgconn.PgConn, n *pgconn.Notice) {
	if n.SeverityUnlocalized == "WARNING" {
		conn.CustomData()[warned] = n
	}
}

func (c *connection) forgetWarning() { delete(c.pg.PgConn().CustomData(), warned) }

// warning returns an *inDoubtError if there was a warning since forgetWarning, such as "the transaction has already
// committed locally, but might not have been replicated to the standby".
func (c *connection) warning() error {
	if n, ok := c.pg.PgConn().CustomData()[warned].(*pgconn.Notice); ok {
		return &inDoubtError{(*pgconn.PgError)(n)}
	}
	return nil
}

// call calls a function of the database. It sends the arguments in binary form, because arrays of thousands of values
// take long to write and to parse as text.
func call(ctx context.Context, conn *pgx.Conn, function string, args []any) (*pgconn.ResultReader, error) {
	values, types, places := make([][]byte, len(args)), make([]uint32, len(args)), make([]string, len(args))
	for i, arg := range args {
		places[i] = fmt.Sprintf("$%d", i+1)
		if types[i], values[i] = encodeArray(arg); types[i] != 0 {
			continue
		}
		t, ok := conn.TypeMap().TypeForValue(arg)
		if !ok {
			return nil, fmt.Errorf("no type of the database for %T", arg)
		}
		var err error
		if values[i], err = conn.TypeMap().Encode(t.OID, pgx.BinaryFormatCode, arg, nil); err != nil {
			return nil, err
		}
		types[i] = t.OID
	}
	return conn.PgConn().ExecParams(ctx, "SELECT * FROM "+function+"("+strings.Join(places, ",")+")", values, types,
		[]int16{pgx.BinaryFormatCode}, []int16{pgx.BinaryFormatCode}), nil
}

// encodeArray returns the type and the binary form of an array; 0 for other values. pgx takes several times as long for
// the arrays of a batch.
func encodeArray(value any) (oid uint32, encoded []byte) {
	be := binary.BigEndian
	switch v := value.(type) {
	case []string:
		return pgtype.TextArrayOID, arrayOf(pgtype.TextOID, v, func(b []byte, s string) []byte {
			return append(b, s...)
		})
	case [][]byte:
		return pgtype.ByteaArrayOID, arrayOf(pgtype.ByteaOID, v, func(b, s []byte) []byte {
			if s == nil {
				return nil
			}
			return append(b, s...)
		})
	case []int32:
		return pgtype.Int4ArrayOID, arrayOf(pgtype.Int4OID, v, func(b []byte, n int32) []byte {
			return be.AppendUint32(b, uint32(n))
		})
	case []int64:
		return pgtype.Int8ArrayOID, arrayOf(pgtype.Int8OID, v, func(b []byte, n int64) []byte {
			return be.AppendUint64(b, uint64(n))
		})
	case []time.Time:
		return pgtype.TimestamptzArrayOID, arrayOf(pgtype.TimestamptzOID, v, func(b []byte, at time.Time) []byte {
			return be.AppendUint64(b, uint64(at.UnixMicro()-postgresEpoch))
		})
	}
	return 0, nil
}

// arrayOf encodes an array: the number of dimensions, whether there are nulls, the element's type, and the dimension's
// length and lower bound precede the elements, each after its length. put appends an element, or returns nil for null.
func arrayOf[T any](element uint32, values []T, put func(b []byte, v T) []byte) []byte {
	be := binary.BigEndian
	if len(values) == 0 {
		return be.AppendUint32(make([]byte, 8), element)
	}
	first := len(put(nil, values[0])) // the others are about as long
	b := make([]byte, 0, 20+(first+first/4+5)*len(values))
	for _, n := range []uint32{1, 1, element, uint32(len(values)), 1} {
		b = be.AppendUint32(b, n)
	}
	for _, v := range values {
		at := len(b)
		b = append(b, 255, 255, 255, 255) // null
		if longer := put(b, v); longer != nil {
			b = longer
			be.PutUint32(b[at:], uint32(len(b)-at-4))
		}
	}
	return b
}

// postgresEpoch is where the database's times begin, in microseconds since 1970.
var postgresEpoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro()

// callErrors maps the outcomes of calls, except "quota", to errors.
var callErrors = map[string]error{"unauthorized": check.ErrUnauthorized, "suspended": check.ErrSuspended,
	"event": errNeedsEvent, "moved": errMoved, "revision": check.ErrRevision, "answered": check.ErrAnswered}

// append sends a batch and returns the error of each call, and the head after the batch; its number is 0 if nothing is
// recorded.
func (c *connection) append(params []any, batch []*pending) (calls []error, head audit.Head, err error) {
	calls = make([]error, len(batch))
	err = c.query("ledger_append", params, func(v [][]byte) error {
		if string(v[1]) == "head" {
			head.Seq = int64(binary.BigEndian.Uint64(v[5]))
			copy(head.Hash[:], v[6])
			return nil
		}
		call := int(binary.BigEndian.Uint32(v[0]))
		if call >= len(calls) {
			return fmt.Errorf("ledger_append returned call %d of %d", call, len(calls))
		}
		outcome := string(v[1])
		if outcome == "quota" {
			calls[call] = &check.QuotaError{
				Quota: int(int32(binary.BigEndian.Uint32(v[2]))), Left: int(int32(binary.BigEndian.Uint32(v[3]))),
				Needed:  len(batch[call].rows),
				ResetAt: time.UnixMicro(int64(binary.BigEndian.Uint64(v[4])) + postgresEpoch).UTC(),
			}
		} else if calls[call] = callErrors[outcome]; calls[call] == nil {
			return fmt.Errorf("ledger_append returned the unknown outcome %q", outcome)
		}
		return nil
	})
	if sqlState(err) == batchSettled {
		err = errLost
	}
	return calls, head, err
}

// settle returns the positions of the recorded calls.
func (c *connection) settle(params []any) (recorded []int, err error) {
	err = c.query("ledger_settle", params, func(v [][]byte) error {
		recorded = append(recorded, int(binary.BigEndian.Uint32(v[0])))
		return nil
	})
	return recorded, err
}
