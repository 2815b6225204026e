package auditlog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"assay/host/audit"
	"assay/host/check"
	"assay/host/store"
	"assay/registry"
	"assay/registry/activation"
	"assay/registry/fault"
)

// overlap is how long after an activation the previous lineup may still have decided a check. The ledger refuses such
// checks after 2 s by the database's clock. Both times compared here are those of hosts, whose clocks may be 2 s off,
// and the activation may have waited 2 s for the chains and 2 s for a connection.
const overlap = 8 * time.Second

// untilTolerance is how much a revision's end may differ from the time of the activation that ended it.
const untilTolerance = 6 * time.Second

// history says which lineups were in force, according to the stored activations.
type history struct {
	steps  []step
	place  map[registry.Digest]int // in steps, by hash
	stored map[int64]store.StoredLineup
}

type step struct {
	activation.Signed
	at time.Time // as each chain recorded it
}

// activationError describes a defect of the stored activations and lineups.
type activationError struct{ reason string }

func (e *activationError) Error() string { return "the stored activations are not valid: " + e.reason }

// readHistory reads the activations and verifies each signature, their chain, and everything that is stored next to the
// signed texts. The error broken joins the defects.
func readHistory(ctx context.Context, log store.AuditLog, trust activation.Trust) (h *history, broken, err error) {
	h = &history{place: map[registry.Digest]int{}}
	if h.stored, err = log.Lineups(ctx); err != nil {
		return nil, nil, err
	}
	rows, err := log.Activations(ctx)
	if err != nil {
		return nil, nil, err
	}
	inForce, err := log.RevisionsInForce(ctx)
	if err != nil {
		return nil, nil, err
	}
	var problems []error
	for _, row := range rows {
		if err := h.add(row, trust); err != nil {
			problems = append(problems, &activationError{fmt.Sprintf("row %d: %v", row.ID, err)})
		}
	}
	for _, revision := range slices.Sorted(maps.Keys(h.stored)) {
		hash, stored := registry.LineupHash([]byte(h.stored[revision].Text)), h.stored[revision].Digest
		if !bytes.Equal(hash[:], stored) {
			problems = append(problems, &activationError{fmt.Sprintf("lineup revision %d: it was altered: it does not "+
				"have the stored digest", revision)})
		}
	}
	if len(h.steps) > 0 {
		problems = append(problems, h.checkInForce(inForce)...)
	}
	return h, errors.Join(problems...), nil
}

// add verifies a row and appends it.
func (h *history) add(row store.StoredActivation, trust activation.Trust) error {
	s, err := trust.Open(row.Signed)
	if err != nil {
		return err
	}
	var before activation.Activation
	if n := len(h.steps); n > 0 {
		before = h.steps[n-1].Activation
	}
	switch {
	case !bytes.Equal(row.Hash, s.Hash[:]):
		return errors.New("its hash was altered")
	case row.Number != s.Number:
		return errors.New("its number was altered")
	case row.Revision != s.Lineup.Revision:
		return errors.New("its revision was altered")
	case row.Reason != s.Reason:
		return errors.New("its reason was altered")
	case (s.Canary == nil) != (row.CanaryRevision == nil && row.Share == nil),
		s.Canary != nil && (row.CanaryRevision == nil || *row.CanaryRevision != s.Canary.Revision),
		s.Canary != nil && (row.Share == nil || *row.Share != s.Canary.Share):
		return errors.New("its canary was altered")
	case len(h.steps) == 0 && s.Previous != (registry.Digest{}), len(h.steps) > 0 && s.Previous != before.Hash():
		return errors.New("it does not follow from the activation before: one was removed, added or moved")
	case s.Number <= before.Number:
		return fmt.Errorf("its number is not above %d", before.Number)
	}
	h.place[s.Hash] = len(h.steps)
	h.steps = append(h.steps, step{s, row.ActivatedAt})
	return h.checkLineups(before, s)
}

// checkLineups verifies the lineups of an activation, and that its key was permitted to sign it.
func (h *history) checkLineups(before activation.Activation, s activation.Signed) error {
	document, err := h.open(s.Lineup)
	if err != nil {
		return err
	}
	if s.Canary != nil {
		if _, err := h.open(s.Canary.Lineup); err != nil {
			return err
		}
	}
	if s.Role != activation.Host {
		return nil
	}
	from := activation.Step{Activation: before}
	if before.Number != 0 {
		if from.Document, err = h.open(before.Lineup); err != nil {
			return err
		}
	}
	return activation.Permit(s.Role, from, activation.Step{Activation: s.Activation, Document: document})
}

func (h *history) open(l activation.Lineup) (registry.LineupDocument, error) {
	document, err := registry.OpenLineup([]byte(h.stored[l.Revision].Text), l.Hash)
	return document, fault.Wrap(err, "lineup revision %d", l.Revision)
}

