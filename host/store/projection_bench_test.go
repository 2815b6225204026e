package store

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"assay/host/check"
	"assay/host/entity"
)

// BenchmarkProjection measures what applying contributions costs: of domains never seen before, each below a domain of
// its own, and of the same hundred domains again and again. Postgres must run on this machine.
func BenchmarkProjection(b *testing.B) {
	for name, names := range map[string]int{"new": 1 << 30, "known": 100} {
		b.Run(name, func(b *testing.B) {
			s := newStore(b, nil)
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
						e := parse(b, entity.Domain, fmt.Sprintf("shop.example-%d.com", n%names))
						records[i] = at(decided(caller, e, check.Allow), time.Now().UTC())
					}
					noError(b, l.Append(b.Context(), records...))
					checks += batch
				}
				began, position := backendTime(b, s), one[int64](b, s, "SELECT pg_current_wal_insert_lsn() - '0/0'")
				b.StartTimer()
				noError(b, s.CatchUp(b.Context()))
				b.StopTimer()
				cpu += backendTime(b, s) - began
				wal += one[int64](b, s, "SELECT pg_current_wal_insert_lsn() - '0/0'") - position
				b.StartTimer()
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(checks), "us/check")
			b.ReportMetric(float64(cpu.Microseconds())/float64(checks), "postgres-us/check")
			b.ReportMetric(float64(wal)/float64(checks), "WAL-B/check")
		})
	}
}

// backendTime returns the processor time of the sessions of a store's database.
func backendTime(b *testing.B, s *Store) (total time.Duration) {
	b.Helper()
	var pids []int
	noError(b, s.db.NewRaw(`SELECT pid FROM pg_stat_activity WHERE datname = current_database()`).
		Scan(b.Context(), &pids))
	for _, pid := range pids {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			b.Skip("Postgres runs on another machine")
		}
		// After the name of the program come the state and, 12th and 13th, the time in user and system mode.
		fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
		for _, ticks := range fields[11:13] {
			n, err := strconv.Atoi(ticks)
			noError(b, err)
			total += time.Duration(n) * 10 * time.Millisecond
		}
	}
	return total
}
