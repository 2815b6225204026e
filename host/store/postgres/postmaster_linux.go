package postgres

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// isPostmaster reports whether the process is a Postgres that runs in the folder data. It is false for a process that
// has ended, reaped or not, and for another program that received the number of an ended Postgres.
func isPostmaster(pid int, data string) bool {
	proc := filepath.Join("/proc", strconv.Itoa(pid))
	name, err := os.ReadFile(filepath.Join(proc, "comm"))
	if err != nil || strings.TrimSpace(string(name)) != "postgres" {
		return false
	}
	return sameFile(filepath.Join(proc, "cwd"), data)
}

// machine identifies this boot of this kernel and this container: process numbers are comparable only within it.
func machine() string {
	boot, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	space, _ := os.Readlink("/proc/self/ns/pid")
	return strings.TrimSpace(string(boot)) + " " + space
}
