package meter

import (
	"bytes"
	"context"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/tetratelabs/wazero/api"
)

// looping wraps code in an endless loop.
func looping(code ...byte) []byte { return cat([]byte{0x03, 0x40}, code, []byte{0x0c, 0, 0x0b}) }

// callTree is 100 functions, each of which calls the next one twice: 2^100 calls without a loop.
func callTree() []byte {
	bodies, types := make([][]byte, 100), make([][]byte, 100)
	for i := range bodies {
		next := min(i+1, 99)
		bodies[i], types[i] = fn(nil, opCall, byte(next), opCall, byte(next)), u(0)
	}
	bodies[99] = fn(nil)
	return module(section(idType, sig("", "")), section(idFunction, types...), section(idExport, export("run", 0, 0)),
		section(idCode, bodies...))
}

// function is a module of one function of that type, exported as "run".
func function(params, results string, code ...byte) []byte {
	return module(section(idType, sig(params, results), sig(i32, i32)), section(idFunction, u(0)),
		section(idExport, export("run", 0, 0)), section(idCode, fn(nil, code...)))
}

// fib recurses without a loop.
func fib() []byte {
	return function(i64, i64, 0x20, 0, 0x42, 2, 0x54, 0x04, 0x7e, 0x20, 0, 0x05, 0x20, 0, 0x42, 1, 0x7d, opCall, 0,
		0x20, 0, 0x42, 2, 0x7d, opCall, 0, 0x7c, 0x0b)
}

// TestEndless runs what never ends by itself; a refill that panics must stop it, in the piece of work that one slice
// buys. Each has a guard without which it would run on; TestGuards shows that.
func TestEndless(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		wasm []byte
		args []uint64
	}{
		"loop (Z01)":           {one(nil, looping()...), []uint64{0}},
		"loop with parameters": {function("", "", 0x41, 0, 0x03, 1, 0x0c, 0, 0x0b, 0x1a), nil},
		"loop by br_table":     {one(nil, 0x03, 0x40, 0x41, 0, 0x0e, 1, 0, 0, 0x0b), []uint64{0}},
		"call tree (Z02)":      {callTree(), nil},
		"fib(90) (Z03)":        {fib(), []uint64{90}},
		"memory.grow (Z08)":    {one(nil, looping(0x41, 1, 0x40, 0, 0x1a)...), []uint64{0}},
		"memory.fill (Z11)":    {one(nil, looping(0x41, 0, 0x41, 1, 0x41, 0x80, 0x80, 4, 0xfc, 11, 0)...), []uint64{0}},
		"memory.copy (Z11)": {one(nil, looping(0x41, 0, 0x41, 1, 0x41, 0x80, 0x80, 3, 0xfc, 10, 0, 0)...),
			[]uint64{0}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fuel := &supply{slice: 10_000, refills: 20}
			guest, _ := metered(t, c.wasm, defaultScheme(), fuel)
			_, err := guest.ExportedFunction("run").Call(context.Background(), c.args...)
			if !errors.Is(err, errStopped) {
				t.Fatalf("ended with %v", err)
			}
			// Each slice is overdrawn by no more than what is charged between two looks.
			if most := int64(21*10_000 + 21*70_000); fuel.granted > most {
				t.Errorf("20 slices of 10000 paid for %d units", fuel.granted)
			}
		})
	}
}

// TestGuards counts how often the fuel is looked at with and without each guard, on guests that do end.
func TestGuards(t *testing.T) {
	t.Parallel()
	straight := function(i32, "", bytes.Repeat([]byte{0x20, 0, 0x1a}, 100_000)...)
	spin := module(section(idType, sig(i32, "")), section(idFunction, u(0)), section(idExport, export("run", 0, 0)),
		section(idCode, fn(nil, 0x03, 0x40, 0x20, 0, 0x41, 1, 0x6b, 0x22, 0, 0x0d, 0, 0x0b)))
	// descend(n) calls itself down to 0, and has work left to do on the way back.
	descend := function(i32, "", cat([]byte{0x20, 0, 0x04, 0x40, 0x20, 0, 0x41, 1, 0x6b, opCall, 0, 0x0b},
		bytes.Repeat([]byte{0x20, 0, 0x1a}, 50))...)
	loads := one(nil, bytes.Repeat([]byte{0x41, 0, 0x28, 2, 0, 0x1a}, 5000)...)
	fill := one(nil, 0x41, 0, 0x41, 1, 0x41, 0x80, 0x80, 4, 0xfc, 11, 0)
	grow := one(nil, 0x20, 0, 0x40, 0, 0x1a)
	for name, c := range map[string]struct {
		wasm   []byte
		arg    uint64
		off    func(*scheme)
		burned int64 // at least, with the guard
		looks  int   // refills with slices of one unit, at least, with the guard
		loses  bool  // without the guard less is burned, rather than looked at less often
	}{
		"entry": {descend, 1000, func(s *scheme) { s.atEntry = false }, 100_000, 2000, false},
		"calls": {descend, 1000, func(s *scheme) { s.afterCall = false }, 100_000, 2000, false},
		"loop":  {spin, 1000, func(s *scheme) { s.atLoop = false }, 6000, 1000, false},
		"straight line (Z05)": {straight, 0, func(s *scheme) { s.spacing, s.segment = math.MaxUint32, math.MaxUint32 },
			200_000, 48,
			false},
		"loads":         {loads, 0, func(s *scheme) { s.access = 1 }, 15_000, 18, false},
		"bulk":          {fill, 0, func(s *scheme) { s.bulk = false }, 65536 / 64, 1, true},
		"grow":          {grow, 3, func(s *scheme) { s.bulk = false }, 3 * 1024, 1, true},
		"grow too much": {grow, math.MaxUint32, func(s *scheme) { s.bulk = false }, math.MaxUint32 * 1024, 1, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			measure := func(s scheme) (looks int, burned int64) {
				fuel := &supply{slice: 1, refills: -1}
				guest, _ := metered(t, c.wasm, s, fuel)
				if _, err := guest.ExportedFunction("run").Call(context.Background(), c.arg); err != nil {
					t.Fatal(err)
				}
				return fuel.calls, fuel.granted - int64(guest.ExportedGlobal(FuelExport).Get())
			}
			looks, burned := measure(defaultScheme())
			if looks < c.looks || burned < c.burned {
				t.Errorf("looked at the fuel %d times, want %d; %d units burned, want %d", looks, c.looks, burned,
					c.burned)
			}
			s := defaultScheme()
			c.off(&s)
			looksWithout, burnedWithout := measure(s)
			if c.loses && burnedWithout >= c.burned || !c.loses && looksWithout >= c.looks {
				t.Errorf("without the guard, the same: %d looks, %d units", looksWithout, burnedWithout)
			}
		})
	}
}

