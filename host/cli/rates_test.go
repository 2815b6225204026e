package cli

import (
	"maps"
	"strings"
	"testing"

	"assay/host/check"
	"assay/host/installation"
	"assay/registry/expect"
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
		expect.That(t, (err != nil) == (test.want == nil) && (err != nil || maps.Equal(got, test.want)),
			"%q: %v, %v, want %v", test.setting, got, err, test.want)
		expect.That(t, err == nil || strings.HasPrefix(err.Error(), "ASSAY_RATES: "),
			"%q: the error %v does not name the setting", test.setting, err)
	}
	for _, p := range append(check.Plans(), check.PublicPlan()) {
		expect.That(t, installation.DefaultRates()[p.Name] != 0, "the plan %s has no rate", p.Name)
		expect.That(t, strings.Contains(helpTexts["rates"], p.Name+"="), "the help does not name the rate of %s",
			p.Name)
	}
}
