package oci

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/registry/remote"

	"assay/registry"
	"assay/registry/fault"
)

// Found is a plugin in a registry. Its module has not been read yet.
type Found struct {
	Name     string          // in the registry's manifest, and the last part of the repository's name
	Version  string          // in the registry's manifest, and the tag if that is a version
	Digest   registry.Digest // of the module
	Manifest string          // digest of the registry's manifest
	Notes    map[registry.NoteKind][]string

	repo  *remote.Repository
	layer ocispec.Descriptor
}

// Find returns the plugin that a reference names, and the notes of the given kinds about it. It fails with a
// registry.Refusal.
func (o Options) Find(ctx context.Context, r Reference, kinds ...registry.NoteKind) (found *Found, err error) {
	defer fault.WrapAll(&err, "pulling %s", r)
	if r.ref.Reference == "" {
		return nil, errors.New("give a tag or a digest")
	}
	repo, err := o.open(ctx, r)
	if err != nil {
		return nil, err
	}
	subject, artifact, err := fetchManifest(ctx, repo, r.ref.Reference)
	if err != nil {
		return nil, err
	}
	layer, err := onlyLayer(artifact, configType, layerType, registry.MaxModuleBytes)
	if err != nil {
		return nil, err
	}
	found = &Found{Name: artifact.Annotations[ocispec.AnnotationTitle],
		Version: artifact.Annotations[ocispec.AnnotationVersion], Manifest: subject.Digest.String(),
		Notes: map[registry.NoteKind][]string{}, repo: repo, layer: layer}
	if _, err := r.named(found.Name, found.Version); err != nil {
		return nil, err
	}
	if found.Digest, err = registry.ParseDigest(layer.Digest.String()); err != nil {
		return nil, registry.Refuse(registry.WrongMediaType, "the layer's digest: %v", err)
	}
	for _, kind := range kinds {
		if found.Notes[kind], err = fetchNotes(ctx, repo, subject, noteType(kind)); err != nil {
			return nil, fmt.Errorf("%s: %w", kind, err)
		}
	}
	return found, nil
}

// Module reads the plugin. It fails with a registry.Refusal unless it is the one that was found.
func (f *Found) Module(ctx context.Context) (registry.Module, error) {
	wasm, err := fetchBlob(ctx, f.repo, f.layer)
	var m registry.Module
	if err == nil {
		m, err = registry.OpenModule(wasm)
	}
	if err == nil && (m.Manifest.Name != f.Name || m.Manifest.Version != f.Version) {
		err = registry.Refuse(registry.OtherName, "the manifest in the registry says %s@%s, and the module %s", f.Name,
			f.Version, m.Ref())
	}
	return m, fault.Wrap(err, "pulling %s@%s", f.Name, f.Version)
}

// fetchManifest reads a manifest by its tag or digest.
func fetchManifest(ctx context.Context, repo *remote.Repository, reference string) (at ocispec.Descriptor,
	m ocispec.Manifest, err error) {
	at, body, err := repo.FetchReference(ctx, reference)
	if err != nil {
		return at, m, err
	}
	defer body.Close()
	switch {
	case at.MediaType != ocispec.MediaTypeImageManifest:
		return at, m, registry.Refuse(registry.WrongMediaType, "its media type is %q, not %q", at.MediaType,
			ocispec.MediaTypeImageManifest)
	case at.Size > maxManifest:
		return at, m, registry.Refuse(registry.Oversized, "its manifest has %d bytes, more than %d", at.Size,
			maxManifest)
	}
	text, err := readAll(body, at, "the manifest")
	if err != nil {
		return at, m, err
	}
	if err := json.Unmarshal(text, &m); err != nil {
		return at, m, registry.Refuse(registry.WrongMediaType, "its manifest: %v", err)
	}
	return at, m, nil
}

// onlyLayer returns the layer of a manifest with one layer of the given type and bounded size.
func onlyLayer(m ocispec.Manifest, config, layer string, limit int64) (only ocispec.Descriptor, err error) {
	if len(m.Layers) == 1 {
		only = m.Layers[0]
	}
	switch {
	case m.Config.MediaType != config:
		err = registry.Refuse(registry.WrongMediaType, "its config has the media type %q, not %q", m.Config.MediaType,
			config)
	case len(m.Layers) != 1:
		err = registry.Refuse(registry.WrongMediaType, "it has %d layers, not one", len(m.Layers))
	case only.MediaType != layer:
		err = registry.Refuse(registry.WrongMediaType, "its layer has the media type %q, not %q", only.MediaType, layer)
	case only.Size < 0 || only.Size > limit:
		err = registry.Refuse(registry.Oversized, "its layer has %d bytes, more than %d", only.Size, limit)
	}
	return only, err
}

// fetchNotes reads the notes of one kind that refer to a manifest.
func fetchNotes(ctx context.Context, repo *remote.Repository, subject ocispec.Descriptor, mediaType string) (
	notes []string, err error) {
	var list []ocispec.Descriptor
	err = repo.Referrers(ctx, subject, mediaType, func(page []ocispec.Descriptor) error {
		list = append(list, page...)
		return nil
	})
	if errors.Is(err, content.ErrMismatchedDigest) {
		err = registry.Refuse(registry.Altered, "the list of its notes: %v", err)
	}
	if err != nil {
		return nil, err
	}
	for _, at := range list[:min(len(list), maxNotes)] {
		_, artifact, err := fetchManifest(ctx, repo, at.Digest.String())
		if err != nil {
			return nil, err
		}
		layer, err := onlyLayer(artifact, ocispec.MediaTypeEmptyJSON, mediaType, maxNote)
		if err != nil {
			return nil, err
		}
		note, err := fetchBlob(ctx, repo, layer)
		if err != nil {
			return nil, err
		}
		notes = append(notes, string(note))
	}
	return notes, nil
}

// fetchBlob reads a blob. The registry says its size first, so that no more is read than the manifest announces.
func fetchBlob(ctx context.Context, repo *remote.Repository, at ocispec.Descriptor) ([]byte, error) {
	has, err := repo.Blobs().Resolve(ctx, at.Digest.String())
	if err != nil {
		return nil, err
	}
	if has.Size < at.Size {
		return nil, registry.Refuse(registry.Truncated, "the registry has %d of the %d bytes of %s", has.Size, at.Size,
			at.Digest)
	}
	if has.Size > at.Size {
		return nil, registry.Refuse(registry.Oversized, "the registry has %d bytes of %s, not %d", has.Size, at.Digest,
			at.Size)
	}
	body, err := repo.Blobs().Fetch(ctx, at)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	return readAll(body, at, at.MediaType)
}

// readAll reads the content that a descriptor announces, and checks its size and digest.
func readAll(body io.Reader, at ocispec.Descriptor, what string) ([]byte, error) {
	text := make([]byte, at.Size)
	if n, err := io.ReadFull(body, text); errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		return nil, registry.Refuse(registry.Truncated, "%s ends after %d of %d bytes", what, n, at.Size)
	} else if err != nil {
		return nil, err
	}
	if got := digest.FromBytes(text); got != at.Digest {
		return nil, registry.Refuse(registry.Altered, "%s has the digest %s, not %s", what, got, at.Digest)
	}
	return text, nil
}
