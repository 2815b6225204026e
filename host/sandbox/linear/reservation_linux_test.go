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

	"assay/registry/expect"
)

// strategies are those of production, including the one for kernels that do not report dirty pages.
func strategies() map[string]strategy {
	return map[string]strategy{
		"copy":    {maxCopied: maxSize},
		"pages":   {adjust: mustTrack},
		"discard": {adjust: func(m *Memory) { m.reservation.tracksDirty = false }},
	}
}

// mustTrack panics if "pages" would silently become "discard".
func mustTrack(m *Memory) {
	if m.size > 0 && !m.reservation.tracksDirty {
		panic("this kernel does not report dirty pages")
	}
}

func TestDirtyPages(t *testing.T) {
	t.Parallel()
	g := newEngine(t, assemble(48), strategy{}).startWithSnapshot(t)
	r, f := g.memory.reservation, g.memory.image.file
	expect.NoError(t, r.discardPages(f))
	count := len(f.view) / f.pageBytes
	wantDirty := func(want ...uint32) {
		t.Helper()
		got, ok := r.dirtyPages(f)
		expect.That(t, ok && fmt.Sprint(got) == fmt.Sprint(want), "dirty pages %v (%v), want %v", got, ok, want)
	}
	wantDirty()
	for page := range count {
		g.call(t, "peek", uint64(page*f.pageBytes))
	}
	wantDirty()
	last := count - 1
	for _, page := range []int{0, 7, count / 2, last} {
		g.call(t, "poke", uint64(page*f.pageBytes), 0)
	}
	wantDirty(0, 7, uint32(count/2), uint32(last))
	g.restore(t)
	wantDirty(0, 7, uint32(count/2), uint32(last)) // copied pages stay dirty
	for page := range maxDirty / f.pageBytes {
		g.call(t, "poke", uint64(page*f.pageBytes), 7)
	}
	got, ok := r.dirtyPages(f)
	expect.That(t, !ok, "%d dirty pages were accepted", len(got))
	g.restore(t)
	wantDirty()
}

// maxTries is how often a test tries what a page fault of other code of its thread spoils.
const maxTries = 100_000

// TestTableIsReadAfterFaults checks when a restoration may rely on the table of pages that the one before has read:
// only if all calls since were watched and had no page fault. The table cannot be read again, which discards all pages.
func TestTableIsReadAfterFaults(t *testing.T) {
	t.Parallel()
	type testCase struct {
		call   func(t *testing.T, g *guest)
		relies bool
	}
	expect.Each(t, map[string]testCase{
		"the same page": {func(t *testing.T, g *guest) { g.call(t, "poke", 5000, 1) }, true},
		"the same page, twice": {func(t *testing.T, g *guest) {
			g.call(t, "poke", 5000, 1)
			g.call(t, "poke", 5000, 1)
		}, true},
		"another page": {func(t *testing.T, g *guest) { g.call(t, "poke", 9000, 1) }, false},
		"another, then the same": {func(t *testing.T, g *guest) {
			g.call(t, "poke", 9000, 1)
			g.call(t, "poke", 5000, 1)
		}, false},
		"not watched": {func(_ *testing.T, g *guest) { g.Memory().WriteByte(9000, 1) }, false},
		"no call":     {func(*testing.T, *guest) {}, false},
	}, func(t *testing.T, test testCase) {
		g := newEngine(t, assemble(48), strategy{}).startWithSnapshot(t)
		r := g.memory.reservation
		if !r.faults.reliable {
			t.Skip("this kernel does not count page faults")
		}
		// Other code of the same thread may have faults too, but not every time.
		for tries := 0; ; tries++ {
			expect.NoError(t, r.discardPages(g.memory.image.file))
			g.call(t, "poke", 5000, 1)
			g.restore(t)
			test.call(t, g)
			noTable := *g.memory.image.file
			noTable.pagemap = -1
			pages, ok := r.dirtyPages(&noTable)
			if ok == test.relies && (!ok || len(pages) == 1 && pages[0] == uint32(5000/noTable.pageBytes)) {
				return
			}
			expect.Must(t, !ok && tries != maxTries, "pages %v, %v, want %v", pages, ok, test.relies)
		}
	})
}

// countsFaults must detect kernels that do not count the fault of a write.
func TestProbeRejectsMissingFaults(t *testing.T) {
	t.Parallel()
	for tries := 0; countsFaults(func() {}); tries++ {
		expect.Must(t, tries != maxTries, "countsFaults accepted a write without a fault")
	}
}

