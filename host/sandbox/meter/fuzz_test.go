package meter

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/tetratelabs/wazero"
)

// agree checks what must hold of any input: no panic, errors that name a place, and that the engine takes the rewritten
// module if it takes the original, and refuses it if it refuses the original.
func agree(t *testing.T, rt wazero.Runtime, wasm []byte) (accepted bool) {
	t.Helper()
	m, err := Instrument(wasm, DefaultLimits())
	sum, vetErr := Vet(wasm, DefaultLimits())
	if (err == nil) != (vetErr == nil) {
		t.Fatalf("Instrument says %v, Vet says %v", err, vetErr)
	}
	if err != nil {
		if e := new(Error); !errors.As(err, &e) || e.Offset < 0 || e.Offset > len(wasm) || e.Section == "" ||
			e.Reason == "" {
			t.Fatalf("error without a place: %#v", err)
		}
		return false
	}
	if sum.Functions != m.Functions {
		t.Fatal("summaries differ")
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
	dropped := plainErr != nil && strings.Contains(plainErr.Error(), "custom") // rewriting leaves those out
	if (plainErr == nil) != (meteredErr == nil) && !dropped {
		t.Fatalf("engine on the original: %v; on the rewritten: %v", plainErr, meteredErr)
	}
	return plainErr == nil
}

func engine(t testing.TB) wazero.Runtime {
	rt := wazero.NewRuntimeWithConfig(context.Background(), compiler().WithMemoryLimitPages(1024))
	t.Cleanup(func() { rt.Close(context.Background()) })
	return rt
}

// TestBitFlips changes a good module at random, always the same way (Z25).
func TestBitFlips(t *testing.T) {
	t.Parallel()
	rt, wasm, random := engine(t), everything(), rand.New(rand.NewPCG(1, 2))
	accepted := 0
	for range 10_000 {
		bad := bytes.Clone(wasm)
		for range 1 + random.IntN(3) {
			bad[8+random.IntN(len(bad)-8)] = byte(random.Uint32())
		}
		if agree(t, rt, bad) {
			accepted++
		}
	}
	if accepted == 0 || accepted == 10_000 {
		t.Errorf("%d of 10000 accepted: the flips prove nothing", accepted)
	}
}

func FuzzInstrument(f *testing.F) {
	f.Add(everything())
	f.Add(fib())
	f.Add(callTree())
	f.Add(one(nil, looping()...))
	f.Add(body(0x41, 0, 0x0e, 1, 0, 0))
	rt := engine(f)
	f.Fuzz(func(t *testing.T, wasm []byte) { agree(t, rt, wasm) })
}
