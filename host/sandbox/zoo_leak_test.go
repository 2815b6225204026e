package sandbox_test

import (
	"fmt"
	"testing"
)

// rememberInTable keeps a mark in a table, which no host can put back.
func rememberInTable() []byte {
	l := newLayer()
	l.tables = [][]byte{cat([]byte(funcref), op(1, 1, 1))}
	// declares that the function may be put there
	l.elements = [][]byte{cat(op(3, 0), vector([][]byte{unsigned(score)}))}
	return l.scoring(num(0), op(0x25, 0, 0xd1), op(0x45), when(l.says(50, said, "a mark was in the table")),
		num(0), op(0xd2), unsigned(score), op(0x26, 0), l.says(1, said, "here"), scored).encode()
}

// rememberByGrowing has another size of memory after each call.
func rememberByGrowing() []byte {
	l := newLayer()
	return l.scoring(memorySize, l.text(said), l.text("pages"), call(signal), num(1), growMemory, drop, scored).encode()
}

// TestNothingIsLeft asks guests that keep what they see, each about something else every time (Z37): no call finds
// anything of another. Shared with others they do tell, or there would be nothing to guard against.
func TestNothingIsLeft(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		wasm  func() []byte
		score int
		calls int
	}{
		"tellThePrevious":   {tellThePrevious, 0, 50_000},
		"remember":          {remember, 2, 50_000},
		"rememberInTable":   {rememberInTable, 1, 500},
		"rememberByGrowing": {rememberByGrowing, 1, 500},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			box := boxOf(t, 1)
			s := specimen{wasm: c.wasm, budgetMS: 100}
			p := s.opened(t, box)
			defer shut(t, p)
			if raceDetector {
				c.calls /= 10
			}
			for i := range c.calls {
				result, err := answer(p, fmt.Sprintf("canary-%d.example", i))
				if err != nil || result.Score != c.score {
					t.Fatalf("call %d: %+v, %v, want %d points", i, result, err, c.score)
				}
			}
			shared, err := box.OpenShared(t.Context(), s.module())
			if err != nil {
				t.Fatal(err)
			}
			defer shut(t, shared)
			for i := range 2 {
				if result, err := answer(shared, asked); err != nil || (result.Score == c.score) != (i == 0) {
					t.Errorf("shared, call %d: %+v, %v", i, result, err)
				}
			}
		})
	}
}
