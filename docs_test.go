package assay_test

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"assay.example/client"
	"assay/host/access/apikey"
	"assay/host/check"
	"assay/host/customer/feedback"
	"assay/host/customer/override"
	"assay/host/customer/privacy"
	"assay/host/entity"
	"assay/host/facts/network"
	"assay/host/facts/registration"
	"assay/host/facts/reputation"
	"assay/host/hosttest"
	"assay/host/installation"
	"assay/registry"
	"assay/registry/expect"
	"assay/sdk"
)

// TestABIPage compares the threats and limits in sdk/ABI.md with the code.
func TestABIPage(t *testing.T) {
	t.Parallel()
	page := hosttest.ReadText(t, "sdk/ABI.md")
	var threats strings.Builder
	rest := page
	for _, threat := range sdk.Threats() {
		fmt.Fprintf(&threats, "`%s` ", threat)
		_, after, found := strings.Cut(rest, "\n| `"+string(threat)+"` |")
		expect.That(t, found, "section 6 of sdk/ABI.md does not list these threats in order: %s", threats.String())
		rest = after
	}
	for _, row := range []string{
		fmt.Sprintf("| signals | %d |", sdk.MaxSignals),
		fmt.Sprintf("| points of a signal | -%d to %d |", sdk.MaxPoints, sdk.MaxPoints),
		fmt.Sprintf("| a code | %d bytes", sdk.MaxCodeBytes),
		fmt.Sprintf("| a text | 1 to %d bytes", sdk.MaxTextBytes),
		fmt.Sprintf("| a fact's name | %d bytes |", sdk.MaxFactName),
		fmt.Sprintf("| log and printed output | %d bytes |", sdk.LogBytes),
	} {
		expect.That(t, strings.Contains(page, row), "section 5 of sdk/ABI.md lacks %q", row)
	}
	size := fmt.Sprintf("A plugin may have %d MiB", registry.MaxModuleBytes>>20)
	expect.That(t, strings.Contains(page, size), "section 8 of sdk/ABI.md lacks %q", size)
}

// TestContract compares the plans in docs/contract.md, and the threats there and in the guide, with the code.
func TestContract(t *testing.T) {
	t.Parallel()
	contract, openAPI := hosttest.ReadText(t, "docs/contract.md"), hosttest.ReadText(t, "host/web/api/openapi.json")
	for _, p := range check.Plans() {
		row := fmt.Sprintf("| %s plan | %s checks a month | %s", titled(p.Name), hosttest.Thousands(p.Quota),
			included(p))
		expect.That(t, strings.Contains(contract, row+" |") || strings.Contains(contract, row+"; 99.9% uptime |"),
			"docs/contract.md lacks the row %q", row)
		plan := fmt.Sprintf("`%s` (%s", p.Name, hosttest.Thousands(p.Quota))
		expect.That(t, strings.Contains(openAPI, plan), "openapi.json lacks %q", plan)
	}
	scores := hosttest.ReadText(t, "docs/guide/scores.md")
	for _, threat := range sdk.Threats() {
		expect.That(t, strings.Contains(contract, "`"+string(threat)+"`") && strings.Contains(scores,
			"| `"+string(threat)+"` |"), "docs/contract.md or docs/guide/scores.md lacks %s", threat)
	}
}

func titled(name string) string { return strings.ToUpper(name[:1]) + name[1:] }

// included returns what a plan includes, in the words of docs/contract.md.
func included(p check.Plan) string {
	types := "all four types"
	if len(p.Types) < len(entity.Types()) {
		types = strings.Trim(strings.ReplaceAll(fmt.Sprint(p.Types), " ", " and "), "[]")
	}
	parts := []string{types}
	if p.Webhooks {
		parts = append(parts, "webhooks")
	}
	if p.Batch {
		parts = append(parts, fmt.Sprintf("batches of %d", check.MaxBatch))
	}
	if p.Privacy {
		parts = append(parts, "privacy endpoints")
	}
	return strings.Replace(strings.Join(parts, ", "), ", ", "; ", 1)
}

