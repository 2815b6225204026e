package replay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"assay/host/check"
	"assay/host/entity"
)

// Turn runs f when the host has a processor to spare. It returns the context's error, without calling f, if ctx ends
// first.
type Turn func(ctx context.Context, f func()) error

func atOnce(_ context.Context, f func()) error {
	f()
	return nil
}

// Replay scores the remembered checks again with two lineups and reports the differences, so that changes since a check
// was answered are not attributed to the candidate. Layers whose recipe has not changed keep their results, with the
// weights of each lineup. All others run, each call in a turn; turn may be nil. Replay takes at most a quarter of a
// processor, because checks in progress need the rest. If ctx's deadline passes, the report covers the newest checks.
// The facts are those of the answered check: nothing is looked up.
func (r *Ring) Replay(ctx context.Context, base, candidate *check.Lineup, turn Turn) (*Report, error) {
	report := &Report{}
	before, after := newScorer(base, turn), newScorer(candidate, turn)
	var failed error
	pace := pace{since: time.Now()}
	r.newest(func(c remembered) bool {
		report.Remembered++
		if failed != nil || ctx.Err() != nil {
			return true // only counted
		}
		failed = report.replay(ctx, c, before, after)
		pace.rest(ctx)
		return true
	})
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		failed = nil
	} else if failed == nil {
		failed = ctx.Err()
	}
	if failed != nil {
		return nil, fmt.Errorf("replaying checks: %w", failed)
	}
	report.sort()
	return report, nil
}

// pace slows work down.
type pace struct{ since time.Time } // the end of the last rest

// spell is how long work continues without a rest, short enough not to delay a check noticeably.
const spell = time.Millisecond

// rest waits three times as long as the work since the last rest took, if that was a spell, or until ctx ends.
func (p *pace) rest(ctx context.Context) {
	worked := time.Since(p.since)
	if worked < spell {
		return
	}
	select {
	case <-time.After(3 * worked):
	case <-ctx.Done():
	}
	p.since = time.Now()
}

// scorer scores checks again with a candidate.
type scorer struct {
	lineup  *check.Lineup
	members map[entity.Type][]check.Member
	turn    Turn // not nil
}

func newScorer(l *check.Lineup, turn Turn) *scorer {
	if turn == nil {
		turn = atOnce
	}
	s := &scorer{lineup: l, members: map[entity.Type][]check.Member{}, turn: turn}
	for _, t := range types {
		for _, m := range l.Scoring(t) {
			s.members[t] = append(s.members[t], *m)
		}
	}
	return s
}

// replay adds one check, as two lineups score it. Its error means that ctx has ended, or a bug.
func (r *Report) replay(ctx context.Context, checked remembered, before, after *scorer) error {
	was, err := decode(checked.content)
	if err != nil {
		return err
	}
	terms := checked.terms
	if len(was.Layers) != len(terms.Layers) {
		return errContent
	}
	layers, _, err := before.outcomes(ctx, terms, was)
	if ctx.Err() == nil && errors.As(err, new(*check.UnavailableError)) {
		return nil // the lineup in force does not answer it either
	}
	if err = cmp.Or(ctx.Err(), err); err != nil {
		return err
	}
	inForce := cmp.Or(before.lineup.Terms(was.Type), &check.Terms{}) // nil: no layer scores this type
	fused := before.fuse(was.Type, layers)
	was.Layers, was.Score, was.Verdict = layers, fused.Score, fused.Verdict
	layers, missing, err := after.outcomes(ctx, &check.Terms{Layers: inForce.Layers, Lookups: terms.Lookups}, was)
	if ctx.Err() == nil && errors.As(err, new(*check.UnavailableError)) {
		r.refuse(checked.at, was)
		return nil
	}
	if err = cmp.Or(ctx.Err(), err); err != nil {
		return err
	}
	r.add(checked.at, was, change{after.fuse(was.Type, layers), layers, missing,
		after.lineup.Bias[was.Type] - before.lineup.Bias[was.Type]})
	return nil
}

func (s *scorer) fuse(t entity.Type, layers []check.Outcome) check.Fused {
	return check.Fuse(s.lineup.Bias[t], s.lineup.Bands, layers)
}

