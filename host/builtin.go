package main

import (
	"context"
	"errors"
	"log/slog"
	"os"

	"assay/registry"
	"assay/registry/builtin"
	"assay/registry/sealed"
)

// layerCacheBytes bounds the built layers on disk.
const layerCacheBytes = 256 << 20

// builtInLayers returns the first-party modules: those that a release contains, also in a checkout, or those built from
// the source around the working directory. Without either it returns none.
func builtInLayers(ctx context.Context, cfg *Config, t *terminal) ([]registry.Module, error) {
	if builtin.Embedded {
		return builtin.Modules()
	}
	dir, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	source, err := layerSource(dir, cfg, quietLog(t))
	if errors.Is(err, registry.ErrNoSource) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return source.BuildAll(ctx, t.progress("building layers"))
}

// layerSource finds the source of the first-party layers around folder dir. It caches built layers in the data
// directory of the installation, if there is one.
func layerSource(dir string, cfg *Config, log *slog.Logger) (registry.Source, error) {
	keys, err := cfg.loadInstallation()
	if errors.Is(err, errNoInstallation) {
		return registry.FindSource(dir, nil, log)
	}
	if err != nil {
		return registry.Source{}, err
	}
	cache, err := sealed.Open(cfg.path("layers"), keys.Cache, layerCacheBytes)
	if err != nil {
		log.Warn("built layers cannot be cached", "error", err)
	}
	return registry.FindSource(dir, cache, log)
}
