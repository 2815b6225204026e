package store

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"assay/host/check"
	"assay/host/entity"
)

// BenchmarkLedger measures the throughput of the ledger with 256 checks per transaction and with one.
func BenchmarkLedger(b *testing.B) {
	for _, batch := range []int{256, 1} {
		b.Run(fmt.Sprintf("batch=%d", batch), func(b *testing.B) {
			s := newStore(b, nil)
			caller := newCaller(b, s, plan(b, "pro", 1_000_000_000)) // more than a benchmark uses up
			var batches, checks atomic.Int64
			ledger := ledgerOn(b, s, LedgerConfig{Batch: batch, OnBatch: func(size int, _ time.Duration, _ int) {
				batches.Add(1)
				checks.Add(int64(size))
			}})
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
					r := at(decided(caller, e, check.Allow), time.Now().UTC().Truncate(time.Millisecond))
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
