package sandbox

import (
	"errors"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// runToEnd runs a process that the kernel kills when this process ends.
func runToEnd(cmd *exec.Cmd) error {
	// The kernel sends the signal when the thread that started the process ends (prctl(2)), so this goroutine keeps its
	// thread until then.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd.Run()
}

// maxCodeBytes bounds the files that a compiler writes.
const maxCodeBytes = 256 << 20

// limitResources makes the kernel kill this process when it exceeds its processor time, and refuse it memory beyond its
// limit. RLIMIT_DATA counts the memory that Go's runtime uses (setrlimit(2)); RLIMIT_AS would also count address space
// that it has merely reserved.
func limitResources(r compileRequest) error {
	limits := map[int]uint64{unix.RLIMIT_CPU: r.CPUSeconds, unix.RLIMIT_FSIZE: maxCodeBytes, unix.RLIMIT_CORE: 0}
	if r.Memory > 0 {
		limits[unix.RLIMIT_DATA] = r.Memory
	}
	var errs []error
	for resource, limit := range limits {
		// Go's runtime ignores the signal of the soft limit. At the hard limit the kernel kills the process.
		errs = append(errs, unix.Setrlimit(resource, &unix.Rlimit{Cur: limit, Max: limit}))
	}
	return errors.Join(errs...)
}

// lowerPriority sets the priority of all threads. Linux keeps it per thread, and a new thread inherits it.
func lowerPriority(nice int) error {
	for range 2 { // a thread may start another one before its own priority is set
		threads, err := os.ReadDir("/proc/self/task")
		if err != nil {
			return err
		}
		for _, thread := range threads {
			id, err := strconv.Atoi(thread.Name())
			if err != nil {
				return err
			}
			if err := unix.Setpriority(unix.PRIO_PROCESS, id, nice); err != nil && !errors.Is(err, unix.ESRCH) {
				return err
			}
		}
	}
	return nil
}
