package check_test

import (
	"context"
	"errors"
	"testing"

	"assay/host/check"
	"assay/registry/expect"
)

// guarded is a ledger that refuses decisions of a replaced lineup. Before each call of Append it puts the next revision
// in force, as if an operator had done so while the check was scored.
type guarded struct {
	*fixture
	next   []int64 // to be put in force before the calls of Append; 0: none
	ended  map[int64]bool
	scored []int64 // the revision of each call
}

func (g *guarded) Append(ctx context.Context, records ...check.Record) error {
	g.scored = append(g.scored, records[0].Decision.Revision)
	if n := len(g.scored); n <= len(g.next) && g.next[n-1] != 0 {
		g.swap(g.next[n-1], g.member("any"))
	}
	if g.ended[records[0].Decision.Revision] {
		return check.ErrRevision
	}
	return g.fixture.Append(ctx, records...)
}

// A check whose lineup was replaced is scored once more with the lineup in force, or refused. It is recorded at most
// once, and never under the old revision.
func TestReplacedLineupIsNotRecorded(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		next   []int64
		ended  map[int64]bool
		scored []int64
		want   int64 // the recorded revision; 0: refused
	}{
		"another lineup is in force": {[]int64{2}, map[int64]bool{1: true}, []int64{1, 2}, 2},
		"the host has not followed":  {nil, map[int64]bool{1: true}, []int64{1}, 0},
		"replaced again":             {[]int64{2, 3}, map[int64]bool{1: true, 2: true}, []int64{1, 2}, 0},
		"replaced, but in time":      {[]int64{2}, nil, []int64{1}, 1},
	} {
		for kind, run := range map[string]func(f *guarded) (revisions []int64, err error){
			"check": func(f *guarded) ([]int64, error) {
				d, err := f.check(aDomain)
				if err != nil {
					return nil, err
				}
				return []int64{d.Revision}, nil
			},
			"batch": func(f *guarded) (revisions []int64, err error) {
				answers, err := f.CheckBatch(t.Context(), f.caller, batchOf(2), nil)
				for _, a := range answers {
					revisions = append(revisions, a.Decision.Revision)
				}
				return revisions, err
			},
		} {
			t.Run(name+"/"+kind, func(t *testing.T) {
				t.Parallel()
				f := &guarded{fixture: newFixture(t), next: c.next, ended: c.ended}
				f.Ledger = f
				f.swap(1, f.member("any"))
				revisions, err := run(f)
				same(t, c.scored, f.scored)
				var refused *check.UnavailableError
				expect.That(t, c.want != 0 || errors.As(err, &refused) && refused.Reason() == "lineup",
					"got %v, %v, want a refusal because of the lineup", revisions, err)
				expect.That(t, c.want == 0 || err == nil, "%v", err)
				for _, r := range revisions {
					same(t, c.want, r)
				}
				for _, r := range f.records {
					same(t, c.want, r.Decision.Revision)
				}
				f.Live.Swap(nil)
			})
		}
	}
}
