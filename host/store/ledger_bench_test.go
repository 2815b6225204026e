package store

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"assay/host/check"
	"assay/host/entity"
	"assay/host/postgres/postgrestest"
)

// BenchmarkLedger measures the throughput of the ledger with 256 checks per transaction and with one.
func BenchmarkLedger(b *testing.B) {
	for _, batch := range []int{256, 1} {
		b.Run(fmt.Sprintf("batch=%d", batch), func(b *testing.B) {
			s, caller := benchmarkStore(b)
			var batches, checks atomic.Int64
			ledger := must(s.NewLedger(LedgerConfig{Batch: batch, OnBatch: func(size int, _ time.Duration, _ int) {
				batches.Add(1)
				checks.Add(int64(size))
			}}))(b)
			defer ledger.Close()
			var n atomic.Int64
			b.SetParallelism(32) // goroutines per processor
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					e, err := entity.Parse(entity.Domain, fmt.Sprintf("shop-%d.example.com", n.Add(1)), "")
					if err != nil {
						b.Error(err)
						return
					}
					d := &check.Decision{Ref: check.NewRef(), Type: entity.Domain, Query: e.Value,
						At: time.Now().UTC().Truncate(time.Millisecond)}
					d.Verdict = check.Allow
					r := check.Record{Caller: caller, Entity: e, Decision: d}
					if err := ledger.Append(context.Background(), r); err != nil {
						b.Error(err)
						return
					}
				}
			})
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "checks/s")
			b.ReportMetric(float64(checks.Load())/float64(batches.Load()), "checks/batch")
		})
	}
}

// benchmarkStore opens a store with one account, which has an API key and a quota that no benchmark uses up.
func benchmarkStore(b *testing.B) (*Store, check.Caller) {
	b.Helper()
	s := must(Open(b.Context(), Config{URL: postgrestest.Database(b), Keys: testRing, Logger: discard()}))(b)
	b.Cleanup(func() { _ = s.Close() })
	plan, _ := check.PlanNamed("pro")
	plan.Quota = 1_000_000_000
	account := must(s.CreateAccount(b.Context(), plan))(b)
	key := must(s.CreateKey(b.Context(), account, "bench"))(b)
	caller := must(s.Authenticate(b.Context(), key.Secret))(b)
	return s, caller
}

// BenchmarkErase measures how long erasing a subject locks its chain, by number of checks.
func BenchmarkErase(b *testing.B) {
	for _, checks := range []int{1, 1000, eraseBatch - 1} {
		b.Run(fmt.Sprintf("checks=%d", checks), func(b *testing.B) {
			s, caller := benchmarkStore(b)
			ledger := must(s.NewLedger(LedgerConfig{}))(b)
			defer ledger.Close()
			e := must(entity.Parse(entity.Domain, "shop.example.com", ""))(b)
			for b.Loop() {
				b.StopTimer()
				records := make([]check.Record, checks)
				for i := range records {
					records[i] = decided(caller, e, check.Allow)
				}
				noError(b, ledger.Append(b.Context(), records...))
				b.StartTimer()
				if erased, err := s.Erase(b.Context(), caller, about(e)); err != nil || erased.Checks != checks {
					b.Fatal(erased, err)
				}
			}
		})
	}
}
