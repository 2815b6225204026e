// Package migrations embeds the database schema as a sequence of migrations. It contains only SQL; package store runs
// it.
//
// Files are named NNNN_subject.tx.up.sql, and each runs in one transaction. Those without ".tx" commit between their
// steps, which "--bun:split" separates, and may run again after an interruption. They build indexes of tables that may
// be large (CREATE INDEX CONCURRENTLY), because hosts write meanwhile. The statements of a released migration never
// change: a later migration corrects them.
package migrations

import "embed"

// FS contains the migrations.
//
//go:embed *.sql
var FS embed.FS
