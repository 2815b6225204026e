package installation

import (
	"fmt"
	"time"

	"assay/host/check"
	"assay/host/entity"
	"assay/host/internal/terminal"
)

// NewChecker returns a checker with the time limits of a host.
func NewChecker(live *check.Live, ledger check.Ledger, o check.Observer) *check.Checker {
	return &check.Checker{Live: live, Ledger: ledger, Observer: o, Now: time.Now, Deadline: CheckTimeout}
}

// FailurePrinter is an observer that prints why layers failed.
type FailurePrinter struct{ Terminal *terminal.Terminal }

var _ check.Observer = FailurePrinter{}

// LayerRan implements check.Observer.
func (p FailurePrinter) LayerRan(_ entity.Type, o check.Outcome, failure *check.Failure) {
	if failure != nil {
		fmt.Fprintf(p.Terminal.Err, "layer %s@%s: %s: %v\n%s", o.Layer, o.Version, failure.Reason, failure.Err,
			failure.Output.Text)
	}
}

// CheckDone implements check.Observer.
func (FailurePrinter) CheckDone(*check.Decision, time.Duration) {}
