package cli

import (
	"context"
	"fmt"
	"os"
	"testing"

	"assay/host/hosttest"
)

func TestMain(m *testing.M) {
	if os.Getenv(AsCommands) != "" {
		if err := RunCommands(context.Background(), os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(hosttest.Main(m))
}
