package admission

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"assay/registry/expect"
)

// newGate returns a gate with one processor and a target of 100 ms, at a cost of 1 ms a check.
func newGate(late time.Duration) *Gate {
	return NewGate(Config{Processors: 1, Target: 100 * time.Millisecond, BatchTarget: time.Second,
		Recording: func() (_, _, _ time.Duration) { return 0, 0, late }})
}

// inBubble tests a gate with a clock that passes only while all wait.
func inBubble(t *testing.T, test func(*testing.T, *Gate)) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { test(t, newGate(0)) })
}

// flood enters single checks of an account until one is refused, and returns how many were accepted.
func flood(t *testing.T, g *Gate, account string) int {
	t.Helper()
	for n := range 10_000 {
		if _, err := g.Enter(account, 1); err != nil {
			expect.Error(t, "the refusal of "+account, err, ErrShare)
			return n
		}
	}
	t.Fatal("a flood is never refused")
	return 0
}

// A flood must leave room for newcomers, whoever flooded before.
func TestFloodsShareTheTime(t *testing.T) {
	t.Parallel()
	g := newGate(0)
	for i, want := range []int{50, 33, 25} { // of 100 checks in 100 ms
		expect.Equal(t, "accepted checks of a flood", flood(t, g, fmt.Sprint("account ", i)), want)
		expect.Error(t, fmt.Sprintf("a newcomer after %d floods", i+1), g.Admits("", 1), nil)
	}
	expect.Equal(t, "checks in progress", g.InProgress(), 50+33+25)

	g = newGate(0)
	n := 0
	for ; expect.ErrorOf(g.Enter(fmt.Sprint(n), 1)) == nil; n++ {
	}
	expect.Equal(t, "accepted accounts", n, 99) // a check, and another newcomer's, are the last of 100
	expect.Error(t, "one account more", expect.ErrorOf(g.Enter("another", 1)), ErrBusy)
}

func TestAdmission(t *testing.T) {
	t.Parallel()
	type testCase struct {
		late   time.Duration
		before map[string]int // checks of a visit, by account
		checks int
		want   error
	}
	expect.Each(t, map[string]testCase{
		"idle":                                 {checks: 1},
		"a batch on an idle host":              {checks: 100},
		"a slow database":                      {late: 97 * time.Millisecond, checks: 1},
		"a frozen database":                    {late: 101 * time.Millisecond, checks: 1, want: ErrBusy},
		"a frozen database, a batch":           {late: 1001 * time.Millisecond, checks: 100, want: ErrBusy},
		"beside a batch of another account":    {before: map[string]int{"b": 100}, checks: 1},
		"a batch beside others' batches":       {before: map[string]int{"b": 100, "c": 100, "d": 100}, checks: 100},
		"a single check beside one's batches":  {before: map[string]int{"a": 450}, checks: 1},
		"a batch beside one's batches":         {before: map[string]int{"a": 400}, checks: 100},
		"more batches than fit":                {before: map[string]int{"a": 401}, checks: 100, want: ErrShare},
		"a batch that no host could judge yet": {checks: 5000},
		"a batch with no room for it": {before: map[string]int{"b": 300, "c": 300}, checks: 300,
			want: ErrBusy},
	}, func(t *testing.T, test testCase) {
		g := newGate(test.late)
		for account, n := range test.before {
			expect.NoError(t, expect.ErrorOf(g.Enter(account, n)))
		}
		expect.Error(t, "entering", expect.ErrorOf(g.Enter("a", test.checks)), test.want)
	})
}

// If recording takes longer than judging, it determines how many checks are accepted.
func TestSlowRecording(t *testing.T) {
	t.Parallel()
	g := newGate(0)
	least := time.Duration(0)
	g.cfg.Recording = func() (_, _, _ time.Duration) { return least, 5 * time.Millisecond, 0 }
	expect.Equal(t, "accepted checks", flood(t, g, "a"), 10)
	// A check of the flood, the newcomer's and another newcomer's.
	expect.Equal(t, "the wait of a newcomer", g.Wait(), 15*time.Millisecond)
	for distant, want := range map[time.Duration]int{20 * time.Millisecond: 8, time.Hour: 5} {
		least, g.accounts, g.accepted = distant, map[string]*account{}, 0
		expect.Equal(t, "accepted checks with a slow database", flood(t, g, "a"), want)
	}
}

