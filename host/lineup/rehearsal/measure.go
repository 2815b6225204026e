package rehearsal

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"assay/host/sandbox"
)

// Measurement is the cost of a layer's calls over a corpus of values.
type Measurement struct {
	Plugin  string       `json:"plugin"`
	Digest  string       `json:"digest"`
	Values  int          `json:"values"` // of the types that the layer scores
	Calls   int          `json:"calls"`
	Failed  int          `json:"failed"` // calls
	Budget  int64        `json:"budget_fuel"`
	Limit   int          `json:"memory_limit_bytes"`
	Fuel    Distribution `json:"fuel"`
	Memory  Distribution `json:"memory_bytes"`
	Micros  Distribution `json:"micros"`
	Longest string       `json:"longest"` // the value that burned the most fuel
}

// Distribution describes the costs of all calls by their quantiles (nearest rank).
type Distribution struct {
	Median  float64 `json:"p50"`
	P90     float64 `json:"p90"`
	P99     float64 `json:"p99"`
	Maximum float64 `json:"max"`
}

// ErrNoValues means that a corpus has no value of a type that the layer scores.
var ErrNoValues = errors.New("the corpus has no value of a type that the layer scores")

// Measure calls the layer with each value of the corpus that it scores, rounds times. Values that cannot be read are an
// error.
func Measure(ctx context.Context, p *sandbox.Plugin, corpus []Subject, rounds int) (Measurement, error) {
	m := p.Manifest()
	r := Measurement{Plugin: m.Name + "@" + m.Version, Digest: p.Digest().String(), Budget: m.BudgetFuel,
		Limit: m.MemoryMB << 20}
	corpus = slices.DeleteFunc(slices.Clone(corpus), func(s Subject) bool {
		return !slices.Contains(m.Entities, string(s.Type))
	})
	if r.Values = len(corpus); r.Values == 0 {
		return r, ErrNoValues
	}
	var fuel, memory, micros []float64
	most := int64(-1)
	for range rounds {
		for _, s := range corpus {
			c, err := Run(ctx, p, s)
			if err != nil {
				return r, fmt.Errorf("measuring %s: %w", r.Plugin, err)
			}
			if c.Outcome == Failed {
				r.Failed++
			}
			if c.Fuel > most {
				most, r.Longest = c.Fuel, c.Value
			}
			fuel = append(fuel, float64(c.Fuel))
			memory = append(memory, float64(c.Memory))
			micros = append(micros, c.Micros)
		}
	}
	r.Calls = len(fuel)
	r.Fuel, r.Memory, r.Micros = distributionOf(fuel), distributionOf(memory), distributionOf(micros)
	return r, nil
}

// distributionOf returns the distribution of values, which must not be empty. It sorts them.
func distributionOf(values []float64) Distribution {
	slices.Sort(values)
	at := func(percent int) float64 { return values[max(0, (len(values)*percent+99)/100-1)] }
	return Distribution{at(50), at(90), at(99), at(100)}
}
