//go:build !linux

package linear

import "errors"

// copyUpTo makes every content one that is copied back.
const copyUpTo = maxSize

// space is memory of Go's. It moves when it grows, which engines allow of memories that are not shared.
type space struct{ whole []byte }

func reserve(uint64) (*space, error) { return &space{whole: []byte{}}, nil }

func (s *space) commit(size uint64) error {
	if size > uint64(len(s.whole)) {
		larger := make([]byte, size)
		copy(larger, s.whole)
		s.whole = larger
	}
	return nil
}

func (s *space) bytes(size uint64) []byte { return s.whole[:size:size] }

func (s *space) release() { s.whole = nil }

// file does not exist here.
type file struct{ view []byte }

var errNoMapping = errors.New("contents cannot be mapped on this system")

func keep([]byte) (*file, error)  { return nil, errNoMapping }
func (*space) lay(*file) error    { return errNoMapping }
func (*space) revert(*file) error { return errNoMapping }
func (*file) close()              {}
