package auditlog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"assay/host/audit"
	"assay/host/audit/witness"
	"assay/host/check"
	"assay/host/store"
)

// uncosignedFor is the maximum age of records without the signature of a witness. Hosts submit within seconds.
const uncosignedFor = time.Minute

// RequireCosigned marks in reports the valid chains with records that one of the witnesses should have cosigned but did
// not, and joins these errors. err means that the log cannot be read.
func RequireCosigned(ctx context.Context, log Log, key audit.Public, witnesses []witness.Verifier, reports []Report,
	now time.Time) (broken, err error) {
	trees, err := log.Trees(ctx)
	if damaged := (store.Damaged{}); err != nil && !errors.As(err, &damaged) {
		return nil, err
	}
	for i, r := range reports {
		if !r.OK {
			continue
		}
		notes, err := log.Checkpoints(ctx, r.Chain, 0)
		if err != nil {
			return nil, err
		}
		for _, w := range witnesses {
			covered := r.Pruned
			if size := cosigned(notes, r.Chain, key, w); size > 0 {
				covered = max(covered, trees[r.Chain].First+size-1)
			}
			late, err := lateAfter(ctx, log, r.Chain, covered, now)
			if err != nil {
				return nil, err
			}
			if late > 0 {
				wrong := &audit.BreakError{Chain: r.Chain, Seq: late, Reason: fmt.Sprintf("witness %s cosigned no "+
					"checkpoint that covers this record: its signatures were deleted, or it does not answer", w.Name())}
				reports[i].OK, reports[i].Error = false, wrong.Error()
				broken = errors.Join(broken, wrong)
			}
		}
	}
	return broken, nil
}

// cosigned returns the size of the largest tree that a witness cosigned, else 0. The notes are in ascending order.
func cosigned(notes []string, chain int, key audit.Public, w witness.Verifier) int64 {
	for _, note := range slices.Backward(notes) {
		if head, err := key.OpenTree(note); err == nil && head.Chain == chain && w.Signed(note) {
			return head.Size
		}
	}
	return 0
}

// lateAfter returns the first record after a number if it is older than uncosignedFor, else 0. An erased record has no
// time, and counts as old.
func lateAfter(ctx context.Context, log Log, chain int, after int64, now time.Time) (int64, error) {
	for row, err := range log.Rows(ctx, chain, after, after+1) {
		if err != nil {
			return 0, err
		}
		if row.Seq <= after { // an *Export yields all records
			continue
		}
		if at, err := time.Parse(check.TimeFormat, row.Record.At); err == nil && now.Sub(at) < uncosignedFor {
			return 0, nil
		}
		return row.Seq, nil
	}
	return 0, nil
}
