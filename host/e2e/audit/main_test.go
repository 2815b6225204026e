// Package audit verifies the audit log of hosts, as auditors do.
package audit

import (
	"os"
	"testing"

	"assay/host/hosttest"
)

func TestMain(m *testing.M) { os.Exit(hosttest.Main(m)) }
