// Package customer calls hosts as customers' programs do: checks, billing, privacy, the clients and the examples.
package customer

import (
	"os"
	"testing"

	"assay/host/hosttest"
)

func TestMain(m *testing.M) { os.Exit(hosttest.Main(m)) }