// outcomes returns the outcomes of the candidate's layers. missing is set if a layer ran without facts that were not
// looked up for this check.
func (s *scorer) outcomes(ctx context.Context, before *check.Terms, was content) (
	next []check.Outcome, missing bool, err error) {
	members := s.members[was.Type]
	next = make([]check.Outcome, len(members))
	var changed []int // indices of the members to run
	for i := range members {
		m := &members[i]
		j := slices.IndexFunc(before.Layers, func(t check.Term) bool { return t.Name == m.Name })
		if j < 0 || m.Recipe == "" || m.Recipe != before.Layers[j].Recipe {
			changed = append(changed, i)
			continue
		}
		o := m.Outcome(was.Type)
		o.Abstained, o.Failure, o.Score, o.Signals = was.Layers[j].Abstained, was.Layers[j].Failure,
			was.Layers[j].Score, was.Layers[j].Signals
		o.Contribution = o.Weight * float64(o.Score) / 100
		next[i] = o
	}
	if len(changed) == 0 {
		return next, false, nil
	}
	if was.Parsed == nil {
		e, err := entity.Parse(was.Type, was.Query, was.Country)
		if err != nil {
			return nil, false, fmt.Errorf("parsing a remembered value again: %w", err)
		}
		was.Parsed = e.Facts
	}
	in := check.Input{Entity: was.Parsed, LookedUp: was.LookedUp}
	for _, i := range changed {
		m := &members[i]
		missing = missing || slices.ContainsFunc(m.Lookups(), func(fact string) bool {
			_, found := slices.BinarySearch(before.Lookups, fact)
			return !found
		})
		if next[i], err = s.run(ctx, m, was.Type, in); err != nil {
			return nil, false, err
		}
	}
	return next, missing, nil
}

// Rescore scores a recorded check again with another lineup, as Replay does, but looks up the facts that only that
// lineup reads. It returns an *check.UnavailableError if the lineup cannot score the check now.
func Rescore(
	ctx context.Context, l *check.Lineup, r *check.Record, turn Turn,
	collect func(ctx context.Context, wanted []string) (entity.Facts, error),
) (check.Fused, []check.Outcome, error) {
	d, s := r.Decision, newScorer(l, turn)
	before := d.Terms
	if before == nil { // no layer scored this type
		before = &check.Terms{}
	}
	was := content{Type: d.Type, Parsed: r.Entity.Facts, LookedUp: r.LookedUp, Layers: d.Layers}
	if wanted := s.missing(before, d.Type); len(wanted) > 0 {
		more, err := collect(ctx, wanted)
		if err != nil {
			return check.Fused{}, nil, err
		}
		was.LookedUp = entity.Facts{}
		maps.Copy(was.LookedUp, r.LookedUp)
		maps.Copy(was.LookedUp, more)
	}
	layers, _, err := s.outcomes(ctx, before, was)
	if err != nil {
		return check.Fused{}, nil, err
	}
	return s.fuse(d.Type, layers), layers, nil
}

// missing returns the facts, sorted, that the scorer's layers read and that were not looked up for a check scored by
// other terms.
func (s *scorer) missing(before *check.Terms, t entity.Type) (facts []string) {
	for i := range s.members[t] {
		for _, fact := range s.members[t][i].Lookups() {
			if _, found := slices.BinarySearch(before.Lookups, fact); !found {
				facts = append(facts, fact)
			}
		}
	}
	slices.Sort(facts)
	return slices.Compact(facts)
}

// attempts is how often to call a layer that returns no result, for example because the machine is busy: a customer
// would also repeat a refused check.
const attempts = 3

// run calls a layer, each time in a turn.
func (s *scorer) run(ctx context.Context, m *check.Member, t entity.Type, in check.Input) (o check.Outcome, err error) {
	for range attempts {
		if late := s.turn(ctx, func() { o, _, err = m.Run(ctx, t, in) }); late != nil {
			return o, late
		}
		if err == nil {
			break
		}
	}
	return o, err
}

// reportTime limits a replay for an operator who is waiting for the report.
const reportTime = 20 * time.Second

// Report replays the remembered checks and the reference values with the lineup in force and a candidate, to show an
// operator what changes before the candidate replaces it. Without a lineup in force, the report is empty.
func (r *Ring) Report(ctx context.Context, live *check.Live, candidate *check.Lineup, turn Turn) (*Report, error) {
	inForce := live.Acquire()
	if inForce == nil {
		return Merge(), nil
	}
	defer inForce.Release()
	limited, cancel := context.WithTimeout(ctx, reportTime)
	defer cancel()
	report, err := r.Replay(limited, inForce.Lineup, candidate, turn)
	if err != nil {
		return nil, err
	}
	// They are few, so an overloaded host scores them too.
	return report, report.AddReferences(ctx, inForce.Lineup, candidate, nil)
}
