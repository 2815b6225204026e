package main

import (
	"context"
	"errors"
	"maps"
	"math"
	"slices"
	"time"

	"assay/host/check"
	"assay/host/entity"
	"assay/host/eval"
	"assay/host/feedback"
	"assay/host/lineup"
	"assay/host/sandbox"
	"assay/host/store"
	"assay/registry"
)

// measuredDeadline is far above the deadline of a check, so that a busy machine does not end a measurement.
const measuredDeadline = time.Minute

// lookupWorkers is the number of rows that wait for lookups at the same time.
const lookupWorkers = 32

// measurement is a lineup that is open in this process to be measured.
type measurement struct {
	document registry.LineupDocument
	active   registry.LineupRevision // the active lineup; zero if there is none and a document is measured
	model    eval.Model
	checker  *check.Checker
	opened   *lineup.Candidate
	labelled func(context.Context) ([]feedback.Labelled, error)
}

// feedback returns the labels that customers gave. Labels with scores of other versions of a layer are left out: a
// weight for one version is meaningless for another.
func (m *measurement) feedback(ctx context.Context) ([]eval.Labelled, error) {
	labelled, err := m.labelled(ctx)
	if err != nil {
		return nil, err
	}
	versions := map[string]string{}
	for _, l := range m.model.Layers {
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
func (m *measurement) Score(ctx context.Context, r eval.Row) (*check.Decision, error) {
	checker := m.checker
	if r.Facts != nil {
		checker = newChecker(checker.Live, nil, silentObserver{})
		checker.Deadline, checker.Collector = measuredDeadline, givenFacts(r.Facts)
	}
	return checker.Explain(ctx, check.Field{Type: r.Type, Value: r.Value}, r.Country)
}

// givenFacts is a collector that returns a row's own facts.
type givenFacts entity.Facts

// Collect implements check.Collector.
func (f givenFacts) Collect(context.Context, string, entity.Entity, []string) (entity.Facts, []string, error) {
	return entity.Facts(f), nil, nil
}

// withMeasurement opens a lineup, calls fn with it, and closes it. file names the lineup's document; if it is empty,
// the active lineup is measured, or the built-in one without an installation. With lookups, checks observe facts as a
// host does.
func withMeasurement(
	ctx context.Context, cfg *Config, t *terminal, file string, lookups bool, fn func(*measurement) error,
) error {
	installed, err := cfg.hasInstallation()
	if err != nil {
		return err
	}
	if !installed {
		document, err := readDocument(file)
		if err != nil {
			return err
		}
		o, err := builtInOpener(ctx, cfg, t, file)
		if err != nil {
			return err
		}
		return (&measurement{document: document}).run(ctx, cfg, t, o, nil, lookups, fn)
	}
	return withBackend(ctx, cfg, t, func(b *backend) (err error) {
		m, err := b.readMeasured(ctx, cfg, file)
		if err != nil {
			return err
		}
		m.labelled = b.store.Labelled
		return m.run(ctx, cfg, t, b.opener(ctx, cfg, t), b.store, lookups, fn)
	})
}

// run opens the document, calls fn, and closes it. database is the installation's, or nil.
func (m *measurement) run(
	ctx context.Context, cfg *Config, t *terminal, o opener, database *store.Store, lookUp bool,
	fn func(*measurement) error,
) (err error) {
	candidate, err := o.open(ctx, m.document)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, candidate.Close()) }()
	m.wire(candidate)
	if !lookUp {
		return fn(m)
	}
	return useLookups(ctx, cfg, database, t, func(l *lookups) error {
		m.checker.Collector = l
		return fn(m)
	})
}

// readMeasured reads the document to measure. Without a file, it is the lineup in force.
func (b *backend) readMeasured(ctx context.Context, cfg *Config, file string) (*measurement, error) {
	_, found, err := b.store.LastActivation(ctx)
	if err != nil {
		return nil, err
	}
	var active registry.LineupRevision
	if found || file == "" {
		a, err := b.authority(ctx, cfg)
		if err != nil {
			return nil, err
		}
		inForce, err := a.inForce(ctx)
		if err != nil {
			return nil, err
		}
		active = registry.LineupRevision{Revision: inForce.Lineup.Revision, Lineup: inForce.Document}
		active.Lineup.Base = inForce.Hash.String() // which a fitted lineup derives from
	}
	m := &measurement{document: active.Lineup, active: active}
	if file == "" {
		m.model.Revision = active.Revision
		return m, nil
	}
	m.document, err = readDocument(file)
	return m, err
}

