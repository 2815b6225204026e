package store

import (
	"testing"

	"assay/host/check"
	"assay/host/entity"
)

// of returns a check under another lineup.
func of(revision int64, r check.Record) check.Record {
	d := *r.Decision
	d.Revision = revision
	r.Decision = &d
	return r
}

// A check is recorded if its lineup is in force, or was two seconds ago by the database's clock. Otherwise nothing of
// its call is stored or counted, and other calls of the batch are not concerned.
func TestReplacedLineupIsNotRecorded(t *testing.T) {
	t.Parallel()
	s, l, caller := newLedger(t, nil, LedgerConfig{})
	conn := session(t, s.url)
	exec(t, conn, `INSERT INTO revisions_in_force (revision, until) VALUES (1, null), (2, clock_timestamp() + '1 hour'),
		(3, clock_timestamp() - interval '2 seconds'), (4, '-infinity')`)
	john := func() check.Record { return decided(caller, parse(t, entity.Domain, "john.example"), check.Block) }
	for name, c := range map[string]struct {
		revisions []int64
		want      error
	}{
		"in force":           {[]int64{1}, nil},
		"replaced just now":  {[]int64{2}, nil},
		"replaced 2 s ago":   {[]int64{3}, check.ErrRevision},
		"replaced long ago":  {[]int64{4}, check.ErrRevision},
		"never in force":     {[]int64{5}, check.ErrRevision},
		"without a lineup":   {[]int64{0}, check.ErrRevision},
		"a batch in force":   {[]int64{1, 1, 2}, nil},
		"a batch's last one": {[]int64{1, 2, 3}, check.ErrRevision},
	} {
		before := one[int](t, s, "SELECT coalesce(sum(used), 0) FROM quota_usage")
		records := make([]check.Record, len(c.revisions))
		for i, revision := range c.revisions {
			records[i] = of(revision, john())
		}
		err := l.Append(t.Context(), records...)
		wantError(t, name, err, c.want)
		stored, used := 0, one[int](t, s, "SELECT coalesce(sum(used), 0) FROM quota_usage")-before
		for _, r := range records {
			stored += one[int](t, s, "SELECT count(*) FROM audit_records WHERE ref = ?", r.Decision.Ref)
		}
		if c.want == nil {
			expect(t, name+": records", stored, len(records))
		} else {
			expect(t, name+": records", stored, 0)
		}
		expect(t, name+": checks counted", used, stored)
	}

	// Calls that wait for the head together are one batch. The lineup of one is replaced while it waits.
	lock := lockTheHeads(t, s.url)
	first := make(chan error, 1)
	go func() { first <- l.Append(t.Context(), john()) }()
	lock.waiting(t, 1)
	refs, errs := make([]string, 6), make(chan []error)
	go func() {
		errs <- concurrently(len(refs), func(i int) error {
			r := of([]int64{1, lasting}[i%2], john())
			refs[i] = r.Decision.Ref
			return l.Append(t.Context(), r)
		})
	}()
	exec(t, conn, "UPDATE revisions_in_force SET until = now() - interval '1 minute' WHERE revision = 1")
	lock.release(t)
	noError(t, <-first)
	for i, err := range <-errs {
		wantError(t, "a call of a batch", err, []error{check.ErrRevision, nil}[i%2])
		expect(t, "records of the call",
			one[int](t, s, "SELECT count(*) FROM audit_records WHERE ref = ?", refs[i]), i%2)
	}
	verifyLedger(t, s)
}
