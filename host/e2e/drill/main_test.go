// Package drill breaks and changes hosts under load, and compares their records with their answers.
package drill

import (
	"flag"
	"os"
	"testing"

	"assay/host/hosttest"
)

// The flags of all drills. Without them, a drill has a short form for go test.
var (
	drillTimes = flag.Int("times", 0, "how often a drill does what it is named for, such as killing a host")
	drillFor   = flag.Duration("for", 0, "how long a drill with random faults takes")
	drillSeed  = flag.Uint64("seed", 0, "seed of random faults; 0: a random one")
)

func TestMain(m *testing.M) { os.Exit(hosttest.Main(m)) }
