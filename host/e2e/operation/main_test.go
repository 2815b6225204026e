// Package operation starts, watches, backs up and restores hosts, as operators do.
package operation

import (
	"os"
	"testing"

	"assay/host/hosttest"
)

func TestMain(m *testing.M) { os.Exit(hosttest.Main(m)) }
