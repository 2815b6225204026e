package table

import (
	"slices"
	"testing"

	"assay/registry/expect"
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
	expect.Equal(t, "the number", r.Number(1), 200)
	expect.Equal(t, "the text", r.Text(), "text")
	a, b, c := Numbers[uint16](&r), Numbers[class](&r), Numbers[uint64](&r)
	expect.That(t, slices.Equal(a, small) && slices.Equal(b, classes) && slices.Equal(c, large) && r == "",
		"%v, %v, %v, and %d bytes are left", a, b, c, len(r))
	n, text, list := r.Number(8), r.Text(), Numbers[uint16](&r)
	expect.That(t, n == 0 && text == "" && len(list) == 0, "after the end: %d, %q, %v", n, text, list)
}
