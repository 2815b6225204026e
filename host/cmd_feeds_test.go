package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"assay/host/feed"
	"assay/host/postgres/postgrestest"
)

func TestFeedsCommands(t *testing.T) {
	t.Parallel()
	dir, database := t.TempDir(), postgrestest.Database(t)
	file := filepath.Join(dir, "list.txt")
	write := func(lines ...string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	importing := []string{"feeds", "import", file, "--name", "CERT Test", "--kind", "bad", "--category", "phishing",
		"--licence", "CC0", "--expires", "30d"}
	write("a.example", "b.example", "# comment", "not an entity")
	got := outputJSON[importResult](t, dir, database, importing...)
	if got.Added != 2 || got.Entries != 2 || got.Malformed != 1 || len(got.First) != 1 ||
		got.First[0].Line != 4 || got.Format != "plain" {
		t.Errorf("first import: %+v", got)
	}
	write("b.example", "c.example")
	if got := outputJSON[importResult](t, dir, database, importing...); got.Added != 1 || got.Removed != 1 ||
		got.Entries != 2 {
		t.Errorf("second import: %+v", got)
	}

	// A file that is probably not a list changes nothing.
	write("<html>", "<p>not here</p>", "</html>", "d.example")
	if code, text := failing(t, dir, database, importing...); code != 1 ||
		!strings.Contains(text, "3 of the 4 items could not be read") ||
		!strings.Contains(text, "line 1:") || strings.Contains(text, "storing") {
		t.Errorf("importing an error page: exit code %d, %s", code, text)
	}
	write("# nothing")
	if code, text := failing(t, dir, database, importing...); code != 1 ||
		!strings.Contains(text, "has no entry that could be read") || !strings.Contains(text, "format plain") {
		t.Errorf("importing an empty list: exit code %d, %s", code, text)
	}
	feeds := outputJSON[[]feed.List](t, dir, database, "feeds", "list")
	if len(feeds) != 1 || feeds[0].Name != "CERT Test" || feeds[0].Entries != 2 || feeds[0].Version != 2 ||
		feeds[0].Licence != "CC0" || feeds[0].Source != file ||
		feeds[0].ExpiresAt == nil || feeds[0].ExpiresAt.Sub(feeds[0].ImportedAt).Round(time.Hour) != 30*24*time.Hour {
		t.Errorf("lists: %+v", feeds)
	}
	if text := output(t, dir, database, "feeds", "list"); !strings.Contains(text, "CERT Test") {
		t.Errorf("lists:\n%s", text)
	}
	if text := output(t, dir, database, "feeds", "withdraw", "CERT Test"); !strings.Contains(text, "withdrawn") {
		t.Errorf("withdrawing: %s", text)
	}
	if code, text := failing(t, dir, database, "feeds", "withdraw", "CERT Test"); code != 1 ||
		!strings.Contains(text, "no list of that name") {
		t.Errorf("withdrawing again: exit code %d, %s", code, text)
	}
	if feeds := outputJSON[[]feed.List](t, dir, database, "feeds", "list"); len(feeds) != 0 {
		t.Errorf("lists after the withdrawal: %+v", feeds)
	}
}

// failing runs a command that must fail, and returns its exit code and standard error.
func failing(t *testing.T, dir, database string, args ...string) (int, string) {
	t.Helper()
	cmd := command(t.Context(), dir, database, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Run(); err == nil {
		t.Errorf("assay %s succeeded", strings.Join(args, " "))
	}
	return cmd.ProcessState.ExitCode(), stderr.String()
}

func TestFeedsFlags(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{
		"a comma in the name":     {"--name", "a, b", "--kind", "bad"},
		"no name":                 {"--kind", "bad"},
		"an unknown kind":         {"--name", "a", "--kind", "ugly"},
		"an unknown threat":       {"--name", "a", "--kind", "bad", "--category", "evil"},
		"a threat of a good list": {"--name", "a", "--kind", "good", "--category", "scam"},
		"an unknown format":       {"--name", "a", "--kind", "bad", "--format", "xml"},
		"an age without a unit":   {"--name", "a", "--kind", "bad", "--expires", "30"},
		"a zero age":              {"--name", "a", "--kind", "bad", "--expires", "0d"},
		"an invalid country":      {"--name", "a", "--kind", "bad", "--country", "Germany"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var stderr bytes.Buffer
			if code := run(t.Context(), append([]string{"feeds", "import", "x.txt"}, args...), io.Discard,
				&stderr); code != 2 {
				t.Errorf("exit code %d, want 2: %s", code, stderr.String())
			}
		})
	}
}
