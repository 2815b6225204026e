package sandbox

import (
	"context"
	"encoding/binary"

	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"
)

const wasiModule = wasi_snapshot_preview1.ModuleName

// What WASI functions answer (WASI preview 1, errno).
const (
	wasiSuccess      = 0
	wasiBadFile      = 8
	wasiFault        = 21
	wasiInvalid      = 28
	wasiNotSupported = 58
)

// mostVectors is how many pieces one fd_write, or subscriptions one poll_oneoff, may have: Linux's IOV_MAX.
const mostVectors = 1024

// exportWASI offers the engine's WASI with three functions of our own. The engine's do as much work in one call as the
// guest asks for, such as filling its whole memory or going through millions of vectors, and a guest burns no fuel
// meanwhile. Ours are bounded, and charge by size.
func (p *Plugin) exportWASI(ctx context.Context) error {
	b := p.engine.NewHostModuleBuilder(wasiModule)
	wasi_snapshot_preview1.NewFunctionExporter().ExportFunctions(b)
	for name, f := range map[string]func(*call, api.Memory, []uint64) uint64{
		"random_get": wasiRandomGet, "fd_write": wasiWrite, "poll_oneoff": wasiPoll,
	} {
		s := imports[wasiModule][name]
		b.NewFunctionBuilder().WithGoModuleFunction(api.GoModuleFunc(func(ctx context.Context, m api.Module,
			stack []uint64) {
			c := callOf(ctx)
			stack[0] = f(c, m.Memory(), stack)
		}), engineTypes(s.Params), engineTypes(s.Results)).Export(name)
	}
	_, err := b.Instantiate(ctx)
	return err
}

// mostRandom is how many random bytes one call gives.
const mostRandom = 64 << 10

// wasiRandomGet: random_get(buf, len). Every byte is zero, so that an answer depends on the facts alone.
func wasiRandomGet(c *call, m api.Memory, args []uint64) uint64 {
	if uint32(args[1]) > mostRandom {
		return wasiInvalid
	}
	view, ok := m.Read(uint32(args[0]), uint32(args[1]))
	if !ok {
		return wasiFault
	}
	c.fuel.charge(int64(len(view)) / 64) // as memory.fill
	clear(view)
	return wasiSuccess
}

// wasiWrite: fd_write(fd, iovs, iovs_len, nwritten), to stdout and stderr.
func wasiWrite(c *call, m api.Memory, args []uint64) uint64 {
	n := uint32(args[2])
	switch {
	case uint32(args[0]) != 1 && uint32(args[0]) != 2:
		return wasiBadFile
	case n > mostVectors:
		return wasiInvalid
	}
	c.fuel.charge(vectorFuel * int64(n))
	vectors, ok := m.Read(uint32(args[1]), 8*n)
	written := uint32(0)
	for ; ok && len(vectors) > 0; vectors = vectors[8:] {
		var piece []byte
		if piece, ok = m.Read(binary.LittleEndian.Uint32(vectors), binary.LittleEndian.Uint32(vectors[4:])); ok {
			_, _ = c.Write(piece)
			written += uint32(len(piece))
		}
	}
	if !ok || !m.WriteUint32Le(uint32(args[3]), written) {
		return wasiFault
	}
	return wasiSuccess
}

// vectorFuel is what a piece or a subscription costs.
const vectorFuel = 16

// wasiPoll: poll_oneoff(in, out, nsubscriptions, nevents). Every clock is due at once, and there is no file to wait
// for.
func wasiPoll(c *call, m api.Memory, args []uint64) uint64 {
	const subscriptionBytes, eventBytes = 48, 32
	n := uint32(args[2])
	if n == 0 || n > mostVectors {
		return wasiInvalid
	}
	c.fuel.charge(vectorFuel * int64(n))
	in, ok := m.Read(uint32(args[0]), subscriptionBytes*n)
	out, fits := m.Read(uint32(args[1]), eventBytes*n)
	if !ok || !fits || !m.WriteUint32Le(uint32(args[3]), n) {
		return wasiFault
	}
	for ; len(in) > 0; in, out = in[subscriptionBytes:], out[eventBytes:] {
		event := [eventBytes]byte{10: in[8]} // the subscription's kind: 0 is a clock
		copy(event[:8], in[:8])              // what the guest knows it by
		if in[8] != 0 {
			binary.LittleEndian.PutUint16(event[8:], wasiNotSupported)
		}
		copy(out, event[:])
	}
	return wasiSuccess
}
