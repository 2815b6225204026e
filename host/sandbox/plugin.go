package sandbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/tetratelabs/wazero"

	"assay/host/check"
	"assay/registry"
)

// Plugin is a module that is ready to score. It is safe for concurrent use until it is closed.
type Plugin struct {
	module    registry.Module
	engine    wazero.Runtime
	compiled  wazero.CompiledModule
	mapped    bool // whether its code is mapped from a file
	pool      *pool
	memories  *snapshotter // reserves the instances' memory outside Go's heap
	snapshots *snapshotter // nil if instances are not restored after a call, else memories
	breaker   circuitBreaker
	apart     circuitBreaker // of calls in shadow
	canary    circuitBreaker // of calls in a canary
	bounds    bounds         // of one call
	clocks    clocks
	codes     map[string]registry.SignalText // the signals that the manifest declares, by code
	lowest    int                            // of the manifest's score range
	highest   int
	log       *slog.Logger
}

var _ check.Layer = (*Plugin)(nil)

func newPlugin(m registry.Module, engine wazero.Runtime, cfg Config) *Plugin {
	p := &Plugin{module: m, engine: engine, bounds: boundsOf(m.Manifest.BudgetFuel),
		codes: map[string]registry.SignalText{},
		log:   cfg.Logger, clocks: clocks{time.Now, threadTime}}
	for _, b := range []*circuitBreaker{&p.breaker, &p.apart, &p.canary} {
		b.now, b.disabled, b.payment = time.Now, cfg.NeverSuspend, p.bounds.fuel
	}
	p.lowest, p.highest = m.Manifest.Range()
	for _, s := range m.Manifest.Signals {
		p.codes[s.Code] = s
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

// Rehearse is Score for a call that no customer waits for: it ignores the circuit breaker and never opens it, so that
// the results depend on the facts alone, and checks do not depend on rehearsals.
func (p *Plugin) Rehearse(ctx context.Context, facts check.Input) (check.Result, error) {
	result, _, err := p.score(ctx, facts, nil)
	return result, err
}

// Score implements check.Layer. The call ends when it has burned the manifest's budget of fuel; only that, a trap and a
// refused answer are a *check.Failure. If the call needs more processor time than its fuel allows, or the deadline of
// ctx passes, the error is another one, so that the caller refuses the check.
func (p *Plugin) Score(ctx context.Context, facts check.Input) (check.Result, error) {
	return p.guarded(ctx, &p.breaker, facts)
}

// InShadow returns the plugin as a layer whose results reach no customer. It is suspended after repeated failures like
// any other, but by a circuit breaker of its own: a lineup in which the plugin counts may use the same plugin.
func (p *Plugin) InShadow() check.Layer { return separate{p, &p.apart} }

// InCanary returns the plugin as a layer of a canary. It has a circuit breaker of its own, too: in the canary, the
// plugin may have settings with which it fails, and the other accounts must not lose it for that.
func (p *Plugin) InCanary() check.Layer { return separate{p, &p.canary} }

// separate is a plugin with another circuit breaker.
type separate struct {
	*Plugin
	breaker *circuitBreaker
}

func (s separate) Score(ctx context.Context, facts check.Input) (check.Result, error) {
	return s.guarded(ctx, s.breaker, facts)
}

// guarded runs a call unless a circuit breaker is open, and counts the outcome there.
func (p *Plugin) guarded(ctx context.Context, breaker *circuitBreaker, facts check.Input) (check.Result, error) {
	if !breaker.allow() {
		return check.Result{}, new(call).failure(check.Suspended, errSuspended.Error(), errSuspended)
	}
	result, restart, err := p.score(ctx, facts, nil)
	if err != nil && !countsAgainstPlugin(err) {
		breaker.cancel() // and no charge: load must not bring a plugin closer to its suspension
	} else {
		if restart > 0 {
			breaker.charge(restart)
		}
		breaker.record(err == nil)
	}
	return result, err
}

// countsAgainstPlugin reports whether the breaker counts a call that ended with err.
func countsAgainstPlugin(err error) bool {
	var refused *refusal
	return !errors.As(err, &refused) || refused.fault
}

// errSuspended fails calls while the circuit breaker is open.
var errSuspended = errors.New("the plugin is suspended after repeated failures")

// refusal means that a call has no result for a reason other than the plugin's answer. It is not a *check.Failure: the
// same call may succeed another time.
type refusal struct {
	err   error
	fault bool // the plugin caused it, which counts against the plugin
}

func (e *refusal) Error() string { return e.err.Error() }
func (e *refusal) Unwrap() error { return e.err }

// score runs a call on an instance, then releases or replaces the instance. restart is the fuel that initialising a new
// instance costs, if the call made its instance unusable. The error is a *check.Failure or a *refusal. trace may be
// nil.
func (p *Plugin) score(
	ctx context.Context, facts check.Input, trace *Trace,
) (result check.Result, restart int64, err error) {
	in, err := p.pool.acquire(ctx)
	if err != nil {
		return check.Result{}, 0, err
	}
	result, trapped, err := p.call(ctx, in, facts, trace)
	if trapped {
		p.pool.discard(in, countsAgainstPlugin(err)) // a trap may have left it in any state
		return check.Result{}, in.started, err
	}
	if !p.restore(in) {
		p.pool.discard(in, true)
		return result, in.started, err
	}
	p.pool.release(in)
	return result, 0, err
}

// call runs a call on an instance. trapped reports that the guest did not return.
func (p *Plugin) call(
	ctx context.Context, in *instance, facts check.Input, trace *Trace,
) (result check.Result, trapped bool, err error) {
	c := &in.call
	*c = call{plugin: p, facts: facts, fuel: fuelTank{bounds: p.bounds, clocks: p.clocks}, trace: trace}
	if trace != nil {
		trace.began = p.clocks.wall()
	}
	outcome, err := in.score(ctx, c)
	if trace != nil {
		trace.end(in, c)
	}
	if err != nil {
		return result, true, c.ended(err)
	}
	result, err = c.result(outcome)
	*c = call{} // an idle instance keeps nothing of a check
	return result, false, err
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

// restore returns an instance to its snapshot. If restore reports false, the instance must be replaced.
func (p *Plugin) restore(in *instance) bool {
	if p.snapshots == nil {
		return true
	}
	err := in.restore()
	if err != nil {
		p.log.Error("layer instance cannot be restored", "plugin", p.module.Ref(), "error", err)
	}
	return err == nil
}

// Suspended reports whether the circuit breaker has taken the plugin out of service after repeated failures.
func (p *Plugin) Suspended() bool { return p.breaker.isOpen() }

// Close releases the plugin's instances and code. It must not be called during a call of Score.
func (p *Plugin) Close(ctx context.Context) error {
	p.pool.close()
	if err := p.unload(ctx); err != nil {
		return fmt.Errorf("closing plugin %s: %w", p.module.Ref(), err)
	}
	return nil
}

// unload closes the compiled module too: the shared cache would keep its code until then.
func (p *Plugin) unload(ctx context.Context) error {
	err := p.engine.Close(ctx)
	if p.compiled != nil {
		err = errors.Join(err, p.compiled.Close(ctx))
	}
	return err
}
