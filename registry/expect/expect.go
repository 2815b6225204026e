// Package expect has the assertions of tests that need no other fixtures, and so build without a database.
package expect

import (
	"context"
	"errors"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// Value returns a function that fails the test if err is not nil, and returns v otherwise.
//
//	text := expect.Value(os.ReadFile(name))(t)
func Value[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		NoError(t, err)
		return v
	}
}

// NoError fails the test at once if err is not nil.
func NoError(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// ErrorOf returns the error of a call with two results.
func ErrorOf[T any](_ T, err error) error { return err }

// Error fails the test unless err is want.
func Error(t testing.TB, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: %v, want %v", what, err, want)
	}
}

// ErrorText fails the test unless err contains text.
func ErrorText(t testing.TB, what string, err error, text string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), text) {
		t.Errorf("%s: %v, want %q", what, err, text)
	}
}

// Outcome is ErrorText, but fails the test on any error if text is empty.
func Outcome(t testing.TB, what string, err error, text string) {
	t.Helper()
	if text == "" {
		Error(t, what, err, nil)
	} else {
		ErrorText(t, what, err, text)
	}
}

// Failure fails the test if err is nil, with a message that says what this means.
func Failure(t testing.TB, err error, format string, args ...any) {
	t.Helper()
	if err == nil {
		t.Errorf(format, args...)
	}
}

// That fails the test, with a message, unless a condition holds.
func That(t testing.TB, holds bool, format string, args ...any) {
	t.Helper()
	if !holds {
		t.Errorf(format, args...)
	}
}

// Must fails the test at once, with a message, unless a condition holds.
func Must(t testing.TB, holds bool, format string, args ...any) {
	t.Helper()
	if !holds {
		t.Fatalf(format, args...)
	}
}

// NoDiff fails the test if got differs from want, and reports how.
func NoDiff(t testing.TB, what string, want, got any, opts ...cmp.Option) {
	t.Helper()
	if diff := cmp.Diff(want, got, opts...); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// Equal fails the test unless got is want.
func Equal[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// Until waits for a condition to hold.
func Until(t testing.TB, condition string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(2 * time.Minute)
	for !holds() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("timed out waiting for %s", condition)
		}
	}
}

// Ended returns a context that has been canceled.
func Ended(t testing.TB) context.Context {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	return ended
}

// Program returns the path of a program that a Debian package installs, or skips the test if it is missing.
func Program(t testing.TB, name, debian string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		path, err = exec.LookPath("/usr/sbin/" + name) // which is not in the PATH of every user
	}
	if err != nil {
		t.Skipf("this test needs %s: install it with `apt-get install %s`", name, debian)
	}
	return path
}

// Each runs a test for each case of a table, in parallel.
func Each[C any](t *testing.T, cases map[string]C, test func(t *testing.T, c C)) {
	t.Helper()
	EachNamed(t, cases, func(t *testing.T, _ string, c C) { test(t, c) })
}

// EachNamed is Each with a test that needs the name of its case.
func EachNamed[N ~string, C any](t *testing.T, cases map[N]C, test func(t *testing.T, name N, c C)) {
	t.Helper()
	for name, c := range cases {
		t.Run(string(name), func(t *testing.T) {
			t.Parallel()
			test(t, name, c)
		})
	}
}

// Clock is a clock that only Add moves.
type Clock struct {
	mu  sync.Mutex
	now time.Time
}

// NewClock returns a clock that shows a time.
func NewClock(now time.Time) *Clock { return &Clock{now: now} }

// Now returns the time.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Add moves the clock.
func (c *Clock) Add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}
