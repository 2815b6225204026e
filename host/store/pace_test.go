package store

import (
	"math/rand/v2"
	"testing"
	"time"
)

// At low load, batches hold few records, and what delays them has little to do with their records. It must not be taken
// for the time that a record costs, or a host with room to spare would refuse the checks that arrive after a short
// stall.
func TestPaceAtLowLoad(t *testing.T) {
	t.Parallel()
	const marginal = 100 * time.Microsecond
	for name, batch := range map[string]func(*rand.Rand) (n int, took time.Duration){
		"few records, and other delays": func(r *rand.Rand) (int, time.Duration) {
			n := 1 + r.IntN(5)
			return n, time.Millisecond + time.Duration(n)*marginal + time.Duration(r.Int64N(int64(10*time.Millisecond)))
		},
		"a stall now and then": func(r *rand.Rand) (int, time.Duration) {
			n := 1 + r.IntN(5)
			if r.IntN(500) == 0 {
				return n, 100 * time.Millisecond
			}
			return n, time.Millisecond + time.Duration(n)*marginal
		},
	} {
		random, p := rand.New(rand.NewPCG(1, 2)), startedPace()
		for range 5000 {
			p.observe(batch(random))
			if _, each, _ := p.at(time.Now()); each > 5*marginal {
				t.Errorf("%s: a record costs %v, more than %v", name, each, 5*marginal)
				break
			}
		}
	}
}

// With many records per batch, the pace follows what they take, also after other ones.
func TestPaceOfFullBatches(t *testing.T) {
	t.Parallel()
	random, p := rand.New(rand.NewPCG(1, 2)), startedPace()
	for _, marginal := range []time.Duration{100 * time.Microsecond, time.Millisecond, 200 * time.Microsecond} {
		for range 500 {
			n := 100 + random.IntN(10)
			p.observe(n, time.Millisecond+time.Duration(n)*marginal)
		}
		if _, each, _ := p.at(time.Now()); each < marginal*8/10 || each > marginal*12/10 {
			t.Errorf("a record costs %v, want %v", each, marginal)
		}
	}
}

// A ledger that has just started has no pace yet. Its first batches, which take longer than later ones, must not look
// late, or a host would refuse the first checks that arrive together.
func TestPaceAfterStart(t *testing.T) {
	t.Parallel()
	const (
		connections = 64
		target      = 160 * time.Millisecond // of a host's gate
		judged      = 500 * time.Microsecond // what the gate of two processors assumes that a check delays the next
	)
	p := startedPace()
	now := time.Now()
	for i, b := range []struct {
		n    int
		took time.Duration
	}{{1, 60 * time.Millisecond}, {connections - 1, 120 * time.Millisecond}, {connections, 120 * time.Millisecond}} {
		p.began(b.n, now)
		now = now.Add(b.took)
		least, each, late := p.at(now)
		if wait := late + least + 2*connections*max(each, judged); wait > target {
			t.Errorf("batch %d: %d checks at once would wait for %v, longer than %v (%v late)", i+1, connections, wait,
				target, late)
		}
		p.ended(b.n, now)
	}
}

func startedPace() *pace {
	p := &pace{}
	p.start(256)
	return p
}
