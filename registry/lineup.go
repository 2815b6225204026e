package registry

import (
	"cmp"
	"crypto/sha256"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"

	"assay/registry/fault"
	"assay/sdk"
)

// LineupDocument lists the layers that score and how their scores are fused.
type LineupDocument struct {
	// Base is the hash of the activation that the document derives from, if it came from one. It is not part of the
	// canonical text.
	Base   string        `json:"base,omitempty"`
	Note   string        `json:"note,omitempty"` // reason for the change, for the history
	Bias   ByType        `json:"bias"`           // fused log-odds when every layer scores 0, -20 to 20
	Bands  Bands         `json:"bands"`
	Layers []LineupLayer `json:"layers"`
}

// Bands are the lowest scores of the verdicts review and block (contract section 6).
type Bands struct {
	Review int `json:"review"`
	Block  int `json:"block"`
}

// LineupLayer is one layer of a lineup.
type LineupLayer struct {
	Layer  string `json:"layer"`            // name@version
	Digest string `json:"digest,omitempty"` // of the module, as Digest.String writes it; added when the lineup is set
	Mode   string `json:"mode,omitempty"`   // one of the modes; empty means ModeLive
	Fuel   int64  `json:"fuel,omitempty"`   // the layer's budget, at most its manifest's; 0: its manifest's
	Weight ByType `json:"weight"`           // log-odds that a score of 100 adds, 0 to 20
	// Floor bounds the layer's lowest score, -100 to 0, and so how much it clears. nil leaves that to its manifest.
	Floor *int `json:"floor,omitempty"`
	// Required raises the verdict to review when the layer fails and its score could have reached that band.
	Required bool              `json:"required,omitempty"`
	Config   map[string]string `json:"config,omitempty"` // read by the layer as config.*

	// Isolation is "call" when the instance is restored after each call, or "shared" when it is reused as the call
	// left it, for layers that are trusted to keep no state. Empty means "call".
	Isolation string `json:"isolation,omitempty"`
}

// Modes of a layer in a lineup.
const (
	ModeLive   = "live"   // it counts
	ModeShadow = "shadow" // it runs after the answer, and does not count
	ModeOff    = "off"    // it does not run
)

// Runs returns the layer's mode.
func (i LineupLayer) Runs() string { return cmp.Or(i.Mode, ModeLive) }

// Values of LineupLayer.Isolation.
const (
	isolationCall   = "call"
	isolationShared = "shared"
)

// Shares reports whether the layer's instances are reused without being restored.
func (i LineupLayer) Shares() bool { return i.Isolation == isolationShared }

const maxLineupBytes = 256 << 10

//go:embed default_lineup.json
var defaultLineup []byte

// DefaultLineup returns the lineup of the first-party layers with fitted weights. Its layers have no version: the host
// adds the versions that it was built with.
func DefaultLineup() (LineupDocument, error) {
	l, err := DecodeLineup(defaultLineup)
	return l, fault.Wrap(err, "reading default lineup")
}

// ParseLineup decodes a lineup and validates everything that does not need its modules. Unknown fields are refused.
func ParseLineup(data []byte) (LineupDocument, error) {
	l, err := DecodeLineup(data)
	if err == nil {
		err = l.Validate()
	}
	return l, fault.Wrap(err, "reading lineup")
}

// DecodeLineup decodes a lineup whose layers may lack a version, and checks its form only. A bias or a weight that is
// missing is refused: weight 0 means that a layer is observed but does not count, and an omission must not mean that.
func DecodeLineup(data []byte) (LineupDocument, error) {
	var l LineupDocument
	if err := decodeStrict(data, maxLineupBytes, &l); err != nil {
		return l, nameLayer(data, err)
	}
	var given struct {
		Bias   *ByType `json:"bias"`
		Layers []struct {
			Weight *ByType `json:"weight"`
		} `json:"layers"`
	}
	if err := json.Unmarshal(data, &given); err != nil {
		return l, err
	}
	if given.Bias == nil {
		return l, errors.New("bias is missing")
	}
	for i, item := range given.Layers {
		if item.Weight == nil {
			return l, fmt.Errorf("weight of layer %q is missing", l.Layers[i].Layer)
		}
	}
	return l, nil
}

// nameLayer names the layer in an error about a lineup's text, instead of its place in the list.
func nameLayer(data []byte, err error) error {
	var named struct {
		Layers []struct {
			Layer string `json:"layer"`
		} `json:"layers"`
	}
	_ = json.Unmarshal(data, &named) // reads what it can
	for i, item := range named.Layers {
		if item.Layer != "" {
			err = errors.New(strings.ReplaceAll(err.Error(), fmt.Sprintf(`"layers.%d.`, i), `"`+item.Layer+": "))
		}
	}
	return err
}

