package rehearsal

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"

	"golang.org/x/mod/sumdb/note"

	"assay/host/check"
	"assay/host/entity"
	"assay/host/lineup/replay"
	"assay/host/sandbox"
	"assay/registry"
	"assay/registry/activation"
)

// PassportFormat is the version of the format of passports.
const PassportFormat = 1

// Passport is what a module did with the built-in values and its own cases. It contains no time, so that everybody who
// measures the module with the same version of Assay gets the same passport.
type Passport struct {
	Format         int             `json:"format"`
	Plugin         string          `json:"plugin"`
	Digest         string          `json:"digest"`         // of the module
	Values         int             `json:"values"`         // of the types that the layer scores
	ValuesDigest   string          `json:"values_digest"`  // of the values with their facts
	AnswersDigest  string          `json:"answers_digest"` // of all that the layer did with them, and the fuel
	StartFuel      int64           `json:"start_fuel"`     // burned by the initialisation of an instance
	Fuel           Distribution    `json:"fuel"`           // of calls, each in a restored instance
	MostFuel       int64           `json:"most_fuel"`      // of a call in any instance
	Budget         int64           `json:"budget_fuel"`
	Memory         int             `json:"most_memory_bytes"`
	Limit          int             `json:"memory_limit_bytes"`
	Scores         [2]int          `json:"scores"` // the lowest and the highest
	Range          [2]int          `json:"score_range"`
	Unread         []string        `json:"facts_unread"`     // declared facts that no value made the layer ask for
	Undeclared     []string        `json:"facts_undeclared"` // facts that the layer asked for and does not declare
	FalsePositives []FalsePositive `json:"false_positives"`
	Failed         int             `json:"failed"`  // values with which a call failed
	Failure        string          `json:"failure"` // the first of them
}

// FalsePositive counts the honest values of a type that the layer alone raises, by its own score.
type FalsePositive struct {
	Type   entity.Type `json:"type"`
	Values int         `json:"values"`
	Review int         `json:"review"` // those that reach this band or the next one
	Block  int         `json:"block"`
}

// The least shares of its budget of fuel that a layer must leave, as how many times the dearest call fits in.
const (
	WarnMargin   = 3.0
	RefuseMargin = 2.0
)

// Margin returns how many times the dearest call fits into the budget of fuel.
func (p Passport) Margin() float64 { return float64(p.Budget) / float64(max(1, p.MostFuel)) }

// ErrNotDeterministic means that a module answered the same input in different ways.
var ErrNotDeterministic = errors.New("the layer is not deterministic")

// Judge returns why a module must not be published, or what its publisher should know.
func (p Passport) Judge() (warnings []string, err error) {
	switch needed := int64(RefuseMargin * float64(p.MostFuel)); {
	case p.Failed > 0:
		return nil, fmt.Errorf("calls fail with %d of %d values, such as %s", p.Failed, p.Values, p.Failure)
	case p.Margin() < RefuseMargin:
		return nil, fmt.Errorf("a call burns up to %d of %d units of fuel: set budget_fuel to %d or more, better to %d",
			p.MostFuel, p.Budget, needed, 2*needed)
	case p.Margin() < WarnMargin:
		warnings = append(warnings, fmt.Sprintf("the budget of fuel is only %.1f times what a call burns: set "+
			"budget_fuel to %d", p.Margin(), 2*needed))
	}
	if len(p.Undeclared) > 0 {
		warnings = append(warnings, "the layer asks for facts that its manifest does not declare, which are always "+
			"absent: "+strings.Join(p.Undeclared, ", "))
	}
	for _, f := range p.FalsePositives {
		if f.Review > 0 {
			warnings = append(warnings, fmt.Sprintf("the layer alone raises %d of %d honest values of type %s, and "+
				"would block %d", f.Review, f.Values, f.Type, f.Block))
		}
	}
	return warnings, nil
}

// Sign returns the passport as a signed note (C2SP signed-note).
func (p Passport) Sign(signer note.Signer) (string, error) {
	text, err := json.Marshal(p)
	var signed []byte
	if err == nil {
		signed, err = note.Sign(&note.Note{Text: registry.PassportHeader + string(text) + "\n"}, signer)
	}
	if err != nil {
		return "", fmt.Errorf("signing the passport of %s: %w", p.Plugin, err)
	}
	return string(signed), nil
}

