// Package measurement opens a lineup in this process to measure it on labelled values.
package measurement

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"math"
	"slices"
	"time"

	"assay/host/check"
	"assay/host/customer/feedback"
	"assay/host/entity"
	"assay/host/installation"
	"assay/host/internal/terminal"
	"assay/host/lineup"
	"assay/host/measure/eval"
	"assay/host/sandbox"
	"assay/registry"
)

// MeasuredDeadline is far above the deadline of a check, so that a busy machine does not end a measurement.
const MeasuredDeadline = time.Minute

// unprinted observes no failures of layers: a measurement's report covers them.
var unprinted = installation.FailurePrinter{Terminal: terminal.Silent}

// lookupWorkers is the number of rows that wait for lookups at the same time.
const lookupWorkers = 32

// Measurement is a lineup that is open in this process to be measured.
type Measurement struct {
	Document registry.LineupDocument
	Model    eval.Model
	Checker  *check.Checker
	opened   *lineup.Candidate
	labelled func(context.Context) ([]feedback.Labelled, error)
}

// Feedback returns the labels that customers gave. Labels with scores of other versions of a layer are left out: a
// weight for one version is meaningless for another.
func (m *Measurement) Feedback(ctx context.Context) ([]eval.Labelled, error) {
	labelled, err := m.labelled(ctx)
	if err != nil {
		return nil, err
	}
	versions := map[string]string{}
	for _, l := range m.Model.Layers {
		versions[l.Name] = l.Version
	}
	var labels []eval.Labelled
	for _, l := range labelled {
		label := eval.Labelled{Type: l.Type, Malicious: l.Label == feedback.Fraud, Source: "feedback",
			Scores: map[string]int{}}
		same := true
		for _, layer := range l.Layers {
			same = same && versions[layer.Name] == layer.Version
			label.Scores[layer.Name] = layer.Score
		}
		if same {
			labels = append(labels, label)
		}
	}
	return labels, nil
}

// Score implements eval.Scorer.
func (m *Measurement) Score(ctx context.Context, r eval.Row) (*check.Decision, error) {
	checker := m.Checker
	if r.Facts != nil {
		checker = installation.NewChecker(checker.Live, nil, unprinted)
		checker.Deadline, checker.Collector = MeasuredDeadline, GivenFacts(r.Facts)
	}
	return checker.Explain(ctx, check.Field{Type: r.Type, Value: r.Value}, r.Country)
}

// ScoreAll scores rows, and shows its progress.
func (m *Measurement) ScoreAll(ctx context.Context, t *terminal.Terminal, rows []eval.Row) ([]eval.Scored, error) {
	workers := 0
	if m.Checker.Collector != nil {
		workers = lookupWorkers
	}
	progress := t.Progress("scoring")
	return eval.Run(ctx, m, m.Model, rows, workers, func(done, total int) { progress(done, total, "rows") })
}

// GivenFacts is a collector that returns a row's own facts.
type GivenFacts entity.Facts

// Collect implements check.Collector.
func (f GivenFacts) Collect(context.Context, string, entity.Entity, []string) (entity.Facts, []string, error) {
	return entity.Facts(f), nil, nil
}

// Use opens a lineup, calls fn with it, and closes it. file names the lineup's document; if it is empty,
// the active lineup is measured, or the built-in one without an installation. With lookups, checks observe facts as a
// host does.
func Use(ctx context.Context, c *installation.Command, file string, lookups bool, fn func(*Measurement) error) error {
	o, err := installation.NewOpener(ctx, c, file)
	if err != nil {
		return err
	}
	m := &Measurement{}
	if o.Backend != nil {
		m, err = readMeasured(ctx, o.Backend, c.Config, file)
	} else {
		m.Document, err = installation.ReadDocument(file)
	}
	if err != nil {
		return err
	}
	return m.Run(ctx, o, lookups, fn)
}

// Run opens the document, calls fn, and closes it.
func (m *Measurement) Run(
	ctx context.Context, o *installation.Opener, lookUp bool, fn func(*Measurement) error,
) (err error) {
	candidate, err := o.Candidate(ctx, m.Document)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, candidate.Close()) }()
	m.wire(candidate)
	if !lookUp {
		return fn(m)
	}
	return o.UseLookups(ctx, func(l *installation.Lookups) error {
		m.Checker.Collector = l
		return fn(m)
	})
}

// readMeasured reads the document to measure: the given one or, without a file, the lineup in force.
func readMeasured(ctx context.Context, s *installation.Backend, cfg *installation.Config, file string) (
	*Measurement, error) {
	_, found, err := s.Store.LastActivation(ctx)
	if err != nil {
		return nil, err
	}
	m := &Measurement{labelled: s.Store.Labelled}
	if found || file == "" {
		a, err := s.Authority(ctx, cfg)
		if err != nil {
			return nil, err
		}
		inForce, err := a.Current(ctx)
		if err != nil {
			return nil, err
		}
		m.Model.Revision, m.Document = inForce.Lineup.Revision, inForce.Document
		m.Document.Base = inForce.Hash.String() // a fitted lineup derives from it
	}
	if file != "" { // a file has no revision
		m.Model.Revision = 0
		m.Document, err = installation.ReadDocument(file)
	}
	return m, err
}

