// Package lineup keeps a host on the active lineup. It publishes the built-in layers, loads the revision that the
// database names as active, and swaps it in while checks run. Lineup documents are in package registry, scoring is in
// package check, and storage implements [Source] and [Catalog].
package lineup

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"assay/host/check"
	"assay/host/sandbox"
	"assay/registry"
	"assay/registry/activation"
	"assay/registry/fault"
)

const (
	pollInterval = time.Second
	retryDelay   = 15 * time.Second // before loading a refused revision again
	loadTimeout  = 30 * time.Minute
	keepPrevious = 30 * time.Minute // for a rollback
)

// The time limits of statements in the background. Without one, a statement whose connection was cut off silently
// blocks the connection, permanently if a device in between acknowledges its data.
const (
	readTimeout   = 2 * time.Second  // a single small statement
	verifyTimeout = 10 * time.Second // verifying reads an activation for each step that hosts have taken since
	moduleTimeout = time.Minute      // modules have several megabytes
)

// Source provides published plugins.
type Source interface {
	Plugin(ctx context.Context, name, version string) (registry.PublishedPlugin, error)
	Plugins(ctx context.Context) ([]registry.PublishedPlugin, error)
	Module(ctx context.Context, digest registry.Digest) (registry.Module, error)
}

// Follower keeps one host on the activation that was stored last, if its Verifier lets it run. It loads the lineup
// completely (every module vetted, compiled and warmed) before swapping it in, and relies only on signed digests. If
// verifying or loading fails, the previous lineup stays in force.
type Follower struct {
	verifier     *Verifier
	open         *openPlugins
	live         *check.Live
	log          *slog.Logger
	changed      chan struct{} // holds an element after a notification that another lineup may be active
	published    chan struct{} // holds an element after a notification that plugins may have been published
	stateChanged chan struct{} // holds an element after the state has changed
	pollInterval time.Duration
	retryDelay   time.Duration
	keepPrevious time.Duration

	mu       sync.Mutex // guards the fields below
	state    State
	inForce  Verified      // the activation in force
	steps    ownSteps      // that led to it
	refused  string        // the last activation, if this host refused it
	plugins  []*openPlugin // of the lineup in force
	previous *retired      // the previous lineup, while it is kept; nil: none
	draining sync.WaitGroup
}

// State is a host's progress in following the activations.
type State struct {
	Activation int64  // number of the activation in force on this host; 0 before the first
	Revision   int64  // of its lineup
	Canary     int64  // revision of its canary, 0 if there is none
	Refused    int64  // revision of the last activation if this host refused it, -1 if unknown, otherwise 0
	Reason     string // why it was refused

	RefusedActivation int64 // number of the last activation if this host refused it, otherwise 0
}

// NewFollower returns a follower that swaps lineups into live.
func NewFollower(verifier *Verifier, source Source, box *sandbox.Sandbox, live *check.Live,
	log *slog.Logger) *Follower {
	return &Follower{
		verifier: verifier, open: newOpenPlugins(source, box, log), live: live, log: log,
		changed: make(chan struct{}, 1), published: make(chan struct{}, 1), stateChanged: make(chan struct{}, 1),
		pollInterval: pollInterval, retryDelay: retryDelay, keepPrevious: keepPrevious,
	}
}

// LineupChanged notifies the follower that another lineup may be active. It never blocks.
func (f *Follower) LineupChanged() { notify(f.changed) }

// PluginsPublished notifies the follower that plugins may have been published. It never blocks.
func (f *Follower) PluginsPublished() { notify(f.published) }

func notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default: // The receiver has not acted on an earlier notification, and will see both changes.
	}
}

// State returns the revisions in force and refused on this host.
func (f *Follower) State() State {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.state
}

// InForce returns the activation that is in force on this host, with number 0 if there is none, and the manifests of
// its layers that are not off, by the digest of the layer's module.
func (f *Follower) InForce() (a Verified, manifests map[string]registry.Manifest) {
	f.mu.Lock()
	defer f.mu.Unlock()
	manifests = map[string]registry.Manifest{}
	for _, p := range f.plugins {
		manifests[p.Digest().String()] = p.Manifest()
	}
	return f.inForce, manifests
}

// StateChanged returns a channel that receives an element when State changes. It has one receiver.
func (f *Follower) StateChanged() <-chan struct{} { return f.stateChanged }

// Degraded describes the lineup's problems that do not keep the host from answering, in a sentence each.
func (f *Follower) Degraded() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var problems []string
	if f.state.Refused != 0 {
		what := "the lineup that was activated last"
		if f.state.Refused > 0 {
			what = fmt.Sprintf("lineup revision %d", f.state.Refused)
		}
		problems = append(problems, fmt.Sprintf("%s was refused here, and revision %d stays in force: "+
			"`assay lineup hosts` says why", what, f.state.Revision))
	}
	for _, layer := range f.verifier.revoked(f.inForce.Layers()) {
		problems = append(problems, fmt.Sprintf("layer %s is in force, although the trust file revokes its plugin",
			layer))
	}
	if f.steps.of == f.inForce.Hash {
		problems = append(problems, f.steps.sentences...)
	}
	return problems
}

