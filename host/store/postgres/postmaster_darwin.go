package postgres

import (
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

// isPostmaster reports whether the process is a Postgres that runs in the folder data. It is false for a process that
// has ended, reaped or not, and for another program that received the number of an ended Postgres.
func isPostmaster(pid int, data string) bool {
	if syscall.Kill(pid, 0) == syscall.ESRCH {
		return false
	}
	line, err := exec.Command("/bin/ps", "-ww", "-o", "stat=,command=", "-p", strconv.Itoa(pid)).Output()
	if err != nil {
		return false
	}
	state, command, _ := strings.Cut(strings.TrimSpace(string(line)), " ")
	return !strings.HasPrefix(state, "Z") && strings.Contains(command, "postgres -D "+data)
}

// machine identifies this boot of this machine: process numbers are comparable only within it.
func machine() string {
	boot, _ := syscall.Sysctl("kern.bootsessionuuid")
	return boot
}
