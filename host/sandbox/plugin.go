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
	pool      *pool
	snapshots *snapshotter // nil if instances are not restored after a call
	breaker   circuitBreaker
	facts     map[string]bool   // the facts that the manifest declares
	codes     map[string]string // the signal codes that the manifest declares, mapped to themselves
	log       *slog.Logger
}

var _ check.Layer = (*Plugin)(nil)

func newPlugin(m registry.Module, engine wazero.Runtime, cfg Config) *Plugin {
	p := &Plugin{module: m, engine: engine, facts: map[string]bool{}, codes: map[string]string{}, log: cfg.Logger}
	for _, f := range m.Manifest.Facts {
		p.facts[f] = true
	}
	for _, s := range m.Manifest.Signals {
		p.codes[s.Code] = s.Code
	}
	p.pool = newPool(cfg.Instances, p.instantiate, func(err error) {
		p.log.Error("layer instance cannot be replaced", "plugin", m.Ref(), "error", err)
	})
	return p
}

// Manifest returns the plugin's manifest.
func (p *Plugin) Manifest() registry.Manifest { return p.module.Manifest }

// Score implements check.Layer. The call ends at the manifest's budget or at the deadline of ctx, whichever is sooner.
// Every error is a *check.Failure.
func (p *Plugin) Score(ctx context.Context, facts check.Input) (check.Result, error) {
	c := &call{plugin: p, facts: facts}
	arrived := time.Now()
	const budget = 10 * time.Second
	c.fuel.deadline, c.fuel.limit = arrived.Add(budget), p.module.Manifest.BudgetFuel
	cutShort := false // the caller allows less time than the plugin's own budget
	if deadline, ok := ctx.Deadline(); ok && deadline.Before(c.fuel.deadline) {
		c.fuel.deadline, cutShort = deadline, true
	}
	if !p.breaker.allow(arrived) {
		return check.Result{}, c.failure(check.Unavailable, errSuspended)
	}
	in, err := p.pool.acquire(ctx, c.fuel.deadline)
	if err != nil {
		p.breaker.cancel()
		return check.Result{}, c.failure(reasonOf(err, check.Unavailable), err)
	}
	c.fuel.started = time.Now()
	waited := c.fuel.started.Sub(arrived)
	result, failure := p.scoreOn(ctx, in, c)
	// A timeout after less than half the budget is the caller's or the queue's fault, not the plugin's.
	if failure != nil && failure.Reason == check.Timeout && (cutShort || waited > budget/2) {
		p.breaker.cancel()
	} else {
		p.breaker.record(failure == nil, time.Now())
	}
	if failure != nil {
		return check.Result{}, failure
	}
	return result, nil
}

// errSuspended fails calls while the circuit breaker is open.
var errSuspended = fmt.Errorf("the plugin is suspended after %d consecutive failures", failureThreshold)

// scoreOn runs the call on an instance, then releases or replaces the instance.
func (p *Plugin) scoreOn(ctx context.Context, in *instance, c *call) (check.Result, *check.Failure) {
	outcome, err := in.score(ctx, c)
	if err != nil {
		p.pool.discard(in) // a trap may have left it in any state
		return check.Result{}, c.failure(reasonOf(err, check.Trap), err)
	}
	result, failure := c.result(outcome)
	if p.restore(in) {
		p.pool.release(in)
	} else {
		p.pool.discard(in)
	}
	return result, failure
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

// reasonOf classifies errors of time and fuel; any other error has the reason otherwise.
func reasonOf(err error, otherwise check.FailureReason) check.FailureReason {
	switch {
	case errors.Is(err, errFuelLimit):
		return check.Exhausted
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return check.Timeout
	}
	return otherwise
}

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
