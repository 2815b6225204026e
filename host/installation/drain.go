package installation

import (
	"fmt"
	"os"
	"time"

	"assay/host/internal/terminal"
)

const (
	defaultDrain = 5 * time.Second // unless the host runs in a terminal
	maxDrain     = 10 * time.Minute
)

// DrainTime returns how long a stopping host keeps serving while it is not ready. In a terminal there is no load
// balancer to wait for.
func (c *Config) DrainTime(t *terminal.Terminal) time.Duration {
	if c.Drain != nil {
		return *c.Drain
	}
	if f, ok := t.Err.(*os.File); ok && terminal.IsTerminal(f) {
		return 0
	}
	return defaultDrain
}

// ValidateDrain checks the drain time.
func (c *Config) ValidateDrain() error {
	if c.Drain != nil && (*c.Drain < 0 || *c.Drain > maxDrain) {
		return fmt.Errorf("ASSAY_DRAIN: it must be from 0s to %v", maxDrain)
	}
	return nil
}
