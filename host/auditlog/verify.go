// Package auditlog maintains the audit log of a database: it verifies the log, signs checkpoints of it, and prunes
// records past their retention. The hash chain itself is in package audit, the storage of records in package store.
package auditlog

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"assay/host/audit"
	"assay/host/check"
	"assay/host/store"
	"assay/registry/activation"
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
	Since        string `json:"since"`         // time of the first record that has content; "" if none has
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

// unsignedFor is how old records without a checkpoint may be. Hosts sign within seconds.
const unsignedFor = 10 * time.Minute

// Unsigned returns an error if a chain was verified without any checkpoint, although it has records that a host must
// have signed. Without checkpoints, the chain could have been rewritten from its beginning.
func (r Report) Unsigned(now time.Time) error {
	since, _ := time.Parse(check.TimeFormat, r.Since)
	if r.Checkpoints > 0 || since.IsZero() || now.Sub(since) < unsignedFor {
		return nil
	}
	return &audit.BreakError{Chain: r.Chain, Seq: r.Pruned + 1, Reason: "no signed checkpoint covers this record or " +
		"a later one, neither in the database nor outside: they were deleted, or no host has run since"}
}

// Verify verifies all chains in one snapshot of the database: their hashes, their Merkle trees, and both against signed
// checkpoints, those of the database and others. These must have been read before, so that none is newer than the
// snapshot; they may be nil. It also verifies the stored activations of lineups with the keys
// that trust lists, and holds each check's lineup to them; if they are not valid, no chain is. The error broken joins
// what is wrong with them and an [audit.BreakError] for each chain that is not valid; err means that verifying failed.
func Verify(
	ctx context.Context, s *store.Store, signer *audit.Signer, trust activation.Trust, checkpoints *Checkpoints,
) (reports []Report, broken, err error) {
	if checkpoints == nil {
		checkpoints = &Checkpoints{}
	}
	err = s.ReadAuditLog(ctx, func(ctx context.Context, log store.AuditLog) error {
		heads, err := log.Chains(ctx)
		var damaged store.Damaged
		if err != nil && !errors.As(err, &damaged) {
			return err
		}
		broken = err
		lineups, wrong, err := readHistory(ctx, log, trust)
		if err != nil {
			return err
		}
		overrides := overrideRecords{added: map[string]overrideRecord{}, removed: map[string]bool{}}
		broken = errors.Join(broken, wrong)
		reports = make([]Report, len(heads))
		for i, head := range heads {
			reports[i], err = verifyChain(ctx, log, signer, head, checkpoints, lineups, overrides)
			var breaks *audit.BreakError
			if errors.As(err, &breaks) {
				reports[i].Error = err.Error()
				broken = errors.Join(broken, err)
			} else if err != nil {
				return err
			}
		}
		altered, err := overrides.compare(ctx, log, s.OverrideKeys(), s.Now())
		broken = errors.Join(broken, report(reports, altered))
		if err != nil {
			return err
		}
		for i := range reports {
			if wrong != nil && reports[i].OK {
				reports[i].OK, reports[i].Error = false, wrong.Error()
			}
		}
		for _, b := range damaged {
			reports = append(reports, Report{Chain: b.Chain, Error: b.Error()})
		}
		return nil
	})
	return reports, broken, err
}

// verifyChain verifies one chain from its newest anchor, or its beginning, to its head. The stored lineups must be
// those that the chain recorded when they came into force, and each check must have been decided by one that was in
// force. The chain's records of overrides are added to overrides.
func verifyChain(
	ctx context.Context, log store.AuditLog, signer *audit.Signer, head audit.Head, checkpoints *Checkpoints,
	lineups *history, overrides overrideRecords,
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
	heads := slices.DeleteFunc(slices.Clone(checkpoints.Heads), func(c audit.Head) bool {
		return c.Chain != head.Chain || c.Seq < start.Seq
	})
	v := audit.NewVerifier(start, signer.PublicKey(), heads)
	tree, err := newTreeWalk(ctx, log, signer, start, checkpoints.Trees)
	if err != nil {
		return report, err
	}
	w := newWalk(lineups)
	// Records past the head are read too: there must be none.
	for row, err := range log.Rows(ctx, head.Chain, start.Seq, math.MaxInt64) {
		if err == nil {
			err = v.Add(row)
		}
		if err == nil {
			err = tree.add(ctx, row.Leaf)
		}
		if err == nil {
			if reason := w.add(row); reason != "" {
				err = &audit.BreakError{Chain: head.Chain, Seq: row.Seq, Reason: reason}
			}
		}
		if err != nil {
			return report, err
		}
		if report.Since == "" {
			report.Since = row.Record.At
		}
		if row.Record.Kind == audit.Override {
			overrides.add(head.Chain, row)
		}
	}
	report.Records, report.Erased, report.Erasures = v.Head.Seq-start.Seq, v.Erased, v.Erasures
	err = v.Close(head)
	if err == nil {
		err = tree.close(ctx)
	}
	report.Checkpoints = len(heads) + tree.met
	if err == nil {
		if reason := w.close(); reason != "" {
			err = &audit.BreakError{Chain: head.Chain, Seq: head.Seq, Reason: reason}
		}
	}
	report.OK = err == nil
	return report, err
}
