package store

import "time"

// pace estimates how long a batch of records takes: a time that does not depend on its records, which the disk and
// other work on the machine determine, and a time for each record. The latter is the slope of the line through recent
// batches. It is what a busy ledger's checks wait for; taking all of a small batch's time for it would make a ledger
// look slow because it has little to do.
type pace struct {
	records, took  float64 // moving means of the number of records, and of nanoseconds
	spread, common float64 // the moving variance of the records, and their covariance with the time
}

const (
	paceWeight = 1.0 / 128 // of a batch in the means
	// restWeight is the weight of the origin in the line. It determines the slope if batches have the same size.
	restWeight = 1.0 / 32

	longestBatch = 200 * time.Millisecond // an outage says nothing about the batches after it
)

// newPace returns what is assumed until batches have been observed: up to 32 records of 200 us each.
func newPace() pace {
	const records, each = 16.0, 200e3
	return pace{records: records, took: records * each, spread: records * records, common: records * records * each}
}

// observe adds a batch of n records.
func (p *pace) observe(n int, took time.Duration) {
	records, nanos := float64(n)-p.records, float64(min(took, longestBatch))-p.took
	p.records += paceWeight * records
	p.took += paceWeight * nanos
	p.spread = (1 - paceWeight) * (p.spread + paceWeight*records*records)
	p.common = (1 - paceWeight) * (p.common + paceWeight*records*nanos)
}

// each returns the time by which a record lengthens its batch.
func (p *pace) each() time.Duration {
	slope := (p.common + restWeight*p.records*p.took) / (p.spread + restWeight*p.records*p.records)
	return time.Duration(max(slope, 0))
}

// of returns how long a batch of n records usually takes.
func (p *pace) of(n int) time.Duration {
	return time.Duration(max(p.took+(float64(n)-p.records)*float64(p.each()), 0))
}
