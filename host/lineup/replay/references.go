package replay

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"

	"assay/host/check"
	"assay/host/entity"
)

// Reference is a built-in value. It includes its facts, so that its score depends only on the lineup.
type Reference struct {
	Name   string       `json:"name"`
	Type   entity.Type  `json:"type"`
	Value  string       `json:"value"`
	Facts  entity.Facts `json:"facts"`  // as if they had been looked up
	Honest bool         `json:"honest"` // no layer should flag it
}

// referenceLines holds one reference per line.
//
//go:embed references.jsonl
var referenceLines []byte

// References returns the built-in values.
func References() (all []Reference, err error) {
	d := json.NewDecoder(bytes.NewReader(referenceLines))
	d.DisallowUnknownFields()
	for d.More() {
		var r Reference
		if err := d.Decode(&r); err != nil {
			return nil, fmt.Errorf("reading the reference values: %w", err)
		}
		all = append(all, r)
	}
	return all, nil
}

// AddReferences scores the built-in reference values with two lineups and adds those whose verdicts differ to the
// report. It fails if a lineup cannot answer one of them.
func (r *Report) AddReferences(ctx context.Context, base, candidate *check.Lineup, turn Turn) error {
	all, err := References()
	if err != nil {
		return err
	}
	before, after := newScorer(base, turn), newScorer(candidate, turn)
	r.References, r.ReferenceFlips = map[entity.Type]int{}, []ReferenceFlip{}
	for _, ref := range all {
		r.References[ref.Type]++
		was, err := before.reference(ctx, ref)
		if err != nil {
			return fmt.Errorf("scoring %q with the lineup in force: %w", ref.Name, err)
		}
		is, err := after.reference(ctx, ref)
		if err != nil {
			return fmt.Errorf("scoring %q with the candidate: %w", ref.Name, err)
		}
		if was.Verdict != is.Verdict {
			r.ReferenceFlips = append(r.ReferenceFlips, ReferenceFlip{ref.Name, ref.Type, ref.Value, was.Verdict,
				is.Verdict, was.Score, is.Score})
		}
	}
	return nil
}

func (s *scorer) reference(ctx context.Context, ref Reference) (check.Fused, error) {
	outcomes := make([]check.Outcome, len(s.members[ref.Type]))
	for i := range outcomes {
		var err error
		if outcomes[i], err = s.outcome(ctx, &s.members[ref.Type][i], ref); err != nil {
			return check.Fused{}, err
		}
	}
	return s.fuse(ref.Type, outcomes), nil
}

// outcome calls a layer about a reference value.
func (s *scorer) outcome(ctx context.Context, m *check.Member, ref Reference) (check.Outcome, error) {
	e, err := entity.Parse(ref.Type, ref.Value, "")
	if err != nil {
		return check.Outcome{}, err
	}
	return s.run(ctx, m, ref.Type, check.Input{Entity: e.Facts, LookedUp: ref.Facts})
}

// FailsReferences reports whether a layer (its name) of a lineup fails for at least nine in ten of the reference values
// of its types. It returns false if there are none.
func FailsReferences(ctx context.Context, l *check.Lineup, layer string, turn Turn) (bool, error) {
	references, err := References()
	if err != nil {
		return false, err
	}
	s, failed, all := newScorer(l, turn), 0, 0
	for _, ref := range references {
		for i := range s.members[ref.Type] {
			m := &s.members[ref.Type][i]
			if m.Name != layer {
				continue
			}
			o, err := s.outcome(ctx, m, ref)
			if err != nil {
				return false, fmt.Errorf("scoring %q: %w", ref.Name, err)
			}
			if all++; o.Failure != "" {
				failed++
			}
		}
	}
	return all > 0 && 10*failed >= 9*all, nil
}
