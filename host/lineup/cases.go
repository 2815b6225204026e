package lineup

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"assay/host/check"
	"assay/host/entity"
	"assay/registry"
)

// RunCases runs a layer's own test cases with the configuration that it has in a lineup. The error names each case that
// fails, and how.
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
	maps.Copy(e.Facts, entity.Facts(c.Facts))
	got, err := layer.Score(ctx, check.Input{Entity: e.Facts, Config: config})
	if err != nil {
		return err
	}
	if got.Abstained || got.Score < c.Min || got.Score > c.Max {
		return fmt.Errorf("the score is %d, outside %d to %d", got.Score, c.Min, c.Max)
	}
	if c.Threat != "" && got.Threat != string(c.Threat) {
		return fmt.Errorf("the threat is %q, not %q", got.Threat, c.Threat)
	}
	for _, code := range c.Codes {
		if !slices.ContainsFunc(got.Signals, func(s check.Signal) bool { return s.Code == code }) {
			return fmt.Errorf("the signal %s is missing", code)
		}
	}
	return nil
}
