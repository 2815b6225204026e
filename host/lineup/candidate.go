package lineup

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"assay/host/check"
	"assay/host/sandbox"
	"assay/registry"
)

// Candidate is a lineup whose layers are open in this process to be measured. It is not in force.
type Candidate struct {
	Members   []check.Member
	Manifests []registry.Manifest // of the members
	plugins   []*sandbox.Plugin
}

// OpenCandidate opens the layers of a lineup. A layer named with a version is the published plugin or, if there is
// none, the one from build with that version. A layer named without a version is the one from build.
func OpenCandidate(
	ctx context.Context, source Source, box *sandbox.Sandbox, l registry.LineupDocument,
	build func() ([]registry.Module, error),
) (*Candidate, error) {
	c := &Candidate{}
	l.Layers = slices.Clone(l.Layers)
	for i := range l.Layers {
		if err := c.openLayer(ctx, source, box, &l.Layers[i], build); err != nil {
			return nil, errors.Join(err, c.Close())
		}
	}
	if err := l.Validate(); err != nil {
		return nil, errors.Join(fmt.Errorf("reading lineup: %w", err), c.Close())
	}
	return c, nil
}

// openLayer opens one layer and adds the version to its item if it lacks one.
func (c *Candidate) openLayer(
	ctx context.Context, source Source, box *sandbox.Sandbox, item *registry.LineupLayer,
	build func() ([]registry.Module, error),
) error {
	module, version, err := findModule(ctx, source, *item, build)
	if err != nil {
		return err
	}
	item.Layer = module.Manifest.Name + "@" + version
	plugin, err := start(ctx, box, *item, module)
	if err != nil {
		return err
	}
	c.plugins = append(c.plugins, plugin)
	c.Members = append(c.Members, NewMember(*item, plugin))
	c.Manifests = append(c.Manifests, plugin.Manifest())
	return nil
}

// findModule returns the module of an item and its version.
func findModule(
	ctx context.Context, source Source, item registry.LineupLayer, build func() ([]registry.Module, error),
) (m registry.Module, version string, err error) {
	name, version, versioned := item.Ref()
	if digest, ok := item.ModuleDigest(); ok && versioned {
		if m, err = source.Module(ctx, digest); err == nil {
			err = fits(item, m.Manifest)
		}
		if !errors.Is(err, registry.ErrNoPlugin) {
			return m, version, err
		}
	} else if versioned {
		published, err := source.Plugin(ctx, name, version)
		if err == nil {
			m, err = source.Module(ctx, published.Digest)
			return m, version, err
		}
		if !errors.Is(err, registry.ErrNoPlugin) {
			return m, version, err
		}
	}
	built, err := build()
	if err != nil {
		return m, version, err
	}
	for _, m := range built {
		if m.Manifest.Name == name && (!versioned || m.Manifest.Version == version) &&
			(item.Digest == "" || m.Digest.String() == item.Digest) {
			return m, m.Manifest.Version, nil
		}
	}
	return m, version, fmt.Errorf("looking up %s: it is neither published nor built in", item.Layer)
}

// Close closes the layers.
func (c *Candidate) Close() error {
	var errs []error
	for _, p := range slices.Backward(c.plugins) {
		errs = append(errs, p.Close(context.Background()))
	}
	return errors.Join(errs...)
}
