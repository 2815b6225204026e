package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// listed is a package as go list describes it.
type listed struct {
	ImportPath, Dir                    string
	GoFiles, TestGoFiles, XTestGoFiles []string
	Imports, TestImports, XTestImports []string
}

// module is the code to break and the tests that may notice.
type module struct {
	targets  []*target
	packages map[string]listed
}

// load reads the packages of the module and finds the mutants of those below the roots that match the patterns.
func load(ctx context.Context, roots, only []string) (*module, error) {
	m := &module{packages: map[string]listed{}}
	all, err := goList(ctx, "./...")
	if err != nil {
		return nil, err
	}
	for _, p := range all {
		m.packages[p.ImportPath] = p
	}
	chosen, err := goList(ctx, roots...)
	if err != nil {
		return nil, err
	}
	if len(only) > 0 {
		matching, err := goList(ctx, only...)
		if err != nil {
			return nil, err
		}
		chosen = slices.DeleteFunc(chosen, func(p listed) bool {
			return !slices.ContainsFunc(matching, func(q listed) bool { return q.ImportPath == p.ImportPath })
		})
	}
	here, err := os.Getwd()
	if err != nil {
		return nil, fmt.Errorf("finding the working folder: %w", err)
	}
	for _, p := range chosen {
		if strings.HasSuffix(p.ImportPath, "test") {
			continue // it helps the tests of other packages
		}
		t := &target{path: p.ImportPath, mutants: map[string][]Mutant{}}
		for _, name := range p.GoFiles {
			file, err := filepath.Rel(here, filepath.Join(p.Dir, name))
			if err != nil {
				return nil, fmt.Errorf("naming %s: %w", name, err)
			}
			source, err := os.ReadFile(file)
			if err != nil {
				return nil, fmt.Errorf("reading the source: %w", err)
			}
			mutants, lines, err := find(file, source)
			if err != nil {
				return nil, err
			}
			t.lines += lines
			for _, mutant := range mutants {
				t.mutants[mutant.Kind] = append(t.mutants[mutant.Kind], mutant)
			}
		}
		m.targets = append(m.targets, t)
	}
	return m, nil
}

func goList(ctx context.Context, patterns ...string) ([]listed, error) {
	out, err := exec.CommandContext(ctx, "go", append([]string{"list", "-json"}, patterns...)...).Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			err = fmt.Errorf("%w: %s", err, bytes.TrimSpace(exit.Stderr))
		}
		return nil, fmt.Errorf("listing packages: %w", err)
	}
	var all []listed
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, fmt.Errorf("reading the list of packages: %w", err)
		}
		all = append(all, p)
	}
}

// testers returns the packages whose tests may find a mutant of a package: itself, then those that import it, nearest
// first. An import of only a package's tests does not extend to the package's importers.
func testers(packages map[string]listed, path string) []string {
	distance := map[string]int{path: 0}
	tests := map[string]int{path: 0}
	paths := sorted(packages)
	for queue := []string{path}; len(queue) > 0; queue = queue[1:] {
		for _, p := range paths {
			imports := func(list []string) bool { return slices.Contains(list, queue[0]) }
			next := distance[queue[0]] + 1
			lists := [][]string{packages[p].Imports, packages[p].TestImports, packages[p].XTestImports}
			if _, ok := distance[p]; !ok && imports(packages[p].Imports) {
				distance[p] = next
				queue = append(queue, p)
			}
			if d, ok := tests[p]; (!ok || next < d) && slices.ContainsFunc(lists, imports) {
				tests[p] = next
			}
		}
	}
	paths = slices.DeleteFunc(paths, func(p string) bool {
		_, ok := tests[p]
		return !ok || len(packages[p].TestGoFiles)+len(packages[p].XTestGoFiles) == 0
	})
	slices.SortStableFunc(paths, func(a, b string) int { return cmp.Compare(tests[a], tests[b]) })
	return paths
}
