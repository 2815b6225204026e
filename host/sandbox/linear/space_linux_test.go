package linear

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ways are those of production, and the one left to systems whose kernel does not tell what was written to.
func ways() map[string]way {
	return map[string]way{
		"copy":  {copyUpTo: maxSize},
		"pages": {adjust: mustTrack},
		"drop":  {adjust: func(m *Memory) { m.space.tracked = false }},
	}
}

// mustTrack keeps the tests of the way "pages" from passing by the way "drop".
func mustTrack(m *Memory) {
	if m.size > 0 && !m.space.tracked {
		panic("this kernel does not tell which pages were written to")
	}
}

func TestWrittenPages(t *testing.T) {
	t.Parallel()
	g := newEngine(t, assemble(48), way{}).frozen(t)
	s, f := g.memory.space, g.memory.image.file
	if err := s.discard(f); err != nil {
		t.Fatal(err)
	}
	count := len(f.view) / f.pageBytes
	written := func(want ...uint32) {
		t.Helper()
		got, known := s.written(f)
		if !known || fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("written %v (%v), want %v", got, known, want)
		}
	}
	written()
	for page := range count {
		g.call(t, "peek", uint64(page*f.pageBytes))
	}
	written()
	last := count - 1
	for _, page := range []int{0, 7, count / 2, last} {
		g.call(t, "poke", uint64(page*f.pageBytes), 0)
	}
	written(0, 7, uint32(count/2), uint32(last))
	g.restore(t)
	written(0, 7, uint32(count/2), uint32(last)) // they stay the guest's own
	for page := range maxOwn / f.pageBytes {
		g.call(t, "poke", uint64(page*f.pageBytes), 7)
	}
	if got, known := s.written(f); known {
		t.Errorf("%d pages are not too many", len(got))
	}
	g.restore(t)
	written()
}

func TestOwnPage(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		entry uint64
		want  bool
	}{
		"never touched":          {0, false},
		"soft-dirty leftover":    {1 << 55, false},
		"read":                   {entryPresent | entryFile, false},
		"written":                {entryPresent, true},
		"written, exclusive":     {entryPresent | 1<<56, true},
		"written, swapped out":   {entrySwapped, true},
		"on the move, a file's":  {entrySwapped | entryFile, true},
		"read, with page number": {entryPresent | entryFile | 0x1234, false},
	} {
		if got := ownPage(test.entry); got != test.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// A table that says nothing, the same of every page, or something of another process is not believed.
func TestTableIsNotBelieved(t *testing.T) {
	t.Parallel()
	entry := func(v uint64) []byte { return unsafe.Slice((*byte)(unsafe.Pointer(&v)), entryBytes) }
	for name, fill := range map[string][]byte{
		"empty":        nil,
		"all absent":   entry(0),
		"all written":  entry(entryPresent),
		"all the file": entry(entryPresent | entryFile),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, err := (&Images{}).Reserve(pageSize, pageSize)
			if err != nil {
				t.Fatal(err)
			}
			defer m.Free()
			m.Reallocate(pageSize)
			if err := m.Freeze(); err != nil {
				t.Fatal(err)
			}
			f := *m.image.file
			f.pagemap = table(t, uintptr(unsafe.Pointer(&m.space.whole[0]))/uintptr(f.pageBytes), fill,
				pageSize/f.pageBytes)
			if m.space.tellsWritten(&f) {
				t.Error("it was believed")
			}
		})
	}
}

// A range that does not read as the file does is no mapping of it.
func TestRangeWithAnotherContentIsNotTracked(t *testing.T) {
	t.Parallel()
	g := newEngine(t, assemble(1), way{}).frozen(t)
	f := *g.memory.image.file
	f.view = append(make([]byte, pageSize-1), 1)
	if g.memory.space.tellsWritten(&f) {
		t.Error("it was believed")
	}
}

// table is a file that says the same of count pages from first on.
func table(t *testing.T, first uintptr, entry []byte, count int) int {
	t.Helper()
	file, err := os.Create(t.TempDir() + "/pagemap")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = file.Close() })
	for page := range count {
		if _, err := file.WriteAt(entry, (int64(first)+int64(page))*entryBytes); err != nil {
			t.Fatal(err)
		}
	}
	return int(file.Fd())
}

func TestFrozenFileCannotBeChanged(t *testing.T) {
	t.Parallel()
	g := newEngine(t, assemble(1), way{}).frozen(t)
	descriptor := g.memory.image.file.descriptor
	if _, err := unix.Pwrite(descriptor, []byte("x"), 0); !errors.Is(err, unix.EPERM) {
		t.Errorf("writing: %v", err)
	}
	for _, size := range []int64{0, 2 * pageSize} {
		if err := unix.Ftruncate(descriptor, size); !errors.Is(err, unix.EPERM) {
			t.Errorf("resizing to %d: %v", size, err)
		}
	}
}

// When mapping over the range fails, parts of it may be another thread's: it must not be unmapped.
func TestTornRangeIsGivenUp(t *testing.T) {
	t.Parallel()
	m, err := NewImages().Reserve(3*pageSize, 3*pageSize)
	if err != nil {
		t.Fatal(err)
	}
	whole := m.space.whole
	if err := m.space.lay(&file{descriptor: -1, view: whole}); !errors.Is(err, unix.EBADF) {
		t.Fatalf("laying no file: %v", err)
	}
	m.Free()
	if err := unix.Madvise(whole, unix.MADV_NORMAL); err != nil {
		t.Errorf("the range is no longer mapped: %v", err)
	}
	if err := unix.MunmapPtr(unsafe.Pointer(&whole[0]), uintptr(len(whole))); err != nil {
		t.Error(err)
	}
}