func TestClosedVisitsLeaveNothingBehind(t *testing.T) {
	t.Parallel()
	var none *Gate
	v, err := none.Enter("a", 1)
	ran := false
	expect.That(t, err == nil && v.Judge(t.Context(), func() { ran = true }) == nil && ran,
		"a check without a gate is not judged")
	v.Close()
	g := newGate(0)
	for range 3 {
		v := expect.Value(g.Enter("a", 10))(t)
		for range 4 {
			expect.Error(t, "error", v.Judge(t.Context(), func() {}), nil)
		}
		v.Close()
	}
	expect.That(t, g.InProgress() == 0 && len(g.accounts) == 0 && len(g.turns) == 0 && g.free == 1, "left behind: %+v",
		g)
}

// Checks are judged in turns by account, whatever their number and order, single checks of an account before batches.
func TestTurns(t *testing.T) {
	inBubble(t, func(t *testing.T, g *Gate) {
		var order []string
		var all sync.WaitGroup
		enter := func(account string, checks, n int) {
			for range n {
				v := expect.Value(g.Enter(account, checks))(t)
				for range checks {
					all.Go(func() {
						expect.Error(t, "error", v.Judge(t.Context(), func() {
							order = append(order, fmt.Sprint(account, " ", checks)) // one processor, so one at a time
						}), nil)
					})
				}
			}
			synctest.Wait()
		}
		blocker := expect.Value(g.Enter("blocker", 1))(t)
		release := make(chan struct{})
		all.Go(func() { _ = blocker.Judge(t.Context(), func() { <-release }) })
		synctest.Wait()
		enter("batch", 4, 1)
		enter("flood", 1, 5)
		enter("one", 1, 1)
		enter("both", 2, 1)
		enter("both", 1, 1)
		close(release)
		all.Wait()
		expect.NoDiff(t, "judged", []string{"batch 4", "flood 1", "one 1", "both 1", "batch 4", "flood 1", "both 2",
			"batch 4", "flood 1", "both 2", "batch 4", "flood 1", "flood 1"}, order)
	})
}

// load are callers that send checks to a gate until they are stopped, and count them by account.
type load struct {
	sync.Mutex
	all             sync.WaitGroup
	judged, refused map[string]int
}

// run starts callers whose checks take a time.
func (l *load) run(ctx context.Context, g *Gate, account string, cost time.Duration, callers int) {
	for range callers {
		l.all.Go(func() {
			for ctx.Err() == nil {
				counts := l.judged
				if v, err := g.Enter(account, 1); err == nil {
					_ = v.Judge(ctx, func() { <-time.After(cost) })
					v.Close()
				} else {
					counts = l.refused
					<-time.After(cost)
				}
				l.Lock()
				counts[account]++
				l.Unlock()
			}
		})
	}
}

func (l *load) count(account string) int {
	l.Lock()
	defer l.Unlock()
	return l.judged[account]
}

// Accounts share the time, not the number of turns: one whose checks take ten times as long gets a tenth as many. An
// account that was idle has saved up nothing, and one that left owes what it used.
func TestSlowChecksPayWithTurns(t *testing.T) {
	inBubble(t, func(t *testing.T, g *Gate) {
		l := &load{judged: map[string]int{}, refused: map[string]int{}}
		ctx, stop := context.WithCancel(t.Context())
		l.run(ctx, g, "slow", 10*time.Millisecond, 4)
		<-time.After(time.Second)
		alone := l.count("slow")
		l.run(ctx, g, "quick", time.Millisecond, 4)
		<-time.After(time.Second)
		slow, quick := l.count("slow")-alone, l.count("quick")
		stop()
		l.all.Wait()
		expect.That(t, alone >= 95 && slow >= 45 && slow <= 55 && quick >= 450 && quick <= 550,
			"%d slow checks alone; then %d slow ones and %d quick ones in a second", alone, slow, quick)
	})
}

