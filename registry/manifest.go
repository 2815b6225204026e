// Package registry defines plugins and lineups as documents: manifests, modules identified by digest, and lineup
// files. It neither runs plugins (package sandbox) nor stores them (package store).
//
// A plugin is one .wasm file that carries its manifest in the custom section "assay.manifest". A lineup is a document
// that names plugins, their weights and the verdict bands. Both are immutable once published.
package registry

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/mod/semver"

	"assay/registry/suggest"
	"assay/sdk"
)

// Manifest describes a plugin (sdk/ABI.md section 8).
type Manifest struct {
	Name     string       `json:"name"`     // a-z, 0-9 and '-', 2 to 40 characters
	Version  string       `json:"version"`  // semver without "v"
	Summary  string       `json:"summary"`  // one sentence
	Class    Class        `json:"class"`    // of all its signals; "" means Style
	Entities []string     `json:"entities"` // of domain, email, phone, iban
	Facts    []string     `json:"facts"`    // every fact the layer reads; all others read as absent
	Signals  []SignalText `json:"signals"`  // every code the layer may emit
	Threats  []sdk.Threat `json:"threats"`  // every category the layer may name
	// ScoreRange has the lowest and the highest score of the layer. The sum of its points is limited to this range. A
	// negative lowest score permits the layer to clear. nil means 0 to 100.
	ScoreRange *[2]int `json:"score_range"`
	// Blocks is the proof that a style layer's highest scores may block. nil means that none may.
	Blocks *Proof `json:"blocks"`
	// BudgetFuel limits one call: about one unit per instruction, MinBudget to MaxBudget. Fuel is the same on every
	// machine and at any load, so the same input always fits or never does.
	BudgetFuel    int64   `json:"budget_fuel"`
	MemoryMB      int     `json:"memory_mb"`      // linear memory of one instance in MiB, 1 to 64
	DefaultWeight float64 `json:"default_weight"` // weight that the author suggests for a lineup, 0 to 20
}

// Is reports whether a plugin is published under the name and version: the version may have build metadata added.
func (m Manifest) Is(name, version string) bool {
	return name == m.Name && (version == m.Version || strings.HasPrefix(version, m.Version+"+"))
}

// SignalText is a signal code, its meaning for the catalogue, and what the code promises.
type SignalText struct {
	Code string `json:"code"`
	Text string `json:"text"`
	// Points is the least number of points that the code is emitted with, and the only number if it warrants a review;
	// the sandbox refuses other answers. 0 promises nothing.
	Points int `json:"points,omitempty"`
	// Warrants is the band, "review" or "block", that the signal alone must reach in every lineup, whatever the style
	// layers say. Only findings warrant a band.
	Warrants string     `json:"warrants,omitempty"`
	Final    bool       `json:"final,omitempty"`  // not even all clearing layers together take it below its band
	Threat   sdk.Threat `json:"threat,omitempty"` // the category that the signal is evidence for
	Remedy   string     `json:"remedy,omitempty"` // what an honest owner of the entity can do, for the catalogue
	// YieldsTo has codes, or beginnings of codes that end with a colon, of signals that this one would contradict. If
	// one of them raises the score and yields to none, the answer leaves this signal out, unless the verdict is allow.
	// The signal counts nevertheless. There are at most 32.
	YieldsTo []string `json:"yields_to,omitempty"`
}

// maxYieldsTo bounds the work that each answer with the signal takes.
const maxYieldsTo = 32

// Class says what kind of evidence a layer's signals are. Findings decide, style suggests, clearing clears.
type Class string

// The classes of layers.
const (
	Finding  Class = "finding"  // something that a person can verify: a listing, a disguise, an impossible number
	Style    Class = "style"    // how a value looks: spelling, suffix, shape, length
	Clearing Class = "clearing" // evidence for an entity: age, tenure, rank
)

// Values of SignalText.Warrants.
const (
	WarrantsReview = "review"
	WarrantsBlock  = "block"
)

// LayerClass returns the layer's class.
func (m Manifest) LayerClass() Class { return cmp.Or(m.Class, Style) }

// Range returns the lowest and the highest score of the layer.
func (m Manifest) Range() (lowest, highest int) {
	if m.ScoreRange == nil {
		return 0, sdk.MaxPoints
	}
	return m.ScoreRange[0], m.ScoreRange[1]
}

// The smallest and the largest budget_fuel of a manifest.
const (
	MinBudget = 1_000
	MaxBudget = 50_000_000
)

// MaxWeight is the largest weight of a layer: at 20, a score of 100 multiplies the odds by e^20.
const MaxWeight = 20

const maxManifestBytes = 64 << 10

// hostCodes is the prefix of the codes of signals that the host itself adds to an answer.
const hostCodes = "host:"

var (
	namePattern = regexp.MustCompile(`^[a-z][a-z0-9-]{1,39}$`)
	factPattern = regexp.MustCompile(`^[a-z]+(\.[a-z0-9_]+)+$`)
	// yieldPattern matches a signal's code, group:kind:detail, or its beginning up to a colon.
	yieldPattern = regexp.MustCompile(`^[a-z0-9_-]+:([a-z0-9_-]+:([a-z0-9_-]+)?)?$`)
	entityTypes  = []string{"domain", "email", "phone", "iban"}
)

