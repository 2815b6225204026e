// Package train holds the code shared by the commands that learn a layer's data from labelled rows: flags, reading and
// weighting rows, holding rows out, and reports. The models themselves are in the commands below it.
package train

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"assay/host/measure/eval"
	"assay/registry/fault"
)

// Progress prints a line of progress.
type Progress func(format string, args ...any)

// NewProgress returns a Progress that writes to w. Each line starts with the seconds since the call to NewProgress.
func NewProgress(w io.Writer) Progress {
	start := time.Now()
	return func(format string, args ...any) {
		fmt.Fprintf(w, "%5.0fs  "+format+"\n", append([]any{time.Since(start).Seconds()}, args...)...)
	}
}

// EachLine calls do for every line of a file of JSON lines, plain or gzipped.
func EachLine[Row any](path string, do func(*Row)) error {
	file, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("reading labelled lines: %w", err)
	}
	defer file.Close()
	text, err := eval.Unpacked(file)
	if err != nil {
		return fmt.Errorf("unpacking %s: %w", filepath.Base(path), err)
	}
	lines, n := bufio.NewScanner(text), 0
	for lines.Scan() {
		n++
		row := new(Row)
		if err := json.Unmarshal(lines.Bytes(), row); err != nil {
			return fmt.Errorf("reading %s: line %d: %w", filepath.Base(path), n, err)
		}
		do(row)
	}
	return fault.Wrap(lines.Err(), "reading %s: line %d", filepath.Base(path), n+1)
}

// Exit prints err, unless it is flag.ErrHelp, and exits with status 1. It does nothing if err is nil.
func Exit(err error) {
	if err == nil {
		return
	}
	if !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "train: "+err.Error())
	}
	os.Exit(1)
}

// Logistic returns 1/(1+exp(-x)), with x clamped to -30..30. It approximates exp by a power of 2^20, using
// multiplications only, because the last bit of math.Exp may differ between machines.
func Logistic(x float64) float64 {
	e := 1 - min(max(x, -30), 30)/(1<<20)
	for range 20 {
		e *= e
	}
	return 1 / (1 + e)
}

// WriteFiles writes learned data to a folder: the contents of files by name.
func WriteFiles[Text string | []byte](folder string, files map[string]Text) error {
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644); err != nil {
			return fmt.Errorf("writing learned data: %w", err)
		}
	}
	return nil
}

// WriteWords writes words in lines of at most 120 bytes. Each word is followed by a space or a line end.
func WriteWords(out io.Writer, words []string) error {
	var text strings.Builder
	column := 0
	for i, word := range words {
		switch {
		case i == 0:
		case column+1+len(word) > 120:
			text.WriteByte('\n')
			column = 0
		default:
			text.WriteByte(' ')
			column++
		}
		text.WriteString(word)
		column += len(word)
	}
	text.WriteByte('\n')
	_, err := io.WriteString(out, text.String())
	return err
}
