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
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/pgdialect"

	"assay/host/audit"
	"assay/host/check"
)

// batchSettled is the SQLSTATE with which ledger_append fails if ledger_settle has declared the batch lost.
const batchSettled = "AS001"

// connectLedger opens a pool whose connections never send a cancel request: a statement that waits for a synchronous
// standby would commit without it. pgconn would send one whenever a connection breaks. If url, of a pooler, cannot be
// reached, connections lead to the database of direct.
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

// callErrors are the outcomes of calls besides "quota".
var callErrors = map[string]error{"unauthorized": check.ErrUnauthorized, "suspended": check.ErrSuspended,
	"event": errNeedsEvent, "moved": errMoved, "revision": check.ErrRevision, "answered": check.ErrAnswered}

// append sends a batch and returns the error of each call, and the head after the batch; its number is 0 if nothing is
// recorded.
func (c *connection) append(params []param, batch []*pending) (calls []error, head audit.Head, err error) {
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
func (c *connection) settle(params []param) (recorded []int, err error) {
	err = c.query("ledger_settle", params, func(v [][]byte) error {
		recorded = append(recorded, int(binary.BigEndian.Uint32(v[0])))
		return nil
	})
	return recorded, err
}
