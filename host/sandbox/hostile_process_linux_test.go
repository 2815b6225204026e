package sandbox

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"assay/registry/expect"
)

// Tests that may hang or kill a process run in a child process, where a hang and a crash are results.

// These environment variables make the test binary a child.
const (
	taskVariable   = "SANDBOX_TEST_TASK"
	reportVariable = "SANDBOX_TEST_REPORT"
)

const (
	childTimeout    = 5 * time.Minute
	childCPUSeconds = 240
	childMemoryMB   = 4096
)

// childResult is how a child ended.
type childResult struct {
	report
	reported bool
	hung     bool
	crash    string // first line of its output
}

// clean reports whether the child has finished its task.
func (c childResult) clean() bool { return !c.hung && c.crash == "" && c.reported }

// TestChild runs a task of another test in a process of its own. It does nothing without a task.
func TestChild(t *testing.T) {
	task, ok := os.LookupEnv(taskVariable)
	if !ok {
		return
	}
	before := expect.Value(statusMB("VmRSS"))(t)
	// Reserved memory counts towards the limit, and the race detector reserves terabytes, so the limit is relative.
	reserved := expect.Value(statusMB("VmSize"))(t)
	limitTo(t, syscall.RLIMIT_AS, uint64(reserved+childMemoryMB)<<20)
	limitTo(t, syscall.RLIMIT_CPU, childCPUSeconds) // ends a child whose parent was killed
	var r report
	guests := hostileGuests()
	guests[slices.IndexFunc(guests, func(h hostileGuest) bool { return h.name == task })].run(&r)
	peak := expect.Value(statusMB("VmHWM"))(t)
	r.PeakMB = peak - before
	text := expect.Value(json.Marshal(r))(t)
	expect.NoError(t, os.WriteFile(os.Getenv(reportVariable), text, 0o600))
}

func limitTo(t *testing.T, resource int, limit uint64) {
	t.Helper()
	expect.NoError(t, syscall.Setrlimit(resource, &syscall.Rlimit{Cur: limit, Max: limit}))
}

// statusMB returns a field of /proc/self/status in MiB.
func statusMB(name string) (int, error) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(status)) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			kb, err := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(value), " kB"))
			return kb / 1024, err
		}
	}
	return 0, fmt.Errorf("/proc/self/status has no field %s", name)
}

// inChild runs a task in a child process.
func inChild(t *testing.T, task string, timeout time.Duration) childResult {
	t.Helper()
	file := filepath.Join(t.TempDir(), "report")
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestChild$", "-test.count=1")
	cmd.Env = append(os.Environ(), taskVariable+"="+task, reportVariable+"="+file)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	var c childResult
	if ctx.Err() != nil && t.Context().Err() == nil {
		c.hung = true
		return c
	}
	if err != nil {
		c.crash, _, _ = strings.Cut(out.String(), "\n")
		if c.crash == "" {
			c.crash = err.Error()
		}
	}
	if text, err := os.ReadFile(file); err == nil {
		c.reported = json.Unmarshal(text, &c.report) == nil
	}
	return c
}

// TestHostileGuestsInChild runs every hostile guest in a process of its own.
func TestHostileGuestsInChild(t *testing.T) {
	t.Parallel()
	for _, h := range hostileGuests() {
		t.Run(h.name, func(t *testing.T) {
			t.Parallel()
			c := inChild(t, h.name, childTimeout)
			expect.Must(t, c.clean(), "hung: %v, crashed: %q; want %+v", c.hung, c.crash, h.want)
			if wrong := h.want.mismatch(c.report); wrong != "" {
				t.Error(wrong)
			}
			if limit := 64 + 2*h.memoryMB; c.PeakMB > limit && !raceDetector {
				t.Errorf("the process grew by %d MiB, want at most %d", c.PeakMB, limit)
			}
			t.Logf("%s: %v, %d MiB, %d units of fuel", h.name, c.Took.Round(time.Microsecond), c.PeakMB, c.Fuel)
		})
	}
}
