package main

import (
	"bufio"
	"fmt"
	"os"
	"strings"
)

// covered holds the blocks of each file, by import path and file name, and whether a package's tests execute them. It
// is nil if that is unknown.
type covered map[string][]block

// block is a range of lines, including the first and the last.
type block struct {
	first, last int
	executed    bool
}

// readProfile reads a profile that go test -coverprofile wrote.
func readProfile(name string) (covered, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("opening the profile: %w", err)
	}
	defer file.Close()
	all := covered{}
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		source, rest, ok := strings.Cut(lines.Text(), ".go:")
		if !ok {
			continue // the mode
		}
		var b block
		var column, statements, count int
		_, err := fmt.Sscanf(rest, "%d.%d,%d.%d %d %d", &b.first, &column, &b.last, &column, &statements, &count)
		if err != nil {
			return nil, fmt.Errorf("reading %q of the profile: %w", lines.Text(), err)
		}
		b.executed = count > 0
		all[source+".go"] = append(all[source+".go"], b)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("reading the profile: %w", err)
	}
	return all, nil
}

// may reports whether the tests may notice a change of a line: they execute it, or no block covers it. No block covers
// lines outside functions, or the case line of a switch, whose block begins after the colon.
func (c covered) may(file string, line int) bool {
	known := false
	for _, b := range c[file] {
		if b.first <= line && line <= b.last {
			if b.executed {
				return true
			}
			known = known || line > b.first
		}
	}
	return !known
}
