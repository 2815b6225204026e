package sandbox

import (
	"bytes"
	"context"
	"encoding/binary"

	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/sys"

	"assay/registry"
)

const wasiModule = "wasi_snapshot_preview1"

// Error numbers of WASI preview 1 (errno).
const (
	wasiSuccess      = 0
	wasiBadFile      = 8
	wasiFault        = 21
	wasiInvalid      = 28
	wasiNotSupported = 58
	wasiNotSeekable  = 70
)

const (
	// maxVectors limits the buffers of an fd_write and the subscriptions of a poll_oneoff to Linux's IOV_MAX.
	maxVectors = 1024
	// maxRandom is the maximum number of bytes that one random_get returns.
	maxRandom = 64 << 10
	// vectorFuel is the fuel that a buffer or a subscription costs.
	vectorFuel = 16
)

// Guests see stopped clocks: wall time is 2000-01-01T00:00:00Z, and monotonic time is one nanosecond, because Go's
// runtime rejects a monotonic clock of zero. Both have a resolution of one nanosecond.
const (
	frozenSeconds     = 946684800
	frozenNanoseconds = 1
	clockResolution   = 1
)

// wasi turns an implementation of a WASI preview 1 function into a host function: args holds the arguments, and the
// result is an error number. These functions keep no state between calls, and those whose work depends on a size charge
// fuel for it. wazero's own functions keep a table of open files in the instance, and do unbounded work in one call,
// such as filling the whole memory.
func wasi(f func(c *call, m api.Memory, args []uint64) uint64) api.GoModuleFunc {
	return func(ctx context.Context, m api.Module, stack []uint64) {
		stack[0] = f(callOf(ctx), m.Memory(), stack)
	}
}

// wasiNothing implements functions that have nothing to do: args_get and environ_get, because there are no arguments
// and no environment, and sched_yield.
func wasiNothing(*call, api.Memory, []uint64) uint64 { return wasiSuccess }

// wasiNoSizes implements args_sizes_get(count, bytes) and environ_sizes_get(count, bytes).
func wasiNoSizes(_ *call, m api.Memory, args []uint64) uint64 {
	if !m.WriteUint32Le(uint32(args[0]), 0) || !m.WriteUint32Le(uint32(args[1]), 0) {
		return wasiFault
	}
	return wasiSuccess
}

// wasiClockResolution implements clock_res_get(id, resolution).
func wasiClockResolution(_ *call, m api.Memory, args []uint64) uint64 {
	if uint32(args[0]) > 1 {
		return wasiInvalid
	}
	return wasiResult(m, args[1], clockResolution)
}

// wasiClockTime implements clock_time_get(id, precision, time) for the wall clock and the monotonic clock.
func wasiClockTime(_ *call, m api.Memory, args []uint64) uint64 {
	switch uint32(args[0]) {
	case 0:
		return wasiResult(m, args[2], frozenSeconds*1_000_000_000)
	case 1:
		return wasiResult(m, args[2], frozenNanoseconds)
	}
	return wasiInvalid
}

// wasiResult writes a result of eight bytes.
func wasiResult(m api.Memory, at, value uint64) uint64 {
	if !m.WriteUint64Le(uint32(at), value) {
		return wasiFault
	}
	return wasiSuccess
}

// isStandardFile reports whether fd is standard input, output or error. They are always open, and no other file is.
func isStandardFile(fd uint64) bool { return uint32(fd) <= 2 }

// wasiNoFile implements fd_prestat_get and fd_prestat_dir_name: there are no directories.
func wasiNoFile(*call, api.Memory, []uint64) uint64 { return wasiBadFile }

// wasiClose implements fd_close(fd). The file stays open.
func wasiClose(_ *call, _ api.Memory, args []uint64) uint64 {
	if !isStandardFile(args[0]) {
		return wasiBadFile
	}
	return wasiSuccess
}

