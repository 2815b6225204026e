package installation

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"

	"assay/host/access/keyring"
	"assay/host/internal/private"
	"assay/host/internal/terminal"
	"assay/registry"
	"assay/registry/builtin"
	"assay/registry/sealed"
)

// ErrNoBuiltIn is the error of a command that needs the built-in layers.
var ErrNoBuiltIn = errors.New("there are no built-in layers: this program is not a release, and the working " +
	"directory is not in a checkout of assay; run it in one, or make a release with .ci/release")

// layerCacheBytes bounds the built layers on disk.
const layerCacheBytes = 256 << 20

// BuiltInLayers returns the first-party modules: those in the release, even in a checkout, or those built from the
// source around the working directory. Without either it returns none.
func BuiltInLayers(ctx context.Context, cfg *Config, t *terminal.Terminal) ([]registry.Module, error) {
	if builtin.Embedded {
		return builtin.Modules()
	}
	source, err := sourceHere(cfg, t)
	if errors.Is(err, registry.ErrNoSource) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return source.BuildAll(ctx, t.Progress("building layers"))
}

// BuiltInLayer returns one of the first-party modules by its name. It fails with ErrNoBuiltIn if there are none.
func BuiltInLayer(ctx context.Context, cfg *Config, t *terminal.Terminal, name string) (registry.Module, error) {
	if builtin.Embedded {
		modules, err := builtin.Modules()
		at := slices.IndexFunc(modules, func(m registry.Module) bool { return m.Manifest.Name == name })
		if err != nil || at < 0 {
			return registry.Module{}, errors.Join(err, ErrNoBuiltIn)
		}
		return modules[at], nil
	}
	source, err := sourceHere(cfg, t)
	if errors.Is(err, registry.ErrNoSource) {
		err = ErrNoBuiltIn
	}
	if err != nil {
		return registry.Module{}, err
	}
	return source.Build(ctx, filepath.Join(source.Root, "plugins", name))
}

// sourceHere finds the source of the layers around the working directory.
func sourceHere(cfg *Config, t *terminal.Terminal) (registry.Source, error) {
	dir, err := os.Getwd()
	if err != nil {
		return registry.Source{}, err
	}
	return LayerSource(dir, cfg, QuietLog(t))
}

// UserCache returns the folder for a purpose in the user's cache directory, where commands without an installation keep
// built and compiled layers, and the key that seals its files. The folder is "" if there is none.
func UserCache(purpose string, log *slog.Logger) (folder string, key []byte) {
	dir, err := os.UserCacheDir()
	dir = filepath.Join(dir, "assay")
	file := filepath.Join(dir, "key")
	if _, missing := os.Stat(file); err == nil && missing != nil {
		err = keyring.CreateFile(file, []byte(rand.Text()))
	}
	if err == nil {
		key, err = private.Read(file)
	}
	if err != nil {
		log.Warn("built and compiled layers are not kept", "error", err)
		return "", nil
	}
	return filepath.Join(dir, purpose), key
}

// LayerSource finds the source of the first-party layers around folder dir. It caches built layers in the data
// directory of the installation, or of the user if there is none.
func LayerSource(dir string, cfg *Config, log *slog.Logger) (registry.Source, error) {
	keys, err := cfg.LoadInstallation()
	var folder string
	var key []byte
	switch {
	case errors.Is(err, ErrNoInstallation):
		folder, key = UserCache("layers", log)
	case err != nil:
		return registry.Source{}, err
	default:
		folder, key = cfg.Path("layers"), keys.Cache
	}
	if folder == "" {
		return registry.FindSource(dir, nil, log)
	}
	cache, err := sealed.Open(folder, key, layerCacheBytes)
	if err != nil {
		log.Warn("built layers cannot be cached", "error", err)
	}
	return registry.FindSource(dir, cache, log)
}
