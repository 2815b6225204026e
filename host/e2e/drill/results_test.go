//go:build !race

package drill

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"assay/host/cli"
	"assay/registry/expect"
)

// resultsIntro is the beginning of a new file of results.
const resultsIntro = `# Results

Long runs write this file; do not edit it. Each section is the last run of its suite.
`

// results is where a suite that is running will write.
type results struct{ file, revision string }

// beginResults notes on which revision a suite runs: a long one may end on another. file is in a checkout of the
// repository.
func beginResults(file string) results { return results{file, revision(filepath.Dir(file))} }

// write replaces the section with the given title in the file, or appends it. The section says when the suite ended,
// and on which revision and machine it ran.
func (r results) write(title, text string) error {
	old, err := os.ReadFile(r.file)
	if errors.Is(err, fs.ErrNotExist) {
		old, err = []byte(resultsIntro), nil
	}
	if err != nil {
		return fmt.Errorf("writing results: %w", err)
	}
	text = wrap(fmt.Sprintf("%s, revision %s, %s.\n\n%s", time.Now().UTC().Format("2006-01-02 15:04 UTC"), r.revision,
		machine(), text))
	if err := os.WriteFile(r.file, []byte(replaceSection(string(old), title, text)), 0o644); err != nil {
		return fmt.Errorf("writing results: %w", err)
	}
	return nil
}

// replaceSection replaces the text under the heading "## title" of a document, or appends it with its heading.
func replaceSection(document, title, text string) string {
	sections := strings.SplitAfter(strings.TrimSpace(document)+"\n", "\n## ")
	section := title + "\n\n" + strings.TrimSpace(text) + "\n"
	for i, s := range sections[1:] {
		if heading, _, _ := strings.Cut(s, "\n"); heading == title {
			if strings.HasSuffix(s, "\n## ") {
				section += "\n## "
			}
			sections[i+1] = section
			return strings.Join(sections, "")
		}
	}
	return strings.Join(sections, "") + "\n## " + section
}

// wrap breaks the paragraphs of a text into lines. Rows of tables stay.
func wrap(text string) string {
	paragraphs := strings.Split(text, "\n\n")
	for i, p := range paragraphs {
		if !strings.HasPrefix(p, "|") {
			paragraphs[i] = strings.Join(cli.Wrap(p, 120), "\n")
		}
	}
	return strings.Join(paragraphs, "\n\n")
}

// revision returns the commit of a checkout, and says whether files other than results have changed since.
func revision(dir string) string {
	git := func(args ...string) string {
		cmd := exec.Command("git", args...)
		cmd.Dir = dir
		out, err := cmd.Output()
		if err != nil {
			return "unknown"
		}
		return strings.TrimSpace(string(out))
	}
	name := git("rev-parse", "--short", "HEAD")
	if git("status", "--porcelain", "--", ":/", ":(exclude,top)docs/results.md") != "" {
		name += " with changes"
	}
	return name
}

// machine describes the machine that runs this process.
func machine() string {
	text := fmt.Sprintf("%d processors", runtime.NumCPU())
	if name := field("/proc/cpuinfo", "model name"); name != "" {
		text += " (" + name + ")"
	}
	var kilobytes int
	if _, err := fmt.Sscan(field("/proc/meminfo", "MemTotal"), &kilobytes); err == nil {
		text += fmt.Sprintf(", %d GiB", (kilobytes+1<<19)>>20)
	}
	return text + ", " + runtime.GOOS
}

// field returns the first value of a name in a file of lines "name: value", or "".
func field(file, name string) string {
	text, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

func TestReplaceSection(t *testing.T) {
	t.Parallel()
	const old = "# Results\n\nIntro.\n\n## One\n\nfirst\n\n## Two\n\nsecond\n"
	for name, test := range map[string]struct{ document, title, want string }{
		"the first section": {old, "One", "# Results\n\nIntro.\n\n## One\n\nnew\n\n## Two\n\nsecond\n"},
		"the last section":  {old, "Two", "# Results\n\nIntro.\n\n## One\n\nfirst\n\n## Two\n\nnew\n"},
		"a new section":     {old, "Three", old + "\n## Three\n\nnew\n"},
		"an empty file":     {"# Results\n", "One", "# Results\n\n## One\n\nnew\n"},
		"a title within another's text": {"# Results\n\n## One\n\nTwo\n", "Two",
			"# Results\n\n## One\n\nTwo\n\n## Two\n\nnew\n"},
	} {
		expect.Equal(t, name, replaceSection(test.document, test.title, "new\n\n"), test.want)
	}
}

func TestResults(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "results.md")
	for _, text := range []string{"earlier text", "later\ntext\n\n| a |\n|---|\n| table |"} {
		expect.NoError(t, beginResults(file).write("Suite", text))
	}
	text := expect.Value(os.ReadFile(file))(t)
	for _, want := range []string{"# Results\n", "\n## Suite\n\n20", " UTC, revision ", " processors",
		"\n\nlater text\n\n| a |\n|---|\n| table |\n"} {
		expect.That(t, strings.Count(string(text), want) == 1 && !strings.Contains(string(text), "earlier text"),
			"the file does not contain %q once, or contains the earlier results:\n%s", want, text)
	}
}
