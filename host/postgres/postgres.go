// Package postgres finds or fetches Postgres and runs it privately for one data directory.
//
// Every process that opens the same data directory shares one Postgres, which listens on 127.0.0.1 only. The first to
// come starts it and the last to leave stops it. A process that dies without leaving keeps nothing locked: the next
// Open finds its Postgres running and takes it over.
//
// Files in the data directory:
//
//	postgres/          the database, owned by the user that Postgres runs as; its log is in postgres/log
//	postgres.json      password, port and location (mode 0600)
//	postgres.location  the folder that holds postgres/ when it cannot be here
//	postgres.log       what Postgres wrote before its own log was open
//	postgres.users     locked (shared) by each process that uses the database
//	postgres.start     locked (exclusive) while a process starts or leaves it
//	postgres-bin/      programs downloaded because the machine had none
package postgres

import (
	"errors"
	"log/slog"
)

// OldestMajor is the oldest major version of Postgres that is used. The Postgres project ended 13 in November 2025.
const OldestMajor = 14

// User and Name are the only role, which owns the whole cluster, and the database that URL leads to.
const (
	User = "assay"
	Name = "assay"
)

// ErrNotInstalled says that this machine has no usable Postgres and that none could be downloaded.
var ErrNotInstalled = errors.New("no usable Postgres on this machine")

// advice ends each error that an operator mends by installing Postgres or by bringing another.
const advice = "install Debian's postgresql (apt-get install postgresql), or set ASSAY_DATABASE_URL"

// Stages that Config.Progress is told, in the order in which they can occur.
const (
	StageWaiting     = "waiting for another process to start or stop the database"
	StageDownloading = "downloading Postgres"
	StageCreating    = "creating the database"
	StageStarting    = "starting the database"
)

// Config says which data directory to open and how.
type Config struct {
	// Dir is the host's data directory. It is made when missing, with mode 0711: where root runs the host, the user
	// that Postgres runs as has to pass through. If that user cannot, the database lives in a folder of /var/lib/assay,
	// which stays behind when only Dir is removed.
	Dir      string
	Logger   *slog.Logger       // nil: nothing is logged
	Progress func(stage string) // told each Stage as it begins, from Open's own goroutine; may be nil
	Offline  bool               // never download Postgres: Open answers ErrNotInstalled instead

	folders    []string // where programs are sought; nil: PATH and the usual folders
	repository string   // where programs are downloaded; empty: the library's default
	refuge     string   // parent of clusters that cannot live in Dir; empty: defaultRefuge
}

// defaultRefuge holds clusters whose data directory the unprivileged user cannot enter (FHS 3.0, section 5.8).
const defaultRefuge = "/var/lib/assay"
