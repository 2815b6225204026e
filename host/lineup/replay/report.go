package replay

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"assay/host/check"
	"assay/host/entity"
)

// Report describes the changes that a candidate lineup makes. It contains no checked values, only built-in ones, so
// hosts may store and exchange reports.
type Report struct {
	Remembered int          `json:"remembered"`     // checks in memory; more than were replayed if the time was up
	From       *time.Time   `json:"from,omitempty"` // the oldest replayed check
	To         *time.Time   `json:"to,omitempty"`   // the newest one
	Types      []TypeReport `json:"types"`          // those with checks, in the usual order
	// Signals says which signal weighed most in each flip, most flips first.
	Signals  []SignalFlips   `json:"signals"`
	Failures []LayerFailures `json:"failures"` // of the candidate's layers
	// References has the numbers of built-in reference values that were scored, and ReferenceFlips those whose verdict
	// differs.
	References     map[entity.Type]int `json:"references"`
	ReferenceFlips []ReferenceFlip     `json:"reference_flips"`
}

// TypeReport is the part of a report about one entity type.
type TypeReport struct {
	Type   entity.Type `json:"type"`
	Checks int         `json:"checks"` // replayed
	// Flips is the number of checks with another verdict.
	Flips      int `json:"flips"`
	NewBlocks  int `json:"new_blocks"`
	LostBlocks int `json:"lost_blocks"`
	// Refused is the number of checks that the candidate could not answer: it would refuse them with 503.
	Refused int `json:"refused"`
	// Missing is the number of checks that a new layer scored without facts that were not looked up at the time.
	Missing int `json:"missing_facts"`
	// Verdicts counts the answered checks by their verdict before and after.
	Verdicts map[check.Verdict]map[check.Verdict]int `json:"verdicts"`
	Before   Histogram                               `json:"scores_before"`
	After    Histogram                               `json:"scores_after"`
}

// Histogram counts scores: 0 to 4, 5 to 9, and so on to 95 to 100.
type Histogram [20]int

func (h *Histogram) add(score int) { h[min(score/5, len(h)-1)]++ }

// SignalFlips counts the flips in which a signal weighed most: it changed the score most towards the new verdict.
type SignalFlips struct {
	Type  entity.Type   `json:"type"`
	From  check.Verdict `json:"from"`
	To    check.Verdict `json:"to"`
	Layer string        `json:"layer,omitempty"` // empty for the lineup's bias or bands
	Code  string        `json:"code"`            // of the signal, or one of the codes below
	Flips int           `json:"flips"`
}

// Codes of SignalFlips that are not signals'.
const (
	codeBias     = "bias"
	codeBands    = "bands"
	codeScore    = "score"    // a layer's score beyond its signals, as at the end of its range
	codeDegraded = "degraded" // the layer fails
)

// LayerFailures counts the failures of a candidate's layer.
type LayerFailures struct {
	Layer  string              `json:"layer"`
	Reason check.FailureReason `json:"reason"`
	Checks int                 `json:"checks"`
}

// ReferenceFlip is a built-in reference value whose verdict the candidate changes.
type ReferenceFlip struct {
	Name   string        `json:"name"`
	Type   entity.Type   `json:"type"`
	Value  string        `json:"value"`
	From   check.Verdict `json:"from"`
	To     check.Verdict `json:"to"`
	Before int           `json:"score_before"`
	After  int           `json:"score_after"`
}

// Merge returns one report of several hosts' reports about the same candidate. Hosts without a report have nil.
func Merge(reports ...*Report) *Report {
	total := &Report{}
	for _, r := range reports {
		if r == nil {
			continue
		}
		total.Remembered += r.Remembered
		total.span(r.From, r.To)
		for _, t := range r.Types {
			total.typed(t.Type).merge(t)
		}
		for _, s := range r.Signals {
			total.signal(s)
		}
		for _, f := range r.Failures {
			total.failure(f)
		}
		if len(total.References) == 0 { // the same on every host
			total.References, total.ReferenceFlips = r.References, r.ReferenceFlips
		}
	}
	total.sort()
	return total
}

// MergeStored is Merge for reports in JSON. Hosts without a report have an empty one.
func MergeStored(stored ...json.RawMessage) (*Report, error) {
	reports := make([]*Report, 0, len(stored))
	for _, text := range stored {
		if len(text) == 0 {
			continue
		}
		r := &Report{}
		if err := json.Unmarshal(text, r); err != nil {
			return nil, fmt.Errorf("reading a host's report: %w", err)
		}
		reports = append(reports, r)
	}
	return Merge(reports...), nil
}

// Flips returns the number of checks with another verdict.
func (r *Report) Flips() (n int) {
	for _, t := range r.Types {
		n += t.Flips
	}
	return n
}

// Enough is the number of checks of a type that show what a candidate changes. One flip among fewer is a large share.
const Enough = 200

// Beyond is a type for which a candidate changes, or cannot determine, too many verdicts.
type Beyond struct {
	Type         entity.Type
	Changed, Of  int
	ByReferences bool // Of are reference values, because there are fewer than Enough checks
}

// Beyond returns the types for which the candidate changes, or cannot determine, more than a share of the verdicts.
func (r *Report) Beyond(limit float64) (all []Beyond) {
	for _, kind := range types {
		b := Beyond{Type: kind, Of: r.References[kind], ByReferences: true}
		for _, f := range r.ReferenceFlips {
			if f.Type == kind {
				b.Changed++
			}
		}
		for _, t := range r.Types {
			if t.Type == kind && t.Checks >= Enough {
				b = Beyond{kind, t.Flips + t.Refused, t.Checks, false}
			}
		}
		if float64(b.Changed) > limit*float64(b.Of) {
			all = append(all, b)
		}
	}
	return all
}

// change is a candidate's effect on a check.
type change struct {
	fused   check.Fused
	layers  []check.Outcome
	missing bool
	bias    float64 // by which the bias rises
}

// add counts a check.
func (r *Report) add(at time.Time, was content, c change) {
	t := r.count(at, was)
	t.After.add(c.fused.Score)
	t.transition(was.Verdict, c.fused.Verdict, 1)
	if c.missing {
		t.Missing++
	}
	for _, o := range c.layers {
		if o.Failure != "" {
			r.failure(LayerFailures{o.Layer, o.Failure, 1})
		}
	}
	if was.Verdict != c.fused.Verdict {
		layer, code := cause(was, c)
		r.signal(SignalFlips{was.Type, was.Verdict, c.fused.Verdict, layer, code, 1})
	}
}

// refuse counts a check that the candidate could not answer.
func (r *Report) refuse(at time.Time, was content) { r.count(at, was).Refused++ }

func (r *Report) count(at time.Time, was content) *TypeReport {
	r.span(&at, &at)
	t := r.typed(was.Type)
	t.Checks++
	t.Before.add(was.Score)
	return t
}

// typed returns the part about a type, and adds it if it is missing.
func (r *Report) typed(kind entity.Type) *TypeReport {
	i := slices.IndexFunc(r.Types, func(t TypeReport) bool { return t.Type == kind })
	if i < 0 {
		i = len(r.Types)
		r.Types = append(r.Types, TypeReport{Type: kind, Verdicts: map[check.Verdict]map[check.Verdict]int{}})
	}
	return &r.Types[i]
}

func (t *TypeReport) transition(from, to check.Verdict, checks int) {
	if t.Verdicts[from] == nil {
		t.Verdicts[from] = map[check.Verdict]int{}
	}
	t.Verdicts[from][to] += checks
	if from == to {
		return
	}
	t.Flips += checks
	if to == check.Block {
		t.NewBlocks += checks
	}
	if from == check.Block {
		t.LostBlocks += checks
	}
}

func (t *TypeReport) merge(o TypeReport) {
	t.Checks += o.Checks
	t.Refused += o.Refused
	t.Missing += o.Missing
	for from, verdicts := range o.Verdicts {
		for to, checks := range verdicts {
			t.transition(from, to, checks)
		}
	}
	for i := range t.Before {
		t.Before[i] += o.Before[i]
		t.After[i] += o.After[i]
	}
}

func (r *Report) span(from, to *time.Time) {
	if from != nil && (r.From == nil || from.Before(*r.From)) {
		r.From = from
	}
	if to != nil && (r.To == nil || to.After(*r.To)) {
		r.To = to
	}
}

func (r *Report) signal(s SignalFlips) {
	r.Signals = tally(r.Signals, s, func(s *SignalFlips) *int { return &s.Flips })
}

func (r *Report) failure(f LayerFailures) {
	r.Failures = tally(r.Failures, f, func(f *LayerFailures) *int { return &f.Checks })
}

// tally adds the item's count to the item of all that is otherwise equal, or appends the item.
func tally[T comparable](all []T, item T, count func(*T) *int) []T {
	for i := range all {
		same := all[i]
		if *count(&same) = *count(&item); same == item {
			*count(&all[i]) += *count(&item)
			return all
		}
	}
	return append(all, item)
}

// sort sorts a report's lists, and makes them empty instead of null in JSON.
func (r *Report) sort() {
	slices.SortFunc(r.Types, func(a, b TypeReport) int {
		return slices.Index(types, a.Type) - slices.Index(types, b.Type)
	})
	slices.SortFunc(r.Signals, func(a, b SignalFlips) int {
		return cmp.Or(b.Flips-a.Flips, slices.Index(types, a.Type)-slices.Index(types, b.Type),
			strings.Compare(a.Layer, b.Layer), strings.Compare(a.Code, b.Code),
			strings.Compare(string(a.From), string(b.From)), strings.Compare(string(a.To), string(b.To)))
	})
	slices.SortFunc(r.Failures, func(a, b LayerFailures) int {
		return cmp.Or(b.Checks-a.Checks, strings.Compare(a.Layer, b.Layer),
			strings.Compare(string(a.Reason), string(b.Reason)))
	})
	r.Types, r.Signals = append([]TypeReport{}, r.Types...), append([]SignalFlips{}, r.Signals...)
	r.Failures = append([]LayerFailures{}, r.Failures...)
	r.ReferenceFlips = append([]ReferenceFlip{}, r.ReferenceFlips...)
	if r.References == nil {
		r.References = map[entity.Type]int{}
	}
}

// cause returns why a verdict flips: a layer that fails only before or only after, or else what changes the log-odds
// most towards the new verdict, which is a signal of a layer, a layer's score beyond its signals, or the lineup's bias.
// If nothing does, the bands are the cause.
func cause(was content, c change) (layer, code string) {
	type part struct{ layer, code string }
	changes := map[part]float64{{"", codeBias}: c.bias}
	count := func(layers []check.Outcome, sign float64) {
		for _, o := range layers {
			rest := o.Contribution
			for _, s := range o.Signals {
				weight := o.Weight * float64(s.Points) / 100
				changes[part{o.Layer, s.Code}] += sign * weight
				rest -= weight
			}
			changes[part{o.Layer, codeScore}] += sign * rest
		}
	}
	count(was.Layers, -1)
	count(c.layers, 1)
	if failing := differentFailure(was.Layers, c.layers); failing != "" {
		return failing, codeDegraded
	}
	towards := 1.0
	if slices.Index(verdicts, c.fused.Verdict) < slices.Index(verdicts, was.Verdict) {
		towards = -1
	}
	const negligible = 1e-9 // rounding errors of equal numbers
	most, best := part{"", codeBands}, 0.0
	for _, p := range slices.SortedFunc(maps.Keys(changes), func(a, b part) int {
		return cmp.Or(strings.Compare(a.layer, b.layer), strings.Compare(a.code, b.code))
	}) {
		if size := towards * changes[p]; size > best+negligible {
			most, best = p, size
		}
	}
	return most.layer, most.code
}

// differentFailure returns a layer with a weight that fails in one of the two results only, or "".
func differentFailure(before, after []check.Outcome) string {
	for _, lists := range [][2][]check.Outcome{{after, before}, {before, after}} {
		for _, o := range lists[0] {
			if o.Failure != "" && o.Weight != 0 && !slices.ContainsFunc(lists[1], func(other check.Outcome) bool {
				return other.Layer == o.Layer && other.Failure != ""
			}) {
				return o.Layer
			}
		}
	}
	return ""
}
