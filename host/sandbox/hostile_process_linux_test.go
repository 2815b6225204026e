package sandbox

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	ossignal "os/signal"
	"path/filepath"
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

// childTasks returns everything that a child can run, by name.
func childTasks() map[string]func(*report) {
	tasks := map[string]func(*report){
		"bit flips": openBitFlips, "full disk": cacheOnFullDisk,
	}
	for _, h := range hostileGuests() {
		tasks[h.name] = h.run
	}
	return tasks
}

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
	childTasks()[task](&r)
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

// TestCacheOnFullDisk opens a plugin although the cache folder accepts no data.
func TestCacheOnFullDisk(t *testing.T) {
	t.Parallel()
	c := inChild(t, "full disk", childTimeout)
	expect.That(t, !c.hung && c.crash == "" && c.Score == len(testEntity),
		"hung: %v, crashed: %q, refused: %q, score %d", c.hung, c.crash, c.Refused, c.Score)
}

func cacheOnFullDisk(r *report) {
	dir, err := os.MkdirTemp("", "sandbox")
	if err != nil {
		r.Refused = err.Error()
		return
	}
	defer os.RemoveAll(dir)
	ossignal.Ignore(syscall.SIGXFSZ) // by default it ends a process whose file exceeds the limit
	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
		r.Refused = err.Error()
		return
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 1, Max: before.Max}); err != nil {
		r.Refused = err.Error()
		return
	}
	defer func() { _ = syscall.Setrlimit(syscall.RLIMIT_FSIZE, &before) }()
	box := New(Config{Instances: 1, Logger: discard(), CacheDir: dir, CacheKey: make([]byte, 32)})
	p, err := box.Open(context.Background(), hostileGuest{wasm: healthy().encode}.module())
	if err != nil {
		r.Refused = err.Error()
		return
	}
	defer p.Close(context.Background())
	r.call(p)
}