func TestIsDirty(t *testing.T) {
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
		"migrating, of the file": {entrySwapped | entryFile, true},
		"read, with page number": {entryPresent | entryFile | 0x1234, false},
	} {
		expect.Equal(t, name, isDirty(test.entry), test.want)
	}
}

// probePagemap must detect tables that are empty or have the same entry for every page.
func TestProbeRejectsWrongTables(t *testing.T) {
	t.Parallel()
	entry := func(v uint64) []byte { return unsafe.Slice((*byte)(unsafe.Pointer(&v)), entryBytes) }
	expect.Each(t, map[string][]byte{
		"empty":           nil,
		"all absent":      entry(0),
		"all written":     entry(entryPresent),
		"all of the file": entry(entryPresent | entryFile),
	}, func(t *testing.T, fill []byte) {
		m := expect.Value((&ImageStore{}).Reserve(pageSize, pageSize))(t)
		defer m.Free()
		m.Reallocate(pageSize)
		expect.NoError(t, m.Snapshot())
		f := *m.image.file
		f.pagemap = pagemapFile(t, uintptr(unsafe.Pointer(&m.reservation.all[0]))/uintptr(f.pageBytes), fill,
			pageSize/f.pageBytes)
		expect.That(t, !m.reservation.probePagemap(&f), "probePagemap accepted it")
	})
}

// A range whose content differs from the file is not a mapping of it.
func TestProbeRejectsOtherContent(t *testing.T) {
	t.Parallel()
	g := newEngine(t, assemble(1), strategy{}).startWithSnapshot(t)
	f := *g.memory.image.file
	f.view = append(make([]byte, pageSize-1), 1)
	expect.That(t, !g.memory.reservation.probePagemap(&f), "probePagemap accepted it")
}

// pagemapFile returns the descriptor of a table with the same entry for count pages from first on.
func pagemapFile(t *testing.T, first uintptr, entry []byte, count int) int {
	t.Helper()
	file := expect.Value(os.Create(t.TempDir() + "/pagemap"))(t)
	t.Cleanup(func() { _ = file.Close() })
	for page := range count {
		expect.Value(file.WriteAt(entry, (int64(first)+int64(page))*entryBytes))(t)
	}
	return int(file.Fd())
}

func TestImageFileIsSealed(t *testing.T) {
	t.Parallel()
	descriptor := newEngine(t, assemble(1), strategy{}).startWithSnapshot(t).memory.image.file.descriptor
	expect.Error(t, "writing", expect.ErrorOf(unix.Pwrite(descriptor, []byte("x"), 0)), unix.EPERM)
	for _, size := range []int64{0, 2 * pageSize} {
		expect.Error(t, fmt.Sprint("resizing to ", size), unix.Ftruncate(descriptor, size), unix.EPERM)
	}
}

// If mapping over the range fails, another thread may own parts of it, so it must not be unmapped.
func TestRangeIsLeakedAfterFailedMapping(t *testing.T) {
	t.Parallel()
	m := expect.Value(NewImageStore().Reserve(3*pageSize, 3*pageSize))(t)
	whole := m.reservation.all
	err := m.reservation.mapImage(&imageFile{descriptor: -1, view: whole})
	expect.Must(t, errors.Is(err, unix.EBADF), "mapping a bad descriptor: %v", err)
	m.Free()
	expect.Error(t, "the range, which must stay mapped", unix.Madvise(whole, unix.MADV_NORMAL), nil)
	expect.Error(t, "error", unix.MunmapPtr(unsafe.Pointer(&whole[0]), uintptr(len(whole))), nil)
}

func TestMemoryDoesNotMove(t *testing.T) {
	t.Parallel()
	expect.Each(t, strategies(), func(t *testing.T, s strategy) {
		g := newEngine(t, assemble(3), s).start(t)
		view, _ := g.Memory().Read(0, 3*pageSize)
		g.call(t, "grow", 1)
		g.snapshot(t)
		g.restore(t)
		g.call(t, "grow", maxPages-4)
		g.call(t, "poke", 100, 0x61626364)
		expect.That(t, string(view[100:104]) == "dcba", "an old view reads %q", view[100:104])
	})
}

// resources are counts of the process that a leak would increase.
type resources struct{ maps, memfds, descriptors, addresses int }

