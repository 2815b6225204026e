package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

var errNotCompiled = errors.New("compiling the mutant")

// lab tests mutants, several at a time.
type lab struct {
	module *module
	dir    string
	bound  time.Duration
	race   bool
	mu     sync.Mutex
	clean  map[string]func() (clean, error) // by package, each measured once
}

// clean is the outcome of a package's tests without a mutant, and the lines that they execute.
type clean struct {
	passed bool
	took   time.Duration
	lines  covered
}

// compile writes a mutant's overlay and compiles its package. The error wraps errNotCompiled if the compiler fails.
func (l *lab) compile(ctx context.Context, t *target, m Mutant) (overlay string, err error) {
	if overlay, err = l.overlay(m); err != nil {
		return "", err
	}
	build := exec.CommandContext(ctx, "go", "build", "-overlay", overlay, "-o", os.DevNull, t.path)
	if err := build.Run(); err != nil {
		return "", fmt.Errorf("%w: %w", errNotCompiled, err)
	}
	return overlay, nil
}

// try tests a mutant that was compiled.
func (l *lab) try(ctx context.Context, t *target, m Mutant, overlay string) (Result, error) {
	r := Result{Mutant: m, Package: t.path, Outcome: survived}
	begin := time.Now()
	paths := testers(l.module.packages, t.path)
	var spent time.Duration
	for i, p := range paths {
		clean, err := l.measure(ctx, p)
		if err != nil {
			return r, err
		}
		if !clean.passed {
			r.Untested++
			continue
		}
		if !clean.lines.may(path.Join(t.path, path.Base(m.File)), m.Line) {
			continue
		}
		r.Executed = true
		if spent >= l.bound {
			r.Untested += len(paths) - i
			break
		}
		// Tests that exceed this limit hang. The limit allows for a busier machine than without the mutant.
		limit := 5*clean.took + time.Minute
		flags := []string{"-overlay", overlay}
		if l.race && m.Kind == kindLock {
			limit *= 3
			flags = append(flags, "-race")
		}
		one, err := l.test(ctx, p, limit, l.bound-spent, flags...)
		if err != nil {
			return r, err
		}
		spent += one.took
		if one.outcome != survived {
			r.Outcome, r.Found = one.outcome, one.found
			break
		}
		if one.cut {
			r.Untested += len(paths) - i
			break
		}
	}
	r.Seconds = time.Since(begin).Round(time.Millisecond).Seconds()
	return r, nil
}

// overlay writes a mutant and the file that tells the go command about it.
func (l *lab) overlay(m Mutant) (string, error) {
	original, err := filepath.Abs(m.File)
	if err != nil {
		return "", fmt.Errorf("naming %s: %w", m.File, err)
	}
	source, err := os.ReadFile(original)
	if err != nil {
		return "", fmt.Errorf("reading the source: %w", err)
	}
	dir, err := os.MkdirTemp(l.dir, "")
	if err != nil {
		return "", fmt.Errorf("creating a folder for a mutant: %w", err)
	}
	changed := filepath.Join(dir, filepath.Base(m.File))
	config, err := json.Marshal(map[string]any{"Replace": map[string]string{original: changed}})
	if err != nil {
		return "", fmt.Errorf("encoding the overlay: %w", err)
	}
	overlay := filepath.Join(dir, "overlay.json")
	if err := errors.Join(os.WriteFile(changed, apply(source, m.edits), 0o600),
		os.WriteFile(overlay, config, 0o600)); err != nil {
		return "", fmt.Errorf("writing the mutant: %w", err)
	}
	return overlay, nil
}

// measure runs a package's tests without a mutant when they are first needed. Tests that fail cannot find mutants.
func (l *lab) measure(ctx context.Context, path string) (clean, error) {
	l.mu.Lock()
	once := l.clean[path]
	if once == nil {
		once = sync.OnceValues(func() (clean, error) { return l.cover(ctx, path) })
		l.clean[path] = once
	}
	l.mu.Unlock()
	return once()
}

// cover runs a package's tests and records the lines that they execute. If they fail, it runs them again without
// instrumentation, which may be the cause.
func (l *lab) cover(ctx context.Context, path string) (clean, error) {
	profile := filepath.Join(l.dir, strings.ReplaceAll(path, "/", "-")+".profile")
	one, err := l.test(ctx, path, time.Hour, time.Hour, "-coverpkg=./...", "-coverprofile="+profile)
	if err != nil {
		return clean{}, err
	}
	if one.outcome == survived {
		lines, err := readProfile(profile)
		return clean{passed: true, took: one.took, lines: lines}, err
	}
	if one, err = l.test(ctx, path, time.Hour, time.Hour); err != nil {
		return clean{}, err
	}
	if one.outcome != survived {
		fmt.Fprintf(os.Stderr, "without a mutant, %s fails: its tests are left out\n", cmp.Or(one.found, path))
	}
	return clean{passed: one.outcome == survived, took: one.took}, nil
}

// tested is the outcome of one package's tests.
type tested struct {
	outcome, found string
	cut            bool // the bound ended them
	took           time.Duration
}

// event is a line of go test -json.
type event struct{ Action, Package, Test, Output, FailedBuild string }

// test runs a package's tests until one fails. Tests that exceed limit count as hung; tests that exceed bound end
// without a result.
func (l *lab) test(ctx context.Context, path string, limit, bound time.Duration, flags ...string) (tested, error) {
	within, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	args := append([]string{"test", "-json", "-vet=off", "-count=1", "-failfast", "-timeout", limit.String()}, flags...)
	cmd := exec.CommandContext(within, "go", append(args, path)...)
	// Ending go also ends the test program and its child processes.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	out, err := cmd.StdoutPipe()
	if err != nil {
		return tested{}, fmt.Errorf("reading from the tests: %w", err)
	}
	begin := time.Now()
	if err := cmd.Start(); err != nil {
		return tested{}, fmt.Errorf("starting the tests: %w", err)
	}
	outcome, test := firstFailure(out)
	took := time.Since(begin)
	cut := within.Err() != nil
	if outcome != "" {
		cancel()
	}
	err = cmd.Wait()
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	switch {
	case ctx.Err() != nil:
		return tested{}, ctx.Err()
	case outcome == "" && cut:
		return tested{outcome: survived, cut: true, took: took}, nil
	case outcome == "" && err != nil:
		return tested{outcome: found, found: path, took: took}, nil
	case outcome == "":
		return tested{outcome: survived, took: took}, nil
	}
	return tested{outcome: outcome, found: strings.TrimSuffix(path+"."+test, "."), took: took}, nil
}

// firstFailure reads events up to the first failure, and returns its outcome and the name of the test. If the program
// ended without naming one, it is the test that was started last and runs, with a question mark. Both are empty if
// nothing failed.
func firstFailure(r io.Reader) (outcome, test string) {
	outcome = found
	var running []string
	for decoder := json.NewDecoder(r); ; {
		var e event
		if err := decoder.Decode(&e); err != nil {
			return "", ""
		}
		if strings.HasPrefix(e.Output, "panic: test timed out after ") {
			outcome = hung
		}
		switch e.Action {
		case "run":
			running = append(running, e.Test)
		case "pass", "skip":
			running = slices.DeleteFunc(running, func(name string) bool { return name == e.Test })
		case "fail":
			if e.FailedBuild != "" {
				return outcome, "(build)"
			}
			if e.Test == "" && len(running) > 0 {
				return outcome, running[len(running)-1] + "?"
			}
			return outcome, e.Test
		}
	}
}
