package linear

import (
	"encoding/binary"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The kernel's table of this process's pages, with eight bytes for each page (Documentation/admin-guide/mm/pagemap.rst
// in the kernel's source).
const (
	pagemapPath  = "/proc/self/pagemap"
	entryBytes   = 8
	entryFile    = 1 << 61 // a page of the mapped file, not a private copy
	entrySwapped = 1 << 62
	entryPresent = 1 << 63
)

// maxDirty is the maximum number of bytes in dirty pages that are copied back. Copying a page costs much less than
// discarding it and faulting it in again (BenchmarkRestore), but copied pages stay private, so maxDirty limits the
// memory of an idle instance.
const maxDirty = 2 << 20

// dirtyBuffer holds the result of dirtyPages.
type dirtyBuffer struct {
	pages   []uint32
	known   bool // pages are all private pages, if no page fault has added one since
	entries [512 * entryBytes]byte
}

// dirtyPages returns the numbers of the private pages of the mapped image, which include all pages that the guest has
// written to since they were last discarded. ok is false if they exceed maxDirty or the kernel does not report them.
// The result is valid until the next call. If the guest's last call had no page fault, it is the previous result.
func (r *reservation) dirtyPages(f *imageFile) (pages []uint32, ok bool) {
	if !r.tracksDirty {
		return nil, false
	}
	if r.dirty.known && r.faults.noFault() {
		return r.dirty.pages, true
	}
	r.dirty.known = false
	pages = r.dirty.pages[:0]
	first := int64(uintptr(unsafe.Pointer(unsafe.SliceData(r.all)))) / int64(f.pageBytes)
	count := len(f.view) / f.pageBytes
	for page := 0; page < count; {
		entries := r.dirty.entries[:min(len(r.dirty.entries), (count-page)*entryBytes)]
		n, err := unix.Pread(f.pagemap, entries, (first+int64(page))*entryBytes)
		if err != nil || n < entryBytes {
			return nil, false
		}
		for entry := entries[:n-n%entryBytes]; len(entry) > 0; entry = entry[entryBytes:] {
			if isDirty(binary.NativeEndian.Uint64(entry)) {
				if len(pages) == cap(pages) {
					return nil, false
				}
				pages = append(pages, uint32(page))
			}
			page++
		}
	}
	r.dirty.pages, r.dirty.known = pages, true
	return pages, true
}

// isDirty reports whether a page is neither absent nor a page of the file. In case of doubt a page is dirty, because
// copying a clean page is harmless.
func isDirty(entry uint64) bool {
	switch {
	case entry&(entryPresent|entrySwapped) == 0:
		return false
	case entry&entryPresent != 0:
		return entry&entryFile == 0
	}
	return true
}

// probePagemap tests the table on a new mapping: after a write to its first page and a read of its last, the first must
// be dirty and the last clean. This detects systems that only emulate the table.
func (r *reservation) probePagemap(f *imageFile) bool {
	r.tracksDirty = true
	r.dirty = &dirtyBuffer{pages: make([]uint32, 0, maxDirty/f.pageBytes)}
	last := len(f.view) - 1
	if r.all[last] != f.view[last] {
		return false
	}
	r.faults.reliable = countsFaults(func() { r.all[0] = f.view[0] })
	pages, ok := r.dirtyPages(f)
	return ok && len(pages) > 0 && pages[0] == 0 && int(pages[len(pages)-1]) < last/f.pageBytes
}
