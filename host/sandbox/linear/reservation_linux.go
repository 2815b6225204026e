package linear

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"

	"assay/registry/fault"
)

// defaultMaxCopied is the size up to which copying the whole image takes about as long as looking up dirty pages
// (BenchmarkRestore). Copying needs neither descriptors nor mappings.
const defaultMaxCopied = 128 << 10

// reservation is a range of addresses. Uncommitted pages count only against RLIMIT_AS.
type reservation struct {
	all         []byte
	committed   uint64       // bytes
	mapFailed   bool         // parts of the range may belong to another thread
	tracksDirty bool         // the kernel reports the dirty pages of the mapped image
	dirty       *dirtyBuffer // nil unless tracksDirty
	faults      faultWatch
}

func reserve(maxBytes uint64) (*reservation, error) {
	length := uintptr(max(maxBytes, pageSize)) // mmap fails for length 0
	base, err := unix.MmapPtr(-1, 0, nil, length, unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
	if err != nil {
		return nil, fmt.Errorf("mmap: %w", err)
	}
	return &reservation{all: unsafe.Slice((*byte)(base), length)}, nil
}

// commit makes the first size bytes accessible. It never shrinks the accessible range.
func (r *reservation) commit(size uint64) error {
	if size <= r.committed {
		return nil
	}
	if err := unix.Mprotect(r.all[r.committed:size], unix.PROT_READ|unix.PROT_WRITE); err != nil {
		return fmt.Errorf("mprotect: %w", err)
	}
	r.committed = size
	return nil
}

// bytes returns the first size bytes, which must be committed.
func (r *reservation) bytes(size uint64) []byte { return r.all[:size:size] }

// clear makes the bytes from start to end, which are past the end of any image, read as zeros, and returns them to the
// kernel. Both are multiples of a WebAssembly page.
func (r *reservation) clear(start, end uint64) error {
	return fault.Wrap(unix.Madvise(r.all[start:end], unix.MADV_DONTNEED), "madvise")
}

// mapImage maps f copy-on-write over the start of the range.
func (r *reservation) mapImage(f *imageFile) error {
	base := unsafe.Pointer(unsafe.SliceData(r.all))
	flags := unix.MAP_PRIVATE | unix.MAP_FIXED | unix.MAP_NORESERVE
	if _, err := unix.MmapPtr(f.descriptor, 0, base, uintptr(len(f.view)), unix.PROT_READ|unix.PROT_WRITE,
		flags); err != nil {
		r.mapFailed = true // the kernel may have removed the old mapping before it failed
		return fmt.Errorf("mmap: %w", err)
	}
	r.tracksDirty = f.pagemap >= 0 && r.probePagemap(f)
	if !r.tracksDirty {
		r.dirty, r.faults = nil, faultWatch{}
	}
	return nil
}

// restore undoes every write to the mapped image.
func (r *reservation) restore(f *imageFile) error {
	pages, ok := r.dirtyPages(f)
	r.faults.reset()
	if !ok {
		return r.discardPages(f)
	}
	size := f.pageBytes
	for _, page := range pages {
		at := int(page) * size
		copy(r.all[at:at+size], f.view[at:at+size])
	}
	return nil
}

// discardPages drops all private pages of the mapped image, so the next access reads the image again (madvise(2)).
func (r *reservation) discardPages(f *imageFile) error {
	return fault.Wrap(unix.Madvise(r.all[:len(f.view)], unix.MADV_DONTNEED), "madvise")
}

// enter and leave surround a call of the guest.
func (r *reservation) enter() { r.faults.enter() }
func (r *reservation) leave() { r.faults.leave() }

// release unmaps the range. After a failed mapping it leaks the range, because another thread may own its addresses.
func (r *reservation) release() {
	if r.mapFailed {
		return
	}
	_ = unix.MunmapPtr(unsafe.Pointer(unsafe.SliceData(r.all)), uintptr(len(r.all)))
	r.all = nil
}

// imageFile is an image in a memfd whose seals prevent changes.
type imageFile struct {
	descriptor int
	view       []byte // read-only: a write to it faults
	pageBytes  int    // size of a system page
	pagemap    int    // /proc/self/pagemap, or -1
}

// fileName is visible in /proc/self/maps.
const fileName = "assay-guest"

const seals = unix.F_SEAL_SEAL | unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_WRITE

func newImageFile(content []byte) (*imageFile, error) {
	descriptor, err := unix.MemfdCreate(fileName, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING|unix.MFD_NOEXEC_SEAL)
	if errors.Is(err, unix.EINVAL) { // Linux before 6.3 does not support MFD_NOEXEC_SEAL
		descriptor, err = unix.MemfdCreate(fileName, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	}
	if err != nil {
		return nil, fmt.Errorf("memfd_create: %w", err)
	}
	f := &imageFile{descriptor: descriptor, pageBytes: unix.Getpagesize(), pagemap: -1}
	if err := f.fill(content); err != nil {
		f.close()
		return nil, err
	}
	return f, nil
}

// fill writes the content, seals the file and maps it read-only.
func (f *imageFile) fill(content []byte) error {
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

// close closes the file. Copy-on-write mappings of it stay valid.
func (f *imageFile) close() {
	if f.view != nil {
		_ = unix.MunmapPtr(unsafe.Pointer(unsafe.SliceData(f.view)), uintptr(len(f.view)))
	}
	_ = unix.Close(f.descriptor)
	if f.pagemap >= 0 {
		_ = unix.Close(f.pagemap)
	}
}
