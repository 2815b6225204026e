// Package auditlog maintains the audit log of a database: it verifies the log, signs checkpoints of it, and prunes
// records past their retention. The hash chain itself is in package audit, the storage of records in package store.
package auditlog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
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
	Losses       int    `json:"losses"`        // records that accept a loss of answered checks
	Checkpoints  int    `json:"checkpoints"`   // signed checkpoints of the records kept
	Since        string `json:"since"`         // time of the first record that has content; "" if none has
	OK           bool   `json:"ok"`
	Error        string `json:"error,omitempty"`

	uncovered uncovered
}

// uncovered are the records with content that no checkpoint covers; zero: there are none.
type uncovered struct {
	first  int64
	since  string    // time of the first
	newest time.Time // of all
}

// String describes the result for a valid chain.
func (r Report) String() string {
	text := fmt.Sprintf("Audit chain %d is valid: %d records (%d erased in %d erasures), %d signed checkpoints match.",
		r.Chain, r.Records, r.Erased, r.Erasures, r.Checkpoints)
	if r.Losses > 0 {
		text += fmt.Sprintf(" %d records accept a loss.", r.Losses)
	}
	if r.Pruned > 0 {
		text += fmt.Sprintf(" %d earlier records, from before %s, were pruned under a signed anchor.", r.Pruned,
			r.PrunedBefore)
	}
	return text
}

// unsignedFor is how long a record may lack a checkpoint. Hosts sign within seconds.
const unsignedFor = 10 * time.Minute

// Unsigned returns an error if no checkpoint covers a record although hosts have had time to sign one: such a record
// could have been rewritten. They have had time if a later record is unsignedFor newer or, in a chain without any
// checkpoint, if the record is that old. A chain with checkpoints may be an old copy, made before hosts signed its end.
func (r Report) Unsigned(now time.Time) error {
	if r.uncovered.first == 0 {
		return nil
	}
	until := r.uncovered.newest
	if r.Checkpoints == 0 {
		until = now
	}
	since, err := time.Parse(check.TimeFormat, r.uncovered.since)
	if err == nil && until.Sub(since).Abs() < unsignedFor { // a time in the future does not excuse it
		return nil
	}
	return &audit.BreakError{Chain: r.Chain, Seq: r.uncovered.first, Reason: "no signed checkpoint covers this " +
		"record or a later one, neither in the database nor outside: they were deleted, or no host has run since"}
}

// Log is an audit log to verify: a snapshot of the database, which is a store.AuditLog, or an *Export.
type Log interface {
	// Chains returns the head of each chain, and the genesis of each chain that has records but no head. The error is a
	// store.Damaged for chains that it leaves out.
	Chains(ctx context.Context) ([]audit.Head, error)
	// Anchors returns a chain's anchors, oldest first. The error is an *audit.BreakError if one was not signed by the
	// installation.
	Anchors(ctx context.Context, chain int, key audit.Public) ([]audit.Anchor, error)
	// Rows yields the records of a chain with after < Seq <= until, in order. It ends at the first error.
	Rows(ctx context.Context, chain int, after, until int64) iter.Seq2[audit.Row, error]
	// Trees returns the Merkle trees by chain. The error is a store.Damaged for trees that it leaves out.
	Trees(ctx context.Context) (map[int]store.Tree, error)
	// KeyStatements returns the statements that introduce keys, oldest first. They are not verified.
	KeyStatements(ctx context.Context) ([]string, error)
	// Checkpoints returns a chain's checkpoints from a size on. They are not verified.
	Checkpoints(ctx context.Context, chain int, from int64) (notes []string, err error)
	// States returns the states that are stored now.
	States(ctx context.Context) ([]store.StoredState, error)
	// Tiles returns the hashes of tiles, as they are stored. An *Export has only the edge with which each tree begins.
	Tiles(ctx context.Context, chain int, ids []audit.TileID) ([][]byte, error)
}

// verification holds what is needed to verify a log.
type verification struct {
	log         Log
	key         audit.Public
	checkpoints *Checkpoints
	tiles       bool     // compare the log's tiles
	lineups     *history // nil: the lineups of checks are not verified
	now         time.Time

	trees        map[int]store.Tree
	damagedTrees error
	overrides    overrideRecords
	states       stateRecords
}

