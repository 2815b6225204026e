package sandbox

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/tetratelabs/wazero"

	"assay/host/check"
	"assay/registry"
	"assay/registry/fault"
)

// Plugin is a module that is ready to score. It is safe for concurrent use until it is closed.
type Plugin struct {
	module   registry.Module
	engine   wazero.Runtime
	compiled wazero.CompiledModule
	mapped   bool // whether its code is mapped from a file
	pool     *pool
	memories *snapshotter // reserves the instances' memory outside Go's heap, and restores it
	shared   bool         // whether instances are restored only after a trap, not after each call
	bounds   bounds       // of one call
	clocks   clocks
	codes    map[string]registry.SignalText // the signals that the manifest declares, by code
	facts    map[string]string              // the names of the facts that it declares
	cut      sync.Once                      // logs that a text was cut
	lowest   int                            // of the manifest's score range
	highest  int
	log      *slog.Logger
}

var _ check.Layer = (*Plugin)(nil)

func newPlugin(m registry.Module, engine wazero.Runtime, cfg Config) *Plugin {
	p := &Plugin{module: m, engine: engine, bounds: boundsOf(m.Manifest.BudgetFuel),
		codes: map[string]registry.SignalText{}, facts: map[string]string{},
		log: cfg.Logger, clocks: clocks{time.Now, threadTime}}
	p.module.Wasm = nil // the database stores it
	p.lowest, p.highest = m.Manifest.Range()
	for _, s := range m.Manifest.Signals {
		p.codes[s.Code] = s
	}
	for _, name := range m.Manifest.Facts {
		p.facts[name] = name // so that no call allocates the name
	}
	p.pool = newPool(cfg.Instances, p.instantiate, func(err error) {
		p.log.Error("layer instance cannot be replaced", "plugin", m.Ref(), "error", err)
	})
	return p
}

// Manifest returns the plugin's manifest.
func (p *Plugin) Manifest() registry.Manifest { return p.module.Manifest }

// Digest returns the digest of the plugin's module.
func (p *Plugin) Digest() registry.Digest { return p.module.Digest }

// Score implements check.Layer. The call ends when it has burned the manifest's budget of fuel. The error is then a
// *check.Failure, as it is after a trap or a refused answer. If the call needs more processor time than its fuel
// allows, or the deadline of ctx passes, the error has another type, so that the caller refuses the check. However a
// call ends, it does not change the result of another.
func (p *Plugin) Score(ctx context.Context, facts check.Input) (check.Result, error) {
	return p.score(ctx, facts, nil)
}

// refusal means that a call has no result for a reason other than the plugin's answer. It is not a *check.Failure: the
// same call may succeed another time.
type refusal struct{ err error }

func (e *refusal) Error() string { return e.err.Error() }
func (e *refusal) Unwrap() error { return e.err }

// score runs a call on an instance, then restores the instance, or replaces it if that fails. The error is a
// *check.Failure or a *refusal. trace may be nil.
func (p *Plugin) score(ctx context.Context, facts check.Input, trace *Trace) (check.Result, error) {
	in, err := p.pool.acquire(ctx)
	if err != nil {
		return check.Result{}, err
	}
	result, trapped, err := p.call(ctx, in, facts, trace)
	if p.restore(in, trapped) {
		p.pool.release(in)
	} else {
		p.pool.discard(in)
	}
	return result, err
}

// call runs a call on an instance. trapped reports that the guest did not return.
func (p *Plugin) call(ctx context.Context, in *instance, facts check.Input, trace *Trace) (
	result check.Result, trapped bool, err error) {
	c := &in.call
	*c = call{plugin: p, facts: facts, fuel: fuelTank{bounds: p.bounds, clocks: p.clocks}, trace: trace}
	if trace != nil {
		trace.began = p.clocks.wall()
	}
	outcome, err := in.score(ctx, c)
	if starved := in.memory.Starved(); starved != nil {
		err = &refusal{starved}
	}
	if trace != nil {
		trace.end(in, c)
	}
	trapped = err != nil
	if trapped {
		err = c.ended(err)
	} else {
		result, err = c.result(outcome)
	}
	*c = call{} // an idle instance keeps no data of a check
	return result, trapped, err
}

// ended returns the error of a call whose guest was trapped.
func (c *call) ended(err error) error {
	refused := (*refusal)(nil)
	switch {
	case errors.As(err, &refused):
		return refused
	case errors.Is(err, errFuelLimit):
		return c.failure(check.Exhausted, errFuelLimit.Error(), err)
	}
	return c.trapped(err)
}

// restore returns an instance to its snapshot, also after a trap. It runs before the call returns, so that the next
// call does not pay for it. If restore reports false, the instance must be replaced.
func (p *Plugin) restore(in *instance, trapped bool) bool {
	if p.shared && !trapped {
		return true
	}
	err := in.restore()
	if err == nil && trapped {
		err = in.resetEntry() // its stack still holds the guest's frames
	}
	if err != nil {
		p.log.Error("layer instance cannot be restored", "plugin", p.module.Ref(), "error", err)
	}
	return err == nil
}

// Close releases the plugin's instances and code. It must not be called during a call of Score.
func (p *Plugin) Close(ctx context.Context) error {
	p.pool.close()
	return fault.Wrap(p.unload(ctx), "closing plugin %s", p.module.Ref())
}

// unload closes the engine and the compiled module.
func (p *Plugin) unload(ctx context.Context) error {
	err := p.engine.Close(ctx)
	if p.compiled != nil {
		err = errors.Join(err, p.compiled.Close(ctx))
	}
	return err
}
