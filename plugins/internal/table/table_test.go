package table

import (
	"slices"
	"testing"
)

// TestReader reads what a Writer has written.
func TestReader(t *testing.T) {
	t.Parallel()
	type class uint32
	small, classes, large := []uint16{0, 1, 65535}, []class{1 << 31}, []uint64{1<<64 - 1}
	var w Writer
	w.Number(1, 200)
	w.Text("text")
	AddNumbers(&w, small)
	AddNumbers(&w, classes)
	AddNumbers(&w, large)
	r := Reader(w)
	if n, text := r.Number(1), r.Text(); n != 200 || text != "text" {
		t.Errorf("%d, %q", n, text)
	}
	a, b, c := Numbers[uint16](&r), Numbers[class](&r), Numbers[uint64](&r)
	if !slices.Equal(a, small) || !slices.Equal(b, classes) || !slices.Equal(c, large) || r != "" {
		t.Errorf("%v, %v, %v, and %d bytes are left", a, b, c, len(r))
	}
	if n, text, list := r.Number(8), r.Text(), Numbers[uint16](&r); n != 0 || text != "" || len(list) != 0 {
		t.Errorf("after the end: %d, %q, %v", n, text, list)
	}
}
