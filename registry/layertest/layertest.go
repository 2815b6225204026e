// Package layertest runs a layer natively against its manifest.json, its cases.jsonl and labelled rows. Only tests
// import it. Tests of the host run guests in the sandbox.
package layertest

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"assay/host/entity"
	"assay/registry"
	"assay/registry/expect"
	"assay/sdk"
)

// Suite is a layer's manifest and cases.
type Suite struct {
	Manifest registry.Manifest
	Cases    []registry.Case
}

// Open reads manifest.json and cases.jsonl from folder. An unknown field fails the test.
func Open(t testing.TB, folder string) Suite {
	t.Helper()
	manifest, cases, err := registry.ReadDescription(folder)
	expect.NoError(t, err)
	m := expect.Value(registry.ParseManifest(manifest))(t)
	return Suite{m, expect.Value(registry.ParseCases(cases, m))(t)}
}

// Facts returns the facts that the host parses from a case's value, and those that the case adds.
func Facts(t testing.TB, c registry.Case) sdk.Facts {
	t.Helper()
	parsed, err := entity.Parse(entity.Type(c.Type), c.Value, c.Country)
	expect.Must(t, err == nil, "parsing %q: %v", c.Value, err)
	maps.Copy(parsed.Facts, c.Facts)
	return sdk.Facts(parsed.Facts)
}

// RunCases runs layer on every case as a subtest, and then asserts that the cases raise every declared signal and read
// every declared fact. It also checks the manifest.
func (s Suite) RunCases(t *testing.T, layer sdk.Layer) {
	t.Helper()
	s.checkManifest(t)
	expect.Must(t, len(s.Cases) != 0, "no cases")
	raised, read := map[string]bool{}, map[string]bool{}
	for _, c := range s.Cases {
		t.Run(c.Name, func(t *testing.T) {
			facts := Facts(t, c)
			got := s.Check(t, layer, facts)
			answer := registry.Answer{Abstained: got.Outcome == sdk.Abstained, Score: got.Score,
				Threat: string(got.Threat)}
			for _, s := range got.Signals {
				answer.Codes = append(answer.Codes, s.Code)
				raised[s.Code] = true
			}
			expect.That(t, got.Outcome != sdk.Failed, "%s: the layer failed", c.Value)
			for _, difference := range c.Differences(answer) {
				t.Errorf("%s: %s; signals %v; facts %v", c.Value, difference, got.Signals, facts)
			}
			for _, fact := range got.Read {
				read[fact] = true
			}
		})
	}
	t.Run("characters that no text may hold", func(t *testing.T) { s.checkHostileCharacters(t, layer) })
	for _, declared := range s.Manifest.Signals {
		expect.That(t, raised[declared.Code], "no case raises %s", declared.Code)
	}
	for _, fact := range s.Manifest.Facts {
		expect.That(t, read[fact], "fact %s is declared but never read", fact)
	}
}

// Abstains asserts that layer abstains, without signals, on facts that it cannot judge. unknown has them by name.
func Abstains(t *testing.T, layer sdk.Layer, unknown map[string]sdk.Facts) {
	t.Helper()
	for name, facts := range unknown {
		got := sdk.Run(layer, facts)
		expect.That(t, got.Outcome == sdk.Abstained && len(got.Signals) == 0, "%s: %+v, want it to abstain", name, got)
	}
}

// checkHostileCharacters asserts that an entity cannot make a host refuse the layer's answer. It runs the cases again
// with values that contain characters that texts must not contain, or that begin like one of the host's texts.
func (s Suite) checkHostileCharacters(t *testing.T, layer sdk.Layer) {
	t.Helper()
	for _, c := range s.Cases {
		user, domain, isEmail := strings.Cut(c.Value, "@")
		if !isEmail && c.Type != string(entity.Domain) {
			continue
		}
		_, first := utf8.DecodeRuneInString(c.Value)
		for _, hostile := range []string{
			"\ufe0f", "\U000e0100", "\u115f", "\u3164", "\u17b4", "\u2800", "क्\u200cक", "क्\u200d",
			"assayː", "assay：", "АЅЅАУ!",
		} {
			values := []string{hostile + c.Value, c.Value[:first] + hostile + c.Value[first:]}
			if isEmail {
				values = append(values, user+hostile+"@"+domain, `"`+hostile+user+`"@`+domain,
					`"assay:`+user+`"@`+domain, user+"@"+hostile+domain)
			}
			for _, value := range values {
				parsed, err := entity.Parse(entity.Type(c.Type), value, c.Country)
				if err != nil {
					continue // layers never see it
				}
				maps.Copy(parsed.Facts, c.Facts)
				if got := sdk.Run(layer, sdk.Facts(parsed.Facts)); got.Refused != nil {
					t.Errorf("%+q: a host would refuse the answer: %v; signals %+v", value, got.Refused, got.Signals)
				}
			}
		}
	}
}

