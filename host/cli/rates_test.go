package cli

import (
	"maps"
	"strings"
	"testing"

	"assay/host/check"
	"assay/host/installation"
)

func TestRateSettings(t *testing.T) {
	t.Parallel()
	changed := installation.DefaultRates()
	changed["pro"], changed["public"] = 3000, 0
	for _, test := range []struct {
		setting string
		want    map[string]int // nil: an error
	}{
		{"", installation.DefaultRates()}, {"pro=3000,public=off", changed}, {"off", map[string]int{}},
		{"gold=1", nil}, {"pro", nil}, {"pro=0", nil}, {"pro=-1", nil}, {"pro=1.5", nil}, {"pro=1e3", nil},
		{"pro=1000000001", nil}, {"off,pro=1", nil},
	} {
		var c installation.Config
		if test.setting != "" {
			c.Rates = strings.Split(test.setting, ",")
		}
		got, err := c.RateLimits()
		if (err != nil) != (test.want == nil) || err == nil && !maps.Equal(got, test.want) {
			t.Errorf("%q: %v, %v, want %v", test.setting, got, err, test.want)
		}
		if err != nil && !strings.HasPrefix(err.Error(), "ASSAY_RATES: ") {
			t.Errorf("%q: the error %v does not name the setting", test.setting, err)
		}
	}
	for _, p := range append(check.Plans(), check.PublicPlan()) {
		if installation.DefaultRates()[p.Name] == 0 {
			t.Errorf("the plan %s has no rate", p.Name)
		}
		if !strings.Contains(helpTexts["rates"], p.Name+"=") {
			t.Errorf("the help does not name the rate of %s", p.Name)
		}
	}
}
