package change

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"assay/host/entity"
	"assay/host/lineup"
	"assay/host/lineup/replay"
	"assay/registry"
)

// predict reports the changes that a lineup makes compared with another one. Both are opened in this process, which has
// no recent checks, so it scores only the reference values.
func (o *Operator) predict(
	ctx context.Context, base, next registry.LineupDocument,
) (report *replay.Report, err error) {
	before, closeBefore, err := o.Layers.Open(ctx, base)
	if err != nil {
		return nil, fmt.Errorf("opening the lineup in force: %w", err)
	}
	defer func() { err = errors.Join(err, closeBefore()) }()
	after, closeAfter, err := o.Layers.Open(ctx, next)
	if err != nil {
		return nil, fmt.Errorf("opening the new lineup: %w", err)
	}
	defer func() { err = errors.Join(err, closeAfter()) }()
	report = replay.Merge()
	return report, report.AddReferences(ctx, before, after, nil)
}

// SlowType is an entity type whose layers, if all burn their budgets, leave no time for lookups before a check's
// deadline. Such a check is refused.
type SlowType struct {
	Type entity.Type
	Fuel int64 // the budgets together
}

// Time returns how long the layers run at most. A unit of fuel takes about a nanosecond.
func (s SlowType) Time() time.Duration { return time.Duration(s.Fuel) * time.Nanosecond }

// slowTypes lists the types whose layers may run longer than limit.
func slowTypes(manifests []registry.Manifest, limit time.Duration) (slow []SlowType) {
	for _, kind := range entity.Types() {
		s := SlowType{Type: kind}
		for _, m := range manifests {
			if slices.Contains(m.Entities, string(kind)) {
				s.Fuel += m.BudgetFuel
			}
		}
		if s.Time() > limit {
			slow = append(slow, s)
		}
	}
	return slow
}

// Manifests returns the manifests of all published plugins by name@version.
func Manifests(ctx context.Context, source lineup.Source) (map[string]registry.Manifest, error) {
	published, err := source.Plugins(ctx)
	if err != nil {
		return nil, err
	}
	manifests := map[string]registry.Manifest{}
	for _, p := range published {
		if manifests[p.Ref()], err = registry.ParseManifest(p.Manifest); err != nil {
			return nil, fmt.Errorf("reading the manifest of %s: %w", p.Ref(), err)
		}
	}
	return manifests, nil
}
