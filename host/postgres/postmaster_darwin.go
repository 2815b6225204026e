package postgres

import (
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

// isPostmaster says whether the process is a Postgres started with the folder data. It is false for a process that has
// ended, reaped or not, and for a stranger that was given the number of a Postgres that has ended.
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

// machine names this boot of this machine: where process numbers mean the same to everyone.
func machine() string {
	boot, _ := syscall.Sysctl("kern.bootsessionuuid")
	return boot
}
