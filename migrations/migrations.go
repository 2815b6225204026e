// Package migrations embeds the database schema as a sequence of SQL files, which package store runs.
//
// A file named NNNN_subject.tx.up.sql runs in one transaction. Without ".tx", each step, separated by "--bun:split",
// commits by itself and must be repeatable after an interruption. Such files build indexes on large tables
// (CREATE INDEX CONCURRENTLY), so that hosts can keep writing. A released migration never changes; a later one corrects
// it.
package migrations

import "embed"

// FS contains the migrations.
//
//go:embed *.sql
var FS embed.FS