// TestDocumentedLimits compares the limits in customers' documents with the code.
func TestDocumentedLimits(t *testing.T) {
	t.Parallel()
	c, rates := client.New("", ""), installation.DefaultRates()
	seconds := func(d time.Duration) int { return int(d / time.Second) }
	calls := []string{
		fmt.Sprintf("retried for %d s, with %d s for each attempt", seconds(c.Timeout), seconds(c.AttemptTimeout)),
		fmt.Sprintf("up to %.0f minutes", c.Wait.Minutes()),
		fmt.Sprintf("more than %s checks", hosttest.Thousands(privacy.AtOnce)),
		fmt.Sprintf("one entity, or up to %d |", check.MaxBatch),
	}
	var byPlan []string
	for _, p := range check.Plans() {
		byPlan = append(byPlan, fmt.Sprintf("%s (%s)", hosttest.Thousands(p.Rate), titled(p.Name)))
	}
	for file, texts := range map[string][]string{
		"sdk/client/README.md": calls, "sdk/python/README.md": calls, "sdk/typescript/README.md": calls,
		"sdk/python/assay/client.py": {fmt.Sprintf("int | None = None, attempt_timeout: float = %d, "+
			"timeout: float = %d, wait: float = %d", seconds(c.AttemptTimeout), seconds(c.Timeout), seconds(c.Wait))},
		"sdk/typescript/src/client.ts": {fmt.Sprintf("attempts: Infinity, attemptTimeout: %d_000, "+
			"timeout: %d_000, wait: %d_000,", seconds(c.AttemptTimeout), seconds(c.Timeout), seconds(c.Wait))},
		"docs/guide/checks.md":              {fmt.Sprintf("scores up to %d values", check.MaxBatch)},
		"host/web/console/pages/parts.html": {fmt.Sprintf("up to %d values", check.MaxBatch)},
		"docs/api/give-feedback.md":         {fmt.Sprintf("at most %d bytes", feedback.MaxNote)},
		"docs/guide/errors.md":              {fmt.Sprintf("for %d seconds", seconds(c.Timeout))},
		"docs/guide/privacy.md":             {calls[2]},
		"docs/contract.md": {
			"| requests a minute | " + strings.Join(byPlan, ", ") + ", ",
			fmt.Sprintf("| public checks a minute | %d;", rates[installation.PublicRate]),
			fmt.Sprintf("| look-ups of keys | %s a minute;", hosttest.Thousands(rates[installation.NetworkRate])),
			fmt.Sprintf("with up to %d networks each", apikey.MaxNetworks),
			fmt.Sprintf("with 1 to %d check requests", check.MaxBatch),
			calls[2], fmt.Sprintf("pages of up to %s checks", hosttest.Thousands(privacy.AtOnce)),
			fmt.Sprintf("is deleted after %.0f hours or when its subject is erased", privacy.KeepExport.Hours()),
			fmt.Sprintf("the same for %.0f days after the end", privacy.KeepRequest.Hours()/24),
			fmt.Sprintf("each for at most %.0f days", override.MaxAge.Hours()/24),
		},
	} {
		page := strings.Join(strings.Fields(hosttest.ReadText(t, file)), " ")
		for _, text := range texts {
			expect.That(t, strings.Contains(page, text), "%s lacks %q", file, text)
		}
	}
}

// TestErrorCodes compares the codes of errors in the clients with each other and with the document of the API.
func TestErrorCodes(t *testing.T) {
	t.Parallel()
	type properties struct{ Code struct{ Enum []string } }
	var document struct {
		Components struct {
			Schemas struct {
				Error struct{ Properties properties }
			}
		}
	}
	expect.NoError(t, json.Unmarshal([]byte(hosttest.ReadText(t, "host/web/api/openapi.json")), &document))
	want := document.Components.Schemas.Error.Properties.Code.Enum
	for file, begin := range map[string]string{
		"sdk/client/client.go":         "\n// The codes of errors.\n",
		"sdk/python/assay/client.py":   "\nCode = Literal[\n",
		"sdk/typescript/src/client.ts": "\nexport type Code =\n",
	} {
		_, list, _ := strings.Cut(hosttest.ReadText(t, file), begin)
		list, _, _ = strings.Cut(list, "\n\n")
		var got []string
		for _, code := range regexp.MustCompile(`"([a-z_]+)"`).FindAllStringSubmatch(list, -1) {
			got = append(got, code[1])
		}
		slices.Sort(got)
		slices.Sort(want)
		expect.That(t, slices.Equal(got, want), "%s has the codes %q, want %q", file, got, want)
	}
}

// TestClientVersions checks that the clients have the version of the host with which they are released.
func TestClientVersions(t *testing.T) {
	t.Parallel()
	for file, line := range map[string]string{
		"sdk/python/pyproject.toml":                    "version = %q\n",
		"sdk/typescript/package.json":                  `"version": %q,`,
		"sdk/typescript/package-lock.json":             `"version": %q,`,
		"examples/client-typescript/package-lock.json": `"version": %q,`,
	} {
		line = fmt.Sprintf(line, installation.Version)
		expect.That(t, strings.Contains(hosttest.ReadText(t, file), line), "%s lacks %s", file, line)
	}
}