// OpenPassport verifies a signed passport of the module with a digest. It also returns the name of the key.
func OpenPassport(trust activation.Trust, signed string, module registry.Digest) (p Passport, key string, err error) {
	text, key, role, err := trust.OpenNote(signed, registry.PassportHeader)
	if err == nil && role == activation.Host {
		err = fmt.Errorf("it is signed by key %s, a host's, which may not sign passports", key)
	}
	if err == nil {
		err = json.Unmarshal([]byte(text), &p)
	}
	switch {
	case err != nil:
	case p.Digest != module.String():
		err = fmt.Errorf("it is that of %s, %s", p.Plugin, p.Digest)
	case p.Format != PassportFormat:
		err = fmt.Errorf("its format is %d, and this version of Assay reads format %d", p.Format, PassportFormat)
	}
	if err != nil {
		return Passport{}, "", fmt.Errorf("reading the passport of module %s: %w", module, err)
	}
	return p, key, nil
}

// measured is what a measuring process prints.
type measured struct {
	Passport Passport `json:"passport"`
	Differs  string   `json:"differs,omitempty"` // how the layer is not deterministic
	Error    string   `json:"error,omitempty"`   // why it cannot be measured
}

// Issue measures a module in two processes. command is the command line of a program that calls [ServeMeasure]. It
// fails with ErrNotDeterministic.
func Issue(ctx context.Context, command []string, m registry.Module) (Passport, error) {
	var outputs [2][]byte
	var errs [2]error
	var processes sync.WaitGroup
	for i := range outputs {
		processes.Go(func() { outputs[i], errs[i] = sandbox.RunLimited(ctx, command, m.Wasm) })
	}
	processes.Wait()
	var first measured
	err := errors.Join(errs[:]...)
	switch {
	case err != nil:
	case json.Unmarshal(outputs[0], &first) != nil:
		err = errors.New("the measuring process printed no passport")
	case first.Error != "":
		err = errors.New(first.Error)
	case first.Differs != "":
		err = fmt.Errorf("%w: %s", ErrNotDeterministic, first.Differs)
	case !bytes.Equal(outputs[0], outputs[1]):
		err = fmt.Errorf("%w: two processes measured it differently", ErrNotDeterministic)
	case first.Passport.Digest != m.Digest.String():
		err = errors.New("another module was measured")
	}
	if err != nil {
		return Passport{}, fmt.Errorf("measuring %s: %w", m.Ref(), err)
	}
	return first.Passport, nil
}

// ServeMeasure measures one module for another process, which calls [Issue]. It limits the whole process.
func ServeMeasure(ctx context.Context, in io.Reader, out io.Writer) error {
	return sandbox.ServeLimited(in, out, func(wasm []byte) any {
		result, err := measureModule(ctx, wasm)
		if err != nil {
			result.Error = err.Error()
		}
		return result
	})
}

func measureModule(ctx context.Context, wasm []byte) (result measured, err error) {
	m, err := registry.OpenModule(wasm)
	if err != nil {
		return result, err
	}
	values, err := samples(m)
	if err != nil {
		return result, err
	}
	p, err := sandbox.New(sandbox.Config{Instances: 1, Logger: slog.New(slog.DiscardHandler)}).Open(ctx, m)
	if err != nil {
		return result, err
	}
	s := newSurvey(m, p, values)
	if result.Differs, err = s.run(ctx); err == nil {
		result.Passport = s.passport()
	}
	return result, errors.Join(err, p.Close(ctx))
}

// sample is a value with its facts, as a layer is called with it.
type sample struct {
	Type   entity.Type
	Value  string
	Input  check.Input
	Honest bool
}

// samples returns the values that a module is measured with: built-in ones and those of its cases.
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
		if err != nil || !slices.Contains(m.Manifest.Entities, string(s.Type)) {
			return
		}
		var e entity.Entity
		if e, err = entity.Parse(s.Type, s.Value, s.Country); err != nil {
			err = fmt.Errorf("reading %q: %w", s.Value, err)
			return
		}
		facts, settings := registry.Case{Facts: s.Facts}.Input()
		maps.Copy(e.Facts, facts)
		all = append(all, sample{s.Type, e.Value, check.Input{Entity: e.Facts, Config: settings}, honest})
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

// answer is all that a layer did in a call.
type answer struct {
	text    string // without the fuel
	fuel    int64
	score   int
	failure string
}

func newSurvey(m registry.Module, p *sandbox.Plugin, values []sample) *survey {
	return &survey{module: m, plugin: p, values: values, answers: make([]answer, len(values)),
		read: map[string]bool{}, others: map[string]bool{}}
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
		a.failure = whyFailed(failure)
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

// maxUndeclared bounds the facts that a passport names, because a layer can ask for any number.
const maxUndeclared = 10

// newEvery is the distance of the values that are also given to a new instance, whose initialisation takes long.
const newEvery = 4

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

// The scores from which the default lineup reviews and blocks an entity.
const (
	reviewScore = 40
	blockScore  = 70
)
