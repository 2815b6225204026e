package bench

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"assay/registry/expect"
)

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

func TestWrap(t *testing.T) {
	t.Parallel()
	long := strings.TrimSpace(strings.Repeat("eleven char ", 10))
	expect.Must(t, len(long) == 119, "the line has %d columns", len(long))
	for name, test := range map[string]struct{ text, want string }{
		"short lines are joined": {"one\ntwo\n\nthree\n", "one two\n\nthree"},
		"a line of 120 columns":  {long + "x y", long + "x\ny"},
		"a word too many":        {long + " y", long + "\ny"},
		"code":                   {long[:100] + " `just soak one hour`.", long[:100] + "\n`just soak one hour`."},
		"a table":                {"| a |\n|---|\n| " + long + " |", "| a |\n|---|\n| " + long + " |"},
	} {
		expect.Equal(t, name, wrap(test.text), test.want)
	}
}

func TestResults(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "results.md")
	for _, text := range []string{"earlier text", "later text"} {
		expect.NoError(t, BeginResults(file).Write("Suite", text))
	}
	text := expect.Value(os.ReadFile(file))(t)
	for _, want := range []string{"# Results\n", "\n## Suite\n\n20", " UTC, revision ", " processors",
		"\n\nlater text\n"} {
		expect.That(t, strings.Count(string(text), want) == 1 && !strings.Contains(string(text), "earlier text"),
			"the file does not contain %q once, or contains the earlier results:\n%s", want, text)
	}
}
