package auditlog

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"assay/host/store"
	"assay/registry"
	"assay/registry/activation"
	"assay/registry/release"
)

// VerifyPlugins compares the published plugins with their modules and signatures. The error broken joins the
// differences. Hosts load modules by their digests, but commands look digests up by name.
func VerifyPlugins(ctx context.Context, s *store.Store, trust activation.Trust, inForce registry.LineupDocument) (
	broken, err error) {
	plugins, err := s.Plugins(ctx)
	if err != nil {
		return nil, err
	}
	published := map[string]registry.Digest{}
	var problems []error
	for _, p := range plugins {
		published[p.Ref()] = p.Digest
		m, err := s.Module(ctx, p.Digest)
		if err != nil {
			if ctx.Err() != nil {
				return nil, err
			}
			problems = append(problems, fmt.Errorf("plugin %s: %w", p.Ref(), err))
			continue
		}
		if reason := wrongPlugin(p, m); reason != "" {
			problems = append(problems, fmt.Errorf("plugin %s: %s", p.Ref(), reason))
		}
	}
	for _, layer := range inForce.Layers {
		if digest, ok := published[layer.Layer]; !ok || digest.String() != layer.Digest {
			problems = append(problems, fmt.Errorf(
				"plugin %s: it is not published with the digest of the lineup in force", layer.Layer))
		}
	}
	notes, err := s.AllPluginNotes(ctx)
	if err != nil {
		return errors.Join(append(problems, err)...), ctx.Err()
	}
	for digest, about := range notes {
		for kind, note := range about {
			if err := verifyNote(trust, plugins, digest, kind, note); err != nil {
				problems = append(problems, fmt.Errorf("the %s of plugin %s: %w", kind, digest, err))
			}
		}
	}
	names, err := s.PluginNames(ctx)
	for _, n := range names {
		if err := verifyOwner(trust, plugins, notes, n); err != nil {
			problems = append(problems, fmt.Errorf("the owner of the name %s: %w", n.Name, err))
		}
	}
	return errors.Join(problems...), err
}

// verifyOwner verifies that the owner of a name published a version, or that an operator signed its transfer.
func verifyOwner(
	trust activation.Trust, plugins []registry.PublishedPlugin, notes map[registry.Digest]registry.Notes,
	n registry.PluginName,
) error {
	if n.Transfer != "" {
		return release.CheckTransfer(trust, n)
	}
	for _, p := range plugins {
		signed, err := release.Recorded(trust, notes[p.Digest][registry.NoteSignature])
		if p.Name == n.Name && (n.Owner == registry.Release || err == nil && signed.Public == n.Owner) {
			return nil
		}
	}
	return fmt.Errorf("%s signed none of its versions, and no operator transferred it", n.Owner)
}

// verifyNote verifies a note about a published plugin. Its key may have been replaced since.
func verifyNote(
	trust activation.Trust, plugins []registry.PublishedPlugin, digest registry.Digest, kind registry.NoteKind,
	note string,
) error {
	switch kind {
	case registry.NoteSignature:
		signed, err := release.Recorded(trust, note)
		if err != nil {
			return err
		}
		m := registry.Manifest{Name: signed.Name, Version: signed.Version}
		if signed.Digest != digest || !slices.ContainsFunc(plugins, func(p registry.PublishedPlugin) bool {
			return p.Digest == digest && m.Is(p.Name, p.Version)
		}) {
			return fmt.Errorf("it is that of %s, which is not published", signed.Release)
		}
		return nil
	case registry.NotePassport:
		text, by, err := trust.OpenNote(note, registry.PassportHeader)
		var measured struct{ Digest string }
		if err == nil {
			err = json.Unmarshal([]byte(text), &measured)
		}
		switch {
		case err != nil:
			return err
		case by.Role == activation.Host:
			return fmt.Errorf("it is signed by key %s, a host's, which may not sign passports", by.Name)
		case measured.Digest != digest.String():
			return errors.New("it is that of another plugin")
		}
		return nil
	}
	return errors.New("there is no such kind of note")
}

func wrongPlugin(p registry.PublishedPlugin, m registry.Module) string {
	if !m.Manifest.Is(p.Name, p.Version) {
		return fmt.Sprintf("its module is %s", m.Ref())
	}
	stored, err := p.ParseManifest()
	if err == nil {
		a, errA := json.Marshal(stored)
		b, errB := json.Marshal(m.Manifest)
		err = errors.Join(errA, errB)
		if err == nil && !bytes.Equal(a, b) {
			err = errors.New("it was altered")
		}
	}
	if err != nil {
		return fmt.Sprintf("its manifest differs from its module's: %v", err)
	}
	return ""
}
