// Package terminal writes the output of commands: results, tables, JSON and progress.
package terminal

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"
	"unicode/utf8"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// Misuse is an error in the command line that a command finds.
type Misuse struct{ Err error }

func (m Misuse) Error() string { return m.Err.Error() }

// Unwrap returns the error in the command line.
func (m Misuse) Unwrap() error { return m.Err }

// FirstLine returns the first line of a text, which a table or a list shows.
func FirstLine(text string) string {
	line, _, more := strings.Cut(text, "\n")
	if more {
		return line + fmt.Sprintf(" (and %d more lines in the log)", strings.Count(text, "\n"))
	}
	return line
}

// OneLine quotes a layer's text unless it is one line of printable characters: it must not control the terminal.
func OneLine(text string) string {
	if !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool { return !strconv.IsPrint(r) }) {
		return strconv.Quote(text)
	}
	return text
}

// Terminal holds the streams that a command writes to: results to Out, progress and warnings to Err.
type Terminal struct {
	Out, Err io.Writer
	AsJSON   bool  // for Show, Say and List
	Failed   error // the first of Printf
}

// Silent is a terminal that shows nothing.
var Silent = &Terminal{Out: io.Discard, Err: io.Discard}

// Output is the flag of a command whose result can be JSON. The command line sets its terminal's AsJSON.
type Output struct {
	JSON bool `help:"Print JSON."`
}

// Show prints a result: v as JSON, or what text prints.
func (t *Terminal) Show(v any, text func() error) error {
	if t.AsJSON {
		return t.JSON(v)
	}
	return text()
}

// Say prints a result: v as JSON, or a formatted text.
func (t *Terminal) Say(v any, format string, args ...any) error {
	return t.Show(v, func() error { t.Printf(format, args...); return nil })
}

// List prints a result: all as JSON, or as a table with a row for each.
func List[T any](t *Terminal, all []T, header []string, row func(T) []string) error {
	return t.Show(all, func() error {
		rows := make([][]string, len(all))
		for i, v := range all {
			rows[i] = row(v)
		}
		return t.Table(header, rows)
	})
}

// JSON writes v to out as indented JSON.
func (t *Terminal) JSON(v any) error {
	enc := json.NewEncoder(t.Out)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// Table writes rows to out, in columns under a header.
func (t *Terminal) Table(header []string, rows [][]string) error {
	w := tabwriter.NewWriter(t.Out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, strings.Join(header, "\t"))
	for _, row := range rows {
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	return w.Flush()
}

// Printf writes formatted text to Out. Failed keeps its first error.
func (t *Terminal) Printf(format string, args ...any) {
	if _, err := fmt.Fprintf(t.Out, format, args...); err != nil && t.Failed == nil {
		t.Failed = fmt.Errorf("printing the result: %w", err)
	}
}

// Progress returns a function that shows the progress of a task with several steps: as a bar on a terminal, otherwise
// as one line for each step.
func (t *Terminal) Progress(what string) func(done, total int, name string) {
	if f, ok := t.Err.(*os.File); !ok || !IsTerminal(f) {
		return func(done, total int, name string) { fmt.Fprintf(t.Err, "%s %d/%d: %s\n", what, done, total, name) }
	}
	var bar *progressbar.ProgressBar
	return func(done, total int, name string) {
		if bar == nil {
			bar = progressbar.NewOptions(total, progressbar.OptionSetWriter(t.Err),
				progressbar.OptionSetDescription(what), progressbar.OptionSetWidth(30), progressbar.OptionShowCount(),
				progressbar.OptionClearOnFinish())
		}
		bar.Describe(what + " (" + name + ")")
		_ = bar.Set(done)
	}
}

// Stage announces a step of unknown duration.
func (t *Terminal) Stage(name string) { fmt.Fprintln(t.Err, name+" ...") }

// IsTerminal reports whether a file is a terminal.
func IsTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }
