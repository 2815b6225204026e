package admission

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"assay/registry/expect"
)

func newClock() *expect.Clock { return expect.NewClock(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)) }

// together keeps what hosts accepted, as the database does.
type together map[string]int64

func (u together) SettleUses(_ context.Context, accepted map[string]int64) (map[string]int64, error) {
	total := map[string]int64{}
	for name, n := range accepted {
		u[name] += n
		total[name] = u[name]
	}
	return total, nil
}

func TestLimiter(t *testing.T) {
	t.Parallel()
	c := newClock()
	l := NewLimiter(c.Now)
	rate := Rate{Name: "pro", PerMinute: 120} // one each half second, ten at once
	for i := range 10 {
		expect.Error(t, fmt.Sprintf("use %d of a burst of 10", i+1), l.Take("a", rate), nil)
	}
	var refused *RateError
	expect.Must(t, errors.As(l.Take("a", rate), &refused), "the use after the burst was accepted")
	expect.Equal(t, "the next use", refused.Until, c.Now().Add(500*time.Millisecond))
	expect.Error(t, "another name", l.Take("b", rate), nil)
	c.Add(500*time.Millisecond - 1)
	expect.Failure(t, l.Take("a", rate), "a use too early was accepted")
	c.Add(1)
	expect.Error(t, "a use at its time, as refused ones do not count", l.Take("a", rate), nil)
	c.Add(time.Hour)
	for i := range 11 {
		expect.Equal(t, fmt.Sprintf("use %d after an hour is granted", i+1), l.Take("a", rate) == nil, i < 10)
	}
	for range 1000 {
		expect.NoError(t, l.Take("c", Rate{})) // has no limit
	}
	for range 2 {
		expect.Error(t, "one use a minute", l.Take("d", Rate{Name: "tiny", PerMinute: 1}), nil)
		c.Add(time.Minute)
	}
}

// TestLimiterAcrossHosts floods hosts for three minutes, and counts what they accept in any minute.
func TestLimiterAcrossHosts(t *testing.T) {
	t.Parallel()
	const step = 10 * time.Millisecond
	type testCase struct {
		hosts, rate int
		each        time.Duration // between uses of a host; a host is used by turns of this length if turns
		turns       bool
		most        float64 // of the rate, in any minute
		least       float64 // in the last minute
	}
	expect.Each(t, map[string]testCase{
		"one host":                       {1, 1200, step, false, 1.09, 0.99},
		"two hosts":                      {2, 1200, step, false, 1.2, 0.9},
		"two hosts, a low rate":          {2, 60, step, false, 1.2, 0.9},
		"two hosts by turns":             {2, 1200, 7 * time.Second, true, 1.2, 0.9},
		"two hosts, each below the rate": {2, 1200, 60 * time.Millisecond, false, 1.2, 0.9},
		"four hosts":                     {4, 1200, step, false, 1.4, 0.9},
		"two hosts within the rate":      {2, 1200, 110 * time.Millisecond, false, 1, 0.9},
	}, func(t *testing.T, test testCase) {
		c, uses := newClock(), together{}
		hosts := make([]*Limiter, test.hosts)
		for i := range hosts {
			hosts[i] = NewLimiter(c.Now)
		}
		rate := Rate{Name: "pro", PerMinute: test.rate}
		accepted := make([]int, 3*int(RateWindow/step))
		for n := range accepted {
			at := time.Duration(n) * step
			for i, h := range hosts {
				use := at%test.each == 0
				if test.turns {
					use = int(at/test.each)%test.hosts == i
				}
				if use && h.Take("key", rate) == nil {
					accepted[n]++
				}
				if n%100 == 100*i/test.hosts { // each second, and not all at once
					expect.NoError(t, h.Settle(t.Context(), uses))
				}
			}
			c.Add(step)
		}
		window, most := 0, 0
		for n, k := range accepted {
			window += k
			if n >= int(RateWindow/step) {
				window -= accepted[n-int(RateWindow/step)]
			}
			most = max(most, window)
		}
		rated := float64(test.rate)
		expect.That(t, float64(most) <= test.most*rated && float64(window) >= test.least*rated,
			"%d uses were accepted in a minute, %d in the last one, at a rate of %d", most, window, test.rate)
	})
}

// failing is a database that does not respond.
type failing struct{}

func (failing) SettleUses(context.Context, map[string]int64) (map[string]int64, error) {
	return nil, errors.New("no database")
}

