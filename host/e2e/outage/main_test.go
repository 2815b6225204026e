// Package outage takes databases and hosts away under load.
package outage

import (
	"os"
	"testing"

	"assay/host/hosttest"
)

func TestMain(m *testing.M) { os.Exit(hosttest.Main(m)) }
