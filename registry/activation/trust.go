package activation

import (
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"golang.org/x/mod/sumdb/note"

	"assay/registry"
	"assay/registry/fault"
)

// Role says what a key may sign.
type Role string

// The roles of a trust file.
const (
	Operator  Role = "operator"  // any activation, and plugins
	Publisher Role = "publisher" // plugins
	Host      Role = "host"      // the steps that Permit allows
	Former    Role = "former"    // nothing new; `audit verify` still verifies its earlier signatures
)

// revocation begins a line of a trust file that withdraws a plugin.
const revocation = "revoked"

// Trust holds the keys that may sign activations and plugins. It is kept outside the database, which it protects.
type Trust struct {
	keys    []trusted
	revoked map[registry.Digest]bool
}

type trusted struct {
	Listed
	verifier note.Verifier
}

// Listed is a key of a trust file.
type Listed struct {
	Name   string
	Role   Role
	Public string // as the file lists it
}

// ParseTrust reads a trust file: a line for each key, its role and the key in the format of signed-note tools, and a
// line for each revoked plugin, the word revoked and its digest. Empty lines and those that begin with # are ignored.
func ParseTrust(text string) (Trust, error) {
	var t Trust
	number := 0
	for line := range strings.Lines(text) {
		number++
		fields := strings.Fields(line)
		if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		if err := t.add(fields); err != nil {
			return Trust{}, fmt.Errorf("reading trust file: line %d: %w", number, err)
		}
	}
	if !slices.ContainsFunc(t.keys, func(k trusted) bool { return k.Role == Operator }) {
		return Trust{}, errors.New("reading trust file: it has no operator's key")
	}
	return t, nil
}

func (t *Trust) add(fields []string) error {
	if len(fields) != 2 {
		return errors.New("it is not a role and a key")
	}
	role := Role(fields[0])
	switch role {
	case revocation:
		digest, err := registry.ParseDigest(fields[1])
		if t.revoked == nil {
			t.revoked = map[registry.Digest]bool{}
		}
		t.revoked[digest] = true
		return err
	case Operator, Publisher, Host, Former:
	default:
		return fmt.Errorf("role %q is not operator, publisher, host or former", fields[0])
	}
	verifier, err := note.NewVerifier(fields[1])
	if err != nil {
		return err
	}
	if err := checkText("name of the key", verifier.Name(), maxAuthor); err != nil {
		return err
	}
	for _, k := range t.keys {
		if k.verifier.Name() == verifier.Name() && k.verifier.KeyHash() == verifier.KeyHash() {
			return fmt.Errorf("key %s is listed twice", verifier.Name())
		}
	}
	t.keys = append(t.keys, trusted{Listed{verifier.Name(), role, fields[1]}, verifier})
	return nil
}

// Revoked reports whether the trust file withdraws the plugin with a digest.
func (t Trust) Revoked(plugin registry.Digest) bool { return t.revoked[plugin] }

// UnlistedKeyError names the key of a signature that a trust file does not list.
type UnlistedKeyError string

func (e UnlistedKeyError) Error() string {
	return fmt.Sprintf("it is signed by key %s, which the trust file does not list", string(e))
}

// Signed is an activation with a verified signature.
type Signed struct {
	Activation
	Hash registry.Digest
	Note string // text and signature
	Key  string // name of the key that signed it
	Role Role
}

// Open verifies an activation's signature. Permit checks whether the key may sign the activation.
func (t Trust) Open(signed string) (Signed, error) { return t.open("activation", signed, "") }

// OpenCandidate verifies the signature of a candidate, see SignCandidate.
func (t Trust) OpenCandidate(signed string) (Signed, error) {
	return t.open("candidate", signed, candidate)
}

// OpenMeasurement verifies the signature of a lineup to measure, which must be an operator's, and returns its text. See
// SignMeasurement.
func (t Trust) OpenMeasurement(signed string) (lineup []byte, err error) {
	n, by, err := t.OpenNote(signed, measurement)
	if err == nil && by.Role != Operator {
		err = fmt.Errorf("a key with the role %q may not sign it", by.Role)
	}
	if err != nil {
		return nil, fmt.Errorf("opening lineup to measure: %w", err)
	}
	return []byte(strings.TrimSuffix(n, "\n")), nil
}

// open verifies a note whose text is prefix and then an activation's text.
func (t Trust) open(what, signed, prefix string) (Signed, error) {
	text, by, err := t.OpenNote(signed, prefix)
	if err == nil && by.Role == Publisher {
		err = fmt.Errorf("a key with the role %q may not sign activations", by.Role)
	}
	var a Activation
	if err == nil {
		a, err = Parse(text)
	}
	if err != nil {
		return Signed{}, fmt.Errorf("opening %s: %w", what, err)
	}
	return Signed{Activation: a, Hash: a.Hash(), Note: signed, Key: by.Name, Role: by.Role}, nil
}

// Owner returns the owner of plugin names that text refers to (see registry.PluginName): registry.Release, or the only
// operator's or publisher's key with this name or public key.
func (t Trust) Owner(text string) (owner string, err error) {
	if text == registry.Release {
		return text, nil
	}
	for _, k := range t.keys {
		if (k.Role == Operator || k.Role == Publisher) && (text == k.Name || text == k.Public) {
			if owner != "" {
				return "", fmt.Errorf("the trust file lists several keys %s: give the public key", text)
			}
			owner = k.Public
		}
	}
	if owner == "" {
		err = fmt.Errorf("the trust file lists no operator's or publisher's key %s", text)
	}
	return owner, err
}

