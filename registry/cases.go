package registry

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"assay/registry/suggest"
	"assay/sdk"
)

// CasesSection is the custom section that contains a plugin's test cases, as in cases.jsonl.
const CasesSection = "assay.cases"

const maxCasesBytes = 256 << 10

// Case is one line of cases.jsonl (sdk/ABI.md section 8): the layer's own score must lie in Min..Max (-100 to 100), its
// signals must include every code of Codes and, if Threat is set, it must name that threat. Or it must abstain.
type Case struct {
	Name    string     `json:"name"`
	Type    string     `json:"type"`
	Value   string     `json:"value"`
	Country string     `json:"country"` // the request's region; "" means EU
	Facts   sdk.Facts  `json:"facts"`   // in addition to the parsed ones, and settings as config.NAME
	Min     int        `json:"min"`
	Max     int        `json:"max"`
	Codes   []string   `json:"codes"`
	Threat  sdk.Threat `json:"threat"`

	Abstains bool `json:"abstains"` // then nothing else is expected
}

// Input returns the case's looked-up facts and, by their names without the prefix "config.", its settings. They replace
// the settings of a lineup.
func (c Case) Input() (facts, settings map[string]string) {
	facts, settings = map[string]string{}, map[string]string{}
	for name, value := range c.Facts {
		if setting, ok := strings.CutPrefix(name, "config."); ok {
			settings[setting] = value
		} else {
			facts[name] = value
		}
	}
	return facts, settings
}

// ParseCases decodes the cases.jsonl of a layer with manifest m, which must declare all facts of the cases, because the
// layer sees no others. Empty lines are skipped. An error names the line.
func ParseCases(text []byte, m Manifest) ([]Case, error) {
	if len(text) > maxCasesBytes {
		return nil, fmt.Errorf("reading cases: %d bytes exceed the limit of %d", len(text), maxCasesBytes)
	}
	var cases []Case
	number := 0
	for line := range bytes.Lines(text) {
		number++
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		var c Case
		err := decodeStrict(line, maxCasesBytes, &c)
		if err == nil && c.Min > c.Max {
			err = fmt.Errorf("min %d is above max %d", c.Min, c.Max)
		}
		if err == nil && c.Abstains && (c.Min != 0 || c.Max != 0 || len(c.Codes) > 0 || c.Threat != "") {
			err = errors.New("a layer that abstains has no score, codes and threat")
		}
		for _, fact := range slices.Sorted(maps.Keys(c.Facts)) {
			if err == nil && !slices.Contains(m.Facts, fact) {
				err = fmt.Errorf("the manifest does not declare the fact %s%s", fact, suggest.Word(fact, m.Facts))
			}
		}
		if err != nil {
			return nil, fmt.Errorf("reading cases: line %d: %w", number, err)
		}
		cases = append(cases, c)
	}
	return cases, nil
}

// Answer is a layer's answer about a case's value.
type Answer struct {
	Abstained bool
	Score     int
	Threat    string
	Codes     []string // of its signals
}

// Differences lists how an answer differs from what the case expects. It returns none if the answer is as expected.
func (c Case) Differences(got Answer) []string {
	var all []string
	switch {
	case got.Abstained && c.Abstains:
		return nil
	case c.Abstains:
		return []string{fmt.Sprintf("the layer scores %d, and is expected to abstain", got.Score)}
	case got.Abstained:
		all = append(all, fmt.Sprintf("the layer abstains, and a score of %d to %d is expected", c.Min, c.Max))
	case got.Score < c.Min || got.Score > c.Max:
		all = append(all, fmt.Sprintf("the score is %d, outside %d to %d", got.Score, c.Min, c.Max))
	}
	if c.Threat != "" && got.Threat != string(c.Threat) {
		all = append(all, fmt.Sprintf("the threat is %q, not %q", got.Threat, c.Threat))
	}
	for _, code := range c.Codes {
		if !slices.Contains(got.Codes, code) {
			all = append(all, fmt.Sprintf("the signal %s is missing", code))
		}
	}
	return all
}

// Cases returns the test cases that were packed with the module. There may be none.
func (m Module) Cases() ([]Case, error) {
	text, err := customSection(m.Wasm, CasesSection)
	if errors.Is(err, errNoSection) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("opening module: %w", err)
	}
	return ParseCases(text, m.Manifest)
}
