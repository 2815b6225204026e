package linear

import (
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Reading the kernel's table of pages takes longer than a small call of a guest. Most calls write only to pages that
// earlier calls wrote to, which are private already. The first write to any other page of the image is a page fault,
// because the kernel has to make the private copy. So if the thread that ran the guest had no page fault meanwhile, the
// private pages are those that the last restoration found.

// faultWatch compares the number of page faults of a thread before and after a call of the guest.
type faultWatch struct {
	reliable bool  // the kernel counts faults
	watching bool  // between enter and leave
	before   int64 // faults at enter
	watched  bool  // a call was watched since the last restoration
	faulted  bool  // and one had a page fault
}

// noFault reports whether the guest was called since the last restoration, without a page fault.
func (w *faultWatch) noFault() bool { return w.watched && !w.faulted }

// reset must be called after a restoration.
func (w *faultWatch) reset() { w.watched, w.faulted = false, false }

// enter begins to watch a call, and binds the goroutine to its thread until leave.
func (w *faultWatch) enter() {
	if !w.reliable {
		return
	}
	runtime.LockOSThread()
	w.watching = true
	w.before = threadFaults()
}

// leave ends the watch that enter began. It does nothing if enter did not begin one.
func (w *faultWatch) leave() {
	if !w.watching {
		return
	}
	after := threadFaults()
	w.faulted = w.faulted || after != w.before || after < 0
	w.watched, w.watching = true, false
	runtime.UnlockOSThread()
}

// threadFaults returns how many page faults the current thread had (getrusage(2)), or -1 if the kernel does not say.
func threadFaults() int64 {
	var usage unix.Rusage
	if _, _, errno := unix.RawSyscall(unix.SYS_GETRUSAGE, unix.RUSAGE_THREAD, uintptr(unsafe.Pointer(&usage)),
		0); errno != 0 {
		return -1
	}
	return usage.Minflt + usage.Majflt
}

// countsFaults reports whether the kernel counts the fault of the first write to a page. Systems that only emulate the
// counter may not.
func countsFaults(write func()) bool {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before := threadFaults()
	write()
	return before >= 0 && threadFaults() > before
}
