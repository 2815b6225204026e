package sandbox

import (
	"context"
	"encoding/binary"

	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"
)

const wasiModule = wasi_snapshot_preview1.ModuleName

// Error numbers of WASI preview 1 (errno).
const (
	wasiSuccess      = 0
	wasiBadFile      = 8
	wasiFault        = 21
	wasiInvalid      = 28
	wasiNotSupported = 58
)

const (
	// maxVectors limits the buffers of an fd_write and the subscriptions of a poll_oneoff to Linux's IOV_MAX.
	maxVectors = 1024
	// maxRandom is the maximum number of bytes that one random_get returns.
	maxRandom = 64 << 10
	// vectorFuel is the fuel that a buffer or a subscription costs.
	vectorFuel = 16
)

// exportWASI provides wazero's WASI with three functions replaced. wazero's own random_get, fd_write and poll_oneoff do
// unbounded work per call, such as filling the whole memory, during which the guest burns no fuel. The replacements are
// bounded and charge fuel by size.
func (p *Plugin) exportWASI(ctx context.Context) error {
	b := p.engine.NewHostModuleBuilder(wasiModule)
	wasi_snapshot_preview1.NewFunctionExporter().ExportFunctions(b)
	for name, f := range map[string]func(*call, api.Memory, []uint64) uint64{
		"random_get": wasiRandomGet, "fd_write": wasiWrite, "poll_oneoff": wasiPoll,
	} {
		s := imports[wasiModule][name]
		adapter := func(ctx context.Context, m api.Module, stack []uint64) {
			stack[0] = f(callOf(ctx), m.Memory(), stack)
		}
		b.NewFunctionBuilder().
			WithGoModuleFunction(api.GoModuleFunc(adapter), engineTypes(s.Params), engineTypes(s.Results)).
			Export(name)
	}
	_, err := b.Instantiate(ctx)
	return err
}

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
			_, _ = c.Write(buffer)
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