// Benchmark measures layer on all cases, one after another.
func (s Suite) Benchmark(b *testing.B, layer sdk.Layer) {
	var all []sdk.Facts
	for _, c := range s.Cases {
		all = append(all, Facts(b, c))
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		sdk.Run(layer, all[i%len(all)])
	}
}

// Run calls layer natively and limits its score to the manifest's range, as the sandbox does.
func (s Suite) Run(layer sdk.Layer, facts sdk.Facts) sdk.Result {
	got := sdk.Run(layer, facts)
	if got.Outcome != sdk.Scored || got.Refused != nil {
		return got
	}
	got.Score = 0
	for _, signal := range got.Signals {
		got.Score += signal.Points
	}
	got.Score = s.score(got)
	return got
}

// Check calls layer natively, and checks its answer with [Suite.CheckResult]. An empty fact is absent.
func (s Suite) Check(t testing.TB, layer sdk.Layer, facts sdk.Facts) sdk.Result {
	t.Helper()
	maps.DeleteFunc(facts, func(_, value string) bool { return value == "" })
	got := s.Run(layer, facts)
	s.CheckResult(t, got)
	return got
}

// CheckResult asserts that a host would accept got: nothing is refused, all facts, codes and threats are declared, and
// findings have the points that the manifest promises.
func (s Suite) CheckResult(t testing.TB, got sdk.Result) {
	t.Helper()
	expect.That(t, got.Refused == nil, "a host would refuse the answer: %v", got.Refused)
	for _, fact := range got.Read {
		expect.That(t, slices.Contains(s.Manifest.Facts, fact), "fact %s is read but not declared", fact)
	}
	warranted, worth := 0, map[string]int{}
	for _, signal := range got.Signals {
		worth[signal.Code] += signal.Points
		at := slices.IndexFunc(s.Manifest.Signals, func(d registry.SignalText) bool { return d.Code == signal.Code })
		if at < 0 {
			t.Errorf("signal %s is raised but not declared", signal.Code)
			continue
		}
		declared := s.Manifest.Signals[at]
		expect.That(t, declared.Warrants != registry.WarrantsReview || worth[signal.Code] <= declared.Points,
			"signal %s is raised with %d points, and warrants a review with %d", signal.Code, worth[signal.Code],
			declared.Points)
		expect.That(t, declared.Points == 0 || signal.Points >= declared.Points,
			"signal %s is worth %d points, and the manifest promises %d", signal.Code, signal.Points, declared.Points)
		if declared.Warrants != "" {
			warranted = max(warranted, declared.Points)
		}
	}
	if score := s.score(got); got.Outcome == sdk.Scored && warranted > 0 && score < warranted {
		t.Errorf("the score is %d, below the %d points of a signal that warrants a band", score, warranted)
	}
	expect.That(t, got.Threat == "" || slices.Contains(s.Manifest.Threats, got.Threat),
		"threat %s is named but not declared", got.Threat)
}

// score returns the score of a result, limited to the manifest's range.
func (s Suite) score(got sdk.Result) int {
	lowest, highest := s.Manifest.Range()
	return min(max(got.Score, lowest), highest)
}

// checkManifest asserts that the manifest has the folder's name, suggests a weight, and lists only facts that exist.
// The host's tests check looked-up facts against the tables of their sources.
func (s Suite) checkManifest(t *testing.T) {
	t.Helper()
	folder, err := os.Getwd() // a test runs in its package's folder
	expect.NoError(t, err)
	m := s.Manifest
	expect.That(t, m.Name == filepath.Base(folder) && m.DefaultWeight > 0,
		"manifest.json names %s with weight %v, want the folder's name and a weight", m.Name, m.DefaultWeight)
	for _, fact := range m.Facts {
		group, _, _ := strings.Cut(fact, ".")
		parsed := group == "entity" || slices.Contains(entity.Types(), entity.Type(group))
		if parsed && !slices.ContainsFunc(entity.FactTable(), func(f entity.Fact) bool { return f.Name == fact }) {
			t.Errorf("fact %s is not in the table of facts", fact)
		}
	}
}