// ParseManifest decodes and validates a manifest. Unknown fields are refused, because most are misspelt known ones.
func ParseManifest(data []byte) (Manifest, error) { return parseManifest(data, maxManifestBytes) }

func parseManifest(data []byte, limit int) (Manifest, error) {
	var m Manifest
	err := decodeStrict(data, limit, &m)
	m.DefaultWeight += 0 // the database stores -0 as 0
	if unknown := (*unknownFieldError)(nil); errors.As(err, &unknown) &&
		(unknown.field == "budget_ms" || unknown.field == "max_fuel") {
		err = fmt.Errorf("%w: set budget_fuel, the most fuel that one call may burn", err)
	}
	if err != nil {
		return m, fmt.Errorf("reading manifest: %w", err)
	}
	if err := m.validate(); err != nil {
		return m, fmt.Errorf("reading manifest: %w", locate(data, err))
	}
	return m, nil
}

// locate adds a line number to each error of validate: that of its field, or of a value that it names.
func locate(data []byte, err error) error {
	var errs []error
	for text := range strings.Lines(err.Error()) {
		at := -1
		words := strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(" \"\n", r) })
		for _, word := range words[:min(3, len(words))] {
			at = max(at, bytes.Index(data, []byte(`"`+strings.TrimSuffix(word, ":")+`"`)))
		}
		errs = append(errs, inLine(data, int64(max(at, 0)), errors.New(strings.TrimSuffix(text, "\n"))))
	}
	return errors.Join(errs...)
}

func (m Manifest) validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if !namePattern.MatchString(m.Name) {
		bad("name %q must be 2 to 40 characters of a-z, 0-9 and '-', starting with a letter", m.Name)
	}
	if !validVersion(m.Version) {
		bad("version %q is not a semantic version such as 1.2.0", m.Version)
	}
	if err := sdk.ValidText(m.Summary); err != nil || len(m.Summary) > 200 {
		bad("summary must be 1 to 200 bytes long, without control characters")
	}
	if len(m.Entities) == 0 {
		bad("entities is empty: list which of domain, email, phone and iban the layer scores")
	}
	for _, e := range m.Entities {
		if !slices.Contains(entityTypes, e) {
			bad("entities contains %q, which is not domain, email, phone or iban%s", e, suggest.Word(e, entityTypes))
		}
	}
	for _, f := range m.Facts {
		if len(f) > sdk.MaxFactName || !factPattern.MatchString(f) {
			bad("facts contains %q, which is not a dotted name such as domain.ascii", f)
		}
	}
	codes := make([]string, len(m.Signals))
	for i, s := range m.Signals {
		codes[i] = s.Code
		if err := sdk.ValidCode(s.Code); err != nil {
			bad("signals: %w", err)
		}
		if strings.HasPrefix(s.Code, hostCodes) {
			bad("signals: the codes %s... are the host's own", hostCodes)
		}
		if err := sdk.ValidText(s.Text); err != nil {
			bad("signals: %s: %w", s.Code, err)
		}
		if err := sdk.ValidText(s.Remedy); err != nil && s.Remedy != "" {
			bad("signals: %s: remedy: %w", s.Code, err)
		}
		if len(s.YieldsTo) > maxYieldsTo {
			bad("signals: %s: yields_to has %d entries, more than %d", s.Code, len(s.YieldsTo), maxYieldsTo)
		}
		for _, code := range s.YieldsTo {
			if !yieldPattern.MatchString(code) {
				bad("signals: %s: yields_to contains %q, which is neither a code nor the beginning of one up to a "+
					"colon", s.Code, code)
			}
		}
		if err := m.validPromise(s); err != nil {
			bad("signals: %s: %w", s.Code, err)
		}
	}
	errs = append(errs, distinct("entities", m.Entities), // else the layer would score twice
		distinct("facts", m.Facts), distinct("signals", codes), distinct("threats", m.Threats))
	if err := m.validRange(); err != nil {
		bad("%w", err)
	} else if m.Blocks != nil {
		if err := m.Blocks.Validate(m); err != nil {
			bad("%w", err)
		}
	}
	for _, t := range m.Threats {
		if !slices.Contains(sdk.Threats(), t) {
			bad("threats contains %q, which is not a published category%s", t, suggest.Word(string(t), sdk.Threats()))
		}
	}
	if m.BudgetFuel < MinBudget || m.BudgetFuel > MaxBudget {
		bad("budget_fuel is %d, outside %d to %d", m.BudgetFuel, MinBudget, MaxBudget)
	}
	if m.MemoryMB < 1 || m.MemoryMB > 64 {
		bad("memory_mb is %d, outside 1 to 64", m.MemoryMB)
	}
	if err := validWeight(m.DefaultWeight); err != nil {
		bad("default_weight: %w", err)
	}
	return errors.Join(errs...)
}

// scores reports whether the layer scores entities of a type.
func (m Manifest) scores(entityType string) bool { return slices.Contains(m.Entities, entityType) }

