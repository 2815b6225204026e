package installation

import (
	"context"
	"errors"
	"log/slog"
	"os"

	"assay/host/internal/terminal"
	"assay/registry"
	"assay/registry/builtin"
	"assay/registry/sealed"
)

// ErrNoBuiltIn is the error of a command that needs the built-in layers.
var ErrNoBuiltIn = errors.New("there are no built-in layers: this program is not a release, and the working " +
	"directory is not in a checkout of assay")

// layerCacheBytes bounds the built layers on disk.
const layerCacheBytes = 256 << 20

// BuiltInLayers returns the first-party modules: those in the release, even in a checkout, or those built from the
// source around the working directory. Without either it returns none.
func BuiltInLayers(ctx context.Context, cfg *Config, t *terminal.Terminal) ([]registry.Module, error) {
	if builtin.Embedded {
		return builtin.Modules()
	}
	dir, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	source, err := LayerSource(dir, cfg, QuietLog(t))
	if errors.Is(err, registry.ErrNoSource) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return source.BuildAll(ctx, t.Progress("building layers"))
}

// LayerSource finds the source of the first-party layers around folder dir. It caches built layers in the data
// directory of the installation, if there is one.
func LayerSource(dir string, cfg *Config, log *slog.Logger) (registry.Source, error) {
	keys, err := cfg.LoadInstallation()
	if errors.Is(err, ErrNoInstallation) {
		return registry.FindSource(dir, nil, log)
	}
	if err != nil {
		return registry.Source{}, err
	}
	cache, err := sealed.Open(cfg.Path("layers"), keys.Cache, layerCacheBytes)
	if err != nil {
		log.Warn("built layers cannot be cached", "error", err)
	}
	return registry.FindSource(dir, cache, log)
}
