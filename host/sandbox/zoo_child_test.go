//go:build linux

package sandbox_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// What may bring a process down is tried in a child first: there a hang and an end are results.

// Variables that make the test binary a child.
const (
	taskVariable   = "ZOO_TASK"
	reportVariable = "ZOO_REPORT"
)

// end is how a child ended.
type end struct {
	report
	reported bool
	hung     bool
	crash    string // the first line that it died with
}

// tasks is what a child can be asked to do, by name.
func tasks() map[string]func(*report) {
	all := guardTasks()
	for _, s := range zoo() {
		all[s.name] = s.run
	}
	return all
}

// TestChild is what the other tests run in a process of its own. Without a task it has nothing to do.
func TestChild(t *testing.T) {
	task, ok := os.LookupEnv(taskVariable)
	if !ok {
		return
	}
	before, err := statusMB("VmRSS")
	if err != nil {
		t.Fatal(err)
	}
	// Memory that is only reserved counts too, and what tells races reserves terabytes: so the limit counts from here.
	reserved, err := statusMB("VmSize")
	if err != nil {
		t.Fatal(err)
	}
	limit := uint64(reserved+4096) << 20
	if err := syscall.Setrlimit(syscall.RLIMIT_AS, &syscall.Rlimit{Cur: limit, Max: limit}); err != nil {
		t.Fatal(err)
	}
	// A child whose parent is killed must not run on for ever.
	if err := syscall.Setrlimit(syscall.RLIMIT_CPU, &syscall.Rlimit{Cur: childSeconds, Max: childSeconds}); err != nil {
		t.Fatal(err)
	}
	var r report
	tasks()[task](&r)
	peak, err := statusMB("VmHWM")
	if err != nil {
		t.Fatal(err)
	}
	r.PeakMB = peak - before
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(os.Getenv(reportVariable), text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// statusMB reads a value of this process from the kernel, in MiB.
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
	return 0, fmt.Errorf("the kernel tells no %s", name)
}

// residentMB is what the process takes after everything that it can do without has been given back.
func residentMB() (int, error) {
	debug.FreeOSMemory()
	return statusMB("VmRSS")
}

// inChild runs a task in a process of its own, for so long at most.
func inChild(t *testing.T, task string, patience time.Duration) end {
	t.Helper()
	file := filepath.Join(t.TempDir(), "report")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestChild$", "-test.count=1")
	cmd.Env = append(os.Environ(), taskVariable+"="+task, reportVariable+"="+file)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	var e end
	if ctx.Err() != nil && t.Context().Err() == nil {
		e.hung = true
		return e
	}
	if err != nil {
		e.crash, _, _ = strings.Cut(out.String(), "\n")
		if e.crash == "" {
			e.crash = err.Error()
		}
	}
	if text, err := os.ReadFile(file); err == nil {
		e.reported = json.Unmarshal(text, &e.report) == nil
	}
	return e
}

// patience is how long a child may take that is not to hang.
const patience = time.Minute

// childSeconds is what a child may compute at most, in seconds of one processor.
const childSeconds = 120

// TestZooInChild runs every specimen by itself in a process that may take 4 GiB.
func TestZooInChild(t *testing.T) {
	t.Parallel()
	for _, s := range zoo() {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			e := inChild(t, s.name, patience)
			if e.hung || e.crash != "" || !e.reported {
				t.Fatalf("hung: %v, crashed: %q, but it %v", e.hung, e.crash, s.ends)
			}
			if wrong := s.ends.differs(e.report); wrong != "" {
				t.Error(wrong)
			}
			if e.PeakMB > s.extra() && !raceDetector {
				t.Errorf("it took %d MiB, more than %d", e.PeakMB, s.extra())
			}
			t.Logf("%s: %v, %d MiB, %d units of fuel", s.name, e.Took.Round(time.Microsecond), e.PeakMB, e.Fuel)
		})
	}
}
