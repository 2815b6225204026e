package change

import (
	"fmt"
	"strconv"
	"strings"

	"assay/host/lineup/replay"
)

// Activated is an activation that runs.
type Activated struct {
	Revision   int64    `json:"revision"`
	Activation int64    `json:"activation"`
	Canary     int64    `json:"canary,omitempty"` // its revision
	Share      int      `json:"share,omitempty"`  // of the canary
	Hosts      int      `json:"hosts"`            // that run it
	Skipped    int      `json:"skipped"`          // because they are silent
	Running    []string `json:"-"`                // the names of the hosts that run it
	Silent     []string `json:"-"`                // of those that were skipped
}

// What describes the lineup or canary that the activation put in force.
func (a Activated) What() string {
	if a.Canary != 0 {
		return fmt.Sprintf("canary revision %d for %d%% of the accounts", a.Canary, a.Share)
	}
	return fmt.Sprintf("revision %d", a.Revision)
}

// Where describes the hosts on which it is in force.
func (a Activated) Where() string {
	switch len(a.Running) {
	case 0:
		return "stored, but no host runs it"
	case 1:
		return "in force on " + a.Running[0]
	}
	return fmt.Sprintf("in force on %d hosts", len(a.Running))
}

// BeyondLimitError means that a lineup would change more verdicts than its operator allows.
type BeyondLimitError struct {
	Types  []replay.Beyond // those beyond the limit
	Limit  float64
	Canary bool
}

func (e *BeyondLimitError) Error() string {
	parts := make([]string, len(e.Types))
	for i, t := range e.Types {
		of := ""
		if t.ByReferences {
			of = " reference values"
		}
		parts[i] = fmt.Sprintf("%s: %d of %d%s (%s)", t.Type, t.Changed, t.Of, of,
			percent(float64(t.Changed)/float64(t.Of)))
	}
	return fmt.Sprintf("the lineup would change more than %s of recent verdicts (%s)", percent(e.Limit),
		strings.Join(parts, ", "))
}

func percent(share float64) string { return strconv.FormatFloat(100*share, 'g', 4, 64) + "%" }
