package installation

import "time"

// The time limits of a host. Those of a single request are in package api.
const (
	lookupTimeout  = 80 * time.Millisecond  // a DNS answer; later ones are absent
	CheckTimeout   = 300 * time.Millisecond // lookups and layers of one check; a check that takes longer is refused
	BatchTimeout   = 2 * time.Second        // the same for a batch, whose checks wait for each other
	CheckTarget    = 160 * time.Millisecond // a check is refused if its answer would take longer
	BatchTarget    = time.Second            // the same for a batch
	PastTarget     = 3 * time.Second        // an explanation waits so long for an earlier lineup, then does without
	DrainTimeout   = 10 * time.Second       // requests in progress when the host stops
	StopTimeout    = 20 * time.Second       // stopping Postgres
	CanaryInterval = 3 * time.Minute        // between questions that show whether a DNS server is honest
)
