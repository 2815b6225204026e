package linear

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// copyUpTo is where copying all back takes about as long as looking up what was written to, 2 to 3 microseconds, and
// costs neither descriptors nor mappings; see BenchmarkRestore.
const copyUpTo = 128 << 10

// space is a range of addresses. What is not committed counts against no limit but RLIMIT_AS.
type space struct {
	whole     []byte
	committed uint64
	torn      bool      // parts of the range may belong to somebody else
	tracked   bool      // the kernel says which pages of the laid range were written to
	pages     *pageList // nil when never tracked
}

func reserve(most uint64) (*space, error) {
	length := uintptr(max(most, pageSize)) // an empty mapping cannot be had
	base, err := unix.MmapPtr(-1, 0, nil, length, unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
	if err != nil {
		return nil, fmt.Errorf("mmap: %w", err)
	}
	return &space{whole: unsafe.Slice((*byte)(base), length)}, nil
}

// commit makes the first size bytes usable. It does not take any back.
func (s *space) commit(size uint64) error {
	if size <= s.committed {
		return nil
	}
	if err := unix.Mprotect(s.whole[s.committed:size], unix.PROT_READ|unix.PROT_WRITE); err != nil {
		return fmt.Errorf("mprotect: %w", err)
	}
	s.committed = size
	return nil
}

// bytes are the first size bytes, which must be committed.
func (s *space) bytes(size uint64) []byte { return s.whole[:size:size] }

// lay puts a private mapping of f over the start of the range.
func (s *space) lay(f *file) error {
	base := unsafe.Pointer(unsafe.SliceData(s.whole))
	flags := unix.MAP_PRIVATE | unix.MAP_FIXED | unix.MAP_NORESERVE
	if _, err := unix.MmapPtr(f.descriptor, 0, base, uintptr(len(f.view)), unix.PROT_READ|unix.PROT_WRITE,
		flags); err != nil {
		s.torn = true // the kernel may have removed the old mapping before it failed
		return fmt.Errorf("mmap: %w", err)
	}
	s.tracked = f.pagemap >= 0 && s.tellsWritten(f)
	if !s.tracked {
		s.pages = nil
	}
	return nil
}

// revert undoes every write to a laid range.
func (s *space) revert(f *file) error {
	pages, known := s.written(f)
	if !known {
		return s.discard(f)
	}
	size := f.pageBytes
	for _, page := range pages {
		at := int(page) * size
		copy(s.whole[at:at+size], f.view[at:at+size])
	}
	return nil
}

// discard drops all pages of a laid range: the next access finds the file's content again (madvise(2)).
func (s *space) discard(f *file) error {
	if err := unix.Madvise(s.whole[:len(f.view)], unix.MADV_DONTNEED); err != nil {
		return fmt.Errorf("madvise: %w", err)
	}
	return nil
}

// release unmaps the range. A torn one is given up instead: another thread may have been given its addresses.
func (s *space) release() {
	if s.torn {
		return
	}
	_ = unix.MunmapPtr(unsafe.Pointer(unsafe.SliceData(s.whole)), uintptr(len(s.whole)))
	s.whole = nil
}

// file is a content in a memfd that nobody can change any more.
type file struct {
	descriptor int
	view       []byte // read-only: a write to it faults
	pageBytes  int    // of the system's pages
	pagemap    int    // /proc/self/pagemap, or -1
}

// fileName shows in /proc/self/maps.
const fileName = "assay-guest"

const seals = unix.F_SEAL_SEAL | unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_WRITE

func keep(content []byte) (*file, error) {
	descriptor, err := unix.MemfdCreate(fileName, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING|unix.MFD_NOEXEC_SEAL)
	if errors.Is(err, unix.EINVAL) { // Linux before 6.3 does not know the last flag
		descriptor, err = unix.MemfdCreate(fileName, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	}
	if err != nil {
		return nil, fmt.Errorf("memfd_create: %w", err)
	}
	f := &file{descriptor: descriptor, pageBytes: unix.Getpagesize(), pagemap: -1}
	if err := f.fill(content); err != nil {
		f.close()
		return nil, err
	}
	return f, nil
}

func (f *file) fill(content []byte) error {
	for rest := content; len(rest) > 0; {
		n, err := unix.Write(f.descriptor, rest)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("writing to memfd: %w", err)
		}
		rest = rest[max(n, 0):]
	}
	if _, err := unix.FcntlInt(uintptr(f.descriptor), unix.F_ADD_SEALS, seals); err != nil {
		return fmt.Errorf("sealing memfd: %w", err)
	}
	base, err := unix.MmapPtr(f.descriptor, 0, nil, uintptr(len(content)), unix.PROT_READ, unix.MAP_PRIVATE)
	if err != nil {
		return fmt.Errorf("mapping memfd: %w", err)
	}
	f.view = unsafe.Slice((*byte)(base), len(content))
	if pagemap, err := unix.Open(pagemapPath, unix.O_RDONLY|unix.O_CLOEXEC, 0); err == nil {
		f.pagemap = pagemap
	}
	return nil
}

// close lets go of the file; mappings of it live on.
func (f *file) close() {
	if f.view != nil {
		_ = unix.MunmapPtr(unsafe.Pointer(unsafe.SliceData(f.view)), uintptr(len(f.view)))
	}
	_ = unix.Close(f.descriptor)
	if f.pagemap >= 0 {
		_ = unix.Close(f.pagemap)
	}
}