func TestMemoryDoesNotMove(t *testing.T) {
	t.Parallel()
	everyWay(t, func(t *testing.T, w way) {
		g := newEngine(t, assemble(3), w).start(t)
		view, _ := g.Memory().Read(0, 3*pageSize)
		g.call(t, "grow", 1)
		if err := g.memory.Freeze(); err != nil {
			t.Fatal(err)
		}
		g.restore(t)
		g.call(t, "grow", maxPages-4)
		g.call(t, "poke", 100, 0x61626364)
		if string(view[100:104]) != "dcba" {
			t.Errorf("an old view reads %q", view[100:104])
		}
	})
}

// census counts what a leak would show in.
type census struct{ maps, memfds, descriptors, addresses int }

func (c census) above(base census) bool {
	const slack = 20 // mappings that Go's own heap makes meanwhile
	return c.maps > base.maps+slack || c.memfds > base.memfds || c.descriptors > base.descriptors+slack ||
		c.addresses > base.addresses+(512<<20)
}

func takeCensus(t *testing.T) (c census) {
	t.Helper()
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	c.maps, c.memfds = strings.Count(string(maps), "\n"), strings.Count(string(maps), fileName)
	descriptors, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	c.descriptors = len(descriptors)
	statm, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Sscan(string(statm), &c.addresses); err != nil {
		t.Fatal(err)
	}
	c.addresses *= os.Getpagesize()
	return c
}

// Not parallel: it counts what the whole process has mapped.
func TestNothingLeaks(t *testing.T) {
	const instances = 4_000 // of each kind in each way
	for name, w := range ways() {
		good, bad := newEngine(t, assemble(3), w), newEngine(t, assemble(0), w)
		base := takeCensus(t)
		for i := range instances {
			g, err := good.instantiate()
			if err != nil {
				t.Fatal(err)
			}
			if i%3 > 0 {
				if err := g.memory.Freeze(); err != nil {
					t.Fatal(err)
				}
				g.restore(t)
			}
			if i%3 > 1 {
				g.call(t, "grow", 7)
			}
			if err := g.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			if _, err := bad.instantiate(); err == nil {
				t.Fatal("it was instantiated")
			}
		}
		if now := takeCensus(t); now.above(base) {
			t.Errorf("%s: %+v before, %+v after %d instances", name, base, now, instances)
		}
	}
}

// limited names the limit that a child process of the test runs under.
const limited = "ASSAY_TEST_LIMIT"

// A process at the end of its memory gets an error or a refused memory.grow, and goes on.
func TestNoMemoryLeft(t *testing.T) {
	t.Parallel()
	if os.Getenv(limited) != "" {
		underLimit(t, os.Getenv(limited))
		return
	}
	for _, limit := range []string{"addresses", "data"} {
		t.Run(limit, func(t *testing.T) {
			t.Parallel()
			self := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestNoMemoryLeft$", "-test.v")
			self.Env = append(os.Environ(), limited+"="+limit)
			out, err := self.CombinedOutput()
			if err != nil || !strings.Contains(string(out), "--- PASS: TestNoMemoryLeft") {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

func underLimit(t *testing.T, limit string) {
	t.Helper()
	e := newEngine(t, assemble(3), way{copyUpTo: copyUpTo})
	g := e.frozen(t)
	grow := g.function("grow")
	var sizes, resident, shared, text, library, data int
	statm, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Sscan(string(statm), &sizes, &resident, &shared, &text, &library, &data); err != nil {
		t.Fatal(err)
	}
	resource, used := unix.RLIMIT_AS, sizes
	if limit == "data" {
		resource, used = unix.RLIMIT_DATA, data
	}
	most := uint64(used*os.Getpagesize()) + 2<<20
	if err := unix.Setrlimit(resource, &unix.Rlimit{Cur: most, Max: unix.RLIM_INFINITY}); err != nil {
		t.Fatal(err)
	}
	const reserved = 4 << 30 // more than the process has otherwise, and so seen when it stays
	var refused error
	var grown uint64
	if limit == "data" { // what is reserved does not count, only what is used
		_, refused = e.images.Reserve(4<<20, reserved)
		g.stack[0] = maxPages - 3
		err = grow.CallWithStack(t.Context(), g.stack[:])
		grown = g.stack[0]
	} else {
		_, refused = e.instantiate()
	}
	if err := errors.Join(err, unix.Setrlimit(resource,
		&unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY})); err != nil {
		t.Fatal(err)
	}
	if !errors.Is(refused, unix.ENOMEM) {
		t.Errorf("reserving: %v", refused)
	}
	if limit == "data" && uint32(grown) != 0xffffffff {
		t.Errorf("memory.grow gives %d", grown)
	}
	if now := takeCensus(t); limit == "data" && now.addresses > sizes*os.Getpagesize()+reserved/2 {
		t.Errorf("%d bytes of addresses stay reserved", now.addresses-sizes*os.Getpagesize())
	}
	g.call(t, "poke", 0, 7)
	g.restore(t)
	if again, err := e.instantiate(); err != nil {
		t.Errorf("with memory again: %v", err)
	} else if err := again.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
