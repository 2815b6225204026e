package bench

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// ticksPerSecond is the unit of processor time in /proc, the same on all architectures (USER_HZ).
const ticksPerSecond = 100

// ProcessTime returns the processor time that a process has used. It needs Linux's /proc.
func ProcessTime(pid int) (time.Duration, error) {
	own, _, err := processTime(pid)
	return own, err
}

// TimeWithin returns the processor time of the processes whose working directory is dir or below it, and of their
// ended children. It needs Linux's /proc and permission to inspect these processes.
func TimeWithin(dir string) (time.Duration, error) {
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return 0, fmt.Errorf("reading processor times: %w", err)
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return 0, fmt.Errorf("reading processor times: %w", err)
	}
	var total time.Duration
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue // not a process
		}
		cwd, err := os.Readlink(filepath.Join("/proc", entry.Name(), "cwd"))
		if err != nil || cwd != dir && !strings.HasPrefix(cwd, dir+"/") {
			continue // it has ended, or is somebody else's
		}
		own, children, err := processTime(pid)
		if err != nil && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, syscall.ESRCH) { // it has ended
			return 0, err
		}
		total += own + children
	}
	return total, nil
}

// processTime returns the processor time of a process and that of its ended children (proc_pid_stat(5)).
func processTime(pid int) (own, children time.Duration, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, 0, fmt.Errorf("reading processor times: %w", err)
	}
	// The second field is the name in parentheses and may contain blanks.
	_, rest, _ := strings.Cut(string(text[strings.LastIndexByte(string(text), ')')+1:]), " ")
	fields := strings.Fields(rest)
	const user = 14 - 3 // the first of these fields is the third of the file
	if len(fields) < user+4 {
		return 0, 0, fmt.Errorf("reading processor times: /proc/%d/stat has %d fields", pid, len(fields))
	}
	var ticks [4]int64 // user, system, and the children's user and system
	for i := range ticks {
		if ticks[i], err = strconv.ParseInt(fields[user+i], 10, 64); err != nil {
			return 0, 0, fmt.Errorf("reading processor times: %w", err)
		}
	}
	const tick = time.Second / ticksPerSecond
	return time.Duration(ticks[0]+ticks[1]) * tick, time.Duration(ticks[2]+ticks[3]) * tick, nil
}