func TestLimiterWithoutDatabase(t *testing.T) {
	t.Parallel()
	c := newClock()
	l := NewLimiter(c.Now)
	accepted := 0
	for range 60 {
		for range 20 {
			if l.Take("key", Rate{Name: "pro", PerMinute: 120}) == nil {
				accepted++
			}
		}
		expect.Failure(t, l.Settle(t.Context(), failing{}), "a failure is not reported")
		c.Add(time.Second)
	}
	expect.That(t, accepted >= 120 && accepted <= 130, "%d uses in a minute, want those of one host", accepted)
}

// Names without recent uses cost neither memory nor statements, and an absurd total locks no customer out.
func TestLimiterSettlesLittle(t *testing.T) {
	t.Parallel()
	c, uses := newClock(), together{}
	l := NewLimiter(c.Now)
	rate := Rate{Name: "pro", PerMinute: 1200}
	expect.Error(t, "without uses, the database was asked", l.Settle(t.Context(), failing{}), nil)
	for range 9 {
		_ = l.Take("key", rate)
	}
	got := l.accepted()
	expect.That(t, len(got) == 1 && got["key"] == 0, "few uses are written: %v", got)
	_ = l.Take("key", rate)
	expect.NoError(t, l.Settle(t.Context(), uses))
	expect.Equal(t, "uses that are written", uses["key"], 10)
	uses["key"] += 1 << 60
	expect.Error(t, "error", l.Settle(t.Context(), uses), nil)
	c.Add(2 * RateWindow)
	expect.Error(t, "after an absurd total", l.Take("key", rate), nil)
	c.Add(3 * RateWindow)
	got = l.accepted()
	expect.That(t, len(got) == 0 && len(l.buckets) == 0, "%v are still known", got)
	for i := range maxBuckets + 1 {
		_ = l.Take(fmt.Sprint(i), rate)
	}
	expect.That(t, len(l.buckets) <= maxBuckets, "%d names are known", len(l.buckets))
}

// TestRefusalsAreCheap checks that a flood that is refused costs neither much memory nor statements.
func TestRefusalsAreCheap(t *testing.T) {
	l := NewLimiter(newClock().Now)
	rate := Rate{Name: "pro", PerMinute: 12}
	_ = l.Take("key", rate)
	n := testing.AllocsPerRun(1000, func() {
		expect.That(t, l.Take("key", rate) != nil, "a use beyond the burst was accepted")
	})
	expect.That(t, n <= 1, "a refusal takes %v allocations, want that of its error alone", n)
	expect.Equal(t, "uses to be told to other hosts", l.buckets["key"].accepted, 1)
}

func TestShares(t *testing.T) {
	t.Parallel()
	s := NewShares(8)
	take := func(holder string) (n int, releases []func()) {
		for {
			release, err := s.Take(holder)
			if err != nil {
				return n, releases
			}
			n++
			releases = append(releases, release)
		}
	}
	a, releaseA := take("a")
	b, _ := take("b")
	c, _ := take("c")
	d, _ := take("d")
	expect.That(t, a == 4 && b == 2 && c == 1 && d == 1, "floods got %d, %d, %d and %d of 8 slots, want 4, 2, 1 and 1",
		a, b, c, d)
	expect.Error(t, "more than a share", expect.ErrorOf(s.Take("a")), ErrShare)
	expect.Error(t, "all slots taken", expect.ErrorOf(s.Take("e")), ErrBusy)
	for _, release := range releaseA {
		release()
	}
	n, _ := take("e")
	expect.Equal(t, "slots of a newcomer after a release", n, 2)
}

// At 3,500 checks a second, 256 connections of one account are at the limit that leaves room for a newcomer. The same
// number of connections of several accounts is far from it, so they measure a host and not its fairness.
func TestConnectionsOfOneAndOfManyAccounts(t *testing.T) {
	t.Parallel()
	for accounts, want := range map[int]bool{1: false, 4: true, 64: true} {
		g := NewGate(Config{Processors: 2, Target: 160 * time.Millisecond, Recording: func() (_, _, _ time.Duration) {
			const each = time.Second / 3500
			return 32 * each, each, 0
		}})
		g.cost = 2 * time.Second / 3500
		all := true
		for i := range 288 {
			all = expect.ErrorOf(g.Enter(fmt.Sprint(i%accounts), 1)) == nil && all
		}
		expect.Equal(t, fmt.Sprintf("all checks of %d accounts are accepted", accounts), all, want)
	}
}
