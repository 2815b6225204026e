package lineup

import (
	"context"
	"strconv"
	"testing"

	"assay/host/check"
	"assay/registry"
	"assay/registry/expect"
	"assay/sdk"
)

// settingLayer scores its setting "limit" and abstains without one.
type settingLayer struct{ check.Layer }

func (settingLayer) Score(_ context.Context, in check.Input) (check.Result, error) {
	limit, known := in.Get("config.limit")
	if !known {
		return check.Result{Abstained: true}, nil
	}
	score, err := strconv.Atoi(limit)
	return check.Result{Score: score}, err
}

// TestSettingsOfCases checks that the settings of a case take the place of the lineup's, which stay as they are.
func TestSettingsOfCases(t *testing.T) {
	t.Parallel()
	lineup := map[string]string{"limit": "5"}
	own := registry.Case{Type: "domain", Value: "a.de", Facts: sdk.Facts{"config.limit": "7"}, Min: 7, Max: 7}
	of := registry.Case{Type: "domain", Value: "a.de", Min: 5, Max: 5}
	none := registry.Case{Type: "domain", Value: "a.de", Abstains: true}
	expect.NoError(t, RunCases(t.Context(), settingLayer{}, lineup, []registry.Case{own, of}))
	expect.NoError(t, RunCases(t.Context(), settingLayer{}, nil, []registry.Case{own, none}))
	expect.ErrorText(t, "the lineup's setting", RunCases(t.Context(), settingLayer{}, lineup,
		[]registry.Case{none}), "the layer scores 5, and is expected to abstain")
}