// TestSmallestLayer checks that contributors copy the smallest layer.
func TestSmallestLayer(t *testing.T) {
	t.Parallel()
	lines := map[string]int{}
	for _, file := range expect.Value(filepath.Glob("plugins/*/*.go"))(t) {
		if name := filepath.Base(file); !strings.HasSuffix(name, "_test.go") && name != "signals.go" {
			lines[filepath.Base(filepath.Dir(file))] += strings.Count(hosttest.ReadText(t, file), "\n")
		}
	}
	smallest := slices.MinFunc(slices.Sorted(maps.Keys(lines)), func(a, b string) int { return lines[a] - lines[b] })
	want := "`cp -r plugins/" + smallest + " plugins/NAME`"
	expect.That(t, strings.Contains(hosttest.ReadText(t, "CONTRIBUTING.md"), want),
		"the smallest layer is %s of %v: CONTRIBUTING.md lacks %s", smallest, lines, want)
}

// TestTestingPage compares the values in docs/testing.md with those that test keys get answers to.
func TestTestingPage(t *testing.T) {
	t.Parallel()
	page := hosttest.ReadText(t, "docs/testing.md")
	for values := range slices.Chunk(check.TestValues(), len(entity.Types())) {
		row := fmt.Sprintf("| `%s` | `any@%s` | `%s` | `%s` |", values[0].Value, values[1].Value, values[2].Value,
			values[3].Value)
		expect.That(t, strings.Contains(page, row), "docs/testing.md lacks the row %s", row)
	}
}

// factTables returns the facts of every source, in the order of sdk/ABI.md.
func factTables() [][]entity.Fact {
	return [][]entity.Fact{
		entity.FactTable(), network.DNS{}.Table(), (*network.Net)(nil).Table(), (*registration.Source)(nil).Table(),
		(*reputation.Similar)(nil).Table(), (*reputation.Graph)(nil).Table(), (*reputation.Feed)(nil).Table(),
	}
}

// TestLayersReadKnownFacts checks the facts in first-party manifests: a misspelt fact would always be absent.
func TestLayersReadKnownFacts(t *testing.T) {
	t.Parallel()
	known := map[string]bool{}
	for _, f := range slices.Concat(factTables()...) {
		known[f.Name] = true
	}
	files, err := filepath.Glob("plugins/*/manifest.json")
	expect.Must(t, err == nil && len(files) >= 5, "manifests %v, %v", files, err)
	for _, file := range files {
		m, err := registry.ParseManifest([]byte(hosttest.ReadText(t, file)))
		expect.Must(t, err == nil, "%s: %v", file, err)
		for _, fact := range m.Facts {
			expect.That(t, known[fact] || strings.HasPrefix(fact, "config."), "%s reads the unknown fact %s", file,
				fact)
		}
	}
}

var (
	link     = regexp.MustCompile(`\]\(([^)#]+)(#[^)]*)?\)`)
	testName = regexp.MustCompile(`\b(?:Test|Benchmark|Fuzz)[A-Z]\w+`)
	runPath  = regexp.MustCompile(`go (?:run|test) (\./[\w./-]+)`)
	testRun  = regexp.MustCompile(`go test (?:-tags \w+ )?\./([\w/-]+)[^\n` + "`" + `]* -run '?\^?(Test\w+)`)
)

// What the documents refer to exists: linked files, tests by name and folder, and packages in commands.
func TestDocuments(t *testing.T) {
	t.Parallel()
	var documents []string
	tests := map[string][]string{} // the folders of each
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "node_modules" || d.Name() == ".git" || d.Name() == ".assay"):
			return filepath.SkipDir
		case strings.HasSuffix(path, ".md"):
			documents = append(documents, path)
		case strings.HasSuffix(path, "_test.go"):
			source, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			for _, name := range regexp.MustCompile(`(?m)^func (\w+)\(`).FindAllStringSubmatch(string(source), -1) {
				tests[name[1]] = append(tests[name[1]], filepath.Dir(path))
			}
		}
		return nil
	})
	expect.Must(t, err == nil && len(documents) >= 10, "found %d documents: %v", len(documents), err)
	for _, document := range documents {
		text := hosttest.ReadText(t, document)
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			_, err := os.Stat(filepath.Join(filepath.Dir(document), m[1]))
			expect.That(t, err == nil, "%s links to %s, which does not exist", document, m[1])
		}
		for _, name := range testName.FindAllString(text, -1) {
			expect.That(t, tests[name] != nil, "%s refers to %s, which does not exist", document, name)
		}
		for _, m := range runPath.FindAllStringSubmatch(text, -1) {
			path := strings.TrimSuffix(strings.TrimSuffix(m[1], "..."), "/")
			_, err := os.Stat(path)
			expect.That(t, err == nil || strings.Contains(path, "NAME"), "%s runs %s, which does not exist", document,
				m[1])
		}
		for _, m := range testRun.FindAllStringSubmatch(text, -1) {
			below := strings.HasSuffix(m[1], "/") // ./folder/...
			folders := tests[m[2]]
			expect.That(t, folders == nil || below || slices.Contains(folders, filepath.Clean(m[1])),
				"%s runs %s in %s, which is in %s", document, m[2], m[1], folders)
		}
	}
}