func (c resources) exceed(base resources) bool {
	const slack = 100 // mappings that Go's runtime creates meanwhile; the smallest leak has 200, see TestNothingLeaks
	return c.maps > base.maps+slack || c.memfds > base.memfds || c.descriptors > base.descriptors+slack ||
		c.addresses > base.addresses+(512<<20)
}

func countResources(t *testing.T) (c resources) {
	t.Helper()
	maps := expect.Value(os.ReadFile("/proc/self/maps"))(t)
	c.maps, c.memfds = strings.Count(string(maps), "\n"), strings.Count(string(maps), fileName)
	c.descriptors = len(expect.Value(os.ReadDir("/proc/self/fd"))(t))
	expect.Value(fmt.Sscan(string(expect.Value(os.ReadFile("/proc/self/statm"))(t)), &c.addresses))(t)
	c.addresses *= os.Getpagesize()
	return c
}

// Not parallel, because it counts the resources of the whole process.
func TestNothingLeaks(t *testing.T) {
	const instances = 600 // of each kind with each strategy; a third of them takes every path
	for name, s := range strategies() {
		good, bad := newEngine(t, assemble(3), s), newEngine(t, assemble(0), s)
		base := countResources(t)
		for i := range instances {
			g := expect.Value(good.instantiate())(t)
			if i%3 > 0 {
				g.snapshot(t)
				g.restore(t)
			}
			if i%3 > 1 {
				g.call(t, "grow", 7)
			}
			expect.NoError(t, g.Close(t.Context()))
			expect.Failure(t, expect.ErrorOf(bad.instantiate()), "a data segment out of bounds was accepted")
		}
		now := countResources(t)
		expect.That(t, !now.exceed(base), "%s: %+v before, %+v after %d instances", name, base, now, instances)
	}
}

// limitVariable names the environment variable with the limit of a child process.
const limitVariable = "ASSAY_TEST_LIMIT"

// A process without free memory gets an error or a failed memory.grow, and continues.
func TestOutOfMemory(t *testing.T) {
	t.Parallel()
	if os.Getenv(limitVariable) != "" {
		underLimit(t, os.Getenv(limitVariable))
		return
	}
	for _, limit := range []string{"addresses", "data"} {
		t.Run(limit, func(t *testing.T) {
			t.Parallel()
			self := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestOutOfMemory$", "-test.v")
			self.Env = append(os.Environ(), limitVariable+"="+limit)
			out, err := self.CombinedOutput()
			expect.That(t, err == nil && strings.Contains(string(out), "--- PASS: TestOutOfMemory"), "%v\n%s", err, out)
		})
	}
}

func underLimit(t *testing.T, limit string) {
	t.Helper()
	e := newEngine(t, assemble(3), strategy{maxCopied: defaultMaxCopied})
	g := e.startWithSnapshot(t)
	grow := g.function("grow")
	var sizes, resident, shared, text, library, data int
	statm := expect.Value(os.ReadFile("/proc/self/statm"))(t)
	expect.Value(fmt.Sscan(string(statm), &sizes, &resident, &shared, &text, &library, &data))(t)
	resource, used := unix.RLIMIT_AS, sizes
	if limit == "data" {
		resource, used = unix.RLIMIT_DATA, data
	}
	maxUsed := uint64(used*os.Getpagesize()) + 2<<20
	expect.NoError(t, unix.Setrlimit(resource, &unix.Rlimit{Cur: maxUsed, Max: unix.RLIM_INFINITY}))
	const reserved = 4 << 30 // much more than the process uses, so that a leak shows
	var refused, err error
	var grown uint64
	if limit == "data" { // reserved memory does not count
		_, refused = e.images.Reserve(4<<20, reserved)
		g.stack[0] = maxPages - 3
		err = grow.CallWithStack(t.Context(), g.stack[:])
		grown = g.stack[0]
	} else {
		_, refused = e.instantiate()
	}
	expect.NoError(t, errors.Join(err, unix.Setrlimit(resource,
		&unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY})))
	expect.That(t, errors.Is(refused, unix.ENOMEM), "reserving: %v", refused)
	expect.That(t, limit != "data" || uint32(grown) == 0xffffffff, "memory.grow returns %d", grown)
	if now := countResources(t); limit == "data" && now.addresses > sizes*os.Getpagesize()+reserved/2 {
		t.Errorf("%d bytes of address space leaked", now.addresses-sizes*os.Getpagesize())
	}
	g.call(t, "poke", 0, 7)
	g.restore(t)
	if again, err := e.instantiate(); err != nil {
		t.Errorf("without the limit: %v", err)
	} else if err := again.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
