package store

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/uptrace/bun"

	"assay/registry"
)

// pluginRow is a row of plugin_versions.
type pluginRow struct {
	bun.BaseModel `bun:"table:plugin_versions,alias:p"`

	Name        string `bun:",pk"`
	Version     string `bun:",pk"`
	Digest      []byte
	Manifest    json.RawMessage `bun:"type:jsonb"`
	FirstParty  bool
	PublishedAt time.Time `bun:",nullzero,default:now()"`
}

func (r pluginRow) published() (registry.PublishedPlugin, error) {
	if len(r.Digest) != len(registry.Digest{}) {
		return registry.PublishedPlugin{}, fmt.Errorf("the digest of %s@%s is not 32 bytes long", r.Name, r.Version)
	}
	return registry.PublishedPlugin{Name: r.Name, Version: r.Version, Digest: registry.Digest(r.Digest),
		Manifest: r.Manifest, FirstParty: r.FirstParty, PublishedAt: r.PublishedAt}, nil
}

// PublishPlugin stores a module as the given version of its plugin, with notes about it, which it does not verify.
// Publishing the same bytes again only stores the notes; each replaces the one of its kind. It fails with
// registry.ErrVersionTaken if the version has other bytes, and with a registry.Refusal if the name belongs to another
// owner, see registry.PluginName. An empty owner may publish under any name.
func (s *Store) PublishPlugin(ctx context.Context, m registry.Module, version, owner string, notes registry.Notes) (
	err error) {
	defer func() { err = wrap(err, "publishing %s@%s", m.Manifest.Name, version) }()
	manifest, err := json.Marshal(m.Manifest)
	if err != nil {
		return err
	}
	// Every start of a host publishes all built-in layers. Most are published already, and need not be sent.
	var known struct {
		Published []byte
		Stored    bool
	}
	if err := s.db.NewRaw(`SELECT (SELECT digest FROM plugin_versions WHERE name = ? AND version = ?) AS published,
		EXISTS (SELECT FROM plugin_modules WHERE digest = ?) AS stored`, m.Manifest.Name, version, m.Digest[:]).
		Scan(ctx, &known); err != nil {
		return err
	}
	switch {
	case known.Published != nil && !bytes.Equal(known.Published, m.Digest[:]):
		return registry.ErrVersionTaken
	case known.Published != nil && known.Stored && len(notes) == 0:
		return nil
	}
	if notes == nil {
		notes = registry.Notes{} // an empty object, not null
	}
	about, err := json.Marshal(notes)
	if err != nil {
		return err
	}
	name, holder := m.Manifest.Name, ""
	err = again(func() (err error) {
		holder, err = once[string](ctx, s, `SELECT publish_plugin(?name, ?version, ?digest, ?wasm, ?manifest, ?owner,
			?reserved, ?notes)`, named{"name": name, "version": version, "digest": m.Digest[:], "wasm": m.Wasm,
			"manifest": string(manifest), "owner": owner, "notes": string(about),
			"reserved": owner == registry.Release || registry.BuiltIn(name)})
		return err
	})
	switch {
	case err != nil || holder == "":
		return err
	case holder == "version":
		return registry.ErrVersionTaken
	}
	return registry.Refuse(registry.OtherOwner, "the name %s belongs to %s; an operator gives it away with "+
		"`assay plugin transfer %s --to KEY`", name, holder, name)
}

// TransferPlugin gives the name of a plugin to another owner. It does not verify the note.
func (s *Store) TransferPlugin(ctx context.Context, n registry.PluginName) error {
	err := s.require(ctx, registry.ErrNoPlugin, "SELECT transfer_plugin(?name, ?owner, ?transfer, ?reserved)",
		named{"name": n.Name, "owner": n.Owner, "transfer": n.Transfer, "reserved": registry.BuiltIn(n.Name)})
	return wrap(err, "transferring %s", n.Name)
}

// PluginNames returns the owners of all names.
func (s *Store) PluginNames(ctx context.Context) (names []registry.PluginName, err error) {
	err = s.db.NewRaw("SELECT name, owner, coalesce(transfer, '') AS transfer FROM plugin_names ORDER BY name").
		Scan(ctx, &names)
	return names, wrap(err, "reading names of plugins")
}

// PluginNotes returns the notes about the plugin with the given digest. It does not verify them.
func (s *Store) PluginNotes(ctx context.Context, digest registry.Digest) (registry.Notes, error) {
	all, err := s.AllPluginNotes(ctx)
	return all[digest], err
}

// AllPluginNotes returns the notes about all plugins by digest. It does not verify them.
func (s *Store) AllPluginNotes(ctx context.Context) (map[registry.Digest]registry.Notes, error) {
	var rows []struct {
		Digest []byte
		Kind   registry.NoteKind
		Note   string
	}
	err := s.db.NewRaw("SELECT digest, kind, note FROM plugin_notes").Scan(ctx, &rows)
	all := map[registry.Digest]registry.Notes{}
	for _, r := range rows {
		if len(r.Digest) != len(registry.Digest{}) {
			err = errors.New("a digest is not 32 bytes long")
			break
		}
		d := registry.Digest(r.Digest)
		if all[d] == nil {
			all[d] = registry.Notes{}
		}
		all[d][r.Kind] = r.Note
	}
	return all, wrap(err, "reading notes about plugins")
}

// Plugins lists all published versions, by name and newest first.
func (s *Store) Plugins(ctx context.Context) ([]registry.PublishedPlugin, error) {
	var rows []pluginRow
	err := s.db.NewSelect().Model(&rows).Order("name", "published_at DESC", "version DESC").Scan(ctx)
	plugins, err := convert(rows, err, pluginRow.published)
	return plugins, wrap(err, "listing plugins")
}

// Plugin returns a published version. It fails with registry.ErrNoPlugin.
func (s *Store) Plugin(ctx context.Context, name, version string) (registry.PublishedPlugin, error) {
	var row pluginRow
	err := s.db.NewSelect().Model(&row).Where("name = ? AND version = ?", name, version).Scan(ctx)
	err = orElse(err, registry.ErrNoPlugin)
	var p registry.PublishedPlugin
	if err == nil {
		p, err = row.published()
	}
	return p, wrap(err, "looking up %s@%s", name, version)
}

// Module returns the module with the given digest. It fails with registry.ErrNoPlugin, also if the stored bytes have
// another digest.
func (s *Store) Module(ctx context.Context, digest registry.Digest) (registry.Module, error) {
	var wasm []byte
	err := s.db.NewRaw("SELECT wasm FROM plugin_modules WHERE digest = ?", digest[:]).Scan(ctx, &wasm)
	err = orElse(err, registry.ErrNoPlugin)
	var m registry.Module
	if err == nil {
		m, err = registry.OpenModule(wasm)
	}
	if err == nil && m.Digest != digest {
		m, err = registry.Module{}, fmt.Errorf("its content was altered: %w", registry.ErrNoPlugin)
	}
	return m, wrap(err, "reading module %s", digest)
}