func TestStackOverflow(t *testing.T) {
	t.Parallel()
	fuel := &supply{slice: 1_000_000, refills: -1}
	guest, _ := metered(t, function("", "", opCall, 0), defaultScheme(), fuel)
	_, err := guest.ExportedFunction("run").Call(context.Background())
	if err == nil || !strings.Contains(err.Error(), "stack overflow") {
		t.Fatalf("infinite recursion (Z06) ended with %v", err)
	}
	t.Logf("%d refills of a million before the stack was full", fuel.calls)
}

// TestStart has start functions and _initialize metered during instantiation (Z17).
func TestStart(t *testing.T) {
	t.Parallel()
	types := section(idType, sig("", ""))
	code := section(idCode, fn(nil, looping()...))
	for name, wasm := range map[string][]byte{
		"start":       module(types, section(idFunction, u(0)), rawSection(idStart, u(0)), code),
		"_initialize": module(types, section(idFunction, u(0)), section(idExport, export("_initialize", 0, 0)), code),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, err := Instrument(wasm, DefaultLimits())
			if err != nil {
				t.Fatal(err)
			}
			if m.HasStart != (name == "start") {
				t.Error("HasStart is wrong")
			}
			fuel := &supply{slice: 1000, refills: 3}
			_, err = newWorld(t, compiler(), fuel).start(m.Wasm)
			if !errors.Is(err, errStopped) || fuel.calls != 4 {
				t.Fatalf("after %d refills: %v", fuel.calls, err)
			}
		})
	}
}

// TestClamps has memory and tables grow to their limits and no further.
func TestClamps(t *testing.T) {
	t.Parallel()
	limits := DefaultLimits()
	limits.MemoryPages, limits.TableEntries = 3, 20
	grow := func(table, memory []byte, code ...byte) []byte {
		return module(section(idType, sig(i32, i32)), section(idFunction, u(0)), section(idTable, table),
			section(idMemory, memory),
			section(idExport, export("run", 0, 0)), section(idCode, fn(nil, code...)))
	}
	growMemory := []byte{0x20, 0, 0x40, 0}
	growTable := []byte{0xd0, 0x70, 0x20, 0, 0xfc, 15, 0}
	for name, c := range map[string]struct {
		wasm []byte
		by   uint64
		want int32
	}{
		"memory without maximum, to the limit": {grow([]byte{0x70, 0, 1}, []byte{0, 1}, growMemory...), 2, 1},
		"memory without maximum, past it":      {grow([]byte{0x70, 0, 1}, []byte{0, 1}, growMemory...), 3, -1},
		"memory with a large maximum, past it": {grow([]byte{0x70, 0, 1}, []byte{1, 1, 9}, growMemory...), 3, -1},
		"memory with a small maximum, past it": {grow([]byte{0x70, 0, 1}, []byte{1, 1, 2}, growMemory...), 2, -1},
		"memory by 65535 pages (Z09)":          {grow([]byte{0x70, 0, 1}, []byte{0, 1}, growMemory...), 65535, -1},
		"table with a large maximum, to limit": {grow([]byte{0x70, 1, 1, 0xff, 1}, []byte{0, 1}, growTable...), 19, 1},
		"table with a large maximum, past it": {grow([]byte{0x70, 1, 1, 0xff, 1}, []byte{0, 1}, growTable...), 20,
			-1},
		"table by 2^31 entries, with a maximum": {grow([]byte{0x70, 1, 1, 0xff, 1}, []byte{0, 1}, growTable...),
			1 << 31, -1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, err := Instrument(c.wasm, limits)
			if err != nil {
				t.Fatal(err)
			}
			guest, err := newWorld(t, compiler(), &supply{slice: 1 << 40, refills: -1}).start(m.Wasm)
			if err != nil {
				t.Fatal(err)
			}
			got, err := guest.ExportedFunction("run").Call(context.Background(), c.by)
			if err != nil || api.DecodeI32(got[0]) != c.want {
				t.Errorf("growing by %d: %d, %v", c.by, api.DecodeI32(got[0]), err)
			}
		})
	}
}
