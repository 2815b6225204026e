package assay_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"assay/host/hosttest"
	"assay/registry/expect"
)

var (
	link     = regexp.MustCompile(`\]\(([^)#]+)(#[^)]*)?\)`)
	testName = regexp.MustCompile(`\b(?:Test|Benchmark|Fuzz)[A-Z]\w+`)
	runPath  = regexp.MustCompile(`go (?:run|test) (\./[\w./-]+)`)
	testRun  = regexp.MustCompile(`go test (?:-tags \w+ )?\./([\w/-]+)[^\n` + "`" + `]* -run '?\^?(Test\w+)`)
)

// TestDocuments asserts that what the documents refer to exists: linked files, tests by
// name and folder, and packages in commands.
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
			if _, err := os.Stat(path); err != nil && !strings.Contains(path, "NAME") {
				t.Errorf("%s runs %s, which does not exist", document, m[1])
			}
		}
		for _, m := range testRun.FindAllStringSubmatch(text, -1) {
			below := strings.HasSuffix(m[1], "/") // ./folder/...
			if folders := tests[m[2]]; folders != nil && !below && !slices.Contains(folders, filepath.Clean(m[1])) {
				t.Errorf("%s runs %s in %s, which is in %s", document, m[2], m[1], folders)
			}
		}
	}
}
