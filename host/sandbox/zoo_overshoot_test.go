package sandbox_test

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"assay/host/check"
	"assay/host/entity"
	"assay/host/sandbox"
)

// BenchmarkOvershoot tells by how much a guest that does not end by itself outstays a budget of 20 ms: on an idle
// machine, and while layers that mean no harm keep every processor busy. Run it with -benchtime=200x or more for the
// p99 to mean much.
func BenchmarkOvershoot(b *testing.B) {
	for _, s := range zoo() {
		if !s.ends.slow() {
			continue
		}
		s.budgetMS = 20
		b.Run(s.name+"/idle", func(b *testing.B) { s.overshoot(b, 0) })
		b.Run(s.name+"/busy", func(b *testing.B) { s.overshoot(b, runtime.GOMAXPROCS(0)) })
	}
}

func (s specimen) overshoot(b *testing.B, burners int) {
	b.Helper()
	box := sandbox.New(sandbox.Config{Instances: 1 + burners, Logger: quiet})
	open := func(s specimen) *sandbox.Plugin {
		p, err := box.Open(b.Context(), s.module())
		if err != nil {
			b.Fatal(err)
		}
		return p
	}
	guest, burner := open(s), open(specimen{wasm: slowButLegal(1_000_000), budgetMS: 100})
	ctx, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for range burners {
		wg.Go(func() {
			for ctx.Err() == nil {
				_, _ = burner.Score(context.Background(), check.Input{})
				burner.WakeUp()
			}
		})
	}
	budget := time.Duration(s.budget()) * time.Millisecond
	var over []time.Duration
	for b.Loop() {
		guest.WakeUp()
		began := time.Now()
		_, _ = guest.Score(context.Background(), check.Input{Entity: entity.Facts{"entity.value": asked}})
		over = append(over, max(0, time.Since(began)-budget))
	}
	stop()
	wg.Wait()
	slices.Sort(over)
	for name, rank := range map[string]int{"p50": 50, "p99": 99, "max": 100} {
		b.ReportMetric(float64(over[(len(over)-1)*rank/100].Microseconds()), name+"-us")
	}
	for _, end := range []func() error{func() error { return guest.Close(context.Background()) },
		func() error { return burner.Close(context.Background()) }, box.Close} {
		if err := end(); err != nil {
			b.Error(err)
		}
	}
}
