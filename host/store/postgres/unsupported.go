//go:build !linux && !darwin

package postgres

import (
	"context"
	"fmt"
	"runtime"
)

// Cluster is never created on this system.
type Cluster struct{}

// Open fails with ErrNotInstalled: the private Postgres needs Linux or macOS.
func Open(context.Context, Config) (*Cluster, error) {
	return nil, fmt.Errorf("opening the database: a private Postgres needs Linux or macOS, not %s (%w): set "+
		"ASSAY_DATABASE_URL to a Postgres of your own", runtime.GOOS, ErrNotInstalled)
}

// URL returns "".
func (*Cluster) URL() string { return "" }

// Problems returns nil.
func (*Cluster) Problems() []string { return nil }

// Close does nothing.
func (*Cluster) Close(context.Context) error { return nil }
