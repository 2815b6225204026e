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
	"assay/registry"
	is "assay/registry/expect"
)

// BenchmarkLedger measures the ledger with 512 callers, by chains and accounts, with one check per transaction, and
// beside an open snapshot. ASSAY_LEDGER_ROWS adds records. It reports Postgres's processor time and log per check.
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
		must(conn.Exec(b.Context(), `INSERT INTO audit_records (chain, seq, recorded_at, kind, ref, account_id,
				key_id, type, pseudonym, nonce, verdict, revision, leaf, hash, sealed_node)
			SELECT 0, n, now(), 'check', 'chk_' || lpad(n::text, 26, '0'), $1, $2,
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

// BenchmarkActivate measures how long an activation takes while three hosts record more checks than the database can
// take: it needs the head of each chain, for which batches are queueing.
func BenchmarkActivate(b *testing.B) {
	for _, chains := range []int{1, 16} {
		b.Run(fmt.Sprintf("chains=%d", chains), func(b *testing.B) { benchmarkActivate(b, chains) })
	}
}

func benchmarkActivate(b *testing.B, chains int) {
	const hosts, clients = 3, 256
	d := ledgerLoad{chains: chains, accounts: 100}.prepare(b)
	ctx, stop := context.WithCancel(b.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	var n, checks atomic.Int64
	for range hosts {
		s := storetest.Close(b, must(Open(b.Context(), Config{URL: d.url, Keys: testRing, Logger: discard(),
			Chains: chains}))(b))
		ledger := storetest.Close(b, must(s.NewLedger(LedgerConfig{Batch: 256}))(b))
		for range clients {
			running.Go(func() {
				for ctx.Err() == nil {
					i := n.Add(1)
					e := storetest.Parse(b, entity.Domain, fmt.Sprintf("shop-%d.example.com", i))
					r := at(decided(d.callers[int(i)%len(d.callers)], e, check.Allow),
						time.Now().UTC().Truncate(time.Millisecond))
					if ledger.Append(context.WithoutCancel(ctx), r) == nil {
						checks.Add(1)
					}
				}
			})
		}
	}
	revision := must(activate(b.Context(), d.store, lineupOf("probe@1.0.0"), registry.OriginOperator, "the first"))(b)
	is.Until(b, "checks to be recorded", func() bool { return checks.Load() > 1000 })
	var took []time.Duration
	began, before := time.Now(), checks.Load()
	for b.Loop() {
		next := must(signed(b.Context(), d.store, revision, "a benchmark"))(b)
		committing := time.Now()
		noError(b, d.store.Activate(b.Context(), next))
		took = append(took, time.Since(committing))
	}
	b.ReportMetric(float64(checks.Load()-before)/time.Since(began).Seconds(), "checks/s")
	slices.Sort(took)
	for _, percent := range []int{50, 90, 100} {
		b.ReportMetric(float64(took[min(len(took)*percent/100, len(took)-1)].Microseconds())/1000,
			fmt.Sprintf("p%d-ms", percent))
	}
}

// BenchmarkProjection measures what applying contributions costs: of domains never seen before, each below a domain of
// its own, and of the same hundred domains again and again; and the former in a graph of a million nodes right after a
// checkpoint, when Postgres logs whole pages, as it does for most changes of an installation with little traffic.
// Postgres must run on this machine.
func BenchmarkProjection(b *testing.B) {
	for name, c := range map[string]struct {
		names       int
		compression string // of the log after a checkpoint; "": there is none
	}{
		"new": {names: 1 << 30}, "known": {names: 100}, "after a checkpoint": {1 << 30, "off"},
		"after a checkpoint, pglz": {1 << 30, "pglz"}, "after a checkpoint, lz4": {1 << 30, "lz4"},
	} {
		b.Run(name, func(b *testing.B) {
			s := newStore(b, nil)
			conn := session(b, s.url)
			if c.compression != "" {
				exec(b, conn, `DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET wal_compression = `+c.compression+
					`', current_database()); END $$`, `INSERT INTO graph_sightings (first_seen, last_seen, account,
						checks, blocked, reviewed, node, kind)
					SELECT now(), now(), 7, 1, 0, 0, substr(sha256(int4send(n)), 1, 16), 'domain'
					FROM generate_series(1, 1000000) AS n`, `INSERT INTO graph_edges (last_seen, account, checks, node,
						other)
					SELECT now(), 7, 1, substr(sha256(int4send(n)), 1, 16), substr(sha256(int4send(-n)), 1, 16)
					FROM generate_series(1, 1000000) AS n`)
				s = open(b, s.url, nil)
			}
			l, caller := ledgerOn(b, s, LedgerConfig{}), newCaller(b, s, plan(b, "pro", 1_000_000_000))
			const batch = 256
			checks, n := 0, 0
			var cpu time.Duration
			wal := int64(0)
			for b.Loop() {
				b.StopTimer()
				for range 40 {
					records := make([]check.Record, batch)
					for i := range records {
						n++
						e := parse(b, entity.Domain, fmt.Sprintf("shop.example-%d.com", n%c.names))
						records[i] = at(decided(caller, e, check.Allow), time.Now().UTC())
					}
					noError(b, l.Append(b.Context(), records...))
					checks += batch
				}
				if c.compression != "" {
					exec(b, conn, "CHECKPOINT")
				}
				began, position := processorTime(b, conn), value[int64](b, conn, walBytes)
				b.StartTimer()
				noError(b, s.CatchUp(b.Context()))
				b.StopTimer()
				cpu += processorTime(b, conn) - began
				wal += value[int64](b, conn, walBytes) - position
				b.StartTimer()
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(checks), "us/check")
			b.ReportMetric(float64(cpu.Microseconds())/float64(checks), "postgres-us/check")
			b.ReportMetric(float64(wal)/float64(checks), "WAL-B/check")
		})
	}
}
