//go:build linux

package sandbox_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"assay/host/check"
	"assay/host/entity"
	"assay/host/sandbox"
)

// neighbours are callers of a healthy plugin, who go on until they are stopped.
type neighbours struct {
	stop  chan struct{}
	wg    sync.WaitGroup
	right atomic.Int64
	late  atomic.Int64
}

// callHealthy has n callers ask about values of their own. Every answer must be theirs; none may be lost but for time.
func callHealthy(t *testing.T, p *sandbox.Plugin, n int) *neighbours {
	t.Helper()
	nb := &neighbours{stop: make(chan struct{})}
	for caller := range n {
		nb.wg.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-nb.stop:
					return
				default:
				}
				value := fmt.Sprintf("%d.caller-%d.example", i, caller)
				result, err := p.Score(context.Background(), check.Input{Entity: entity.Facts{"entity.value": value}})
				var lost *check.Failure
				switch {
				case errors.As(err, &lost) && lost.Reason == check.Timeout:
					nb.late.Add(1)
					p.WakeUp()
				case err != nil:
					t.Errorf("a healthy layer was lost: %v", err)
				case result.Score != len(value) || len(result.Signals) != 1 || result.Signals[0].Text != value:
					t.Errorf("asked about %s, a healthy layer answered %+v", value, result)
				default:
					nb.right.Add(1)
				}
			}
		})
	}
	return nb
}

// end waits until the callers have had so many right answers, and stops them.
func (nb *neighbours) end(answers int64) {
	for nb.right.Load() < answers {
		runtime.Gosched()
	}
	close(nb.stop)
	nb.wg.Wait()
}

func resident(t *testing.T) int {
	t.Helper()
	mb, err := residentMB()
	if err != nil {
		t.Fatal(err)
	}
	return mb
}

func openHere(t *testing.T, box *sandbox.Sandbox, s specimen) *sandbox.Plugin {
	t.Helper()
	p, err := box.Open(t.Context(), s.module())
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func closeHere(t *testing.T, end func() error) {
	t.Helper()
	if err := end(); err != nil {
		t.Error(err)
	}
}

// TestZooBesideHealthy runs every specimen again and again in this process, beside a healthy plugin that is under load.
// It is by itself in the process, as it weighs it.
func TestZooBesideHealthy(t *testing.T) { //nolint:paralleltest // it weighs the process
	const callers = 2
	box := sandbox.New(sandbox.Config{Instances: 2, Logger: quiet})
	healthyPlugin := openHere(t, box, specimen{wasm: healthy().encode, budgetMS: 100})
	defer func() {
		closeHere(t, func() error { return healthyPlugin.Close(t.Context()) })
		closeHere(t, box.Close)
	}()
	nb := callHealthy(t, healthyPlugin, callers)
	var before, goroutines int
	hostile := 0
	for _, s := range zoo() {
		if s.ends.refused {
			continue
		}
		if before == 0 {
			before, goroutines = resident(t), runtime.NumGoroutine()
		}
		calls := 120
		if raceDetector {
			calls = 12
		}
		if s.ends.slow() {
			calls = 6
			s.budgetMS = min(s.budget(), 10)
		}
		t.Run(s.name, func(t *testing.T) {
			p := openHere(t, box, s)
			defer closeHere(t, func() error { return p.Close(t.Context()) })
			var wg sync.WaitGroup
			for range callers {
				wg.Go(func() {
					for range calls {
						p.WakeUp()
						var r report
						r.call(p)
						if wrong := s.ends.differs(r); wrong != "" && r.Reason != check.Timeout {
							t.Error(wrong)
						}
					}
				})
			}
			wg.Wait()
			right := nb.right.Load()
			for nb.right.Load() == right && !t.Failed() { // somebody else is still served
				runtime.Gosched()
			}
		})
		hostile += callers * calls
	}
	nb.end(1000)
	if hostile < 10_000 && !raceDetector {
		t.Errorf("only %d hostile calls", hostile)
	}
	if after := resident(t); after > before+64 && !raceDetector {
		t.Errorf("%d MiB after %d hostile calls, %d before", after, hostile, before)
	}
	t.Logf("%d MiB before and %d after %d hostile calls; %d right answers beside them, %d late", before, resident(t),
		hostile,
		nb.right.Load(), nb.late.Load())
	if now := runtime.NumGoroutine(); now > goroutines {
		t.Errorf("%d goroutines, %d before", now, goroutines)
	}
}

// slow says that the specimen takes all the time that it is given, or a good part of it.
func (want ending) slow() bool { return slices.Contains(want.lost, check.Timeout) }
