// Package browser uses the pages of hosts in a browser, as customers and operators do.
package browser

import (
	"os"
	"testing"

	"assay/host/hosttest"
)

func TestMain(m *testing.M) { os.Exit(hosttest.Main(m)) }
