package canary

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"assay/host/check"
	"assay/host/entity"
	"assay/registry/expect"
)

// checksUntil returns after how many checks a canary is withdrawn of which every nth flips, 0 if not after 20,000.
func checksUntil(n int, limit float64) int {
	t := newTally()
	for i := 1; i <= 20_000; i++ {
		t.checks++
		if i%n == 0 {
			t.flips++
		}
		if t.beyond(limit) {
			return i
		}
	}
	return 0
}

func TestBeyond(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		every int
		limit float64
		want  int
	}{
		"everything flips":              {1, 0.01, 11},
		"a half":                        {2, 0.01, 22},
		"2%":                            {50, 0.01, 1800},
		"1%, the limit":                 {100, 0.01, 0},
		"0.1%":                          {1000, 0.01, 0},
		"the first of a strict one":     {1, 0, 1},
		"a later one of a strict one":   {500, 0, 500},
		"everything, without any limit": {1, 1, 0},
		"a half, at a limit of a tenth": {2, 0.1, 28},
		"a tenth, at its limit":         {10, 0.1, 0},
	} {
		expect.Equal(t, name+": withdrawn after", checksUntil(c.every, c.limit), c.want)
	}
}

// Whatever share a canary flips, from twice its limit on, few verdicts are wrong before a host withdraws it. That is
// why hosts need not add up what they count.
func TestFlipsUntilWithdrawal(t *testing.T) {
	t.Parallel()
	for every := 1; every <= 50; every++ {
		if n := checksUntil(every, 0.01); n == 0 || n/every > 36 {
			t.Errorf("a canary of which every %dth verdict flips is withdrawn after %d checks", every, n)
		}
	}
}

// Chance withdraws a canary that is just at its limit in at most one of a thousand cases, although it is examined after
// each of many checks.
func TestChanceRarelyWithdraws(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	const canaries, checks, limit = 3000, 3000, 0.01
	withdrawn := 0
	for range canaries {
		one := newTally()
		for range checks {
			one.checks++
			if random.Float64() < limit {
				one.flips++
			}
			if one.beyond(limit) {
				withdrawn++
				break
			}
		}
	}
	expect.That(t, withdrawn <= canaries/1000, "%d of %d were withdrawn", withdrawn, canaries)
}

// A value counts once. The memory for that is bounded.
func TestCounted(t *testing.T) {
	t.Parallel()
	one := newTally()
	for i := range maxSeen + 10 {
		value := []byte(fmt.Sprint(i))
		expect.Must(t, !one.counted(value), "value %d was counted before", i)
		one.count(value)
		expect.Must(t, one.counted(value), "value %d was not counted", i)
	}
	expect.That(t, one.checks == maxSeen+10 && len(one.seen) == 10, "%d checks, %d remembered", one.checks,
		len(one.seen))
}

func TestTallyText(t *testing.T) {
	t.Parallel()
	one := newTally()
	one.checks = 812
	if got, want := one.String(), "of 812 values that it scored, none differs"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	one.flips, one.failed = 24, 3
	one.flipped[flip{entity.Email, check.Allow, check.Review}] = 4
	one.flipped[flip{entity.Domain, check.Allow, check.Block}] = 20
	one.failing = map[string]int{"lexical": 1, "graph": 1, "similarity": 1}
	if got, want := one.String(), "of 812 values that it scored, 24 have another verdict (most often domain: block "+
		"instead of allow) and 3 failed (most often layer graph)"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	expect.That(t, !strings.Contains(one.String(), "\n"), "the text has several lines")
}