// checkInForce compares the revisions that the ledger accepts with the activations.
func (h *history) checkInForce(stored map[int64]*time.Time) (problems []error) {
	bad := func(format string, args ...any) {
		problems = append(problems, &activationError{fmt.Sprintf("revisions in force: "+format, args...)})
	}
	last := len(h.steps) - 1
	for i := range h.steps {
		for _, revision := range revisions(h.steps[i]) {
			if _, ok := stored[revision]; !ok {
				bad("revision %d is missing", revision)
			}
		}
	}
	for _, revision := range slices.Sorted(maps.Keys(stored)) {
		until := stored[revision]
		ended, ok := h.ended(revision, last)
		switch {
		case !ok:
			bad("revision %d was never activated", revision)
		case ended == nil && until != nil:
			bad("revision %d is in force, but checks under it are refused", revision)
		case ended != nil && until == nil:
			bad("revision %d is not in force, but checks under it are recorded", revision)
		case ended != nil && (until.Before(ended.Add(-untilTolerance)) || until.After(ended.Add(untilTolerance))):
			bad("the time at which revision %d stopped being in force was altered", revision)
		}
	}
	return problems
}

// revisions returns the revisions that an activation puts in force.
func revisions(s step) []int64 {
	if s.Canary != nil {
		return []int64{s.Lineup.Revision, s.Canary.Revision}
	}
	return []int64{s.Lineup.Revision}
}

// ended returns when a revision stopped being in force, as of the step at a place; nil if it is in force there. ok is
// false if it was never in force up to that step.
func (h *history) ended(revision int64, place int) (at *time.Time, ok bool) {
	for i := place; i >= 0; i-- {
		if slices.Contains(revisions(h.steps[i]), revision) {
			if i == place {
				return nil, true
			}
			return &h.steps[i+1].at, true
		}
	}
	return nil, false
}

// walk compares one chain's records with the history, in order. Without a history, it accepts them.
type walk struct {
	*history
	known   bool // whether place is known: from the first record of an activation on
	place   int  // of the activation in force, -1 before the first
	decided map[int64]decision
}

// decision is the last check that a revision decided before the first activation in a chain.
type decision struct {
	seq int64
	at  time.Time
}

// add compares a record and returns what is wrong with it, or "".
func (w *walk) add(row audit.Row) (reason string) {
	r := row.Record
	switch {
	case w.history == nil:
	case r.Kind == audit.Activation:
		return w.activated(r)
	case r.Kind == audit.Check && row.Nonce != nil:
		at, err := time.Parse(check.TimeFormat, r.At)
		if err != nil {
			return "its time cannot be read"
		}
		if w.known {
			return w.wrongRevision(r.Revision, at)
		}
		if last, ok := w.decided[r.Revision]; !ok || at.After(last.at) {
			w.decided[r.Revision] = decision{row.Seq, at}
		}
	}
	return ""
}

// activated moves on to the next activation.
func (w *walk) activated(r audit.Record) (reason string) {
	if len(r.Digest) != len(registry.Digest{}) {
		return "the hash of its activation is not 32 bytes long"
	}
	place, ok := w.history.place[registry.Digest(r.Digest)]
	if !ok {
		return fmt.Sprintf("the activation with hash %s, which put lineup revision %d in force, is not stored",
			registry.Digest(r.Digest), r.Revision)
	}
	s := w.steps[place]
	switch {
	case r.Revision != s.Lineup.Revision:
		return fmt.Sprintf("its revision is not %d, that of activation %d", s.Lineup.Revision, s.Number)
	case s.at.UTC().Format(check.TimeFormat) != r.At:
		return fmt.Sprintf("the stored time of activation %d was altered", s.Number)
	case w.known && place != w.place+1:
		return fmt.Sprintf("activation %d does not follow from the one recorded before", s.Number)
	}
	if !w.known {
		if reason := w.settle(place - 1); reason != "" {
			return reason
		}
	}
	w.place = place
	return ""
}

// settle makes the activation in force known, and judges the checks before.
func (w *walk) settle(place int) (reason string) {
	w.known, w.place = true, place
	for _, revision := range slices.Sorted(maps.Keys(w.decided)) {
		d := w.decided[revision]
		if reason := w.wrongRevision(revision, d.at); reason != "" {
			return fmt.Sprintf("record %d: %s", d.seq, reason)
		}
	}
	return ""
}

// close verifies the end of a chain. It judges the checks of a chain without an activation: a new or pruned chain.
func (w *walk) close() (reason string) {
	if w.history == nil {
		return ""
	}
	if w.known {
		if w.place != len(w.steps)-1 {
			return fmt.Sprintf("activation %d is stored, but not recorded", w.steps[len(w.steps)-1].Number)
		}
		return ""
	}
	return w.settle(len(w.steps) - 1)
}

// wrongRevision says why a revision may not have decided a check, or returns "". Nothing is known about checks before
// the first signed activation.
func (w *walk) wrongRevision(revision int64, at time.Time) (reason string) {
	if w.place < 0 {
		return ""
	}
	ended, ok := w.ended(revision, w.place)
	switch {
	case !ok:
		return fmt.Sprintf("it was decided by lineup revision %d, which was not in force", revision)
	case ended != nil && at.After(ended.Add(overlap)):
		return fmt.Sprintf("it was decided by lineup revision %d, which was not in force since %s", revision,
			ended.UTC().Format(check.TimeFormat))
	}
	return ""
}
