// Package oci carries plugins to and from OCI registries, in the layout of the CNCF's guidance for Wasm. Notes about a
// plugin, such as its signature, are artifacts that refer to it. The package compares sizes and digests, and leaves
// signatures to its caller.
package oci

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path"
	"strings"
	"time"

	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"golang.org/x/mod/semver"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/errdef"
	ociregistry "oras.land/oras-go/v2/registry"
	"oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/credentials"

	"assay/registry"
	"assay/registry/fault"
)

// Media types of a plugin's artifact.
const (
	configType = "application/vnd.wasm.config.v0+json"
	layerType  = "application/wasm"
)

// noteType is the artifact type of a note, and the media type of its layer.
func noteType(kind registry.NoteKind) string {
	return "application/vnd.assay.plugin." + string(kind) + ".v1"
}

// schema is the version of the schema of all manifests.
var schema = specs.Versioned{SchemaVersion: 2}

// Limits on the data that is read from a registry.
const (
	maxManifest = 64 << 10 // bytes of a manifest, or of a list of notes
	maxNote     = 64 << 10 // bytes of a note
	maxNotes    = 16       // notes of a kind
)

// headerTimeout bounds how long a registry may take to begin an answer. The caller's context bounds the rest.
const headerTimeout = time.Minute

// Options say how to reach registries.
type Options struct {
	Username string // with Password; if empty, docker's credentials are used
	Password string
	CA       *x509.CertPool // trusted authorities; nil: the system's
	// PlainHTTP turns TLS off. A loopback registry may do without TLS in any case.
	PlainHTTP bool
	UserAgent string
}

// Reference names a plugin in a registry.
type Reference struct{ ref ociregistry.Reference }

// ParseReference reads a reference such as registry.example/team/my-layer:1.0.0, or one with @sha256: and a digest.
func ParseReference(text string) (Reference, error) {
	ref, err := ociregistry.ParseReference(text)
	if err != nil {
		return Reference{}, fmt.Errorf("%q is not a reference such as registry.example/team/my-layer:1.0.0: %w", text,
			err)
	}
	return Reference{ref}, nil
}

func (r Reference) String() string { return r.ref.String() }

// Pinned reports whether the reference has a digest.
func (r Reference) Pinned() bool { return r.ref.ValidateReferenceAsDigest() == nil }

// Pin returns the reference with a digest in place of its tag.
func (r Reference) Pin(manifest string) string {
	return fmt.Sprintf("%s/%s@%s", r.ref.Registry, r.ref.Repository, manifest)
}

// named returns the reference with the version as its tag if it has no tag. It fails with a registry.Refusal if the
// repository or the tag name another plugin or version. Tags that are not versions, such as latest, name none.
func (r Reference) named(name, version string) (Reference, error) {
	tag := strings.ReplaceAll(version, "+", "_") // tags must not contain a +
	r.ref.Reference = cmp.Or(r.ref.Reference, tag)
	switch {
	case name == "" || version == "":
		return r, registry.Refuse(registry.OtherName, "the manifest in the registry names no plugin and version")
	case path.Base(r.ref.Repository) != name:
		return r, registry.Refuse(registry.OtherName, "the repository is %s, and the plugin %s", r.ref.Repository, name)
	case !r.Pinned() && isVersion(r.ref.Reference) && strings.TrimPrefix(r.ref.Reference, "v") != tag:
		return r, registry.Refuse(registry.OtherName, "the tag is %s, and the plugin's version %s", r.ref.Reference,
			version)
	}
	return r, nil
}

// isVersion reports whether a tag names a version, such as 1.0.0, v1.0.0 or 1.0.0_build.
func isVersion(tag string) bool {
	version, _, _ := strings.Cut("v"+strings.TrimPrefix(tag, "v"), "_")
	return semver.Canonical(version) == version // a tag such as 1.0 may move
}

// open returns the reference's repository.
func (o Options) open(ctx context.Context, r Reference) (*remote.Repository, error) {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = &tls.Config{RootCAs: o.CA, MinVersion: tls.VersionTLS12}
	transport.ResponseHeaderTimeout = headerTimeout
	client := &auth.Client{Client: &http.Client{Transport: transport}, Cache: auth.NewCache()}
	client.SetUserAgent(o.UserAgent)
	if o.Username != "" {
		client.Credential = auth.StaticCredential(r.ref.Host(),
			auth.Credential{Username: o.Username, Password: o.Password})
	} else {
		store, err := credentials.NewStoreFromDocker(credentials.StoreOptions{})
		if err != nil {
			return nil, fmt.Errorf("reading docker's credentials: %w", err)
		}
		client.Credential = credentials.Credential(store)
	}
	plain := o.PlainHTTP
	if !plain && isLoopback(r.ref.Host()) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+r.ref.Host()+"/v2/", nil)
		if err != nil {
			return nil, err
		}
		answer, err := client.Client.Do(req)
		if err == nil {
			answer.Body.Close()
		}
		plain = errors.Is(err, http.ErrSchemeMismatch)
	}
	// Registries may forbid deleting, so lists of notes that were replaced stay.
	return &remote.Repository{Client: client, Reference: r.ref, PlainHTTP: plain, MaxMetadataBytes: maxManifest,
		ReferrerListMaxPages: maxNotes, SkipReferrersGC: true}, nil
}

