// Package migrations holds the database's schema as the steps that made it, oldest first. A step that has been released
// is never changed; the next one mends it. Names are NNNN_what.tx.up.sql: each step runs in one transaction.
package migrations

import "embed"

// FS holds the steps.
//
//go:embed *.sql
var FS embed.FS
