package rehearsal

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"assay/host/check"
	"assay/host/entity"
	"assay/host/lineup/replay"
	"assay/host/sandbox"
	"assay/registry"
)

// sample is a value with its facts, as a layer is called with it.
type sample struct {
	Type   entity.Type
	Value  string
	Input  check.Input
	Honest bool
}

// samples returns the values that a module is measured with: built-in ones, those of its cases, and variations of them.
func samples(m registry.Module) ([]sample, error) {
	references, err := replay.References()
	if err != nil {
		return nil, err
	}
	cases, err := m.Cases()
	if err != nil {
		return nil, err
	}
	var all []sample
	add := func(s Subject, honest bool) {
		if err == nil && slices.Contains(m.Manifest.Entities, string(s.Type)) {
			add := sample{Type: s.Type, Honest: honest}
			add.Value, add.Input, err = s.input()
			all = append(all, add)
		}
	}
	for _, s := range Corpus() {
		add(s, false)
	}
	for _, s := range Honest() {
		add(s, true)
	}
	for _, r := range references {
		add(Subject{Type: r.Type, Value: r.Value, Facts: r.Facts}, r.Honest)
	}
	for _, c := range cases {
		add(Subject{Type: entity.Type(c.Type), Value: c.Value, Country: c.Country, Facts: c.Facts}, false)
	}
	for _, v := range Variations(cases) {
		add(v.Subject, false)
	}
	return all, err
}

// survey calls a layer with all values, in restored, used and new instances.
type survey struct {
	module  registry.Module
	plugin  *sandbox.Plugin
	values  []sample
	answers []answer // of a restored instance

	started  int64
	mostFuel int64
	memory   int
	read     map[string]bool // declared facts
	others   map[string]bool // facts that are not declared
}

// answer is everything that a layer did in a call.
type answer struct {
	text    string // without the fuel
	fuel    int64
	score   int
	failure string
}

// tracer is a plugin, or one instance of it.
type tracer interface {
	Trace(ctx context.Context, facts check.Input) (check.Result, sandbox.Trace, error)
}

// call calls the layer with a value.
func (s *survey) call(ctx context.Context, t tracer, i int) (a answer, err error) {
	result, trace, err := t.Trace(ctx, s.values[i].Input)
	var failure *check.Failure
	if errors.As(err, &failure) {
		a.failure = whyFailed(failure, trace.Printed)
	} else if err != nil {
		return a, fmt.Errorf("%s: %w", s.name(i), err)
	}
	a.text, a.fuel, a.score = a.failure+"\n"+describe(result, trace), trace.Fuel, result.Score
	s.mostFuel, s.memory = max(s.mostFuel, trace.Fuel), max(s.memory, trace.Memory)
	for _, f := range trace.Facts {
		if f.Declared {
			s.read[f.Name] = true
		} else if len(s.others) < maxUndeclared {
			s.others[f.Name] = true
		}
	}
	return a, nil
}

// run calls the layer several times with each value, and returns how its answers differ.
func (s *survey) run(ctx context.Context) (differs string, err error) {
	used, err := s.plugin.NewInstance(ctx)
	if err != nil {
		return "", err
	}
	defer used.Close()
	s.started = used.Started
	for i := range s.values {
		if s.answers[i], err = s.call(ctx, s.plugin, i); err != nil {
			return "", err
		}
	}
	// The used instance gets the values in both orders, so that each follows different ones. Its fuel may differ: a
	// runtime collects its garbage now and then.
	for n := range 2 * len(s.values) {
		i := min(n, 2*len(s.values)-1-n)
		if differs, err = s.compare(ctx, used, i, "after other calls in the same instance", false); stop(differs, err) {
			return differs, err
		}
	}
	for i := len(s.values) - 1; i >= 0; i-- {
		if differs, err = s.compare(ctx, s.plugin, i, "in a repeated call", true); stop(differs, err) {
			return differs, err
		}
		if i%newEvery != 0 {
			continue
		}
		fresh, err := s.plugin.NewInstance(ctx)
		if err != nil {
			return "", err
		}
		differs, err = s.compare(ctx, fresh, i, "in a new instance", true)
		fresh.Close()
		if stop(differs, err) {
			return differs, err
		}
	}
	return "", nil
}