// validRange checks the class and the score range against each other.
func (m Manifest) validRange() error {
	lowest, highest := m.Range()
	switch class := m.LayerClass(); {
	case class != Finding && class != Style && class != Clearing:
		return fmt.Errorf("class is %q, which is not finding, style or clearing", class)
	case lowest < -sdk.MaxPoints || lowest > 0 || highest < 0 || highest > sdk.MaxPoints:
		return fmt.Errorf("score_range is %d to %d: it must be within -%d to %d and contain 0", lowest, highest,
			sdk.MaxPoints, sdk.MaxPoints)
	case class == Finding && lowest != 0:
		return fmt.Errorf("score_range begins at %d, but a finding layer does not clear: it must begin at 0", lowest)
	case class == Clearing && highest != 0:
		return fmt.Errorf("score_range ends at %d, but a clearing layer does not accuse: it must end at 0", highest)
	}
	return nil
}

// validPromise checks a signal's promises, that is, everything but its code and text.
func (m Manifest) validPromise(s SignalText) error {
	_, highest := m.Range()
	switch {
	case s.Points < -sdk.MaxPoints || s.Points > sdk.MaxPoints:
		return fmt.Errorf("points is %d, outside -%d to %d", s.Points, sdk.MaxPoints, sdk.MaxPoints)
	case s.Threat != "" && !s.Threat.Published():
		return fmt.Errorf("threat %q is not a published category", s.Threat)
	case s.Final && s.Warrants != WarrantsBlock:
		return errors.New("final needs warrants block")
	case s.Warrants == "":
		return nil
	case s.Warrants != WarrantsReview && s.Warrants != WarrantsBlock:
		return fmt.Errorf("warrants is %q, which is neither review nor block", s.Warrants)
	case m.LayerClass() != Finding:
		return fmt.Errorf("warrants %s, but only the signals of a finding layer warrant a band", s.Warrants)
	case s.Points < 1 || s.Points > highest:
		return fmt.Errorf("warrants %s, which needs points from 1 to %d, not %d", s.Warrants, highest, s.Points)
	}
	return nil
}

func validVersion(v string) bool { return semver.Canonical("v"+v)+semver.Build("v"+v) == "v"+v }

func validWeight(w float64) error {
	if math.IsNaN(w) || w < 0 || w > MaxWeight {
		return fmt.Errorf("%v is outside 0 to %d", w, MaxWeight)
	}
	return nil
}

// distinct returns an error if a list contains a name twice.
func distinct[T ~string](list string, names []T) error {
	seen := map[T]bool{}
	for _, n := range names {
		if seen[n] {
			return fmt.Errorf("%s contains %q twice", list, n)
		}
		seen[n] = true
	}
	return nil
}

// decodeStrict decodes one JSON document of at most limit bytes as I-JSON (RFC 7493): no duplicate names, exact case,
// valid UTF-8. It also refuses unknown fields and trailing data.
func decodeStrict(data []byte, limit int, into any) error {
	if len(data) > limit {
		return fmt.Errorf("%d bytes exceed the limit of %d", len(data), limit)
	}
	err := json.Unmarshal(data, into, json.RejectUnknownMembers(true))
	var malformed *jsontext.SyntacticError
	var wrong *json.SemanticError
	switch {
	case errors.As(err, &wrong):
		return inLine(data, wrong.ByteOffset, describe(wrong, reflect.TypeOf(into)))
	case errors.As(err, &malformed):
		return inLine(data, malformed.ByteOffset, err)
	}
	return err
}

// inLine adds the line number of data[at] to an error, if data has several lines.
func inLine(data []byte, at int64, err error) error {
	if bytes.Count(bytes.TrimSpace(data), []byte("\n")) == 0 {
		return err
	}
	return fmt.Errorf("line %d: %w", 1+bytes.Count(data[:min(at, int64(len(data)))], []byte("\n")), err)
}

// describe rewords an error about a document, because the original text names Go types.
func describe(wrong *json.SemanticError, document reflect.Type) error {
	field := strings.Join(slices.Collect(wrong.JSONPointer.Tokens()), ".")
	switch {
	case errors.Is(wrong, json.ErrUnknownName):
		return &unknownFieldError{field, suggest.Word(wrong.JSONPointer.LastToken(), fieldNames(document))}
	case field == "":
		return errors.New("it is not a JSON object")
	case wrong.JSONValue != nil:
		return fmt.Errorf("field %q cannot be %.40s", field, wrong.JSONValue)
	}
	return fmt.Errorf("field %q has a value of the wrong kind", field)
}

// unknownFieldError means that a document has a field that the format does not define.
type unknownFieldError struct{ field, suggestion string }

func (e *unknownFieldError) Error() string {
	return fmt.Sprintf("there is no field %q%s", e.field, e.suggestion)
}

// fieldNames returns the names of all fields of a document of type t.
func fieldNames(t reflect.Type) (names []string) {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	for i := 0; t.Kind() == reflect.Struct && i < t.NumField(); i++ {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		names = append(append(names, name), fieldNames(t.Field(i).Type)...)
	}
	return names
}