// OpenNote verifies a note of another package, whose text begins with prefix. It returns the rest of the text and the
// key. The caller must check whether the key may sign the text.
func (t Trust) OpenNote(signed, prefix string) (text string, by Listed, err error) {
	if signed == "" {
		return "", by, errors.New("it is not signed")
	}
	verifiers := make([]note.Verifier, len(t.keys))
	for i, k := range t.keys {
		verifiers[i] = k.verifier
	}
	n, err := note.Open([]byte(signed), note.VerifierList(verifiers...))
	var unknown *note.UnverifiedNoteError
	if errors.As(err, &unknown) {
		return "", by, UnlistedKeyError(keyNames(unknown.Note))
	}
	if err != nil {
		return "", by, err
	}
	if len(n.Sigs) != 1 || len(n.UnverifiedSigs) != 0 {
		return "", by, errors.New("it does not have exactly one signature")
	}
	text, found := strings.CutPrefix(n.Text, prefix)
	if !found {
		return "", by, fmt.Errorf("it does not begin with %q", strings.TrimSpace(prefix))
	}
	for _, k := range t.keys {
		if k.verifier.Name() == n.Sigs[0].Name && k.verifier.KeyHash() == n.Sigs[0].Hash {
			by = k.Listed
		}
	}
	return text, by, nil
}

func keyNames(n *note.Note) string {
	names := map[string]bool{}
	for _, s := range n.UnverifiedSigs {
		names[s.Name] = true
	}
	return strings.Join(slices.Sorted(maps.Keys(names)), ", ")
}

// Step is an activation with its lineup.
type Step struct {
	Activation
	Document registry.LineupDocument // of Activation.Lineup
}

// Permit reports an error unless a key with the role may sign the step from one activation to the next. A host may
// withdraw a canary, or move one layer that is not required from live to shadow. An attacker who takes over a host can
// change nothing else with its key, and cannot use up the numbers, which must rise.
func Permit(role Role, from, to Step) error {
	switch role {
	case Operator:
		return nil
	case Host:
	default:
		return fmt.Errorf("a key with the role %q may not sign activations", role)
	}
	if to.Author == BuiltIn || to.Number != from.Number+1 {
		return fmt.Errorf("a host's key may not sign number %d after %d as %s", to.Number, from.Number, to.Author)
	}
	if to.Canary != nil && (from.Canary == nil || *to.Canary != *from.Canary) {
		return errors.New("a host's key may not start or change a canary")
	}
	if to.Lineup == from.Lineup {
		if from.Canary != nil && to.Canary == nil {
			return nil
		}
		return errors.New("a host's key may not sign an activation that changes nothing")
	}
	if (to.Canary == nil) != (from.Canary == nil) {
		return errors.New("a host's key may either withdraw a canary or move a layer to shadow, not both")
	}
	return permitShadow(from.Document, to.Document)
}

// permitShadow reports an error unless two lineups differ in one layer, which moved from live to shadow.
func permitShadow(from, to registry.LineupDocument) error {
	for _, layer := range from.Layers {
		if layer.Runs() == registry.ModeLive && !layer.Required {
			layer.Mode = registry.ModeShadow
			if from.With(layer).Same(to) {
				return nil
			}
		}
	}
	return errors.New("a host's key may only move one layer that is not required from live to shadow")
}

// Key signs activations and plugins.
type Key struct {
	note.Signer
	Verifier string // the public key, as a trust file lists it
	Private  string // in the format of signed-note tools
}

// keyAlgorithm is the signed-note type byte of Ed25519 (C2SP signed-note).
const keyAlgorithm = 1

// NewKey returns the Ed25519 key derived from seed (32 bytes). The name must contain neither spaces nor +.
func NewKey(name string, seed []byte) (Key, error) {
	if len(seed) != ed25519.SeedSize {
		return Key{}, fmt.Errorf("making a key: the seed has %d bytes", len(seed))
	}
	if err := checkText("name", name, maxAuthor); err != nil {
		return Key{}, fmt.Errorf("making a key: %w", err)
	}
	public := ed25519.NewKeyFromSeed(seed).Public().(ed25519.PublicKey)
	verifier, err := note.NewEd25519VerifierKey(name, public)
	if err != nil {
		return Key{}, fmt.Errorf("making a key: %w", err)
	}
	hash := strings.Split(verifier, "+")[1]
	private := fmt.Sprintf("PRIVATE+KEY+%s+%s+%s", name, hash,
		base64.StdEncoding.EncodeToString(append([]byte{keyAlgorithm}, seed...)))
	signer, err := note.NewSigner(private)
	return Key{signer, verifier, private}, fault.Wrap(err, "making a key")
}

// ParseKey reads a private key in the format of signed-note tools.
func ParseKey(private string) (Key, error) {
	signer, err := note.NewSigner(private)
	if err != nil {
		return Key{}, fmt.Errorf("reading a key: %w", err)
	}
	fields := strings.SplitN(private, "+", 5) // NewSigner has checked their form
	seed, err := base64.StdEncoding.DecodeString(fields[4])
	if err != nil {
		return Key{}, fmt.Errorf("reading a key: %w", err)
	}
	return NewKey(signer.Name(), seed[1:])
}
