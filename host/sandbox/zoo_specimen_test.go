package sandbox_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"assay/host/check"
	"assay/host/entity"
	"assay/host/sandbox"
	"assay/registry"
)

// report is what a child found out.
type report struct {
	Refused string // why the module was refused
	Lost    string // why the call was
	Reason  check.FailureReason
	Output  string
	Score   int
	Fuel    int64
	Took    time.Duration // of the opening, when refused, else of the call
	PeakMB  int           // what the process took at its most beyond what it took before
}

// differs says in what a call ended otherwise than it was to.
func (want ending) differs(r report) string {
	said := r.Refused + r.Lost
	switch {
	case want.refused && r.Refused == "", len(want.lost) > 0 && !slices.Contains(want.lost, r.Reason),
		!want.refused && len(want.lost) == 0 && (said != "" || r.Score != want.score):
		return fmt.Sprintf("refused: %q, lost: %q, score %d, but it %v", r.Refused, r.Lost, r.Score, want)
	}
	for _, part := range want.says {
		if !strings.Contains(said, part) {
			return fmt.Sprintf("%q does not say %q", said, part)
		}
	}
	return ""
}

// module packs the specimen as a plugin. What cannot be packed goes as it is: the sandbox is not to rely on others'
// checks.
func (s specimen) module() registry.Module {
	text := fmt.Sprintf(`{"name": "guest", "version": "1.0.0", "summary": "A guest of the zoo", "entities": ["domain"],
		"facts": ["entity.value"], "signals": [{"code": %q, "text": "It was said"}], "threats": ["scam"], "budget_ms": %d, "memory_mb": %d,
		"default_weight": 1, "max_fuel": %d}`, said, s.budget(), s.memory(), s.maxFuel)
	wasm := s.wasm()
	if packed, err := registry.Pack(wasm, []byte(text)); err == nil {
		wasm = packed
	}
	if m, err := registry.OpenModule(wasm); err == nil {
		return m
	}
	manifest, err := registry.ParseManifest([]byte(text))
	if err != nil {
		panic(err)
	}
	return registry.Module{Manifest: manifest, Wasm: wasm}
}

// run opens the specimen and calls it once.
func (s specimen) run(r *report) {
	ctx := context.Background()
	box := sandbox.New(sandbox.Config{Instances: 1, Logger: quiet})
	defer box.Close()
	m := s.module()
	began := time.Now()
	p, err := box.Open(ctx, m)
	if err != nil {
		r.Refused, r.Took = err.Error(), time.Since(began)
		return
	}
	defer p.Close(ctx)
	for r.call(p); r.Reason == check.Timeout && !s.ends.slow(); r.call(p) { // on a busy machine
		*r = report{}
		p.WakeUp()
	}
}

// call asks a plugin about the zoo.
func (r *report) call(p *sandbox.Plugin) {
	began := time.Now()
	result, err := p.Score(context.Background(), check.Input{Entity: entity.Facts{"entity.value": asked}})
	r.Took, r.Score, r.Fuel = time.Since(began), result.Score, result.Fuel
	var lost *check.Failure
	if errors.As(err, &lost) {
		r.Lost, r.Reason, r.Output = lost.Err.Error(), lost.Reason, lost.Output
	}
}

var quiet = slog.New(slog.DiscardHandler)
