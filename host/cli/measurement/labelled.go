package measurement

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"assay/host/entity"
	"assay/host/measure/eval"
	"assay/registry/fault"
)

// LabelledValues are the arguments that name a command's labelled values.
type LabelledValues struct {
	Files   []string `arg:"" optional:"" name:"file" help:"${labelled_files}"`
	Type    string   `enum:"domain,email,phone,iban,all" default:"all" help:"${labelled_type} ${enum}."`
	SkipBad bool     `help:"${labelled_skip_bad}"`
	HeldOut []string `placeholder:"FILE" help:"${labelled_held_out}"`
	Valid   bool     `kong:"-"` // a line whose value is invalid cannot be read either
}

// ErrNoRows means that there is nothing to measure.
var ErrNoRows = errors.New("the files contain no labelled values")

// BaseNames returns the names of files without their folders.
func BaseNames(files []string) []string {
	names := make([]string, len(files))
	for i, f := range files {
		names[i] = filepath.Base(f)
	}
	return names
}

// WriteTo creates a file, unless its name is empty, and calls write to fill it. doing describes the task in errors.
func WriteTo(file, doing string, write func(io.Writer) error) error {
	if file == "" {
		return nil
	}
	f, err := os.Create(file)
	if err == nil {
		err = errors.Join(write(f), f.Close())
	}
	return fault.Wrap(err, "%s", doing)
}

// Read reads all files. Lines that cannot be read are counted and skipped with --skip-bad. Without it they are an
// error, which shows the first few.
func (l LabelledValues) Read() (rows []eval.Row, skipped int, err error) {
	const shown = 5
	var reasons []string
	for _, file := range l.Files {
		more, bad, err := l.readFile(file)
		if err != nil {
			return nil, 0, fmt.Errorf("%s: %w", file, err)
		}
		if t := l.only(); t != "" {
			more = slices.DeleteFunc(more, func(r eval.Row) bool { return r.Type != t })
		}
		if l.Valid {
			more = slices.DeleteFunc(more, func(r eval.Row) bool {
				_, err := entity.Parse(r.Type, r.Value, r.Country)
				if err != nil {
					bad = append(bad, eval.LineError{Line: r.Line, Reason: fmt.Sprintf("value: %v", err)})
				}
				return err != nil
			})
		}
		for _, b := range bad {
			if len(reasons) < shown {
				reasons = append(reasons, fmt.Sprintf("%s, %v", file, b))
			}
		}
		skipped += len(bad)
		rows = append(rows, more...)
	}
	if skipped > 0 && !l.SkipBad {
		hint := map[bool]string{true: ", --type sets the type of values without one"}[l.only() == ""]
		return nil, 0, fmt.Errorf("%d lines cannot be read. --skip-bad skips them%s. The first:\n  %s", skipped, hint,
			strings.Join(reasons, "\n  "))
	}
	return rows, skipped, l.holdOut(rows)
}

// holdOut gives rows the held-out scores that the --held-out files have for their values.
func (l LabelledValues) holdOut(rows []eval.Row) error {
	type value struct {
		kind entity.Type
		text string
	}
	scores := map[value]map[string]int{}
	for _, file := range l.HeldOut {
		from, bad, err := l.readFile(file)
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		if len(bad) > 0 {
			return fmt.Errorf("%s, %w", file, bad[0])
		}
		for _, r := range from {
			v := value{r.Type, r.Value}
			if scores[v] == nil {
				scores[v] = map[string]int{}
			}
			maps.Copy(scores[v], r.HeldOut)
		}
	}
	for i := range rows {
		r := &rows[i]
		if more := scores[value{r.Type, r.Value}]; len(more) > 0 {
			r.HeldOut = maps.Clone(r.HeldOut)
			if r.HeldOut == nil {
				r.HeldOut = map[string]int{}
			}
			maps.Copy(r.HeldOut, more)
		}
	}
	return nil
}

// only returns the type to use, or "" for all.
func (l LabelledValues) only() entity.Type {
	if l.Type == "all" {
		return ""
	}
	return entity.Type(l.Type)
}

func (l LabelledValues) readFile(name string) (rows []eval.Row, bad []eval.LineError, err error) {
	if name == "-" {
		return eval.Read(os.Stdin, l.only())
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	return eval.Read(f, l.only())
}
