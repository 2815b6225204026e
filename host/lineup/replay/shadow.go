package replay

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"

	"assay/host/check"
)

// ShadowReport shows the verdicts as they would have been if a lineup's shadow layers had counted.
type ShadowReport struct {
	Revision int64   `json:"revision"` // of the lineup
	LeftOut  int     `json:"left_out"` // checks whose shadow layers did not run
	Report   *Report `json:"report"`   // of the others; without memory and reference values
	// Emitted counts how often each layer ran and emitted each of its signals, sorted by layer.
	Emitted []EmittedSignals `json:"emitted"`
}

// EmittedSignals counts the checks in which a shadow layer emitted its signals.
type EmittedSignals struct {
	Layer   string         `json:"layer"`
	Checks  int            `json:"checks"`  // that it scored or abstained from
	Signals map[string]int `json:"signals"` // by code, as the layer's manifest declares them
}

// emitted returns the counts of a layer, and adds them if they are missing.
func (s *ShadowReport) emitted(layer string) *EmittedSignals {
	i := slices.IndexFunc(s.Emitted, func(e EmittedSignals) bool { return e.Layer == layer })
	if i < 0 {
		i = len(s.Emitted)
		s.Emitted = append(s.Emitted, EmittedSignals{Layer: layer, Signals: map[string]int{}})
	}
	return &s.Emitted[i]
}

// merge adds another host's counts about the same lineup, except for the report.
func (s *ShadowReport) merge(o ShadowReport) {
	s.LeftOut += o.LeftOut
	for _, e := range o.Emitted {
		total := s.emitted(e.Layer)
		total.Checks += e.Checks
		for code, checks := range e.Signals {
			total.Signals[code] += checks
		}
	}
}

const (
	// maxTallied is how many lineups a tally counts: the one in force and its canary.
	maxTallied = 2
	// maxTalliedSignals limits the report that a host stores for a lineup, and its counts of each layer. Signals are
	// declared, so more are rare.
	maxTalliedSignals = 100
)

// Tally adds up, in memory, the changes that the shadow layers of this host's lineups would have made. Its zero value
// is empty.
type Tally struct {
	mu      sync.Mutex
	lineups []*ShadowReport // at most maxTallied, the most recently used ones
}

var _ check.ShadowObserver = (*Tally)(nil)

// of returns the report about the lineup of a decision. It drops the least recently used lineup, for example after a
// change.
func (t *Tally) of(live *check.Decision) *ShadowReport {
	s := &ShadowReport{Revision: live.Revision, Report: &Report{}}
	if i := slices.IndexFunc(t.lineups, func(s *ShadowReport) bool { return s.Revision == live.Revision }); i >= 0 {
		s = t.lineups[i]
		t.lineups = slices.Delete(t.lineups, i, i+1)
	}
	t.lineups = slices.Insert(t.lineups[:min(len(t.lineups), maxTallied-1)], 0, s)
	return s
}

// ShadowRan implements check.ShadowObserver.
func (t *Tally) ShadowRan(live *check.Decision, shadow check.Fused, outcomes []check.Outcome) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.of(live)
	r := s.Report
	was := content{Type: live.Type, Score: live.Score, Verdict: live.Verdict, Layers: live.Layers}
	counted := r.count(live.At, was)
	counted.After.add(shadow.Score)
	counted.transition(live.Verdict, shadow.Verdict, 1)
	for _, o := range outcomes {
		if o.Failure != "" {
			r.failure(LayerFailures{o.Layer, o.Failure, 1})
			continue
		}
		emitted := s.emitted(o.Layer)
		emitted.Checks++
		for _, code := range check.Codes(o.Signals) {
			emitted.Signals[code]++
		}
	}
	if live.Verdict != shadow.Verdict {
		layer, code := cause(was, change{fused: shadow, layers: slices.Concat(live.Layers, outcomes)})
		r.signal(SignalFlips{live.Type, live.Verdict, shadow.Verdict, layer, code, 1})
	}
}

// ShadowLeftOut implements check.ShadowObserver.
func (t *Tally) ShadowLeftOut(live *check.Decision) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.of(live).LeftOut++
}

// JSON returns the reports for MergeShadows, or nil if there are none.
func (t *Tally) JSON() (json.RawMessage, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.lineups) == 0 {
		return nil, nil
	}
	stored := make([]ShadowReport, len(t.lineups))
	for i, s := range t.lineups {
		stored[i] = ShadowReport{Revision: s.Revision, Report: Merge(s.Report)}
		stored[i].merge(*s)
		for _, e := range stored[i].Emitted {
			for _, code := range e.Codes()[min(len(e.Signals), maxTalliedSignals):] {
				delete(e.Signals, code)
			}
		}
		stored[i].Report.Signals = stored[i].Report.Signals[:min(len(s.Report.Signals), maxTalliedSignals)]
	}
	slices.SortFunc(stored, func(a, b ShadowReport) int { return int(a.Revision - b.Revision) })
	return json.Marshal(stored)
}

// MergeShadows returns one report of several hosts' reports about a lineup.
func MergeShadows(revision int64, stored ...json.RawMessage) (*ShadowReport, error) {
	total := &ShadowReport{Revision: revision}
	var reports []*Report
	for _, text := range stored {
		var lineups []ShadowReport
		if err := json.Unmarshal(text, &lineups); err != nil {
			return nil, fmt.Errorf("reading a host's shadow report: %w", err)
		}
		for _, s := range lineups {
			if s.Revision == revision {
				total.merge(s)
				reports = append(reports, s.Report)
			}
		}
	}
	total.Report = Merge(reports...)
	slices.SortFunc(total.Emitted, func(a, b EmittedSignals) int { return strings.Compare(a.Layer, b.Layer) })
	total.Emitted = append([]EmittedSignals{}, total.Emitted...) // an empty list instead of null in JSON
	return total, nil
}

// WriteText writes a report for a terminal.
func (s *ShadowReport) WriteText(out io.Writer) error {
	w := &writer{}
	r := s.Report
	w.printf("%d checks", r.checks())
	r.writeSpan(w)
	w.printf(".\n")
	if s.LeftOut > 0 {
		w.printf("Left out, because the host was busy or facts were missing: %d.\n", s.LeftOut)
	}
	if r.checks() > 0 {
		w.printf("If the layers in shadow counted:\n")
	}
	for _, t := range r.Types {
		t.write(w)
	}
	r.writeSignals(w)
	s.writeEmitted(w)
	r.writeFailures(w)
	_, err := io.WriteString(out, w.String())
	return err
}

// writeEmitted writes how often each layer emitted each signal, its most frequent ones first.
func (s *ShadowReport) writeEmitted(w *writer) {
	rows := [][]string{{"CHECKS", "SHARE", "SIGNAL"}}
	for _, e := range s.Emitted {
		for _, code := range e.Codes() {
			rows = append(rows, []string{fmt.Sprint(e.Signals[code]), percent(e.Signals[code], e.Checks),
				code + " of " + e.Layer})
		}
	}
	if len(rows) > 1 {
		w.printf("\nSignals of the layers in shadow:\n")
		w.table(rows...)
	}
}

// Codes returns the codes of the signals, the most frequent ones first.
func (e EmittedSignals) Codes() []string {
	return slices.SortedFunc(maps.Keys(e.Signals), func(a, b string) int {
		return cmp.Or(e.Signals[b]-e.Signals[a], strings.Compare(a, b))
	})
}
