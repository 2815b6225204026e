// Package release defines how publishers sign plugins: a statement of a plugin's name, version and digest. It stores
// nothing.
package release

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/note"

	"assay/registry"
	"assay/registry/activation"
)

// MaxBytes is the largest size of a signature. Names, versions and keys are short.
const MaxBytes = 4 << 10

// header is the first line of a signature. Notes of other kinds, which the same key may sign, begin differently.
const header = "assay plugin v1\n"

// Release is a version of a plugin, as its publisher signs it.
type Release struct {
	Name    string
	Version string
	Digest  registry.Digest // of the module, which includes its manifest
}

// Of returns the release of a module.
func Of(m registry.Module) Release {
	return Release{m.Manifest.Name, m.Manifest.Version, m.Digest}
}

// Signed is a release with a verified signature.
type Signed struct {
	Release
	Key    string // name of the key that signed it
	Public string // the key, as the trust file lists it
	Role   activation.Role
}

// transfer returns the text of a transfer up to its time.
func transfer(n registry.PluginName) string {
	return fmt.Sprintf("assay plugin transfer v1\nname %s\nto %s\nat ", n.Name, n.Owner)
}

// SignTransfer signs that the name of a plugin belongs to its owner from a time on.
func SignTransfer(n registry.PluginName, at time.Time, operator note.Signer) (registry.PluginName, error) {
	var err error
	n.Transfer, err = activation.SignNote("transfer", transfer(n)+at.UTC().Format(time.RFC3339)+"\n", operator)
	return n, err
}

// CheckTransfer reports an error unless an operator signed that the name of a plugin belongs to its owner. The key may
// have been replaced since.
func CheckTransfer(trust activation.Trust, n registry.PluginName) error {
	_, by, err := trust.OpenNote(n.Transfer, transfer(n))
	if err == nil && by.Role != activation.Operator && by.Role != activation.Former {
		err = fmt.Errorf("a key with the role %q may not sign transfers", by.Role)
	}
	return err
}

func (r Release) String() string { return fmt.Sprintf("%s@%s, %s", r.Name, r.Version, r.Digest) }

// text returns the lines after the header.
func (r Release) text() string {
	return fmt.Sprintf("name %s\nversion %s\ndigest %s\n", r.Name, r.Version, r.Digest)
}

// Sign returns a release as a signed note (C2SP signed-note).
func Sign(r Release, signer note.Signer) (string, error) {
	return activation.SignNote("plugin", header+r.text(), signer)
}

// Accept returns the first signature by which a release may be published, and its content. If there is none, the error
// joins a registry.Refusal for each signature.
func Accept(trust activation.Trust, r Release, signatures ...string) (signature string, s Signed, err error) {
	if trust.Revoked(r.Digest) {
		return "", s, registry.Refuse(registry.RevokedPlugin, "the trust file revokes %s", r)
	}
	if len(signatures) == 0 {
		return "", s, registry.Refuse(registry.Unsigned, "%s@%s has no signature", r.Name, r.Version)
	}
	var refused []error
	for _, signature := range signatures {
		if s, err = Recorded(trust, signature); err == nil {
			err = s.match(r)
		}
		if err == nil {
			return signature, s, nil
		}
		refused = append(refused, err)
	}
	return "", Signed{}, errors.Join(refused...)
}

// Recorded returns the content of a published plugin's signature. The key may have been replaced since, and the plugin
// revoked. It fails with a registry.Refusal if the trust file does not list the key, or lists it as a host's.
func Recorded(trust activation.Trust, signed string) (Signed, error) {
	if signed == "" {
		return Signed{}, registry.Refuse(registry.Unsigned, "it has no signature")
	}
	if len(signed) > MaxBytes {
		return Signed{}, registry.Refuse(registry.Oversized, "its signature has %d bytes, more than %d", len(signed),
			MaxBytes)
	}
	text, by, err := trust.OpenNote(signed, header)
	var unlisted activation.UnlistedKeyError
	switch {
	case errors.As(err, &unlisted):
		return Signed{}, registry.Refuse(registry.UntrustedKey, "%v", err)
	case err != nil:
		return Signed{}, registry.Refuse(registry.Altered, "its signature: %v", err)
	case by.Role == activation.Host:
		return Signed{}, registry.Refuse(registry.UntrustedKey, "it is signed by key %s, a host's, which may not sign "+
			"plugins", by.Name)
	}
	s := Signed{Key: by.Name, Public: by.Public, Role: by.Role}
	if s.Release, err = parse(text); err != nil {
		return Signed{}, registry.Refuse(registry.Altered, "its signature: %v", err)
	}
	return s, nil
}

// parse parses a text, and accepts exactly the form that text returns.
func parse(text string) (r Release, err error) {
	lines := strings.Split(text, "\n")
	if len(lines) != 4 {
		return r, errors.New("it does not consist of a name, a version and a digest")
	}
	r.Name, _ = strings.CutPrefix(lines[0], "name ")
	r.Version, _ = strings.CutPrefix(lines[1], "version ")
	digest, _ := strings.CutPrefix(lines[2], "digest ")
	if r.Digest, err = registry.ParseDigest(digest); err == nil && r.text() != text {
		err = errors.New("it is not in the canonical form")
	}
	return r, err
}

// match fails with a registry.Refusal unless a key that is still in use signed the release.
func (s Signed) match(r Release) error {
	switch {
	case s.Role == activation.Former:
		return registry.Refuse(registry.RevokedKey, "key %s signed it, which the trust file lists as former", s.Key)
	case r == s.Release:
		return nil
	case r.Digest == s.Digest:
		return registry.Refuse(registry.OtherName, "it is %s@%s, and signed as %s@%s", r.Name, r.Version, s.Name,
			s.Version)
	case r.Name == s.Name && r.Version == s.Version:
		return registry.Refuse(registry.Altered, "%s@%s was signed with the digest %s, and this one has %s", s.Name,
			s.Version, s.Digest, r.Digest)
	}
	return registry.Refuse(registry.Swapped, "it is %s@%s, and its signature is that of %s@%s", r.Name, r.Version,
		s.Name, s.Version)
}
