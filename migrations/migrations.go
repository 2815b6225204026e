// Package migrations embeds the database schema, which package store applies.
//
// Tables, constraints and indexes are a sequence of migrations. A file named NNNN_subject.tx.up.sql runs in one
// transaction. Without ".tx", each step, separated by "--bun:split", commits by itself and must be repeatable after an
// interruption. Such files build indexes on large tables (CREATE INDEX CONCURRENTLY), so that hosts can keep writing.
// From the first tag on, a released migration never changes; a later one corrects it.
//
// functions.sql defines each function once. A host applies it again when it differs from what the database has, and
// drops what is not in it. Running hosts of the previous release keep calling the functions: from the first tag on, a
// function whose parameters or result change keeps its old form in the file for a release.
package migrations

import "embed"

// States is the text of states.sql: the content of each row that the audit log binds.
//
//go:embed states.sql
var States string

// FS contains the files.
//
//go:embed *.sql
var FS embed.FS
