// Package registry says what a plugin is and which plugins score: manifests, modules known by their digest, and
// lineups.
//
// A plugin is one .wasm file that carries its manifest in the custom section "assay.manifest". A lineup is the document
// that names the plugins in force, their weights, and where the bands begin. Both are immutable once published.
package registry

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"golang.org/x/mod/semver"

	"assay/sdk"
)

// Manifest is what a plugin says of itself (sdk/ABI.md section 8).
type Manifest struct {
	Name     string       `json:"name"`      // a-z, 0-9 and '-', 2 to 40 characters
	Version  string       `json:"version"`   // semver without "v"
	Summary  string       `json:"summary"`   // one sentence
	Entities []string     `json:"entities"`  // of domain, email, phone, iban
	Facts    []string     `json:"facts"`     // every fact the layer reads; others read as absent
	Signals  []SignalText `json:"signals"`   // every code the layer may emit
	Threats  []sdk.Threat `json:"threats"`   // every category it may name
	BudgetMS int          `json:"budget_ms"` // for one call, 1 to 100
	MemoryMB int          `json:"memory_mb"` // linear memory of one instance, 1 to 64
	// what one call may burn, about one unit an instruction; 0: no limit but the time
	MaxFuel       int64   `json:"max_fuel,omitempty"`
	DefaultWeight float64 `json:"default_weight"` // what the author suggests for a lineup, 0 to 20
}

// SignalText is a signal's code and what it means, for a catalogue.
type SignalText struct {
	Code string `json:"code"`
	Text string `json:"text"`
}

// Budget is the time one call may take.
func (m Manifest) Budget() time.Duration { return time.Duration(m.BudgetMS) * time.Millisecond }

// MaxWeight is the heaviest a layer may be: at 20, a score of 100 moves the odds by a factor of e^20.
const MaxWeight = 20

const maxManifestBytes = 64 << 10

var (
	namePattern = regexp.MustCompile(`^[a-z][a-z0-9-]{1,39}$`)
	factPattern = regexp.MustCompile(`^[a-z]+(\.[a-z0-9_]+)+$`)
	entityTypes = []string{"domain", "email", "phone", "iban"}
)

// ParseManifest reads a manifest and checks it. Unknown fields are refused, since they are most often a misspelt known
// one.
func ParseManifest(data []byte) (Manifest, error) {
	var m Manifest
	if err := decodeStrict(data, maxManifestBytes, &m); err != nil {
		return m, fmt.Errorf("reading manifest: %w", err)
	}
	if err := m.validate(); err != nil {
		return m, fmt.Errorf("reading manifest: %w", err)
	}
	return m, nil
}

func (m Manifest) validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if !namePattern.MatchString(m.Name) {
		bad("name %q is not 2 to 40 of a-z, 0-9 and '-', starting with a letter", m.Name)
	}
	if !validVersion(m.Version) {
		bad("version %q is not a semantic version such as 1.2.0", m.Version)
	}
	if err := sdk.ValidText(m.Summary); err != nil || len(m.Summary) > 200 {
		bad("summary must be 1 to 200 bytes long, without control characters")
	}
	if len(m.Entities) == 0 {
		bad("entities is empty: it lists which of domain, email, phone and iban the layer scores")
	}
	for _, e := range m.Entities {
		if !slices.Contains(entityTypes, e) {
			bad("entities holds %q, which is none of domain, email, phone and iban", e)
		}
	}
	if repeated, ok := firstRepeated(m.Entities); ok {
		bad("entities holds %q twice", repeated) // the layer would score twice
	}
	for _, f := range m.Facts {
		if len(f) > sdk.MaxFactName || !factPattern.MatchString(f) {
			bad("facts holds %q, which is not a dotted name such as domain.ascii", f)
		}
	}
	if repeated, ok := firstRepeated(m.Facts); ok {
		bad("facts holds %q twice", repeated)
	}
	codes := make([]string, len(m.Signals))
	for i, s := range m.Signals {
		codes[i] = s.Code
		if err := sdk.ValidCode(s.Code); err != nil {
			bad("signals: %w", err)
		}
		if err := sdk.ValidText(s.Text); err != nil {
			bad("signals: %s: %w", s.Code, err)
		}
	}
	if repeated, ok := firstRepeated(codes); ok {
		bad("signals holds %q twice", repeated)
	}
	for _, t := range m.Threats {
		if !slices.Contains(sdk.Threats(), t) {
			bad("threats holds %q, which is not a published category", t)
		}
	}
	if m.BudgetMS < 1 || m.BudgetMS > 100 {
		bad("budget_ms is %d, outside 1 to 100", m.BudgetMS)
	}
	if m.MemoryMB < 1 || m.MemoryMB > 64 {
		bad("memory_mb is %d, outside 1 to 64", m.MemoryMB)
	}
	if m.MaxFuel < 0 {
		bad("max_fuel is %d, below 0", m.MaxFuel)
	}
	if err := validWeight(m.DefaultWeight); err != nil {
		bad("default_weight: %w", err)
	}
	return errors.Join(errs...)
}

func validVersion(v string) bool { return semver.Canonical("v"+v)+semver.Build("v"+v) == "v"+v }

func validWeight(w float64) error {
	if math.IsNaN(w) || w < 0 || w > MaxWeight {
		return fmt.Errorf("%v is outside 0 to %d", w, MaxWeight)
	}
	return nil
}

func firstRepeated(names []string) (string, bool) {
	seen := map[string]bool{}
	for _, n := range names {
		if seen[n] {
			return n, true
		}
		seen[n] = true
	}
	return "", false
}

// decodeStrict decodes one JSON document of at most limit bytes in the profile of I-JSON (RFC 7493): no name twice, no
// name in another case, nothing that is not UTF-8. No unknown fields, and nothing after it.
func decodeStrict(data []byte, limit int, into any) error {
	if len(data) > limit {
		return fmt.Errorf("%d bytes are more than %d", len(data), limit)
	}
	err := json.Unmarshal(data, into, json.RejectUnknownMembers(true))
	var wrong *json.SemanticError
	if !errors.As(err, &wrong) {
		return err
	}
	// Its own text speaks of Go's types.
	field := strings.Join(slices.Collect(wrong.JSONPointer.Tokens()), ".")
	switch {
	case errors.Is(wrong, json.ErrUnknownName):
		return fmt.Errorf("there is no field %q", field)
	case field == "":
		return errors.New("it is not a JSON object")
	case wrong.JSONValue != nil:
		return fmt.Errorf("field %q cannot be %.40s", field, wrong.JSONValue)
	}
	return fmt.Errorf("field %q has a value of the wrong kind", field)
}