// wasiFileStatus implements fd_fdstat_get(fd, stat): a device that is not a terminal, with all rights that language
// runtimes look for.
func wasiFileStatus(_ *call, m api.Memory, args []uint64) uint64 {
	const (
		statBytes   = 24
		blockDevice = 1
		// fd_datasync, fd_read, fd_seek, fd_fdstat_set_flags, fd_sync, fd_tell, fd_write, fd_advise, fd_allocate,
		// fd_filestat_get, fd_filestat_set_size, fd_filestat_set_times and poll_fd_readwrite
		rights = 0x08e001ff
	)
	if !isStandardFile(args[0]) {
		return wasiBadFile
	}
	stat := [statBytes]byte{0: blockDevice}
	binary.LittleEndian.PutUint64(stat[8:], rights)
	if !m.Write(uint32(args[1]), stat[:]) {
		return wasiFault
	}
	return wasiSuccess
}

// wasiSetFlags implements fd_fdstat_set_flags(fd, flags). There are no flags to set.
func wasiSetFlags(_ *call, _ api.Memory, args []uint64) uint64 {
	switch {
	case !isStandardFile(args[0]):
		return wasiBadFile
	case uint32(args[1]) != 0:
		return wasiNotSupported
	}
	return wasiSuccess
}

// wasiSeek implements fd_seek(fd, offset, whence, position).
func wasiSeek(_ *call, _ api.Memory, args []uint64) uint64 {
	if !isStandardFile(args[0]) {
		return wasiBadFile
	}
	return wasiNotSeekable
}

// wasiExit implements proc_exit(code), which traps the guest.
func wasiExit(_ *call, _ api.Memory, args []uint64) uint64 { panic(sys.NewExitError(uint32(args[0]))) }

// wasiRandomGet implements random_get(buf, len). Every byte is zero, so that a result depends on the facts alone.
func wasiRandomGet(c *call, m api.Memory, args []uint64) uint64 {
	if uint32(args[1]) > maxRandom {
		return wasiInvalid
	}
	view, ok := m.Read(uint32(args[0]), uint32(args[1]))
	if !ok {
		return wasiFault
	}
	c.fuel.charge(int64(len(view)) / 64) // as much as memory.fill
	clear(view)
	return wasiSuccess
}

// wasiWrite implements fd_write(fd, iovs, iovs_len, nwritten) for stdout and stderr.
func wasiWrite(c *call, m api.Memory, args []uint64) uint64 {
	n := uint32(args[2])
	switch {
	case uint32(args[0]) != 1 && uint32(args[0]) != 2:
		return wasiBadFile
	case n > maxVectors:
		return wasiInvalid
	}
	c.fuel.charge(vectorFuel * int64(n))
	vectors, ok := m.Read(uint32(args[1]), 8*n)
	written := uint32(0)
	for ; ok && len(vectors) > 0; vectors = vectors[8:] {
		var buffer []byte
		if buffer, ok = m.Read(binary.LittleEndian.Uint32(vectors), binary.LittleEndian.Uint32(vectors[4:])); ok {
			kept := c.write(buffer)
			if c.trace != nil {
				c.trace.Printed += string(kept)
				if bytes.HasPrefix(kept, []byte("panic: ")) { // printing the stack costs more than most budgets
					c.fuel.bounds = boundsOf(c.fuel.fuel + registry.MaxBudget)
				}
			}
			written += uint32(len(buffer))
		}
	}
	if !ok || !m.WriteUint32Le(uint32(args[3]), written) {
		return wasiFault
	}
	return wasiSuccess
}

// wasiPoll implements poll_oneoff(in, out, nsubscriptions, nevents). Clocks fire at once; files are not supported.
func wasiPoll(c *call, m api.Memory, args []uint64) uint64 {
	const subscriptionBytes, eventBytes = 48, 32
	n := uint32(args[2])
	if n == 0 || n > maxVectors {
		return wasiInvalid
	}
	c.fuel.charge(vectorFuel * int64(n))
	in, ok := m.Read(uint32(args[0]), subscriptionBytes*n)
	out, fits := m.Read(uint32(args[1]), eventBytes*n)
	if !ok || !fits || !m.WriteUint32Le(uint32(args[3]), n) {
		return wasiFault
	}
	for ; len(in) > 0; in, out = in[subscriptionBytes:], out[eventBytes:] {
		event := [eventBytes]byte{10: in[8]} // the type of the subscription: 0 is a clock
		copy(event[:8], in[:8])              // the guest's own identifier
		if in[8] != 0 {
			binary.LittleEndian.PutUint16(event[8:], wasiNotSupported)
		}
		copy(out, event[:])
	}
	return wasiSuccess
}
