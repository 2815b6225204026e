// Package table reads and writes the tables that layers are built with: numbers and texts, one after the other. Tests
// make the files, because a guest that computed them at its start would burn more fuel than thousands of checks.
package table

import "unsafe"

// Reader is the unread rest of a file. It trusts the file, which is part of the program. After the end it reads zeros,
// so that the test that makes a file can start with an empty one.
type Reader string

// Number reads a number of this many bytes, the lowest first.
func (r *Reader) Number(bytes int) (n uint64) {
	if *r == "" {
		return 0
	}
	for i := range bytes {
		n |= uint64((*r)[i]) << (8 * i)
	}
	*r = (*r)[bytes:]
	return n
}

// Len reads the length of a list.
func (r *Reader) Len() int { return int(r.Number(4)) }

// Text reads a text.
func (r *Reader) Text() string {
	n := r.Len()
	text := string((*r)[:n])
	*r = (*r)[n:]
	return text
}

// Numbers reads a list of numbers.
func Numbers[T ~uint16 | ~uint32 | ~uint64](r *Reader) []T {
	list := make([]T, r.Len())
	for i := range list {
		list[i] = T(r.Number(int(unsafe.Sizeof(list[i]))))
	}
	return list
}

// Writer is the beginning of a file for a Reader.
type Writer []byte

// Number adds a number of this many bytes.
func (w *Writer) Number(bytes int, n uint64) {
	for i := range bytes {
		*w = append(*w, byte(n>>(8*i)))
	}
}

// Len adds the length of a list.
func (w *Writer) Len(n int) { w.Number(4, uint64(n)) }

// Text adds a text.
func (w *Writer) Text(text string) {
	w.Len(len(text))
	*w = append(*w, text...)
}

// AddNumbers adds a list of numbers.
func AddNumbers[T ~uint16 | ~uint32 | ~uint64](w *Writer, list []T) {
	w.Len(len(list))
	for _, n := range list {
		w.Number(int(unsafe.Sizeof(n)), uint64(n))
	}
}
