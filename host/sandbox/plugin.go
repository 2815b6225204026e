package sandbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/sys"

	"assay/host/check"
	"assay/registry"
)

// Plugin is a module ready to score. It is safe for concurrent use until it is closed.
type Plugin struct {
	module   registry.Module
	engine   wazero.Runtime
	compiled wazero.CompiledModule
	pool     *pool
	pristine *pristine // nil when instances are not put back after a call
	breaker  breaker
	facts    map[string]bool   // those the manifest declares
	codes    map[string]string // signal codes that it declares, each by itself
	log      *slog.Logger
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

// Manifest is what the plugin says of itself.
func (p *Plugin) Manifest() registry.Manifest { return p.module.Manifest }

// Score implements check.Layer. The call ends at the manifest's budget or the context's deadline, whichever is sooner.
func (p *Plugin) Score(ctx context.Context, facts check.Input) (check.Result, error) {
	c := &call{plugin: p, facts: facts}
	began := time.Now()
	c.fuel.deadline, c.fuel.ceiling = began.Add(p.module.Manifest.Budget()), p.module.Manifest.MaxFuel
	cutShort := false // by others, before the plugin's own budget
	if deadline, ok := ctx.Deadline(); ok && deadline.Before(c.fuel.deadline) {
		c.fuel.deadline, cutShort = deadline, true
	}
	if !p.breaker.allow(began) {
		return check.Result{}, c.lost(check.Unavailable, errResting)
	}
	in, err := p.pool.acquire(ctx, c.fuel.deadline)
	if err != nil {
		p.breaker.abandon()
		return check.Result{}, c.lost(reasonOf(err, check.Unavailable), err)
	}
	c.fuel.began = time.Now()
	waited := c.fuel.began.Sub(began)
	result, lost := p.scoreOn(ctx, in, c)
	// A call that got half of its budget or less, as it waited for an instance first, says nothing of the plugin.
	if lost != nil && lost.Reason == check.Timeout && (cutShort || waited > p.module.Manifest.Budget()/2) {
		p.breaker.abandon()
	} else {
		p.breaker.done(lost == nil, time.Now())
	}
	if lost != nil {
		return check.Result{}, lost
	}
	return result, nil
}

// errResting is why a plugin that keeps failing is not asked.
var errResting = fmt.Errorf("it failed %d times in a row and rests", breakAfter)

// scoreOn runs the call on an instance and gives that back, or replaces it.
func (p *Plugin) scoreOn(ctx context.Context, in *instance, c *call) (check.Result, *check.Failure) {
	outcome, err := in.score(ctx, c)
	if err != nil {
		p.pool.discard(in) // whatever state a trap left it in, nobody is to run on it
		return check.Result{}, c.lost(reasonOf(err, check.Trap), err)
	}
	result, lost := c.result(outcome)
	if p.putBack(in) {
		p.pool.release(in)
	} else {
		p.pool.discard(in)
	}
	return result, lost
}

// putBack makes an instance as good as new; where that cannot be done it says so, and the instance must be replaced.
func (p *Plugin) putBack(in *instance) bool {
	if p.pristine == nil {
		return true
	}
	ok, err := in.restore(p.pristine)
	if err != nil {
		p.log.Error("layer instance cannot be put back", "plugin", p.module.Ref(), "error", err)
	}
	return ok && err == nil
}

// Resting says whether the plugin is out of service after failing again and again.
func (p *Plugin) Resting() bool { return p.breaker.resting() }

// reasonOf tells a call that ran out of time or fuel from one that ended otherwise.
func reasonOf(err error, otherwise check.FailureReason) check.FailureReason {
	switch {
	case errors.Is(err, errCeiling):
		return check.Exhausted
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return check.Timeout
	}
	return otherwise
}

// Close ends the plugin. No call may be under way.
func (p *Plugin) Close(ctx context.Context) error {
	p.pool.close()
	if err := p.unload(ctx); err != nil {
		return fmt.Errorf("closing plugin %s: %w", p.module.Ref(), err)
	}
	return nil
}

// unload lets go of the compiled code too: it belongs to the cache that all plugins share, which keeps it until told.
func (p *Plugin) unload(ctx context.Context) error {
	err := p.engine.Close(ctx)
	if p.compiled != nil {
		err = errors.Join(err, p.compiled.Close(ctx))
	}
	return err
}

// exited tells a guest's own exit from a trap, for the error's text.
func exited(err error) error {
	var exit *sys.ExitError
	if errors.As(err, &exit) {
		return fmt.Errorf("the guest ended itself with exit code %d", exit.ExitCode())
	}
	return err
}