// The parts of an account share its turns and its room: all together take no more than one account, one cannot refuse
// another, and they are refused before an account is.
func TestPartsShareAnAccount(t *testing.T) {
	inBubble(t, func(t *testing.T, g *Gate) {
		l := &load{judged: map[string]int{}, refused: map[string]int{}}
		ctx, stop := context.WithCancel(t.Context())
		l.run(ctx, g, "account", time.Millisecond, 3)
		l.run(ctx, g, "all|slow", 4*time.Millisecond, 40)
		l.run(ctx, g, "all|quick", time.Millisecond, 1)
		<-time.After(4 * time.Second)
		stop()
		l.all.Wait()
		account, slow, quick := l.judged["account"], 4*l.judged["all|slow"], l.judged["all|quick"]
		expect.That(t, account >= 1900 && slow+quick >= 1900 && min(slow, quick) >= 900,
			"milliseconds of the account %d, of the slow part %d, of the quick part %d", account, slow, quick)
		expect.That(t, l.refused["account"]+l.refused["all|quick"] == 0 && l.refused["all|slow"] != 0, "refused: %v",
			l.refused)
		expect.Equal(t, "accounts that are left", len(g.accounts), 0)
	})
	g := newGate(0)
	for account := 0; g.Admits("all|one", 1) == nil; account++ {
		expect.Value(g.Enter(fmt.Sprint(account), 1))(t)
	}
	expect.NoError(t, g.Admits("another", 1))
}

// judge has n checks of an account judged, one after another, which take a time each.
func judge(t *testing.T, g *Gate, account string, cost time.Duration, n int) {
	t.Helper()
	for range n {
		v := expect.Value(g.Enter(account, 1))(t)
		expect.NoError(t, v.Judge(t.Context(), func() { <-time.After(cost) }))
		v.Close()
	}
}

// A check whose deadline passes while it waits must not keep its turn, also if the turn comes at the same moment.
func TestWaitingEndsWithTheContext(t *testing.T) {
	inBubble(t, func(t *testing.T, g *Gate) {
		v, late := expect.Value(g.Enter("a", 1))(t), expect.Value(g.Enter("b", 1))(t)
		const deadline = 50 * time.Millisecond
		ctx, cancel := context.WithTimeout(t.Context(), deadline)
		defer cancel()
		var all sync.WaitGroup
		all.Go(func() { _ = v.Judge(t.Context(), func() { <-time.After(deadline) }) })
		synctest.Wait()
		judged := 0
		err := late.Judge(ctx, func() { judged++ })
		expect.That(t, err == nil || judged == 0 && errors.Is(err, context.DeadlineExceeded), "judged %d times: %v",
			judged, err)
		all.Wait()
		late.Close()
		v.Close()
		expect.That(t, g.free == 1 && g.InProgress() == 0 && len(g.turns) == 0, "left behind: %+v", g)
		<-ctx.Done()
		expect.Failure(t, expect.Value(g.Enter("c", 1))(t).Judge(ctx, func() { t.Error("judged after its deadline") }),
			"no error after the deadline")
	})
}

// A gate adapts to what checks cost, with their wait for a turn. One slow check, as of a stopped process, says little.
// What an account may have in progress follows from the time of its own checks.
func TestCostFollowsTheChecks(t *testing.T) {
	inBubble(t, func(t *testing.T, g *Gate) {
		judge(t, g, "a", 10*time.Millisecond, 500)
		expect.Equal(t, "accepted checks at 10 ms each", flood(t, g, "b"), 5)
		g = newGate(0)
		judge(t, g, "a", time.Hour, 1)
		n := flood(t, g, "b")
		expect.That(t, n >= 15, "after one slow check, only %d are accepted", n)
		g = newGate(0)
		for range 500 {
			judge(t, g, "slow", 10*time.Millisecond, 1)
			judge(t, g, "quick", time.Millisecond, 1)
		}
		expect.Equal(t, "accepted slow checks", flood(t, g, "slow"), 5)
		expect.Equal(t, "accepted quick checks", flood(t, g, "quick"), 33)
	})
}

