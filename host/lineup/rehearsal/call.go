// Package rehearsal runs a layer for its author: single values, test cases and measurements, in the sandbox that hosts
// use and without a lineup.
package rehearsal

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"assay/host/check"
	"assay/host/entity"
	"assay/host/internal/terminal"
	"assay/host/sandbox"
	"assay/registry"
)

// Subject is a value to score, with facts that are not in its text.
type Subject struct {
	Type    entity.Type
	Value   string
	Country string            // the request's region; "" means EU
	Facts   map[string]string // looked-up facts, and settings as config.NAME
}

// input returns the normalised value, and the layer's input for it.
func (s Subject) input() (value string, in check.Input, err error) {
	e, err := entity.Parse(s.Type, s.Value, s.Country)
	if err != nil {
		return "", in, fmt.Errorf("reading %q: %w", s.Value, err)
	}
	facts, settings := registry.Case{Facts: s.Facts}.Input()
	maps.Copy(e.Facts, facts) // a given fact replaces a parsed one
	return e.Value, check.Input{Entity: e.Facts, Config: settings}, nil
}

// Outcome says how a call ended.
type Outcome string

// The outcomes of a call.
const (
	Scored    Outcome = "scored"
	Abstained Outcome = "abstained"
	Failed    Outcome = "failed"
)

// Call is the result of calling a layer with one value.
type Call struct {
	Type       entity.Type        `json:"type"`
	Value      string             `json:"value"` // normalised
	Outcome    Outcome            `json:"outcome"`
	Failure    string             `json:"failure,omitempty"` // why the call failed
	Score      int                `json:"score"`
	Signals    []check.Signal     `json:"signals"` // also those of an answer that was refused
	Threat     string             `json:"threat,omitempty"`
	Facts      []sandbox.FactRead `json:"facts"`            // that the layer asked for
	Unread     []string           `json:"unread,omitempty"` // facts of the subject that the layer did not ask for
	Log        []sandbox.LogLine  `json:"log"`
	Printed    string             `json:"printed,omitempty"`
	LogDropped int                `json:"log_dropped_bytes,omitempty"`
	Fuel       int64              `json:"fuel"`
	Budget     int64              `json:"budget_fuel"`
	Memory     int                `json:"memory_bytes"`
	Micros     float64            `json:"micros"`
}

// Run calls the layer with a value. A layer that fails is not an error: the call says why.
func Run(ctx context.Context, p *sandbox.Plugin, s Subject) (Call, error) {
	m := p.Manifest()
	if !slices.Contains(m.Entities, string(s.Type)) {
		return Call{}, fmt.Errorf("%s does not score values of type %s: its manifest lists %s", m.Name, s.Type,
			strings.Join(m.Entities, ", "))
	}
	value, input, err := s.input()
	if err != nil {
		return Call{}, err
	}
	result, trace, err := p.Trace(ctx, input)
	c := Call{Type: s.Type, Value: value, Outcome: Scored, Score: result.Score, Threat: result.Threat,
		Signals: listed(trace.Signals), Facts: listed(trace.Facts), Log: listed(trace.Log), Printed: trace.Printed,
		LogDropped: trace.Dropped, Fuel: trace.Fuel, Budget: m.BudgetFuel, Memory: trace.Memory,
		Micros: float64(trace.Time.Nanoseconds()) / 1000}
	for _, name := range slices.Sorted(maps.Keys(s.Facts)) {
		if !slices.ContainsFunc(c.Facts, func(f sandbox.FactRead) bool { return f.Name == name }) {
			c.Unread = append(c.Unread, name)
		}
	}
	failure := (*check.Failure)(nil)
	switch {
	case errors.As(err, &failure):
		c.Outcome, c.Failure = Failed, whyFailed(failure, trace.Printed)
	case err != nil:
		return Call{}, fmt.Errorf("calling %s: %w", m.Name, err)
	case result.Abstained:
		c.Outcome = Abstained
	}
	return c, nil
}

// goPanic matches Go's output for a panic: its text, and the source line of the first call.
var goPanic = regexp.MustCompile(`(?s)(?:^|\n)(panic: [^\n]*).*?\n\t(\S+\.go:\d+)`)

// whyFailed describes a failure for the author in one line, given what the layer printed. It drops the engine's trace,
// which has numbers of functions but no names.
func whyFailed(f *check.Failure, printed string) string {
	if p := goPanic.FindStringSubmatch(printed); p != nil {
		return terminal.OneLine(p[1] + ", at " + p[2])
	}
	text, _, _ := strings.Cut(f.Err.Error(), "\nwasm stack trace:")
	return terminal.OneLine(string(f.Reason) + ": " + text)
}

// listed returns a copy of list, but never nil, which would be null in JSON.
func listed[T any](list []T) []T { return append([]T{}, list...) }