func stop(differs string, err error) bool { return differs != "" || err != nil }

// compare calls the layer with a value again, and returns how the answer differs from the first one.
func (s *survey) compare(ctx context.Context, t tracer, i int, when string, withFuel bool) (string, error) {
	first := s.answers[i]
	again, err := s.call(ctx, t, i)
	switch {
	case err != nil:
		return "", err
	case again.text != first.text:
		was, is := firstDifference(first.text, again.text)
		return fmt.Sprintf("with %s it answers %q, and %s %q", s.name(i), was, when, is), nil
	case withFuel && again.fuel != first.fuel:
		return fmt.Sprintf("with %s it burns %d units of fuel, and %s %d", s.name(i), first.fuel, when, again.fuel), nil
	}
	return "", nil
}

// firstDifference returns the first lines that differ.
func firstDifference(a, b string) (string, string) {
	as, bs := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range min(len(as), len(bs)) {
		if as[i] != bs[i] {
			return as[i], bs[i]
		}
	}
	longer := func(lines []string, n int) string { return strings.Join(lines[min(n, len(lines)):], "\n") }
	return longer(as, len(bs)), longer(bs, len(as))
}

// name names a value in a message.
func (s *survey) name(i int) string {
	return fmt.Sprintf("%s %.70q", s.values[i].Type, s.values[i].Value)
}

// passport sums up the calls.
func (s *survey) passport() Passport {
	m := s.module.Manifest
	lowest, highest := m.Range()
	p := Passport{Format: PassportFormat, Plugin: s.module.Ref(), Digest: s.module.Digest.String(),
		Values: len(s.values), StartFuel: s.started, MostFuel: s.mostFuel, Budget: m.BudgetFuel, Memory: s.memory,
		Limit: m.MemoryMB << 20, Range: [2]int{lowest, highest}, Undeclared: listed(slices.Sorted(maps.Keys(s.others))),
		Unread:         listed(slices.DeleteFunc(slices.Clone(m.Facts), func(f string) bool { return s.read[f] })),
		FalsePositives: s.falsePositives()}
	values, answers, fuel := sha256.New(), sha256.New(), make([]float64, len(s.values))
	for i, a := range s.answers {
		fuel[i] = float64(a.fuel)
		// The encoding of a map is sorted, and a text cannot fail to be encoded.
		line, _ := json.Marshal(s.values[i])
		fmt.Fprintf(values, "%s\n", line)
		fmt.Fprintf(answers, "%s\nfuel %d\n", a.text, a.fuel)
		p.Scores = [2]int{min(p.Scores[0], a.score), max(p.Scores[1], a.score)}
		if a.failure != "" {
			if p.Failed++; p.Failed == 1 {
				p.Failure = s.name(i) + ": " + a.failure
			}
		}
	}
	p.Fuel = distributionOf(fuel)
	p.ValuesDigest = registry.Digest(values.Sum(nil)).String()
	p.AnswersDigest = registry.Digest(answers.Sum(nil)).String()
	return p
}

// falsePositives counts the honest values that the layer raises with any set of facts.
func (s *survey) falsePositives() []FalsePositive {
	type key struct {
		kind  entity.Type
		value string
	}
	worst := map[key]int{}
	for i, v := range s.values {
		if v.Honest {
			worst[key{v.Type, v.Value}] = max(worst[key{v.Type, v.Value}], s.answers[i].score)
		}
	}
	var all []FalsePositive
	for _, kind := range entity.Types() {
		f := FalsePositive{Type: kind}
		for k, score := range worst {
			if k.kind != kind {
				continue
			}
			f.Values++
			if score >= reviewScore {
				f.Review++
			}
			if score >= blockScore {
				f.Block++
			}
		}
		if f.Values > 0 {
			all = append(all, f)
		}
	}
	return all
}
