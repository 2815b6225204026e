package lineup

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"

	"assay/host/check"
	"assay/host/entity"
	"assay/registry"
)

// RunCases runs a layer's own test cases with its configuration in a lineup. The error names each failed case and the
// reason.
func RunCases(ctx context.Context, layer check.Layer, config map[string]string, cases []registry.Case) error {
	var errs []error
	for _, c := range cases {
		if err := runCase(ctx, layer, config, c); err != nil {
			errs = append(errs, fmt.Errorf("case %q: %w", c.Name, err))
		}
	}
	return errors.Join(errs...)
}

func runCase(ctx context.Context, layer check.Layer, config map[string]string, c registry.Case) error {
	e, err := entity.Parse(entity.Type(c.Type), c.Value, c.Country)
	if err != nil {
		return err
	}
	facts, settings := c.Input()
	maps.Copy(e.Facts, facts)
	both := map[string]string{}
	maps.Copy(both, config)
	maps.Copy(both, settings)
	got, err := layer.Score(ctx, check.Input{Entity: e.Facts, Config: both})
	if err != nil {
		return err
	}
	differences := c.Differences(registry.Answer{Abstained: got.Abstained, Score: got.Score, Threat: got.Threat,
		Codes: check.Codes(got.Signals)})
	if len(differences) > 0 {
		return errors.New(strings.Join(differences, "; "))
	}
	return nil
}
