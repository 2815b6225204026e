package store

import (
	"context"
	"errors"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestOnce runs a job of two hosts: one of them runs it in each interval, and either one after a failure.
func TestOnce(t *testing.T) {
	t.Parallel()
	a := newStore(t, nil)
	runs, failure := 0, errors.New("no space")
	var err error
	job := func(s *Store) func(context.Context) error {
		return s.Once("tidy", time.Hour, func(context.Context) error { runs++; return err })
	}
	first, second := job(a), job(open(t, a.url, nil))
	later := func(by string) { exec(t, session(t, a.url), "UPDATE jobs SET due_at = due_at - interval '"+by+"'") }
	for _, step := range []struct {
		what  string
		later string
		fails error
		runs  int
	}{
		{what: "at the start of two hosts", later: "0", runs: 1},
		{what: "before the interval has passed", later: "30 min", runs: 1},
		{what: "after the interval", later: "30 min", fails: failure, runs: 2},
		{what: "soon after a failure", later: "0", runs: 2},
		{what: "a minute after a failure", later: "1 min", runs: 3},
	} {
		later(step.later)
		before := runs
		err = step.fails
		got := errors.Join(first(t.Context()), second(t.Context()))
		if !errors.Is(got, step.fails) || (got == nil) != (step.fails == nil) {
			t.Errorf("%s: %v", step.what, got)
		}
		holds(t, runs == step.runs, "%s: the job has run %d times, before %d, want %d", step.what, runs, before, step.runs)
	}
}

// TestStatements checks that each file of statements is used, and exists.
func TestStatements(t *testing.T) {
	t.Parallel()
	var used []string
	for _, file := range must(os.ReadDir("."))(t) {
		if !strings.HasSuffix(file.Name(), ".go") {
			continue
		}
		text := string(must(os.ReadFile(file.Name()))(t))
		for _, m := range regexp.MustCompile(`(?:query\([\w.]+, |statement\()"(\w+)"`).
			FindAllStringSubmatch(text, -1) {
			used = append(used, m[1]+".sql")
		}
	}
	slices.Sort(used)
	var files []string
	for _, file := range must(os.ReadDir("sql"))(t) {
		files = append(files, file.Name())
	}
	noDiff(t, "files of statements", files, slices.Compact(used))
}
