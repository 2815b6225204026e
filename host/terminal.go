package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// terminal holds the streams that a command writes to: results to out, progress and warnings to err.
type terminal struct{ out, err io.Writer }

// json writes v to out as indented JSON.
func (t *terminal) json(v any) error {
	enc := json.NewEncoder(t.out)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// table writes rows to out, in columns under a header.
func (t *terminal) table(header []string, rows [][]string) error {
	w := tabwriter.NewWriter(t.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, strings.Join(header, "\t"))
	for _, row := range rows {
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	return w.Flush()
}

func (t *terminal) printf(format string, args ...any) { fmt.Fprintf(t.out, format, args...) }

// progress returns a function that shows the progress of a task with several steps: as a bar on a terminal, otherwise
// as one line for each step.
func (t *terminal) progress(what string) func(done, total int, name string) {
	if f, ok := t.err.(*os.File); !ok || !isTerminal(f) {
		return func(done, total int, name string) { fmt.Fprintf(t.err, "%s %d/%d: %s\n", what, done, total, name) }
	}
	var bar *progressbar.ProgressBar
	return func(done, total int, name string) {
		if bar == nil {
			bar = progressbar.NewOptions(total, progressbar.OptionSetWriter(t.err),
				progressbar.OptionSetDescription(what), progressbar.OptionSetWidth(30), progressbar.OptionShowCount(),
				progressbar.OptionClearOnFinish())
		}
		bar.Describe(what + " (" + name + ")")
		_ = bar.Set(done)
	}
}

// stage announces a step of unknown duration.
func (t *terminal) stage(name string) { fmt.Fprintln(t.err, name+" ...") }

func isTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }
