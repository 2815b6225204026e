// Package postgres finds or downloads Postgres and runs it privately for one data directory, with initdb and pg_ctl.
// Package store defines what the database contains.
//
// Every process that opens the same data directory shares one Postgres, which listens on 127.0.0.1 only. The first
// process starts it and the last one to leave stops it. A process that dies without leaving blocks no one: the next
// Open finds its Postgres running and adopts it.
//
// Files in the data directory:
//
//	postgres/          the cluster, owned by the user that Postgres runs as; its log is in postgres/log
//	postgres.json      password, port and location (mode 0600)
//	postgres.location  the folder that holds postgres/ if that cannot be in the data directory
//	postgres.log       what pg_ctl wrote, and Postgres before its own log was open
//	postgres.users     locked (shared) by each process that uses the database
//	postgres.start     locked (exclusive) while a process starts or leaves the database
//	postgres-bin/      programs downloaded because the machine had none
package postgres

import (
	"errors"
	"log/slog"
)

// OldestMajor is the oldest supported major version. The Postgres project ended support for 13 in November 2025.
const OldestMajor = 14

// User and Name are the role, which owns the whole cluster, and the database of Cluster.URL.
const (
	User = "assay"
	Name = "assay"
)

// ErrNotInstalled means that this machine has no usable Postgres and that none could be downloaded.
var ErrNotInstalled = errors.New("no usable Postgres on this machine")

// ErrNone means that a data directory has no private Postgres.
var ErrNone = errors.New("it has no private Postgres")

// advice ends each error that an operator can resolve by installing Postgres or by configuring another.
const advice = "install Debian's postgresql (apt-get install postgresql), or set ASSAY_DATABASE_URL"

// Stages that Config.Progress receives, in the order in which they can occur.
const (
	StageWaiting     = "waiting for another process to start or stop the database"
	StageDownloading = "downloading Postgres"
	StageCreating    = "creating the database"
	StageStarting    = "starting the database"
)

// Config describes the data directory to open and how to open it.
type Config struct {
	// Dir is the host's data directory. It is created if missing, with mode 0711: if root runs the host, the user that
	// Postgres runs as must be able to enter it. If that user cannot, the cluster is created in a folder of
	// /var/lib/assay, which removing Dir leaves in place.
	Dir      string
	Logger   *slog.Logger       // nil: nothing is logged
	Progress func(stage string) // called as each stage begins, from Open's own goroutine; may be nil
	Offline  bool               // never download Postgres: Open fails with ErrNotInstalled instead
	Existing bool               // never create a cluster: Open fails with ErrNone instead
	// Supervise starts Postgres again when it ends while the cluster is open, on the same port.
	Supervise bool

	folders     []string // where to look for programs; nil: PATH and the usual folders
	repository  string   // base URL of downloads; "": the library's default
	fallbackDir string   // parent of clusters that cannot be in Dir; "": defaultFallbackDir
}

// defaultFallbackDir holds clusters whose data directory the unprivileged user cannot enter (FHS 3.0, section 5.8).
const defaultFallbackDir = "/var/lib/assay"
