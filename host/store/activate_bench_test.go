package store

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"assay/host/check"
	"assay/host/entity"
	"assay/host/store/storetest"
	"assay/registry"
	is "assay/registry/expect"
)

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
