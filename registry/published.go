package registry

import (
	"encoding/json"
	"errors"
	"strings"
	"time"

	"golang.org/x/mod/semver"
)

// Errors of a database of plugins and lineups.
var (
	ErrVersionTaken = errors.New("this version was published with other content; published versions never change, " +
		"so raise the version in the manifest")
	ErrNoPlugin   = errors.New("there is no such published plugin")
	ErrNoRevision = errors.New("there is no such lineup revision")
)

// Release owns the names of the built-in layers. Other owners are public keys, as trust files list them.
const Release = "release"

// BuiltIn reports whether the default lineup has a layer with this name.
func BuiltIn(name string) bool {
	l, err := DefaultLineup()
	return err == nil && l.Layer(name) != nil
}

// PluginName is the name of a plugin, with the owner who may publish versions of it.
type PluginName struct {
	Name     string `json:"name"`
	Owner    string `json:"owner"`              // Release or a public key
	Transfer string `json:"transfer,omitempty"` // the operator's signed note; "": the owner published the first version
}

// PublishedPlugin is a published version of a plugin. Versions are immutable.
type PublishedPlugin struct {
	Name        string
	Version     string // the manifest's, possibly with build metadata added
	Digest      Digest // of the module
	Manifest    json.RawMessage
	FirstParty  bool
	PublishedAt time.Time
}

// ParseManifest returns the manifest. Its text may be longer than in the module, because the database adds spaces.
func (p PublishedPlugin) ParseManifest() (Manifest, error) {
	return parseManifest(p.Manifest, 4*maxManifestBytes)
}

// NoteKind is the kind of a signed note about a plugin.
type NoteKind string

// The kinds of notes.
const (
	NoteSignature NoteKind = "signature" // the publisher's, see package release
	NotePassport  NoteKind = "passport"  // the measurements from when it was published
)

// PassportHeader is the first line of a signed passport. Other texts that the same key signs begin differently.
const PassportHeader = "assay passport v1\n"

// Notes are signed notes (C2SP signed-note) about one plugin, at most one of each kind.
type Notes map[NoteKind]string

// Ref returns name@version, as lineups refer to the plugin.
func (p PublishedPlugin) Ref() string { return p.Name + "@" + p.Version }

// devBuild begins the build metadata of versions that `assay plugin dev` publishes. A prefix of the module's digest
// follows.
const devBuild = "+dev."

// DevVersion returns the version under which a module is published while its author works on it. Each module has its
// own, and the manifest's version remains free.
func DevVersion(m Module) string {
	return m.Manifest.Version + devBuild + strings.TrimPrefix(m.Digest.String(), "sha256:")[:12]
}

// IsDevVersion reports whether a version is one of DevVersion's.
func IsDevVersion(version string) bool { return strings.Contains(version, devBuild) }

// Newest returns the highest version of a plugin. If versions differ only in build metadata, it returns the last
// published. It ignores versions of DevVersion.
func Newest(published []PublishedPlugin, name string) (newest PublishedPlugin, err error) {
	for _, p := range published {
		if p.Name != name || IsDevVersion(p.Version) {
			continue
		}
		order := semver.Compare("v"+p.Version, "v"+newest.Version)
		if newest.Name == "" || order > 0 || order == 0 && p.PublishedAt.After(newest.PublishedAt) {
			newest = p
		}
	}
	if newest.Name == "" {
		return newest, ErrNoPlugin
	}
	return newest, nil
}

// LineupOrigin is the author of a lineup.
type LineupOrigin string

// The origins of a lineup.
const (
	OriginBuiltIn  LineupOrigin = "built-in" // created by the host from its built-in layers
	OriginOperator LineupOrigin = "operator"
)

// LineupRevision is a stored lineup with its most recent activation.
type LineupRevision struct {
	Revision    int64          `json:"revision"` // counts from 1
	Lineup      LineupDocument `json:"lineup"`
	Digest      string         `json:"digest"` // "sha256:" and the digest of the encoded document, in hexadecimal
	Origin      LineupOrigin   `json:"origin"`
	CreatedAt   time.Time      `json:"created_at"`
	ActivatedAt *time.Time     `json:"activated_at"` // nil if the revision has never been in force
	Reason      string         `json:"reason"`       // of the activation
	Activation  int64          `json:"activation"`   // number of the activation; 0 if it is not signed
	Author      string         `json:"author"`       // of the activation
}
