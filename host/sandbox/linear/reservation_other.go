//go:build !linux

package linear

import "errors"

// defaultMaxCopied is so large that every image is copied back.
const defaultMaxCopied = maxSize

// reservation is memory from Go's heap. It moves when it grows, which engines allow for memories that are not shared.
type reservation struct{ all []byte }

func reserve(uint64) (*reservation, error) { return &reservation{all: []byte{}}, nil }

func (r *reservation) commit(size uint64) error {
	if size > uint64(len(r.all)) {
		larger := make([]byte, size)
		copy(larger, r.all)
		r.all = larger
	}
	return nil
}

func (r *reservation) bytes(size uint64) []byte { return r.all[:size:size] }

// clear makes the bytes from start to end read as zeros.
func (r *reservation) clear(start, end uint64) error {
	clear(r.all[start:end])
	return nil
}

func (r *reservation) enter() {}
func (r *reservation) leave() {}

func (r *reservation) release() { r.all = nil }

// imageFile is not available on this system.
type imageFile struct{ view []byte }

var errNoMapping = errors.New("images cannot be mapped on this system")

func newImageFile([]byte) (*imageFile, error)  { return nil, errNoMapping }
func (*reservation) mapImage(*imageFile) error { return errNoMapping }
func (*reservation) restore(*imageFile) error  { return errNoMapping }
func (*imageFile) close()                      {}
