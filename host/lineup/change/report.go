package change

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"assay/host/entity"
	"assay/host/lineup/fleet"
	"assay/host/lineup/replay"
	"assay/registry"
	"assay/registry/activation"
)

// Measure makes every live host measure a lineup, and reports the verdicts that it changes. Without the operator's key,
// the lineup may differ from the one in force in weights, bias and bands, but not in layers.
func (o *Operator) Measure(ctx context.Context, inForce, next registry.LineupDocument) (*replay.Report, error) {
	text, err := next.Canonical()
	if err != nil {
		return nil, err
	}
	candidate := fleet.Candidate{Document: string(text)}
	if o.Key != nil {
		signed, err := "", o.vouch(ctx, next, inForce.Layers)
		if err == nil {
			signed, err = activation.SignMeasurement(text, o.Key)
		}
		if err != nil {
			return nil, err
		}
		candidate = fleet.Candidate{Signed: signed}
	}
	prepared, err := o.rollout().Prepare(ctx, candidate)
	if err != nil {
		return nil, err
	}
	defer prepared.Close()
	return o.report(ctx, prepared, inForce, next)
}

// report returns the changes that a lineup makes, as measured by the hosts that prepared it, or by this process if
// there are none.
func (o *Operator) report(ctx context.Context, prepared *fleet.Proposal, base, next registry.LineupDocument) (
	*replay.Report, error) {
	stored := make([]json.RawMessage, len(prepared.Answers))
	for i, a := range prepared.Answers {
		stored[i] = a.Report
	}
	report, err := replay.MergeStored(stored...)
	if err == nil && len(report.References) == 0 {
		return o.predict(ctx, base, next)
	}
	return report, err
}

// predict reports the changes that a lineup makes compared with another one. Both are opened in this process, which has
// no recent checks, so it scores only the reference values.
func (o *Operator) predict(ctx context.Context, base, next registry.LineupDocument) (*replay.Report, error) {
	opened, closeAll, err := o.Open(ctx, base, next)
	if err != nil {
		return nil, fmt.Errorf("comparing the new lineup with the one in force: %w", err)
	}
	defer closeAll()
	report := replay.Merge()
	return report, report.AddReferences(ctx, opened[0], opened[1], nil)
}

// SlowType is an entity type whose layers, if all burn their budgets, leave no time for lookups before a check's
// deadline. Such a check is refused.
type SlowType struct {
	Type entity.Type
	Fuel int64 // the budgets together; a unit takes about a nanosecond
}

// slowTypes lists the types whose layers may run longer than limit.
func slowTypes(manifests []registry.Manifest, limit time.Duration) (slow []SlowType) {
	for _, kind := range entity.Types() {
		s := SlowType{Type: kind}
		for _, m := range manifests {
			if slices.Contains(m.Entities, string(kind)) {
				s.Fuel += m.BudgetFuel
			}
		}
		if time.Duration(s.Fuel) > limit {
			slow = append(slow, s)
		}
	}
	return slow
}