// chains verifies all chains.
func (v *verification) chains(ctx context.Context) (reports []Report, broken, err error) {
	v.checkpoints = cmp.Or(v.checkpoints, &Checkpoints{})
	v.overrides = overrideRecords{added: map[string]overrideRecord{}, removed: map[string]bool{}}
	v.states = stateRecords{}
	var damaged store.Damaged
	v.trees, v.damagedTrees = v.log.Trees(ctx)
	if err := v.damagedTrees; err != nil && !errors.As(err, &damaged) {
		return nil, nil, err
	}
	damaged = nil
	heads, err := v.log.Chains(ctx)
	if err != nil && !errors.As(err, &damaged) {
		return nil, nil, err
	}
	broken = err
	known := map[int]bool{}
	for _, head := range heads {
		known[head.Chain] = true
		report, err := v.chain(ctx, head)
		if errors.As(err, new(*audit.BreakError)) {
			report.Error = err.Error()
			broken = errors.Join(broken, err)
		} else if err != nil {
			return nil, nil, err
		}
		reports = append(reports, report)
	}
	for _, b := range damaged {
		known[b.Chain] = true
		reports = append(reports, Report{Chain: b.Chain, Error: b.Error()})
	}
	for _, h := range v.checkpoints.Trees {
		if h.Size > 0 && !known[h.Chain] {
			known[h.Chain] = true
			gone := &audit.BreakError{Chain: h.Chain, Seq: 1,
				Reason: "the chain is gone, but a signed checkpoint covers it"}
			broken = errors.Join(broken, gone)
			reports = append(reports, Report{Chain: h.Chain, Error: gone.Error()})
		}
	}
	states, err := v.log.States(ctx)
	if err != nil {
		return nil, nil, err
	}
	if len(states) > 0 && !known[audit.StateChain] {
		gone := &audit.BreakError{Chain: audit.StateChain, Seq: 1,
			Reason: "the chain of lists, lineups and plugins is gone"}
		return append(reports, Report{Chain: gone.Chain, Error: gone.Error()}), errors.Join(broken, gone), nil
	}
	all := !slices.ContainsFunc(reports, func(r Report) bool { return audit.OfStates(r.Chain) && !r.OK })
	return reports, errors.Join(broken, report(reports, v.states.compare(states, all, v.now))), nil
}

// Verify verifies all chains in one snapshot of the database: their hashes, their Merkle trees, and both against signed
// checkpoints, those of the database and the given ones. The given checkpoints may be nil; they must have been read
// before the call, so that none is newer than the snapshot. Verify compares the stored states with their records. It
// also verifies the stored activations of lineups with the keys in trust, and compares each check's lineup with them;
// if they are not valid, no chain is. The error broken joins their defects and an [audit.BreakError] for each chain
// that is not valid; err means that verifying failed.
func Verify(ctx context.Context, s *store.Store, key audit.Public, trust activation.Trust, checkpoints *Checkpoints) (
	reports []Report, broken, err error) {
	err = s.ReadAuditLog(ctx, func(ctx context.Context, log store.AuditLog) error {
		key, forged, err := follow(ctx, log, key)
		if err != nil {
			return err
		}
		lineups, wrong, err := readHistory(ctx, log, trust)
		if err != nil {
			return err
		}
		v := &verification{log: log, key: key, checkpoints: checkpoints, tiles: true, lineups: lineups, now: s.Now()}
		if reports, broken, err = v.chains(ctx); err != nil {
			return err
		}
		altered, err := v.overrides.compare(ctx, log, s.OverrideKeys(), s.Now())
		wrong = errors.Join(forged, wrong)
		broken = errors.Join(broken, wrong, report(reports, altered))
		for i := range reports {
			if wrong != nil && reports[i].OK {
				reports[i].OK, reports[i].Error = false, wrong.Error()
			}
		}
		return err
	})
	return reports, broken, err
}

// VerifyPublic verifies what requires neither the installation's secret nor the keys that it trusts: the chains with
// their erasures and anchors, their Merkle trees, both against signed checkpoints, and the stored states against their
// records. It fails for a chain without any checkpoint, see Report.Unsigned. Its results are those of Verify.
func VerifyPublic(ctx context.Context, log Log, key audit.Public, checkpoints *Checkpoints, now time.Time) (
	reports []Report, broken, err error) {
	_, stored := log.(store.AuditLog)
	key, forged, err := follow(ctx, log, key)
	if err != nil {
		return nil, nil, err
	}
	v := &verification{log: log, key: key, checkpoints: checkpoints, tiles: stored, now: now}
	if reports, broken, err = v.chains(ctx); err != nil {
		return nil, nil, err
	}
	return reports, errors.Join(forged, broken, RequireSigned(reports, now)), nil
}

