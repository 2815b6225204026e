package rehearsal

import (
	"context"
	"slices"

	"assay/host/check"
	"assay/host/entity"
	"assay/host/sandbox"
	"assay/registry"
)

// Report says which of a layer's cases pass, and which of its signals and facts they reach.
type Report struct {
	Plugin  string       `json:"plugin"`
	Cases   []CaseResult `json:"cases"`
	Varied  int          `json:"varied"` // variations of the cases; those that fail are among the cases
	Failed  int          `json:"failed"`
	Signals []Coverage   `json:"signals"` // of the manifest, in its order
	Unread  []string     `json:"unread"`  // facts of the manifest that no case made the layer read
}

// CaseResult is a case with the layer's call.
type CaseResult struct {
	Name        string   `json:"name"`
	Differences []string `json:"differences"` // from what the case expects; none if it passes
	Call        Call     `json:"call"`
}

// Coverage is a declared signal with the number of cases in which the layer emits it.
type Coverage struct {
	Code  string `json:"code"`
	Cases int    `json:"cases"`
}

// Covered returns how many of the declared signals the cases reach.
func (r Report) Covered() int {
	n := 0
	for _, s := range r.Signals {
		n += min(s.Cases, 1)
	}
	return n
}

// Cases runs a layer's test cases, and variations of them, which must not make the layer fail.
func Cases(ctx context.Context, p *sandbox.Plugin, cases []registry.Case) (Report, error) {
	m := p.Manifest()
	r := Report{Plugin: m.Name + "@" + m.Version, Cases: make([]CaseResult, len(cases)),
		Signals: []Coverage{}, Unread: []string{}}
	emitted, read := map[string]int{}, map[string]bool{}
	for i, c := range cases {
		got := CaseResult{Name: c.Name, Differences: []string{}}
		subject := Subject{Type: entity.Type(c.Type), Value: c.Value, Country: c.Country, Facts: c.Facts}
		var err error
		if got.Call, err = Run(ctx, p, subject); err != nil {
			if ctx.Err() != nil {
				return r, err
			}
			got.Differences = append(got.Differences, err.Error())
		} else {
			got.Differences = append(got.Differences, differences(c, got.Call)...)
		}
		if len(got.Differences) > 0 {
			r.Failed++
		}
		for _, code := range check.Codes(got.Call.Signals) {
			emitted[code]++
		}
		for _, f := range got.Call.Facts {
			read[f.Name] = true
		}
		r.Cases[i] = got
	}
	variations := Variations(cases)
	r.Varied = len(variations)
	for _, v := range variations {
		call, err := Run(ctx, p, v.Subject)
		if ctx.Err() != nil {
			return r, err
		}
		if err == nil && call.Outcome == Failed {
			r.Failed++
			why := []string{"the layer failed: " + call.Failure}
			r.Cases = append(r.Cases, CaseResult{v.How + ": " + v.Value, why, call})
		}
	}
	for _, s := range m.Signals {
		r.Signals = append(r.Signals, Coverage{s.Code, emitted[s.Code]})
	}
	r.Unread = append(r.Unread, slices.DeleteFunc(slices.Clone(m.Facts), func(f string) bool { return read[f] })...)
	return r, nil
}

// differences compares a call with what its case expects.
func differences(c registry.Case, got Call) []string {
	if got.Outcome == Failed {
		return []string{"the layer failed: " + got.Failure}
	}
	return c.Differences(registry.Answer{Abstained: got.Outcome == Abstained, Score: got.Score, Threat: got.Threat,
		Codes: check.Codes(got.Signals)})
}
