package meter

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/tetratelabs/wazero"

	"assay/registry/expect"
)

// checkInstrument checks that Instrument does not panic, that errors have a place, and that the engine accepts the
// instrumented module if and only if it accepts the original. It reports whether the engine accepts the original.
func checkInstrument(t *testing.T, rt wazero.Runtime, wasm []byte) (accepted bool) {
	t.Helper()
	m, err := Instrument(wasm, DefaultLimits())
	if err != nil {
		e := new(Error)
		expect.Must(t, errors.As(err, &e) && e.Offset >= 0 && e.Offset <= len(wasm) && e.Section != "" &&
			e.Reason != "", "error without a place: %#v", err)
		return false
	}
	ctx := context.Background()
	plain, plainErr := rt.CompileModule(ctx, wasm)
	if plainErr == nil {
		plain.Close(ctx)
	}
	metered, meteredErr := rt.CompileModule(ctx, m.Wasm)
	if meteredErr == nil {
		metered.Close(ctx)
	}
	dropped := plainErr != nil && strings.Contains(plainErr.Error(), "custom") // instrumentation drops custom sections
	expect.Must(t, (plainErr == nil) == (meteredErr == nil) || dropped,
		"the engine reports %v for the original, %v for the instrumented module", plainErr, meteredErr)
	return plainErr == nil
}

// TestBitFlips corrupts a valid module at random, with a fixed seed.
func TestBitFlips(t *testing.T) {
	t.Parallel()
	rt, wasm, random := newRuntime(t, compiler()), everything(), rand.New(rand.NewPCG(1, 2))
	const tries = 1000 // FuzzInstrument tries more
	accepted := 0
	for range tries {
		bad := bytes.Clone(wasm)
		for range 1 + random.IntN(3) {
			bad[8+random.IntN(len(bad)-8)] = byte(random.Uint32())
		}
		if checkInstrument(t, rt, bad) {
			accepted++
		}
	}
	expect.That(t, accepted != 0 && accepted != tries, "%d of %d accepted, so the test proves nothing", accepted, tries)
}

func FuzzInstrument(f *testing.F) {
	f.Add(everything())
	f.Add(fibonacci())
	f.Add(callTree())
	f.Add(withMemory(endless()...))
	f.Add(function("", "", 0x41, 0, 0x0e, 1, 0, 0))
	rt := newRuntime(f, compiler())
	f.Fuzz(func(t *testing.T, wasm []byte) { checkInstrument(t, rt, wasm) })
}
