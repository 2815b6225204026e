package rehearsal

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"

	"assay/host/check"
	"assay/host/entity"
	"assay/host/sandbox"
	"assay/sdk"
	"assay/sdk/starter"
)

// Mismatch is a vector for which a layer behaves differently from the first layer of `assay plugin new` in Go.
type Mismatch struct {
	Facts map[string]string `json:"facts"`
	Want  string            `json:"want"`
	Got   string            `json:"got"`
}

// VectorCount is the number of vectors that Conform calls a layer with by default.
const VectorCount = 10_000

// maxMismatches bounds the mismatches that Conform returns.
const maxMismatches = 10

// Conform calls a layer with n vectors of facts, and compares its behaviour with package starter, the same layer in Go.
// It tests an SDK: facts of all lengths and scripts, invalid numbers, texts that a host refuses. The vectors are the
// same in every run.
func Conform(ctx context.Context, p *sandbox.Plugin, n int) ([]Mismatch, error) {
	random := rand.New(rand.NewPCG(1, 2))
	mismatches := []Mismatch{}
	for range n {
		facts := vector(random)
		result, trace, err := p.Trace(ctx, check.Input{Entity: entity.Facts(facts)})
		var got string
		var failure *check.Failure
		switch {
		case errors.As(err, &failure):
			got = string(failure.Reason)
		case err != nil:
			return mismatches, fmt.Errorf("calling %s: %w", p.Manifest().Name, err)
		default:
			got = describe(result, trace)
		}
		want := strings.ReplaceAll(described(facts), " my-layer:", " "+p.Manifest().Name+":")
		if got != want {
			if mismatches = append(mismatches, Mismatch{facts, want, got}); len(mismatches) == maxMismatches {
				break
			}
		}
	}
	return mismatches, nil
}

// vector returns facts for a call: a name of up to 253 bytes, and an age that may not be a number.
func vector(random *rand.Rand) map[string]string {
	pick := func(of ...string) string { return of[random.IntN(len(of))] }
	facts := map[string]string{}
	switch random.IntN(20) {
	case 0:
	case 1: // the text of the signal may be so long that it is cut
		facts["domain.registrable"] = strings.Repeat("7", random.IntN(254))
	default:
		var name strings.Builder
		most := []int{12, 40, 250}[random.IntN(3)] // most names are short
		for length := random.IntN(most); name.Len() < length; {
			name.WriteString(pick("0", "1", "9", "20245", "a", "z", "-", ".", "é", "例", "٣", "😀"))
		}
		facts["domain.registrable"] = name.String()
	}
	switch random.IntN(4) {
	case 0:
	case 1:
		facts["rdap.age_days"] = pick("", "0", "1", "29", "30", "00", "007", "-1", "+1", " 1", "1 ", "1.5", "1e1",
			"yes", "٣", "999999999", "1000000000", "99999999999999999999", "4294967297")
	default:
		facts["rdap.age_days"] = strconv.Itoa(random.IntN(60))
	}
	return facts
}

// described describes what package starter does with facts.
func described(facts map[string]string) string {
	r := sdk.Run(starter.Score, facts)
	if r.Refused != nil {
		return string(check.Refused)
	}
	var trace sandbox.Trace
	for _, s := range r.Signals {
		trace.Signals = append(trace.Signals, check.Signal{Points: s.Points, Code: s.Code, Text: s.Text})
	}
	for _, line := range r.Log {
		trace.Log = append(trace.Log, sandbox.LogLine{Level: sdk.Debug, Text: line})
	}
	for _, name := range r.Read {
		value, known := facts[name]
		trace.Facts = append(trace.Facts, sandbox.FactRead{Name: name, Value: value, Known: known, Declared: true})
	}
	result := check.Result{Abstained: r.Outcome == sdk.Abstained, Score: r.Score, Threat: string(r.Threat)}
	return describe(result, trace)
}

// describe returns everything that a layer did in an answered call, except its cost.
func describe(result check.Result, trace sandbox.Trace) string {
	var b strings.Builder
	fmt.Fprintf(&b, "abstained %t, score %d, threat %q\n", result.Abstained, result.Score, result.Threat)
	for _, f := range trace.Facts {
		fmt.Fprintf(&b, "fact %s %t %q\n", f.Name, f.Known, f.Value)
	}
	for _, line := range trace.Log {
		fmt.Fprintf(&b, "log %d %q\n", line.Level, line.Text)
	}
	for _, s := range trace.Signals {
		fmt.Fprintf(&b, "signal %d %s %q\n", s.Points, s.Code, s.Text)
	}
	return strings.TrimSuffix(b.String(), "\n")
}
