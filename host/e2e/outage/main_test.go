// Package outage stops hosts under load, and fails the layers of one customer.
package outage

import (
	"os"
	"testing"

	"assay/host/hosttest"
)

func TestMain(m *testing.M) { os.Exit(hosttest.Main(m)) }
