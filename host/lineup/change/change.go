// Package change changes the lineup in force: an operator proposes one, every live host prepares it and reports which
// verdicts it changes, a limit judges that, a signed activation puts it in force, and hosts report when they run it.
package change

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"assay/host/check"
	"assay/host/lineup"
	"assay/host/lineup/fleet"
	"assay/host/lineup/replay"
	"assay/registry"
	"assay/registry/activation"
	"assay/registry/fault"
	"assay/registry/release"
)

// Storage is the part of the database that a change needs.
type Storage interface {
	lineup.Source
	lineup.Store
	fleet.Store
	PluginNotes(ctx context.Context, digest registry.Digest) (registry.Notes, error)
	// Activate fails with activation.ErrSuperseded unless the previous activation is in force.
	Activate(ctx context.Context, a activation.Signed) error
}

// Operator changes the lineup in force, on all hosts.
type Operator struct {
	*lineup.Verifier
	Storage Storage
	Key     *activation.Key // nil: changes fail with ErrNoKey
	Author  string          // see activation.Activation
	// Try opens the layers of a lineup in this process and runs their cases, see lineup.Try.
	Try func(ctx context.Context, l registry.LineupDocument, inForce []registry.LineupLayer) (
		[]registry.Manifest, error)
	BuiltIn func() ([]registry.Module, error) // returns the modules of this program
	// Open opens lineups in this process to score values, see lineup.OpenPinned.
	Open      func(ctx context.Context, all ...registry.LineupDocument) (_ []*check.Lineup, closeAll func(), err error)
	LayerTime time.Duration // of a check, without its lookups
	// Observe is called for each step. If it fails for a report, the change ends before it is in force. It may be nil.
	Observe func(Event) error
}

// Event is a step of a change. One of its fields is set.
type Event struct {
	Host       *fleet.Event   // a host has prepared, refuses or runs the lineup, or is skipped
	Report     *replay.Report // the verdicts that the lineup changes
	Slow       *SlowType      // a warning
	EndsCanary int64          // a warning: the revision of the canary that the change ends
	NoBase     int64          // a warning: the activation that a lineup replaces without having a base
}

// Change is a lineup to put in force, for all accounts or in a canary.
type Change struct {
	Base   lineup.Verified // in force, from which the change derives
	Lineup registry.LineupDocument
	Own    registry.LineupLayer // whose module the operator has built; it needs no signature
	Share  int                  // in percent of the accounts, for a canary next to the lineup in force; 0: all
	Canary *activation.Canary   // that continues next to Lineup; nil: the canary in force ends
	Limit  float64              // share of the verdicts that may change; a host withdraws a canary that changes more
	Forced bool                 // the limit does not count, except for a canary
	Reason string               // empty: the lineup's
	Above  int64                // see lineup.Proposal
}

// limit returns the limit with the precision of an activation.
func (c Change) limit() activation.Limit { return activation.Limit(math.Round(c.Limit * 10_000)) }

// proposal returns the change as a proposal, given its stored lineup.
func (c Change) proposal(stored activation.Lineup) lineup.Proposal {
	p := lineup.Proposal{Base: c.Base.Activation, Lineup: stored, Canary: c.Canary, Above: c.Above,
		Reason: cmp.Or(c.Reason, c.Lineup.Note)}
	if c.Share != 0 {
		p.Lineup = c.Base.Lineup
		p.Canary = &activation.Canary{Lineup: stored, Share: c.Share, Limit: c.limit()}
	}
	return p
}

// Judge fails with a *BeyondLimitError if the lineup changes more verdicts than the operator allows.
func (c Change) Judge(report *replay.Report) error {
	limit := c.Limit
	if c.Share != 0 {
		limit = c.limit().Share()
	}
	beyond := report.Beyond(limit)
	if len(beyond) == 0 || c.Forced && c.Share == 0 {
		return nil
	}
	return &BeyondLimitError{Types: beyond, Limit: limit, Canary: c.Share != 0}
}

// maxAbove leaves numbers for all later activations, and is exact in JSON.
const maxAbove = 1 << 53

