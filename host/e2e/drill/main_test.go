// Package drill breaks and changes hosts under load, and compares their records with their answers.
package drill

import (
	"os"
	"testing"

	"assay/host/hosttest"
)

func TestMain(m *testing.M) { os.Exit(hosttest.Main(m)) }