// Validate returns everything that is wrong with the lineup, joined into one error.
func (l LineupDocument) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if err := l.Bias.check(entityTypes, validBias); err != nil {
		bad("bias %w", err)
	}
	if l.Bands.Review < 1 || l.Bands.Block > 100 || l.Bands.Review >= l.Bands.Block {
		bad("bands must satisfy 1 <= review < block <= 100, not review %d and block %d", l.Bands.Review, l.Bands.Block)
	}
	if len(l.Layers) == 0 {
		bad("layers is empty")
	}
	names := make([]string, len(l.Layers))
	for i, item := range l.Layers {
		name, version, ok := item.Ref()
		names[i] = name
		if !ok || !namePattern.MatchString(name) || !validVersion(version) {
			bad("layer %q is not of the form name@1.2.0", item.Layer)
		}
		if err := item.Weight.check(nil, validWeight); err != nil {
			bad("weight of %s: %w", item.Layer, err)
		}
		if item.Floor != nil && (*item.Floor < -sdk.MaxPoints || *item.Floor > 0) {
			bad("floor of %s is %d, outside -%d to 0", item.Layer, *item.Floor, sdk.MaxPoints)
		}
		if !slices.Contains([]string{ModeLive, ModeShadow, ModeOff}, item.Runs()) {
			bad("mode of %s is %q, which is not live, shadow or off", item.Layer, item.Mode)
		}
		if item.Mode != "" && item.Runs() != ModeLive && item.Required {
			bad("%s is required, so its mode must be live, not %s", item.Layer, item.Mode)
		}
		if item.Fuel < 0 {
			bad("fuel of %s is negative", item.Layer)
		}
		if item.Digest != "" && !digestPattern.MatchString(item.Digest) {
			bad("digest of %s is not of the form sha256: and 64 hexadecimal digits", item.Layer)
		}
		if item.Isolation != "" && item.Isolation != isolationCall && item.Isolation != isolationShared {
			bad("isolation of %s is %q, which is neither call nor shared", item.Layer, item.Isolation)
		}
	}
	return errors.Join(append(errs, distinct("layers", names))...)
}

var digestPattern = regexp.MustCompile("^sha256:[0-9a-f]{64}$")

func validBias(b float64) error {
	if math.IsNaN(b) || math.Abs(b) > MaxWeight {
		return fmt.Errorf("%v is outside -%d to %d", b, MaxWeight, MaxWeight)
	}
	return nil
}

// Ref splits Layer into name and version; ok is false when it has no version.
func (i LineupLayer) Ref() (name, version string, ok bool) { return strings.Cut(i.Layer, "@") }

// SameVersion reports whether two layers run the same module under the same name and version.
func (i LineupLayer) SameVersion(other LineupLayer) bool {
	return i.Layer == other.Layer && i.Digest == other.Digest
}

// SameModule reports whether two layers run the same module with the same settings. Such layers can differ only in how
// fusion uses their results.
func (i LineupLayer) SameModule(other LineupLayer) bool {
	return i.SameVersion(other) && i.Fuel == other.Fuel && maps.Equal(i.Config, other.Config)
}

// Range returns the lowest and the highest score that a layer with manifest m has in this lineup.
func (i LineupLayer) Range(m Manifest) (lowest, highest int) {
	lowest, highest = m.Range()
	if i.Floor != nil {
		lowest = max(lowest, *i.Floor)
	}
	return lowest, highest
}

// Suits reports an error if the layer's manifest scores a type for which the lineup gives no weight: an omission must
// not mean that a layer does not count.
func (i LineupLayer) Suits(m Manifest) error {
	return fault.Wrap(i.Weight.check(m.Entities, validWeight), "weight of %s", i.Layer)
}

// Layer returns the layer with a name (without a version), or nil if there is none.
func (l LineupDocument) Layer(name string) *LineupLayer {
	for i, item := range l.Layers {
		if its, _, _ := item.Ref(); its == name {
			return &l.Layers[i]
		}
	}
	return nil
}

// With returns the lineup with a layer, which replaces the one with the same name or else comes last.
func (l LineupDocument) With(layer LineupLayer) LineupDocument {
	name, _, _ := layer.Ref()
	l.Layers = slices.Clone(l.Layers)
	if there := l.Layer(name); there != nil {
		*there = layer
	} else {
		l.Layers = append(l.Layers, layer)
	}
	return l
}

// Without returns the lineup without the layer with a name.
func (l LineupDocument) Without(name string) LineupDocument {
	l.Layers = slices.DeleteFunc(slices.Clone(l.Layers), func(item LineupLayer) bool {
		its, _, _ := item.Ref()
		return its == name
	})
	return l
}

// Encode returns the document with sorted map keys and no insignificant space. A new field must be omitted when empty;
// otherwise older lineups would no longer match the digests in the audit log.
func (l LineupDocument) Encode() ([]byte, error) { return json.Marshal(l) }

// Canonical returns the text that is stored, hashed and signed: the encoded document without its origin and its
// note.
func (l LineupDocument) Canonical() ([]byte, error) {
	l.Base, l.Note = "", ""
	return l.Encode()
}

// Same reports whether two lineups have the same canonical text.
func (l LineupDocument) Same(other LineupDocument) bool {
	a, errA := l.Canonical()
	b, errB := other.Canonical()
	return errA == nil && errB == nil && string(a) == string(b)
}

// LineupHash returns the identity of a lineup: the SHA-256 of its canonical text.
func LineupHash(canonical []byte) Digest { return sha256.Sum256(canonical) }

// OpenLineup reads the canonical text of the lineup with a hash. It refuses any other text, and a layer without a
// digest, because the hash alone must determine what is loaded.
func OpenLineup(canonical []byte, hash Digest) (LineupDocument, error) {
	if LineupHash(canonical) != hash {
		return LineupDocument{}, fmt.Errorf("reading lineup: its text was altered: it does not have the hash %s", hash)
	}
	l, err := ParseLineup(canonical)
	if err != nil {
		return l, err
	}
	for _, item := range l.Layers {
		if item.Digest == "" {
			return l, fmt.Errorf("reading lineup: layer %s has no digest", item.Layer)
		}
	}
	return l, nil
}

// ModuleDigest returns the digest that the layer names; ok is false when it names none.
func (i LineupLayer) ModuleDigest() (digest Digest, ok bool) {
	digest, err := ParseDigest(i.Digest)
	return digest, err == nil
}
