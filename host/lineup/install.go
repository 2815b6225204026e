package lineup

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"assay/host/check"
	"assay/host/sandbox"
	"assay/registry"
	"assay/registry/activation"
	"assay/registry/fault"
)

// Store stores lineups.
type Store interface {
	// StoreLineup returns the revision of a lineup, or of an equal one if it exists.
	StoreLineup(ctx context.Context, canonical []byte, origin registry.LineupOrigin) (revision int64, err error)
}

// Catalog stores published plugins, lineups and activations.
type Catalog interface {
	Source
	Store
	PublishPlugin(ctx context.Context, m registry.Module, version, owner string, notes registry.Notes) error
	// Activate fails with activation.ErrSuperseded unless the previous activation is in force.
	Activate(ctx context.Context, a activation.Signed) error
}

// Installer updates a database to the built-in layers when a host starts.
type Installer struct {
	Catalog  Catalog
	Verifier *Verifier
	Operator *activation.Key // nil if this host does not have the operator's key
	// Prepare makes all hosts prepare an activation that replaces another. They keep it ready until done is called.
	// nil: there are no other hosts.
	Prepare func(ctx context.Context, next activation.Activation) (done func() error, err error)
	Log     *slog.Logger
	Now     func() time.Time
}

var (
	errNoOperator = errors.New("this host cannot read the operator's key")
	errUnsigned   = errors.New("no lineup in the database is signed, although there are activations, or this host " +
		"ran signed ones: activate one with `assay lineup set`")
)

// attempts limits how often an installation restarts because another host has activated a lineup meanwhile.
const attempts = 10

// Install publishes the built-in layers and, unless an operator chose the lineup in force, activates the default lineup
// of these layers. Without built-in layers it changes nothing. It reports whether the operator's lineup lacks built-in
// layers or uses other versions of them.
func (in *Installer) Install(ctx context.Context, modules []registry.Module) (updatable bool, err error) {
	var builtIn *registry.LineupDocument
	if len(modules) > 0 {
		if builtIn, err = in.publish(ctx, modules); err != nil {
			return false, err
		}
	}
	for attempt := 1; ; attempt++ {
		updatable, err = in.install(ctx, builtIn)
		if attempt == attempts || !errors.Is(err, activation.ErrSuperseded) {
			break
		}
	}
	return updatable, fault.Wrap(err, "installing layers")
}

// publish publishes the built-in layers and returns their default lineup.
func (in *Installer) publish(ctx context.Context, modules []registry.Module) (*registry.LineupDocument, error) {
	builtIn, err := registry.DefaultLineup()
	if err != nil {
		return nil, err
	}
	versions, digests := map[string]string{}, map[string]registry.Digest{}
	for _, m := range modules {
		name := m.Manifest.Name
		if versions[name], err = publish(ctx, in.Catalog, m); err != nil {
			return nil, err
		}
		digests[name] = m.Digest
	}
	for i, layer := range builtIn.Layers {
		version, ok := versions[layer.Layer]
		if !ok {
			return nil, fmt.Errorf("installing layers: the default lineup names %q, which was not built", layer.Layer)
		}
		builtIn.Layers[i].Layer += "@" + version
		builtIn.Layers[i].Digest = digests[layer.Layer].String()
	}
	return &builtIn, fault.Wrap(builtIn.Validate(), "installing layers")
}

func (in *Installer) install(ctx context.Context, builtIn *registry.LineupDocument) (updatable bool, err error) {
	signed, ok, err := in.Verifier.Records.LastActivation(ctx)
	if err != nil {
		return false, err
	}
	var base Verified
	switch number, _ := in.Verifier.Memory.Last(); {
	case ok && signed != "":
		if base, err = in.Verifier.Verify(ctx, signed); err != nil {
			return false, err
		}
	case number > 0 || ok:
		return false, errUnsigned
	}
	if builtIn == nil || base.Number != 0 && base.Document.Same(*builtIn) {
		return false, nil
	}
	if base.Number != 0 {
		if chosen, err := in.chosenByOperator(ctx, base); err != nil || chosen {
			return err == nil && !hasLayers(base.Document, *builtIn), err
		}
	}
	if in.Operator == nil && base.Number != 0 {
		in.Log.Warn("the built-in lineup is newer than the one in force, but this host cannot sign it: start a host " +
			"with the operator's key, or activate it with `assay lineup set`")
		return true, nil
	}
	_, err = in.activate(ctx, base.Activation, *builtIn, registry.OriginBuiltIn,
		Proposal{Author: activation.BuiltIn, Reason: builtIn.Note})
	if errors.Is(err, errNotPrepared) {
		in.Log.Warn("the built-in lineup is newer than the one in force, which stays in force", "error", err)
		return true, nil
	}
	return false, err
}

var errNotPrepared = errors.New("not every host is ready to run it")

// activate signs a lineup and puts it in force.
func (in *Installer) activate(
	ctx context.Context, base activation.Activation, l registry.LineupDocument,
	origin registry.LineupOrigin, p Proposal,
) (activation.Signed, error) {
	if in.Operator == nil {
		return activation.Signed{}, errNoOperator
	}
	stored, err := StoreLineup(ctx, in.Catalog, l, origin)
	if err != nil {
		return activation.Signed{}, err
	}
	p.Base, p.Lineup, p.At = base, stored, in.Now()
	signed, err := p.Sign(*in.Operator, in.Verifier.Trust)
	if err != nil {
		return signed, err
	}
	if base.Number == 0 || in.Prepare == nil {
		return signed, in.Catalog.Activate(ctx, signed)
	}
	done, err := in.Prepare(ctx, signed.Activation)
	if err != nil {
		return signed, fmt.Errorf("%w: %w", errNotPrepared, err)
	}
	return signed, errors.Join(in.Catalog.Activate(ctx, signed), done())
}

