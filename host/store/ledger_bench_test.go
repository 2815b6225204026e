package store

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"assay/host/check"
	"assay/host/entity"
	"assay/host/store/postgres/postgrestest"
	"assay/host/store/storetest"
)

// BenchmarkLedger measures the throughput of the ledger with 512 callers, by number of chains and accounts, with one
// check per transaction, and with one while a snapshot of the database is open. ASSAY_LEDGER_ROWS adds a database that
// already has that many records. It reports what a check costs Postgres: processor time and write-ahead log.
func BenchmarkLedger(b *testing.B) {
	loads := []ledgerLoad{
		{batch: 256, chains: 1, accounts: 1}, {batch: 256, chains: 1, accounts: 100},
		{batch: 256, chains: 16, accounts: 100},
		{batch: 1, chains: 1, accounts: 1}, {batch: 1, chains: 1, accounts: 1, snapshot: true},
	}
	if rows, err := strconv.Atoi(os.Getenv("ASSAY_LEDGER_ROWS")); err == nil {
		loads = append(loads, ledgerLoad{batch: 256, chains: 1, accounts: 1, rows: rows})
	}
	for _, load := range loads {
		var database *ledgerDatabase
		b.Run(load.String(), func(inner *testing.B) {
			if load.rows == 0 {
				database = load.prepare(inner)
			} else if database == nil { // filled once, although this is called for each b.N
				database = load.prepare(b)
			}
			load.run(inner, database)
		})
	}
}

// ledgerLoad is a load on a ledger, and what its database is like.
type ledgerLoad struct {
	batch, chains, accounts int
	rows                    int  // audit records that are there before
	snapshot                bool // another session has an open snapshot
}

func (l ledgerLoad) String() string {
	name := fmt.Sprintf("batch=%d/chains=%d/accounts=%d", l.batch, l.chains, l.accounts)
	if l.snapshot {
		name += "/snapshot"
	}
	if l.rows > 0 {
		name += fmt.Sprintf("/rows=%d", l.rows)
	}
	return name
}

// ledgerDatabase is where a load runs.
type ledgerDatabase struct {
	url     string
	store   *Store
	callers []check.Caller
}

func (l ledgerLoad) prepare(b *testing.B) *ledgerDatabase {
	d := &ledgerDatabase{url: postgrestest.Database(b), callers: make([]check.Caller, l.accounts)}
	d.store = storetest.Close(b, must(Open(b.Context(), Config{URL: d.url, Keys: testRing, Logger: discard(),
		Chains: l.chains}))(b))
	for i := range d.callers {
		d.callers[i] = newCaller(b, d.store, plan(b, "pro", 1_000_000_000)) // more than a benchmark uses up
	}
	if l.rows > 0 {
		fill(b, session(b, d.url), d.callers[0], l.rows)
	}
	return d
}

func (l ledgerLoad) run(b *testing.B, d *ledgerDatabase) {
	url, s, callers := d.url, d.store, d.callers
	conn := session(b, url)
	if l.snapshot {
		exec(b, session(b, url), "BEGIN ISOLATION LEVEL REPEATABLE READ", "SELECT FROM audit_heads")
	}
	var batches, checks, n atomic.Int64
	ledger := ledgerOn(b, s, LedgerConfig{Batch: l.batch, OnBatch: func(size int, _ time.Duration, _ int) {
		batches.Add(1)
		checks.Add(int64(size))
	}})
	var mu sync.Mutex
	var took []time.Duration
	b.SetParallelism((512 + runtime.GOMAXPROCS(0) - 1) / runtime.GOMAXPROCS(0)) // goroutines per processor
	before, wal := processorTime(b, conn), value[int64](b, conn, walBytes)
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		var own []time.Duration
		for pb.Next() {
			i := n.Add(1)
			e, err := entity.Parse(entity.Domain, fmt.Sprintf("shop-%d.example.com", i), "")
			if err != nil {
				b.Error(err)
				return
			}
			began := time.Now()
			r := at(decided(callers[int(i)%len(callers)], e, check.Allow), began.UTC().Truncate(time.Millisecond))
			if err := ledger.Append(context.Background(), r); err != nil {
				b.Error(err)
				return
			}
			own = append(own, time.Since(began))
		}
		mu.Lock()
		defer mu.Unlock()
		took = append(took, own...)
	})
	b.StopTimer()
	spent := processorTime(b, conn) - before
	slices.Sort(took)
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "checks/s")
	b.ReportMetric(float64(checks.Load())/float64(batches.Load()), "checks/batch")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
	b.ReportMetric(float64(spent.Microseconds())/float64(b.N), "postgres-us/check")
	b.ReportMetric(float64(value[int64](b, conn, walBytes)-wal)/float64(b.N), "wal-bytes/check")
}

// fill adds records to chain 0 that look like checks. The chain does not verify.
func fill(b *testing.B, conn *pgx.Conn, caller check.Caller, rows int) {
	const step = 500_000
	for from := 1; from <= rows; from += step {
		must(conn.Exec(b.Context(), `INSERT INTO audit_records (chain, seq, recorded_at, at, kind, ref, account_id,
				key_id, type, pseudonym, nonce, verdict, revision, leaf, hash, sealed_node)
			SELECT 0, n, now(), '2026-01-01T00:00:00.000Z', 'check', 'chk_' || lpad(n::text, 26, '0'), $1, $2,
				'domain', h, substr(h, 1, 16), 'allow', 1, h, h, h || h
			FROM (SELECT n, sha256(int8send(n)) AS h FROM generate_series($3::bigint, $4::bigint) AS n) AS r`,
			caller.Account, caller.Key, from, min(rows, from+step-1)))(b)
		b.Logf("%d records", min(rows, from+step-1))
	}
	exec(b, conn, fmt.Sprintf("UPDATE audit_heads SET seq = %d", rows), "VACUUM ANALYZE audit_records", "CHECKPOINT")
}

const walBytes = "SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::bigint"

// processorTime returns the processor time of all processes of the server: those with the parent of this connection's.
// It is 0 where there is no /proc or the server is elsewhere.
func processorTime(b *testing.B, conn *pgx.Conn) (total time.Duration) {
	stat := func(pid string) []string {
		text, err := os.ReadFile("/proc/" + pid + "/stat")
		if err != nil {
			return make([]string, 50)
		}
		_, after, _ := strings.Cut(string(text), ") ")
		return strings.Fields(after)
	}
	postmaster := stat(fmt.Sprint(value[int](b, conn, "SELECT pg_backend_pid()")))[1]
	processes, err := os.ReadDir("/proc")
	if err != nil || postmaster == "" {
		return 0
	}
	for _, p := range processes {
		fields := stat(p.Name())
		if fields[1] != postmaster && p.Name() != postmaster {
			continue
		}
		for _, ticks := range fields[11:13] { // user and system time, of 1/100 s
			n, _ := strconv.Atoi(ticks)
			total += time.Duration(n) * 10 * time.Millisecond
		}
	}
	return total
}
