package store

import (
	"sync"
	"time"
)

// pace estimates how long records wait, over all chains of a ledger: batches of different chains share the database's
// processors and disk.
type pace struct {
	mu       sync.Mutex
	batch    int           // a full batch
	each     time.Duration // moving mean of the delay that a record adds to the next
	flying   int           // batches in progress
	records  int           // their records
	progress time.Time     // when the last batch ended, or when the first one in progress began
}

// ownRecords is the assumed constant part of a batch's time, in records. The time of a small batch hardly depends on
// its records, so without a constant part an idle ledger would look slow.
const ownRecords = 16

// initialEach is assumed for each record until batches have been recorded. Without an assumption, the first batches of
// a new ledger would all look late.
const initialEach = 500 * time.Microsecond

func (p *pace) start(batch int) { p.batch, p.each = batch, initialEach }

// began is called when a batch of n records begins.
func (p *pace) began(n int, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.flying == 0 {
		p.progress = now
	}
	p.flying++
	p.records += n
}

// ended is called when a batch of n records ends. While several are in progress, they wait for each other, so only the
// time since the previous one ended counts.
func (p *pace) ended(n int, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.observe(n, now.Sub(p.progress))
	p.flying--
	p.records -= n
	p.progress = now
}

// observe updates the expected durations after n records took some time.
func (p *pace) observe(n int, took time.Duration) {
	const longest = 200 * time.Millisecond // an outage says nothing about later batches
	took = min(took, longest)
	p.each += (took/time.Duration(ownRecords+n) - p.each) * time.Duration(n) / time.Duration(n+p.batch)
}

// at is Ledger.Pace at a time.
func (p *pace) at(now time.Time) (least, each, late time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.flying > 0 {
		usual := time.Duration(ownRecords+p.records) * p.each
		late = max(0, now.Sub(p.progress)-2*usual)
	}
	return 2 * ownRecords * p.each, p.each, late
}