// wire fills in the model and the checker.
func (m *measurement) wire(candidate *lineup.Candidate) {
	l := m.document
	m.opened = candidate
	m.model.Bias, m.model.Bands = lineup.ByType(l.Bias), check.Bands(l.Bands)
	for i, member := range candidate.Members {
		m.model.Layers = append(m.model.Layers, eval.Layer{Name: member.Name, Version: member.Version,
			Weight: member.Weight, Types: member.Entities,
			Style: candidate.Manifests[i].LayerClass() == registry.Style})
	}
	m.model.Limits = limits(l, candidate.Manifests)
	live := &check.Live{}
	live.Swap(check.NewLineup(m.model.Revision, m.model.Bias, m.model.Bands, candidate.Members))
	m.checker = newChecker(live, nil, silentObserver{})
	m.checker.Deadline = measuredDeadline
}

// with returns a measurement of the lineup with one more layer, which is the last of the model. If the lineup has the
// layer in another version, the plugin takes its place and its settings, and replaced is the lineup's name for it.
// limits are those of the lineup without either.
func (m *measurement) with(p *sandbox.Plugin) (
	next *measurement, replaced string, without map[entity.Type][]eval.Limit,
) {
	manifest := p.Manifest()
	item := registry.LineupLayer{Weight: registry.ForAll(manifest.DefaultWeight)}
	next = &measurement{document: m.document, active: m.active}
	next.document.Layers = nil
	next.model.Revision, next.model.Traced = m.model.Revision, manifest.Name
	opened := &lineup.Candidate{}
	for i, member := range m.opened.Members {
		layer := m.document.Layers[i]
		if member.Name == manifest.Name {
			item, replaced = layer, member.Name+"@"+member.Version
			continue
		}
		next.document.Layers = append(next.document.Layers, layer)
		opened.Members = append(opened.Members, member)
		opened.Manifests = append(opened.Manifests, m.opened.Manifests[i])
	}
	without = limits(next.document, opened.Manifests)
	item.Layer, item.Digest, item.Mode, item.Fuel = manifest.Name+"@"+manifest.Version, "", "", 0
	next.document.Layers = append(next.document.Layers, item)
	opened.Members = append(opened.Members, lineup.NewMember(item, p))
	opened.Manifests = append(opened.Manifests, manifest)
	next.wire(opened)
	next.checker.Collector = m.checker.Collector
	return next, replaced, without
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
		if c.Signal == "" { // the sum must stay below the bound
			limit = eval.Limit{Name: "style never blocks", Bias: -1, AtLeast: -math.Nextafter(c.Bound, math.Inf(-1))}
			for _, coefficient := range c.Coefficients {
				limit.Weights = append(limit.Weights, -coefficient)
			}
		}
		t := entity.Type(c.Type)
		all[t] = append(all[t], limit)
	}
	return all
}

// fitted returns the document with the fitted biases and weights. Those of types without rows do not change.
func (m *measurement) fitted(fit *eval.Fit) registry.LineupDocument {
	l := m.document
	bias := maps.Clone(m.model.Bias)
	for _, f := range fit.Types {
		bias[f.Type] = f.Bias
	}
	l.Bias, l.Layers = byType(bias, entity.Types()), slices.Clone(l.Layers)
	for i, layer := range m.model.Layers {
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

// silentObserver ignores everything: a measurement's report covers it.
type silentObserver struct{}

var _ check.Observer = silentObserver{}

// LayerRan implements check.Observer.
func (silentObserver) LayerRan(entity.Type, check.Outcome, *check.Failure) {}

// CheckDone implements check.Observer.
func (silentObserver) CheckDone(*check.Decision, time.Duration) {}
