package linear

import (
	"encoding/binary"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The kernel's table of this process's pages: eight bytes for each (Documentation/admin-guide/mm/pagemap.rst).
const (
	pagemapPath  = "/proc/self/pagemap"
	entryBytes   = 8
	entryFile    = 1 << 61 // a page of the mapped file, and not a private copy
	entrySwapped = 1 << 62
	entryPresent = 1 << 63
)

// maxOwn is how many bytes of pages a guest keeps as its own between calls. Copying a page back costs a twentieth of
// having it dropped and faulted in again (BenchmarkRestore), so the bound is for the memory that an idle instance
// holds.
const maxOwn = 2 << 20

// pageList is room for one look at the table.
type pageList struct {
	written []uint32
	entries [512 * entryBytes]byte
}

// written lists the pages of a laid range that the guest has copies of its own of: those it has written to since they
// were last dropped, at least. Not known means that they are too many, or that the kernel does not say.
func (s *space) written(f *file) (pages []uint32, known bool) {
	if !s.tracked {
		return nil, false
	}
	pages = s.pages.written[:0]
	first := int64(uintptr(unsafe.Pointer(unsafe.SliceData(s.whole)))) / int64(f.pageBytes)
	count := len(f.view) / f.pageBytes
	for page := 0; page < count; {
		entries := s.pages.entries[:min(len(s.pages.entries), (count-page)*entryBytes)]
		n, err := unix.Pread(f.pagemap, entries, (first+int64(page))*entryBytes)
		if err != nil || n < entryBytes {
			return nil, false
		}
		for entry := entries[:n-n%entryBytes]; len(entry) > 0; entry = entry[entryBytes:] {
			if ownPage(binary.NativeEndian.Uint64(entry)) {
				if len(pages) == cap(pages) {
					return nil, false
				}
				pages = append(pages, uint32(page))
			}
			page++
		}
	}
	return pages, true
}

// ownPage says whether an entry is anything but a page that is not there, or is the file's. When in doubt a page is the
// guest's own: copying back one too many does no harm.
func ownPage(entry uint64) bool {
	switch {
	case entry&(entryPresent|entrySwapped) == 0:
		return false
	case entry&entryPresent != 0:
		return entry&entryFile == 0
	}
	return true
}

// tellsWritten tries the table on a range just laid: of its first page, written to, and its last, read, the first alone
// must be listed. A system that only imitates the table is found out here.
func (s *space) tellsWritten(f *file) bool {
	s.tracked = true
	s.pages = &pageList{written: make([]uint32, 0, maxOwn/f.pageBytes)}
	last := len(f.view) - 1
	if s.whole[last] != f.view[last] {
		return false
	}
	s.whole[0] = f.view[0]
	pages, known := s.written(f)
	return known && len(pages) > 0 && pages[0] == 0 && int(pages[len(pages)-1]) < last/f.pageBytes
}