// follow returns the key with the later keys of a log. The error forged means that they do not follow from it.
func follow(ctx context.Context, log Log, key audit.Public) (next audit.Public, forged, err error) {
	statements, err := log.KeyStatements(ctx)
	if err != nil {
		return key, nil, err
	}
	next, forged = key.With(statements)
	if known := len(key.Statements()); forged == nil && len(statements) < known {
		forged = fmt.Errorf("the log has %d statements that introduce keys, but %d are known: they were deleted",
			len(statements), known)
	}
	return next, forged, nil
}

// count updates the uncovered records with the next one. covered reports whether a checkpoint ends with it.
func (r *Report) count(row audit.Row, covered bool) {
	u := &r.uncovered
	if covered {
		*u = uncovered{}
		return
	}
	if row.Record.At == "" { // it was erased
		return
	}
	if u.first == 0 {
		u.first, u.since = row.Seq, row.Record.At
	}
	if at, err := time.Parse(check.TimeFormat, row.Record.At); err == nil && at.After(u.newest) {
		u.newest = at
	}
}

// RequireSigned marks the valid chains for which Report.Unsigned returns an error as invalid, and joins these errors.
func RequireSigned(reports []Report, now time.Time) (broken error) {
	for i, r := range reports {
		if err := r.Unsigned(now); err != nil && r.OK {
			reports[i].OK, reports[i].Error = false, err.Error()
			broken = errors.Join(broken, err)
		}
	}
	return broken
}

// chain verifies one chain from its newest anchor, or its beginning, to its head. The stored lineups must be those that
// the chain recorded when they came into force, and each check's lineup must have been in force. The chain's records of
// overrides and states are added to those of v.
func (v *verification) chain(ctx context.Context, head audit.Head) (Report, error) {
	report := Report{Chain: head.Chain}
	start := audit.Genesis(head.Chain)
	var newest audit.Anchor
	anchors, err := v.log.Anchors(ctx, head.Chain, v.key)
	if err != nil {
		return report, err
	}
	if n := len(anchors); n > 0 {
		newest = anchors[n-1]
		if audit.Late(newest.Replaced, newest.Before) {
			return report, &audit.BreakError{Chain: head.Chain, Seq: newest.Seq, Reason: lateAnchor}
		}
		start, report.Pruned, report.PrunedBefore = newest.Head, newest.Seq, newest.Before.Format(time.DateOnly)
	}
	heads := slices.DeleteFunc(slices.Clone(v.checkpoints.Heads), func(c audit.Head) bool {
		return c.Chain != head.Chain || c.Seq < start.Seq
	})
	verifier := audit.NewVerifier(start, v.key, heads)
	tree, err := v.newTreeWalk(ctx, start, newest.Replaced)
	if err != nil {
		return report, err
	}
	w := &walk{history: v.lineups, decided: map[int64]decision{}}
	// Read records past the head too: there must be none. Some records before the start may not be deleted yet.
	for row, err := range v.log.Rows(ctx, head.Chain, math.MinInt64, math.MaxInt64) {
		if err == nil && row.Seq <= start.Seq {
			if err = tree.leftover(ctx, head.Chain, row); err == nil {
				continue
			}
		}
		if err == nil {
			err = verifier.Add(row)
		}
		if err == nil {
			err = tree.add(ctx, row)
		}
		if err == nil {
			reason := w.add(row)
			if row.Record.Kind == audit.State && audit.OfStates(head.Chain) {
				reason = v.states.add(head.Chain, row)
			}
			if reason != "" {
				err = &audit.BreakError{Chain: head.Chain, Seq: row.Seq, Reason: reason}
			}
		}
		if err != nil {
			return report, err
		}
		report.Since = cmp.Or(report.Since, row.Record.At)
		report.count(row, row.Seq == max(verifier.Covered, tree.covered))
		if row.Record.Kind == audit.Override {
			v.overrides.add(head.Chain, row)
		}
	}
	report.Records, report.Erased, report.Erasures = verifier.Head.Seq-start.Seq, verifier.Erased, verifier.Erasures
	err = verifier.Close(head)
	if err == nil {
		err = tree.close(ctx)
	}
	report.Checkpoints, report.Losses = len(heads)+tree.met, tree.losses.accepted
	if err == nil {
		if reason := w.close(); reason != "" {
			err = &audit.BreakError{Chain: head.Chain, Seq: head.Seq, Reason: reason}
		}
	}
	report.OK = err == nil
	return report, err
}