// chosenByOperator reports whether an operator chose the lineup in force: it is not the built-in lineup that was
// activated last, or has a canary. It trusts only signed texts, so that write access to the database is not enough to
// have the next start replace an operator's choice.
func (in *Installer) chosenByOperator(ctx context.Context, inForce Verified) (bool, error) {
	if inForce.Canary != nil {
		return true, nil // another lineup would end the canary
	}
	for a := inForce.Activation; ; {
		if a.Author == activation.BuiltIn {
			return a.Lineup != inForce.Lineup, nil
		}
		if a.Previous == (registry.Digest{}) {
			return true, nil
		}
		var err error
		if _, a, err = in.Verifier.Before(ctx, a); err != nil {
			return false, err
		}
	}
}

// publish publishes a first-party module under its manifest's version. If that version was published with other code,
// which happens between releases, publish appends a prefix of the digest as build metadata.
func publish(ctx context.Context, catalog Catalog, m registry.Module) (version string, err error) {
	version = m.Manifest.Version
	err = catalog.PublishPlugin(ctx, m, version, registry.Release, nil)
	if errors.Is(err, registry.ErrVersionTaken) {
		version += "+" + strings.TrimPrefix(m.Digest.String(), "sha256:")[:12]
		err = catalog.PublishPlugin(ctx, m, version, registry.Release, nil)
	}
	return version, err
}

// hasLayers reports whether l has every layer of wanted in the same version.
func hasLayers(l, wanted registry.LineupDocument) bool {
	return !slices.ContainsFunc(wanted.Layers, func(layer registry.LineupLayer) bool {
		return !slices.ContainsFunc(l.Layers, func(has registry.LineupLayer) bool { return has.Layer == layer.Layer })
	})
}

// Try pins a lineup, opens its modules in this process, runs their test cases in the lineup's configuration, and closes
// them again. It returns the layers' manifests, or all errors, so that an operator does not activate a lineup that no
// host can load or whose layers fail their own cases. Layers that are in force with the same module and settings were
// tried before.
func Try(ctx context.Context, source Source, box *sandbox.Sandbox, l registry.LineupDocument,
	inForce []registry.LineupLayer) ([]registry.Manifest, error) {
	open := newOpenPlugins(source, box, slog.New(slog.DiscardHandler))
	l, unknown := Pin(ctx, source, l, registry.LineupDocument{})
	manifests, err := Manifests(ctx, source)
	if err != nil {
		return nil, fmt.Errorf("trying lineup: %w", err)
	}
	refused := []error{unknown}
	untried := l
	untried.Layers = slices.DeleteFunc(slices.Clone(l.Layers), func(layer registry.LineupLayer) bool {
		manifest, known := manifests[layer.Layer]
		if !known || !slices.ContainsFunc(inForce, layer.SameModule) {
			return false
		}
		if err := fits(layer, manifest); err != nil {
			refused = append(refused, fmt.Errorf("%s: %w", layer.Layer, err))
		}
		return true
	})
	plugins, err := open.acquire(ctx, untried)
	if err := errors.Join(append(refused, err)...); err != nil {
		open.release(plugins)
		return nil, fmt.Errorf("trying lineup: %w", err)
	}
	var errs []error
	for i, p := range plugins {
		manifests[untried.Layers[i].Layer] = p.Manifest()
		errs = append(errs, tryCases(ctx, source, p, untried.Layers[i]), p.Close(ctx))
	}
	return l.ManifestsOf(manifests), errors.Join(errs...)
}

// Manifests returns the manifests of all published plugins by name@version.
func Manifests(ctx context.Context, source Source) (map[string]registry.Manifest, error) {
	published, err := source.Plugins(ctx)
	if err != nil {
		return nil, err
	}
	manifests := map[string]registry.Manifest{}
	for _, p := range published {
		if manifests[p.Ref()], err = p.ParseManifest(); err != nil {
			return nil, fmt.Errorf("reading the manifest of %s: %w", p.Ref(), err)
		}
	}
	return manifests, nil
}

// OpenPinned opens lineups whose layers have digests, to score values without recording them. They share the plugins,
// which stay open until closeAll is called.
func OpenPinned(ctx context.Context, source Source, box *sandbox.Sandbox,
	documents ...registry.LineupDocument) (lineups []*check.Lineup, closeAll func(), err error) {
	open := newOpenPlugins(source, box, slog.New(slog.DiscardHandler))
	var used []*openPlugin
	closeAll = func() { open.release(used) }
	for _, l := range documents {
		opened, plugins, err := open.openLineup(ctx, 0, l)
		if err != nil {
			closeAll()
			return nil, nil, fmt.Errorf("opening lineup: %w", err)
		}
		lineups, used = append(lineups, opened), append(used, plugins...)
	}
	return lineups, closeAll, nil
}

// tryCases runs the test cases that came with a layer's module.
func tryCases(ctx context.Context, source Source, p *openPlugin, item registry.LineupLayer) error {
	digest, _ := item.ModuleDigest()
	module, err := source.Module(ctx, digest)
	if err != nil {
		return err
	}
	cases, err := module.Cases()
	if err == nil {
		err = RunCases(ctx, p.Plugin, item.Config, cases)
	}
	return fault.Wrap(err, "running the cases of %s", item.Layer)
}