// wire fills in the model and the checker.
func (m *Measurement) wire(candidate *lineup.Candidate) {
	l := m.Document
	m.opened = candidate
	m.Model.Bias, m.Model.Bands = lineup.ByType(l.Bias), check.Bands(l.Bands)
	for i, member := range candidate.Members {
		m.Model.Layers = append(m.Model.Layers, eval.Layer{Name: member.Name, Version: member.Version,
			Weight: member.Weight, Types: member.Entities,
			Style: candidate.Manifests[i].LayerClass() == registry.Style})
	}
	m.Model.Limits = limits(l, candidate.Manifests)
	live := &check.Live{}
	live.Swap(check.NewLineup(m.Model.Revision, m.Model.Bias, m.Model.Bands, candidate.Members))
	m.Checker = installation.NewChecker(live, nil, unprinted)
	m.Checker.Deadline = MeasuredDeadline
}

// With returns a measurement of the lineup with one more layer, which is the last of the model. If the lineup has the
// layer in another version, the plugin takes its place and its settings, and replaced is the lineup's name for it.
// without has the limits of the lineup without either version.
func (m *Measurement) With(p *sandbox.Plugin) (next *Measurement, replaced string,
	without map[entity.Type][]eval.Limit) {
	manifest := p.Manifest()
	item := registry.LineupLayer{Weight: registry.ForAll(manifest.DefaultWeight)}
	next = &Measurement{Document: m.Document}
	next.Document.Layers = nil
	next.Model.Revision, next.Model.Traced = m.Model.Revision, manifest.Name
	opened := &lineup.Candidate{}
	for i, member := range m.opened.Members {
		layer := m.Document.Layers[i]
		if member.Name == manifest.Name {
			item, replaced = layer, member.Name+"@"+member.Version
			continue
		}
		next.Document.Layers = append(next.Document.Layers, layer)
		opened.Members = append(opened.Members, member)
		opened.Manifests = append(opened.Manifests, m.opened.Manifests[i])
	}
	without = limits(next.Document, opened.Manifests)
	item.Layer, item.Digest, item.Mode, item.Fuel = manifest.Name+"@"+manifest.Version, "", "", 0
	next.Document.Layers = append(next.Document.Layers, item)
	opened.Members = append(opened.Members, lineup.NewMember(item, p))
	opened.Manifests = append(opened.Manifests, manifest)
	next.wire(opened)
	next.Checker.Collector = m.Checker.Collector
	return next, replaced, without
}

// NeededWeight says what weight the last layer needs to be live, or "" if its own suffices.
func (m *Measurement) NeededWeight() string {
	return m.Document.NeededWeight(m.Document.Layers[len(m.Document.Layers)-1], m.opened.Manifests)
}

// limits returns the constraints that the lineup must obey whatever its weights.
func limits(l registry.LineupDocument, manifests []registry.Manifest) map[entity.Type][]eval.Limit {
	l.Layers = slices.Clone(l.Layers)
	for i := range l.Layers {
		l.Layers[i].Weight = registry.ForAll(1) // a layer of weight 0 is exempt, but may have a weight when fitted
	}
	all := map[entity.Type][]eval.Limit{}
	for _, c := range registry.Constraints(l, manifests) {
		limit := eval.Limit{Name: c.Signal + " reaches " + c.Band, Bias: 1, Weights: c.Coefficients, AtLeast: c.Bound}
		if c.Below {
			limit = eval.Limit{Name: cmp.Or(c.Signal, "style") + " stays below " + c.Band, Bias: -1,
				AtLeast: -math.Nextafter(c.Bound, math.Inf(-1))}
			for _, coefficient := range c.Coefficients {
				limit.Weights = append(limit.Weights, -coefficient)
			}
		}
		t := entity.Type(c.Type)
		all[t] = append(all[t], limit)
	}
	return all
}

// Fitted returns the document with the fitted biases and weights. Those of types without rows do not change.
func (m *Measurement) Fitted(fit *eval.Fit) registry.LineupDocument {
	l := m.Document
	bias := maps.Clone(m.Model.Bias)
	for _, f := range fit.Types {
		bias[f.Type] = f.Bias
	}
	l.Bias, l.Layers = byType(bias, entity.Types()), slices.Clone(l.Layers)
	for i, layer := range m.Model.Layers {
		weight := maps.Clone(layer.Weight)
		for _, f := range fit.Types {
			weight[f.Type] = f.Weights[i]
		}
		l.Layers[i].Weight = byType(weight, layer.Types)
	}
	return l
}

// byType returns the numbers for types as a lineup's document holds them.
func byType(numbers check.ByType, types []entity.Type) registry.ByType {
	if len(types) == 1 {
		return registry.ForAll(numbers[types[0]])
	}
	b := registry.ByType{}
	for _, t := range types {
		b[string(t)] = numbers[t]
	}
	return b
}
