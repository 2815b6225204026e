#!/bin/sh
# Tests the layer natively and in the sandbox, and builds it. It needs Go and assay on the PATH.
set -eu
cd "$(dirname "$0")"
go vet ./...
go test ./...
assay plugin test .
assay plugin build .
