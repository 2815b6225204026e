package installation

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"assay/host/check"
)

// The rates in addition to those of the plans, in requests a minute.
const (
	PublicRate  = "public"  // checks without a key of a network, as the plan without one is named
	NetworkRate = "network" // look-ups of keys for one network, which is a /24 or a /48
)

// DefaultRates returns the limits in requests a minute, of a key by its plan and of everybody without one.
func DefaultRates() map[string]int {
	all := map[string]int{NetworkRate: 6000}
	for _, p := range append(check.Plans(), check.PublicPlan()) {
		all[p.Name] = p.Rate
	}
	return all
}

// RateLimits returns the requests a minute by name; 0 means no limit.
func (c *Config) RateLimits() (map[string]int, error) {
	all := DefaultRates()
	if len(c.Rates) == 1 && c.Rates[0] == Off {
		clear(all)
		return all, nil
	}
	var errs []error
	set := map[string]bool{}
	for _, text := range c.Rates {
		name, number, ok := strings.Cut(text, "=")
		if _, known := all[name]; !known || !ok || set[name] {
			errs = append(errs, fmt.Errorf("ASSAY_RATES: %q is neither off nor of the form NAME=NUMBER; each of these "+
				"names once: %s", text, strings.Join(slices.Sorted(maps.Keys(DefaultRates())), ", ")))
			continue
		}
		set[name] = true
		n, err := strconv.Atoi(number)
		switch {
		case number == Off:
			n = 0
		case err != nil || n < 1 || n > MaxRate:
			errs = append(errs, fmt.Errorf("ASSAY_RATES: %q: the requests a minute must be off or from 1 to %d", text,
				MaxRate))
		}
		all[name] = n
	}
	return all, errors.Join(errs...)
}

// MaxRate bounds a rate, also one that grew with the quota.
const MaxRate = 1_000_000_000
