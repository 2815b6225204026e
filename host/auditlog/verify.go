// Package auditlog maintains the audit log of a database: it verifies the log, signs checkpoints of it, and prunes
// records past their retention. The hash chain itself is in package audit, the storage of records in package store.
package auditlog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"assay/host/audit"
	"assay/host/store"
)

// Report is the result of verifying one chain.
type Report struct {
	Chain        int    `json:"chain"`
	Records      int64  `json:"records"`
	Erased       int64  `json:"erased"`        // records whose content was erased
	Erasures     int64  `json:"erasures"`      // records that document an erasure
	Pruned       int64  `json:"pruned"`        // records deleted from the start of the chain, not counted in Records
	PrunedBefore string `json:"pruned_before"` // first day, in UTC, of the records kept; "" if nothing was pruned
	Checkpoints  int    `json:"checkpoints"`   // signed checkpoints of the records kept
	OK           bool   `json:"ok"`
	Error        string `json:"error,omitempty"`
}

// String describes the result for a chain that is valid.
func (r Report) String() string {
	text := fmt.Sprintf("Audit chain %d is valid: %d records (%d erased in %d erasures), %d signed checkpoints match.",
		r.Chain, r.Records, r.Erased, r.Erasures, r.Checkpoints)
	if r.Pruned > 0 {
		text += fmt.Sprintf(" %d earlier records, from before %s, were pruned under a signed anchor.", r.Pruned,
			r.PrunedBefore)
	}
	return text
}

// Verify verifies all chains in one snapshot of the database, and against signed checkpoints. These must have been read
// before, so that none is newer than the snapshot. The error broken joins an [audit.BreakError] for each chain that is
// not valid; err means that verifying failed.
func Verify(
	ctx context.Context, s *store.Store, signer *audit.Signer, checkpoints []audit.Head,
) (reports []Report, broken, err error) {
	err = s.ReadAuditLog(ctx, func(ctx context.Context, log store.AuditLog) error {
		heads, err := log.Chains(ctx)
		var damaged store.Damaged
		if err != nil && !errors.As(err, &damaged) {
			return err
		}
		broken = err
		lineups, err := log.LineupDigests(ctx)
		if err != nil {
			return err
		}
		reports = make([]Report, len(heads))
		for i, head := range heads {
			reports[i], err = verifyChain(ctx, log, signer, head, checkpoints, lineups)
			var breaks *audit.BreakError
			if errors.As(err, &breaks) {
				reports[i].Error = err.Error()
				broken = errors.Join(broken, err)
			} else if err != nil {
				return err
			}
		}
		for _, b := range damaged {
			reports = append(reports, Report{Chain: b.Chain, Error: b.Error()})
		}
		return nil
	})
	return reports, broken, err
}

// verifyChain verifies one chain from its newest anchor, or its beginning, to its head. lineups are the digests of the
// stored lineup revisions: they must equal those that the chain recorded when the revisions came into force.
func verifyChain(
	ctx context.Context, log store.AuditLog, signer *audit.Signer, head audit.Head, checkpoints []audit.Head,
	lineups map[int64][]byte,
) (Report, error) {
	report := Report{Chain: head.Chain}
	start := audit.Genesis(head.Chain)
	anchors, err := log.Anchors(ctx, head.Chain, signer.VerifierKey())
	if err != nil {
		return report, err
	}
	if n := len(anchors); n > 0 {
		newest := anchors[n-1]
		start, report.Pruned, report.PrunedBefore = newest.Head, newest.Seq, newest.Before.Format(time.DateOnly)
	}
	checkpoints = slices.DeleteFunc(slices.Clone(checkpoints), func(c audit.Head) bool {
		return c.Chain != head.Chain || c.Seq < start.Seq
	})
	report.Checkpoints = len(checkpoints)
	v := audit.NewVerifier(start, signer.PublicKey(), checkpoints)
	// Records past the head are read too: there must be none.
	for row, err := range log.Rows(ctx, head.Chain, start.Seq, math.MaxInt64) {
		if err == nil {
			err = v.Add(row)
		}
		if r := row.Record; err == nil && r.Kind == audit.Lineup && !bytes.Equal(r.Digest, lineups[r.Revision]) {
			err = &audit.BreakError{Chain: head.Chain, Seq: row.Seq, Reason: fmt.Sprintf(
				"the stored lineup revision %d differs from the one that came into force", r.Revision)}
		}
		if err != nil {
			return report, err
		}
	}
	report.Records, report.Erased, report.Erasures = v.Head.Seq-start.Seq, v.Erased, v.Erasures
	err = v.Close(head)
	report.OK = err == nil
	return report, err
}