// Run follows the active revision until ctx ends. It acts on notifications at once and polls in between. Preparing
// published plugins does not delay it.
func (f *Follower) Run(ctx context.Context) {
	var preparing sync.WaitGroup
	preparing.Go(func() { f.preparePublished(ctx) })
	defer preparing.Wait()
	tick := time.NewTicker(f.pollInterval)
	defer tick.Stop()
	var failed time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-f.changed:
		case <-tick.C:
			if time.Since(failed) < f.retryDelay && f.stillRefused(ctx) {
				continue
			}
		}
		if err := f.advance(ctx, f.last); err != nil && ctx.Err() == nil {
			failed = time.Now()
			f.log.Error("following the lineup failed; the previous revision stays in force", "error", err)
		}
	}
}

// stillRefused reports whether the last activation is the one that this host refused.
func (f *Follower) stillRefused(ctx context.Context) bool {
	f.mu.Lock()
	refused, refuses := f.refused, f.state.Refused != 0
	f.mu.Unlock()
	if !refuses {
		return false
	}
	last, _, err := f.last(ctx)
	return err == nil && last == refused
}

// last reads the last activation in the background.
func (f *Follower) last(ctx context.Context) (signed string, ok bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	return f.verifier.Records.LastActivation(ctx)
}

// Follow loads the last activation and swaps it in, unless it is already in force. If another one is stored meanwhile,
// Follow abandons the load, so that a rollback does not wait for a lineup that takes long to compile.
//
// A host that has just started and must refuse the last activation continues with the one that it ran before.
func (f *Follower) Follow(ctx context.Context) error {
	return f.advance(ctx, f.verifier.Records.LastActivation) // a starting host waits for a busy database
}

// advance is Follow with a function that reads the last activation.
func (f *Follower) advance(
	ctx context.Context, read func(ctx context.Context) (signed string, ok bool, err error),
) error {
	for {
		last, ok, err := read(ctx)
		if err != nil {
			return err
		}
		if !ok {
			return f.missing()
		}
		if f.isInForce(last) {
			f.noteSteps(ctx)
			return nil
		}
		err = f.follow(ctx, last)
		if errors.Is(err, errSuperseded) {
			continue
		}
		if err != nil && f.State().Revision == 0 {
			err = errors.Join(err, f.resume(ctx))
		}
		f.noteSteps(ctx)
		return err
	}
}

// missing reports an error if no activation is stored, although this host ran one.
func (f *Follower) missing() error {
	if number, _ := f.verifier.Memory.Last(); number > 0 {
		return fmt.Errorf("following the lineup: activation %d, which this host ran, is missing from the database",
			number)
	}
	return nil
}

// resume loads the activation that this host ran last.
func (f *Follower) resume(ctx context.Context) error {
	number, hash := f.verifier.Memory.Last()
	if number == 0 {
		return nil
	}
	bounded, cancel := context.WithTimeout(ctx, verifyTimeout)
	defer cancel()
	signed, err := f.verifier.Records.Activation(bounded, hash)
	var a Verified
	if err == nil {
		a, err = f.verifier.Verify(bounded, signed)
	}
	if err == nil {
		err = f.load(ctx, a)
	}
	return fault.Wrap(err, "continuing with activation %d", number)
}

// errSuperseded means that another activation was stored while one was being loaded.
var errSuperseded = errors.New("another activation is in force")

func (f *Follower) follow(ctx context.Context, last string) error {
	ctx, cancel := context.WithTimeout(ctx, loadTimeout)
	defer cancel()
	ctx, abandon := context.WithCancelCause(ctx)
	var watching sync.WaitGroup
	watching.Go(func() { f.watch(ctx, last, func() { abandon(errSuperseded) }) })
	began := time.Now()
	verifying, done := context.WithTimeout(ctx, verifyTimeout)
	a, err := f.verifier.Verify(verifying, last)
	done()
	if err == nil {
		err = f.load(ctx, a)
		f.open.trim()
	}
	abandon(nil)
	watching.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case err == nil:
		f.log.Info("lineup in force", "activation", a.Number, "revision", a.Lineup.Revision, "layers",
			len(a.Document.Layers), "canary", f.state.Canary, "ms", time.Since(began).Milliseconds())
		return nil
	case errors.Is(context.Cause(ctx), errSuperseded):
		f.log.Info("loading a lineup was abandoned, because another one was activated", "activation", a.Number)
		return errSuperseded
	}
	f.refused, f.state.Refused, f.state.Reason = last, -1, err.Error()
	f.state.RefusedActivation = f.state.Activation + 1
	if a, unreadable := activation.Unverified(last); unreadable == nil {
		f.state.Refused, f.state.RefusedActivation = a.Lineup.Revision, a.Number
	}
	notify(f.stateChanged)
	return fmt.Errorf("following the last activation: %w", err)
}

// watch calls abandon if an activation other than last is stored before ctx ends.
func (f *Follower) watch(ctx context.Context, last string, abandon func()) {
	tick := time.NewTicker(f.pollInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-f.changed:
			defer notify(f.changed) // Run must see the change too, if the load ends first
		case <-tick.C:
		}
		if now, ok, err := f.last(ctx); err == nil && ok && now != last {
			abandon()
			return
		}
	}
}

// isInForce reports whether an activation is already in force here. If so, it clears an earlier refusal: a backup
// without the refused activation was restored.
func (f *Follower) isInForce(signed string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.state.Revision == 0 || f.inForce.Note != signed {
		return false
	}
	if f.state.Reason != "" {
		notify(f.stateChanged)
	}
	f.state.Refused, f.state.RefusedActivation, f.state.Reason = 0, 0, ""
	return true
}
