// Command assay is the fraud-scoring host and its command line.
package main

import (
	"context"
	"os"

	"assay/host/cli"
)

func main() {
	os.Exit(cli.Run(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
}
