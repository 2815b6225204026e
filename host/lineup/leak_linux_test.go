package lineup

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"assay/host/store/postgres/postgrestest"
	"assay/registry"
	"assay/registry/activation"
	"assay/registry/expect"
)

// Lineups, canaries and refused lineups come and go, each with modules that are opened for it. What a host keeps of
// them is the lineup in force, the one before and the canary: neither plugins nor code nor memories of plugins add up.
//
// Not parallel, because it measures the whole process.
func TestActivationsLeaveNothingOpen(t *testing.T) {
	h := newHost(t, postgrestest.Database(t))
	h.follower.keepPrevious = time.Hour
	const versions = 5
	var lineups [versions]registry.LineupDocument
	for i := range lineups {
		version := fmt.Sprintf("%d.0.0", i+1)
		h.publish(t, module(t, "probe", version, byte(10+i)))
		lineups[i] = lineupOf(-1, "probe@"+version)
	}
	h.publish(t, brokenModule(t, "broken", "1.0.0"))
	broken := h.storeLineup(t, lineupOf(-1, "probe@1.0.0", "broken@1.0.0"))
	step := func(n int) {
		stored := h.storeLineup(t, lineups[n%versions])
		p := Proposal{Lineup: stored}
		if n%3 == 0 {
			p.Canary = &activation.Canary{Lineup: h.storeLineup(t, lineups[(n+2)%versions]), Share: 50}
		}
		if n%7 == 0 {
			h.change(t, Proposal{Lineup: broken})
			expect.Must(t, h.follower.Follow(t.Context()) != nil, "a lineup with a broken layer was loaded")
		}
		h.change(t, p)
		h.follow(t, stored.Revision)
		h.score(t)
	}
	const warmUp, steps = 3 * versions, 6 * versions
	for n := 1; n <= warmUp; n++ {
		step(n)
	}
	before := executableBytes(t)
	for n := 1; n <= steps; n++ { // ends as the warm-up did: both are multiples of the versions and of a canary's steps
		step(n)
	}
	expect.Until(t, "other plugins to be closed", func() bool { return h.openPlugins() <= 3 })
	expect.Until(t, "the code of closed plugins to be unmapped", func() bool {
		runtime.GC()
		return executableBytes(t) <= before
	})
}

// executableBytes returns how much of this process's memory is code. The number of mappings would say less: the kernel
// merges neighbours.
func executableBytes(t *testing.T) (n uint64) {
	t.Helper()
	runtime.GC() // runs the finalizers that unmap code
	for line := range strings.Lines(string(expect.Value(os.ReadFile("/proc/self/maps"))(t))) {
		var from, to uint64
		var access string
		expect.Value(fmt.Sscanf(line, "%x-%x %s", &from, &to, &access))(t)
		if access == "r-xp" {
			n += to - from
		}
	}
	return n
}
