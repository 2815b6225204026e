package canary

import (
	"cmp"
	"fmt"
	"hash/maphash"
	"math"
	"slices"
	"strings"

	"assay/host/check"
	"assay/host/entity"
)

// tally counts the effects of a canary on checks, compared with one other lineup.
type tally struct {
	checks, flips, failed int // failed: checks that failed although the other lineup answers them
	flipped               map[flip]int
	failing               map[string]int // by layer
	seed                  maphash.Seed
	seen                  map[uint64]struct{} // hashes of the pseudonyms of the counted values
	accounts              map[string]*effect
}

// effect is the canary's effect on one account.
type effect struct{ checks, bad int } // bad flip or fail

type flip struct {
	t        entity.Type
	from, to check.Verdict
}

func newTally() *tally {
	return &tally{flipped: map[flip]int{}, failing: map[string]int{}, seed: maphash.MakeSeed(),
		seen: map[uint64]struct{}{}, accounts: map[string]*effect{}}
}

// maxSeen bounds the memory for values that were counted. Beyond it, they may be counted again.
const maxSeen = 100_000

// counted reports whether a value was counted. Repeated checks of a value prove nothing new, and a customer who repeats
// one must not end a canary.
func (t *tally) counted(pseudonym []byte) bool {
	_, seen := t.seen[maphash.Bytes(t.seed, pseudonym)]
	return seen
}

// count counts a value of an account, which has the same verdict until the result says otherwise.
func (t *tally) count(account string, pseudonym []byte) *effect {
	if len(t.seen) == maxSeen {
		clear(t.seen)
	}
	t.seen[maphash.Bytes(t.seed, pseudonym)] = struct{}{}
	t.checks++
	e := cmp.Or(t.accounts[account], &effect{})
	e.checks++
	t.accounts[account] = e
	return e
}

// doubt is the probability with which chance alone may withdraw a canary at its limit.
const doubt = 1.0 / 1000

// The accounts with the highest stakes, one in oneIn, do not count: somebody with a few accounts can look for values
// near the bands, and must not end the canary for all others. With fewer accounts, all count.
const oneIn = 20

// beyond reports whether the share of checks that flip or fail is above the limit, too clearly for chance.
//
// Each check doubles a stake if it flips or fails, and divides it by 1 + limit in any case. As long as the share is not
// above the limit, the stake does not grow on average. A stake of 1 then reaches 1000 with a probability of at most
// 1/1000, however long it runs (Ville's inequality), so the tally can be examined after every check. At a limit of 1%,
// a canary that flips everything is withdrawn after 11 checks, one that flips 2% after about 1,800.
func (t *tally) beyond(limit float64) bool {
	stakes := make([]float64, 0, len(t.accounts)) // logarithms
	for _, e := range t.accounts {
		stakes = append(stakes, float64(e.bad)*math.Ln2-float64(e.checks)*math.Log1p(limit))
	}
	slices.Sort(stakes)
	sum := 0.0
	for _, s := range stakes[:len(stakes)-len(stakes)/oneIn] {
		sum += s
	}
	return sum >= -math.Log(doubt) || limit == 0 && sum > 0
}

// String returns a sentence of at most 300 characters in one line.
func (t *tally) String() string {
	var parts []string
	if t.flips > 0 {
		most := largest(t.flipped, func(a, b flip) bool { return fmt.Sprint(a) < fmt.Sprint(b) })
		parts = append(parts, fmt.Sprintf("%d have another verdict (most often %s: %s instead of %s)", t.flips, most.t,
			most.to, most.from))
	}
	if t.failed > 0 {
		parts = append(parts, fmt.Sprintf("%d failed (most often layer %s)", t.failed,
			largest(t.failing, func(a, b string) bool { return a < b })))
	}
	if parts == nil {
		parts = []string{"none differs"}
	}
	return fmt.Sprintf("of %d values that it scored, %s", t.checks, strings.Join(parts, " and "))
}

// largest returns the key with the largest count, the first of several.
func largest[K comparable](counts map[K]int, less func(a, b K) bool) (most K) {
	best := 0
	for key, n := range counts {
		if n > best || n == best && less(key, most) {
			most, best = key, n
		}
	}
	return most
}
