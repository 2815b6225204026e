package rehearsal

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"

	"golang.org/x/mod/sumdb/note"

	"assay/host/entity"
	"assay/host/sandbox"
	"assay/registry"
	"assay/registry/activation"
)

// PassportFormat is the version of the format of passports.
const PassportFormat = 1

// Passport records what a module did with the built-in values and its own cases. It contains no time, so that everybody
// who measures the module with the same version of Assay gets the same passport.
type Passport struct {
	Format         int             `json:"format"`
	Plugin         string          `json:"plugin"`
	Digest         string          `json:"digest"`         // of the module
	Values         int             `json:"values"`         // of the types that the layer scores
	ValuesDigest   string          `json:"values_digest"`  // of the values with their facts
	AnswersDigest  string          `json:"answers_digest"` // of everything that the layer did with them, and the fuel
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

// Judge warns or refuses below these margins: how many times the most expensive call fits into the fuel budget.
const (
	WarnMargin   = 3.0
	RefuseMargin = 2.0
)

// Margin returns how many times the most expensive call fits into the fuel budget.
func (p Passport) Margin() float64 { return float64(p.Budget) / float64(max(1, p.MostFuel)) }

// ErrNotDeterministic means that a module answered the same input in different ways.
var ErrNotDeterministic = errors.New("the layer is not deterministic")

// Judge returns an error if a module must not be published, otherwise warnings for its publisher.
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
	what := "the passport of " + p.Plugin
	text, err := json.Marshal(p)
	if err != nil {
		return "", fmt.Errorf("signing %s: %w", what, err)
	}
	return activation.SignNote(what, registry.PassportHeader+string(text)+"\n", signer)
}

// OpenPassport verifies a signed passport of the module with a digest. It also returns the name of the key.
func OpenPassport(trust activation.Trust, signed string, module registry.Digest) (p Passport, key string, err error) {
	text, by, err := trust.OpenNote(signed, registry.PassportHeader)
	if err == nil && by.Role == activation.Host {
		err = fmt.Errorf("it is signed by key %s, a host's, which may not sign passports", by.Name)
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
	return p, by.Name, nil
}

// measured is the output of a measuring process.
type measured struct {
	Passport Passport `json:"passport"`
	Differs  string   `json:"differs,omitempty"` // how repeated answers differ
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
	s := &survey{module: m, plugin: p, values: values, answers: make([]answer, len(values)), read: map[string]bool{},
		others: map[string]bool{}}
	if result.Differs, err = s.run(ctx); err == nil {
		result.Passport = s.passport()
	}
	return result, errors.Join(err, p.Close(ctx))
}

// maxUndeclared bounds the facts that a passport names, because a layer can ask for any number.
const maxUndeclared = 10

// newEvery is the step between the values that are also given to a new instance, which takes long to initialise.
const newEvery = 4

// The scores from which the default lineup reviews and blocks an entity.
const (
	reviewScore = 40
	blockScore  = 70
)
