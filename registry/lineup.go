package registry

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
)

// LineupDocument is the document that says which layers score and how their scores are fused.
type LineupDocument struct {
	Note   string        `json:"note,omitempty"` // why, for whoever reads the history
	Bias   float64       `json:"bias"`           // fused log-odds with nothing against an entity, -20 to 20
	Bands  Bands         `json:"bands"`
	Layers []LineupLayer `json:"layers"`
}

// Bands are the scores at which review and block begin (spec section 6).
type Bands struct {
	Review int `json:"review"`
	Block  int `json:"block"`
}

// LineupLayer is one layer's place in a lineup.
type LineupLayer struct {
	Layer  string  `json:"layer"`  // name@version
	Weight float64 `json:"weight"` // what a score of 100 adds to the log-odds, 0 to 20
	// when lost, and a band hangs on it, the verdict is at least review
	Required bool              `json:"required,omitempty"`
	Config   map[string]string `json:"config,omitempty"` // read by the layer as config.*

	// Isolation says what a call may leave behind for the next: nothing ("call"), or whatever the guest keeps
	// ("shared"), for layers that are trusted to keep nothing. Empty: "shared" for first-party plugins, "call" for all
	// others.
	Isolation string `json:"isolation,omitempty"`
}

// The isolations of a layer.
const (
	isolationCall   = "call"
	isolationShared = "shared"
)

// Shares says whether the layer's instances are used again as a call has left them.
func (i LineupLayer) Shares(firstParty bool) bool {
	return i.Isolation == isolationShared || (i.Isolation == "" && firstParty)
}

const maxLineupBytes = 256 << 10

//go:embed default_lineup.json
var defaultLineup []byte

// DefaultLineup is the lineup of the first-party layers, with fitted weights. Its layers name no version: the host
// fills in those it was built with.
func DefaultLineup() (LineupDocument, error) {
	l, err := DecodeLineup(defaultLineup)
	if err != nil {
		return l, fmt.Errorf("reading default lineup: %w", err)
	}
	return l, nil
}

// ParseLineup reads a lineup and checks all that can be checked without its modules. Unknown fields are refused.
func ParseLineup(data []byte) (LineupDocument, error) {
	l, err := DecodeLineup(data)
	if err == nil {
		err = l.Validate()
	}
	if err != nil {
		return l, fmt.Errorf("reading lineup: %w", err)
	}
	return l, nil
}

// DecodeLineup reads a lineup whose layers may lack a version, and checks its form only. A layer without a weight is
// refused: 0 is what a layer has that is to be watched and not heeded, and nobody should get that by leaving something
// out.
func DecodeLineup(data []byte) (LineupDocument, error) {
	var l LineupDocument
	if err := decodeStrict(data, maxLineupBytes, &l); err != nil {
		return l, err
	}
	var given struct {
		Layers []struct {
			Weight *float64 `json:"weight"`
		} `json:"layers"`
	}
	if err := json.Unmarshal(data, &given); err != nil {
		return l, err
	}
	for i, item := range given.Layers {
		if item.Weight == nil {
			return l, fmt.Errorf("weight of layer %q is missing", l.Layers[i].Layer)
		}
	}
	return l, nil
}

// Validate says what is wrong with the lineup, all of it at once.
func (l LineupDocument) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if math.IsNaN(l.Bias) || math.Abs(l.Bias) > MaxWeight {
		bad("bias %v is outside -%d to %d", l.Bias, MaxWeight, MaxWeight)
	}
	if l.Bands.Review < 1 || l.Bands.Block > 100 || l.Bands.Review >= l.Bands.Block {
		bad("bands must hold 1 <= review < block <= 100, not review %d and block %d", l.Bands.Review, l.Bands.Block)
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
		if err := validWeight(item.Weight); err != nil {
			bad("weight of %s: %w", item.Layer, err)
		}
		if item.Isolation != "" && item.Isolation != isolationCall && item.Isolation != isolationShared {
			bad("isolation of %s is %q, which is neither call nor shared", item.Layer, item.Isolation)
		}
	}
	if repeated, ok := firstRepeated(names); ok {
		bad("layer %s is there twice", repeated)
	}
	return errors.Join(errs...)
}

// Ref splits the layer into name and version; ok is false when it is not of that form.
func (i LineupLayer) Ref() (name, version string, ok bool) { return strings.Cut(i.Layer, "@") }

// Encode returns the document as it is stored and hashed: map keys sorted, no insignificant space. A field that is
// added must be left out when it is empty, or the trail would not know older lineups again.
func (l LineupDocument) Encode() ([]byte, error) { return json.Marshal(l) }