func isLoopback(hostport string) bool {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		host = hostport
	}
	return host == "localhost" || net.ParseIP(host).IsLoopback()
}

// Push puts a plugin and notes about it in a registry, and returns the digest of its manifest. A reference without a
// tag gets the version as its tag. It fails with registry.ErrVersionTaken if the registry has the version with other
// content.
func (o Options) Push(ctx context.Context, r Reference, m registry.Module, notes registry.Notes) (pushed Reference,
	manifest string, err error) {
	if r, err = r.named(m.Manifest.Name, m.Manifest.Version); err == nil && r.Pinned() {
		err = errors.New("a digest is not a place to push to: give a tag")
	}
	if err == nil {
		manifest, err = o.push(ctx, r, m, notes)
	}
	return r, manifest, fault.Wrap(err, "pushing to %s", r)
}

func (o Options) push(ctx context.Context, r Reference, m registry.Module, notes registry.Notes) (string, error) {
	repo, err := o.open(ctx, r)
	if err != nil {
		return "", err
	}
	config, err := json.Marshal(wasmConfig{Created: time.Unix(0, 0).UTC(), Architecture: "wasm", OS: "wasip1",
		LayerDigests: []string{m.Digest.String()}})
	if err != nil {
		return "", err
	}
	artifact := ocispec.Manifest{Versioned: schema, MediaType: ocispec.MediaTypeImageManifest,
		Config: content.NewDescriptorFromBytes(configType, config),
		Layers: []ocispec.Descriptor{content.NewDescriptorFromBytes(layerType, m.Wasm)},
		Annotations: map[string]string{ocispec.AnnotationTitle: m.Manifest.Name,
			ocispec.AnnotationVersion: m.Manifest.Version, ocispec.AnnotationDescription: m.Manifest.Summary}}
	text, err := json.Marshal(artifact)
	if err != nil {
		return "", err
	}
	subject := content.NewDescriptorFromBytes(ocispec.MediaTypeImageManifest, text)
	there, err := repo.Resolve(ctx, r.ref.Reference)
	switch {
	case err == nil && there.Digest != subject.Digest && isVersion(r.ref.Reference):
		return "", registry.ErrVersionTaken
	case err != nil && !errors.Is(err, errdef.ErrNotFound):
		return "", err
	}
	if err := pushBlobs(ctx, repo, artifact, config, m.Wasm); err != nil {
		return "", err
	}
	// The tag comes last, so that nobody finds the plugin without its signature.
	if err := repo.Push(ctx, subject, bytes.NewReader(text)); err != nil {
		return "", err
	}
	for kind, note := range notes {
		if err := pushNote(ctx, repo, subject, noteType(kind), []byte(note)); err != nil {
			return "", fmt.Errorf("%s: %w", kind, err)
		}
	}
	return subject.Digest.String(), repo.PushReference(ctx, subject, bytes.NewReader(text), r.ref.Reference)
}

// wasmConfig is the config of a Wasm artifact. Its creation time is constant, so that the same plugin has the same
// manifest.
type wasmConfig struct {
	Created      time.Time `json:"created"`
	Architecture string    `json:"architecture"`
	OS           string    `json:"os"`
	LayerDigests []string  `json:"layerDigests"`
}

func pushNote(ctx context.Context, repo *remote.Repository, subject ocispec.Descriptor, mediaType string,
	note []byte) error {
	artifact := ocispec.Manifest{Versioned: schema, MediaType: ocispec.MediaTypeImageManifest,
		ArtifactType: mediaType, Config: ocispec.DescriptorEmptyJSON,
		Layers: []ocispec.Descriptor{content.NewDescriptorFromBytes(mediaType, note)}, Subject: &subject}
	text, err := json.Marshal(artifact)
	if err != nil {
		return err
	}
	if err := pushBlobs(ctx, repo, artifact, ocispec.DescriptorEmptyJSON.Data, note); err != nil {
		return err
	}
	return repo.Push(ctx, content.NewDescriptorFromBytes(ocispec.MediaTypeImageManifest, text), bytes.NewReader(text))
}

// pushBlobs puts an artifact's config and layer in the repository if it lacks them.
func pushBlobs(ctx context.Context, repo *remote.Repository, artifact ocispec.Manifest, config, layer []byte) error {
	for _, blob := range []struct {
		at   ocispec.Descriptor
		text []byte
	}{{artifact.Config, config}, {artifact.Layers[0], layer}} {
		blob.at.Data = nil
		exists, err := repo.Exists(ctx, blob.at)
		if err == nil && !exists {
			err = repo.Push(ctx, blob.at, bytes.NewReader(blob.text))
		}
		if err != nil {
			return err
		}
	}
	return nil
}
