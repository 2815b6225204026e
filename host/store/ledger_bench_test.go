package store

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"assay/host/check"
	"assay/host/entity"
	"assay/host/postgres/postgrestest"
	"assay/host/store/storetest"
)

// BenchmarkLedger measures the throughput of the ledger with 512 callers, by number of chains and accounts, and with
// one check per transaction. It reports what a check costs Postgres: processor time, also of applying it to the graph
// if a host does, and write-ahead log.
func BenchmarkLedger(b *testing.B) {
	for _, test := range []struct{ batch, chains, accounts int }{
		{256, 1, 1}, {256, 1, 100}, {256, 16, 100}, {1, 1, 1},
	} {
		b.Run(fmt.Sprintf("batch=%d/chains=%d/accounts=%d", test.batch, test.chains, test.accounts),
			func(b *testing.B) {
				url := postgrestest.Database(b)
				s := storetest.Close(b, must(Open(b.Context(), Config{URL: url, Keys: testRing, Logger: discard(),
					Chains: test.chains}))(b))
				callers := make([]check.Caller, test.accounts)
				for i := range callers {
					callers[i] = newCaller(b, s, plan(b, "pro", 1_000_000_000)) // more than a benchmark uses up
				}
				var batches, checks atomic.Int64
				ledger := ledgerOn(b, s, LedgerConfig{Batch: test.batch, OnBatch: func(size int, _ time.Duration, _ int) {
					batches.Add(1)
					checks.Add(int64(size))
				}})
				conn := session(b, url)
				var n atomic.Int64
				b.SetParallelism((512 + runtime.GOMAXPROCS(0) - 1) / runtime.GOMAXPROCS(0)) // goroutines per processor
				before, wal := processorTime(b, conn), value[int64](b, conn, walBytes)
				b.ResetTimer()
				b.RunParallel(func(pb *testing.PB) {
					for pb.Next() {
						i := n.Add(1)
						e, err := entity.Parse(entity.Domain, fmt.Sprintf("shop-%d.example.com", i), "")
						if err != nil {
							b.Error(err)
							return
						}
						r := at(decided(callers[int(i)%len(callers)], e, check.Allow),
							time.Now().UTC().Truncate(time.Millisecond))
						if err := ledger.Append(context.Background(), r); err != nil {
							b.Error(err)
							return
						}
					}
				})
				b.StopTimer()
				spent := processorTime(b, conn) - before
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "checks/s")
				b.ReportMetric(float64(checks.Load())/float64(batches.Load()), "checks/batch")
				b.ReportMetric(float64(spent.Microseconds())/float64(b.N), "postgres-us/check")
				b.ReportMetric(float64(value[int64](b, conn, walBytes)-wal)/float64(b.N), "wal-bytes/check")
			})
	}
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

// BenchmarkErase measures how long erasing a subject locks its chain, by number of checks.
func BenchmarkErase(b *testing.B) {
	for _, checks := range []int{1, 1000, eraseBatch - 1} {
		b.Run(fmt.Sprintf("checks=%d", checks), func(b *testing.B) {
			s := newStore(b, nil)
			ledger, caller := ledgerOn(b, s, LedgerConfig{}), newCaller(b, s, plan(b, "pro", 1_000_000_000))
			e := parse(b, entity.Domain, "shop.example.com")
			for b.Loop() {
				b.StopTimer()
				noError(b, ledger.Append(b.Context(), decidedMany(caller, e, check.Allow, checks)...))
				b.StartTimer()
				if erased, err := s.Erase(b.Context(), caller, about(e)); err != nil || erased.Checks != checks {
					b.Fatal(erased, err)
				}
			}
		})
	}
}