// Put makes every live host prepare a lineup, reports its effect on verdicts, judges it, puts the lineup in force and
// waits until the hosts run it.
func (o *Operator) Put(ctx context.Context, c Change) (Activated, error) {
	if c.Above != 0 && (c.Above <= c.Base.Number || c.Above > maxAbove) {
		return Activated{}, fmt.Errorf("activation %d is in force, so --above must be from %d to %d, not %d",
			c.Base.Number, c.Base.Number+1, int64(maxAbove), c.Above)
	}
	next, err := lineup.Pin(ctx, o.Storage, c.Lineup, c.Base.Document)
	if err != nil {
		return Activated{}, err
	}
	if err := o.vouch(ctx, next, slices.Concat(c.Base.Layers(), []registry.LineupLayer{c.Own})); err != nil {
		return Activated{}, stays(c.Base, err)
	}
	if err := o.try(ctx, next, c.Base); err != nil {
		return Activated{}, stays(c.Base, err)
	}
	stored, err := lineup.StoreLineup(ctx, o.Storage, next, registry.OriginOperator)
	if err != nil {
		return Activated{}, err
	}
	p := c.proposal(stored)
	if c.Canary == nil {
		o.warnOfCanary(p)
	}
	a, rollout := o.Complete(p), o.rollout()
	candidate, err := o.Candidate(ctx, a)
	var prepared *fleet.Proposal
	if err == nil {
		prepared, err = rollout.Prepare(ctx, candidate)
	}
	if err != nil {
		return Activated{}, o.unchanged(ctx, c.Base, next, err)
	}
	defer prepared.Close()
	report, err := o.report(ctx, prepared, c.Base.Document, next)
	if err == nil {
		err = o.observe(Event{Report: report})
	}
	if err == nil {
		err = c.Judge(report)
	}
	if err != nil {
		return Activated{}, o.unchanged(ctx, c.Base, next, err)
	}
	_, err = o.Commit(ctx, a)
	if errors.Is(err, activation.ErrSuperseded) {
		return Activated{}, o.unchanged(ctx, c.Base, next, err)
	}
	if err != nil {
		return Activated{}, err
	}
	return o.await(ctx, rollout, a)
}

// vouch reports an error unless the module of each layer is or was in force, is signed by a publisher whom the trust
// file lists or is one of this program's: write access to the database must not be enough to have an operator sign a
// module.
func (o *Operator) vouch(ctx context.Context, l registry.LineupDocument, inForce []registry.LineupLayer) error {
	var errs []error
	for _, layer := range l.Layers {
		if !slices.ContainsFunc(inForce, layer.SameVersion) {
			errs = append(errs, fault.Wrap(o.vouchLayer(ctx, layer), "%s", layer.Layer))
		}
	}
	return errors.Join(errs...)
}

func (o *Operator) vouchLayer(ctx context.Context, layer registry.LineupLayer) error {
	digest, _ := layer.ModuleDigest()
	m, err := o.Storage.Module(ctx, digest)
	if err != nil {
		return err
	}
	notes, err := o.Storage.PluginNotes(ctx, digest)
	if err != nil {
		return err
	}
	_, _, refused := release.Accept(o.Trust, release.Of(m), notes[registry.NoteSignature])
	if refused == nil {
		return nil
	}
	ran, err := o.Ran(ctx, layer)
	if ran || err != nil {
		return err
	}
	builtIn, err := o.BuiltIn()
	if err == nil && !slices.ContainsFunc(builtIn, func(b registry.Module) bool { return b.Digest == digest }) {
		err = refused
	}
	return err
}

// try opens the layers of a lineup that are not in force yet in this process, before any host has to.
func (o *Operator) try(ctx context.Context, l registry.LineupDocument, base lineup.Verified) error {
	manifests, err := o.Try(ctx, l, base.Layers())
	if err == nil {
		err = l.CheckFitness(manifests)
	}
	if err != nil {
		return err
	}
	for _, slow := range slowTypes(manifests, o.LayerTime) {
		_ = o.observe(Event{Slow: &slow})
	}
	return nil
}

func (o *Operator) observe(e Event) error {
	if o.Observe == nil {
		return nil
	}
	return o.Observe(e)
}

// rollout returns a rollout to all hosts that reports their progress.
func (o *Operator) rollout() *fleet.Rollout {
	return &fleet.Rollout{Store: o.Storage, Observe: func(e fleet.Event) { _ = o.observe(Event{Host: &e}) }}
}

// await waits until every live host runs an activation. Its error names the hosts that do not.
func (o *Operator) await(ctx context.Context, rollout *fleet.Rollout, a activation.Activation) (Activated, error) {
	done := Activated{Revision: a.Lineup.Revision, Activation: a.Number}
	if a.Canary != nil {
		done.Canary, done.Share = a.Canary.Revision, a.Canary.Share
	}
	running, failure := rollout.Await(ctx, a.Number)
	for _, h := range running {
		done.Running = append(done.Running, h.Name)
	}
	done.Hosts = len(running)
	if failure != nil {
		return done, fmt.Errorf("activation %d (%s) is %s, but not everywhere:\n%w", a.Number, done.What(),
			done.Where(), failure)
	}
	hosts, err := o.Storage.Hosts(ctx)
	if err != nil {
		return done, err
	}
	done.Silent = fleet.Silent(hosts)
	done.Skipped = len(done.Silent)
	return done, nil
}