// A host that is stopped for a tenth of a second at low load must not refuse the checks that arrived meanwhile: it will
// answer them in time. The checks that were judged as it stopped say nothing about the cost of these.
func TestStallAtLowLoad(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(Config{Processors: 2, Target: 160 * time.Millisecond})
		judge(t, g, "a", 300*time.Microsecond, 500)
		for range 5 {
			var stopped sync.WaitGroup
			for range g.cfg.Processors {
				stopped.Go(func() { judge(t, g, "a", 100*time.Millisecond, 1) })
			}
			stopped.Wait()
			for range 50 { // at 500 checks a second
				expect.Value(g.Enter("a", 1))(t)
			}
			g.accounts, g.accepted = map[string]*account{}, 0
		}
	})
}

// Concurrent floods must never disturb the gate's books.
func TestGateUnderLoad(t *testing.T) {
	t.Parallel()
	g := NewGate(Config{Processors: 2, Target: time.Hour, BatchTarget: time.Hour})
	var running atomic.Int64
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			for j := range 100 {
				checks := 1 + j%3
				v, err := g.Enter(fmt.Sprint("account ", i%4), checks)
				expect.Error(t, "entering", err, nil)
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(j%5)*20*time.Microsecond)
				for range checks {
					_ = v.Judge(ctx, func() {
						expect.That(t, running.Add(1) <= 2, "more than two run at once")
						running.Add(-1)
					})
				}
				cancel()
				v.Close()
			}
		})
	}
	all.Wait()
	expect.That(t, g.free == 2 && g.InProgress() == 0 && len(g.turns) == 0 && len(g.accounts) == 0,
		"left behind: %+v", g)
}

// Spare work gets a processor that no check waits for: after all waiting checks, and before none that comes later.
func TestSpareWorkComesLast(t *testing.T) {
	inBubble(t, func(t *testing.T, g *Gate) {
		var order []string
		var all sync.WaitGroup
		run := func(name string, enter func(f func()) error) {
			all.Go(func() {
				expect.Error(t, name, enter(func() {
					order = append(order, name) // one processor, so one at a time
					<-time.After(time.Millisecond)
				}), nil)
			})
			synctest.Wait()
		}
		spare := func(f func()) error { return g.Spare(t.Context(), f) }
		judged := func(f func()) error {
			v, err := g.Enter("acct_1", 1)
			if err != nil {
				return err
			}
			defer v.Close()
			return v.Judge(t.Context(), f)
		}
		run("spare 1", spare) // the host is idle
		run("spare 2", spare)
		run("check 1", judged)
		run("check 2", judged)
		run("spare 3", spare)
		all.Wait()
		expect.NoDiff(t, "the order", []string{"spare 1", "check 1", "check 2", "spare 2", "spare 3"}, order)
		expect.That(t, g.free == 1 && g.InProgress() == 0 && g.cost == initialCost,
			"%d processors are free, %d checks in progress, at a cost of %v", g.free, g.InProgress(), g.cost)
	})
}

func TestWaitingForSpareTimeEndsWithTheContext(t *testing.T) {
	inBubble(t, func(t *testing.T, g *Gate) {
		v := expect.Value(g.Enter("acct_1", 1))(t)
		defer v.Close()
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		noCall := func() { t.Error("called after the end of the context") }
		expect.Error(t, "error", v.Judge(t.Context(), func() {
			for range 2 { // while it waits, and before
				expect.Error(t, "waiting for spare time", g.Spare(ctx, noCall), context.DeadlineExceeded)
			}
		}), nil)
		called := false
		expect.NoError(t, g.Spare(t.Context(), func() { called = true }))
		expect.That(t, called && g.free == 1, "afterwards: called %v, %d processors free", called, g.free)
		expect.Error(t, "without a gate", (*Gate)(nil).Spare(t.Context(), func() { called = true }), nil)
	})
}
