// Package migrations embeds the database schema as a sequence of steps. It contains only SQL; package store runs it.
//
// A released step is never changed; a later step corrects it. Names are NNNN_subject.tx.up.sql, and each step runs in
// one transaction.
package migrations

import "embed"

// FS contains the steps.
//
//go:embed *.sql
var FS embed.FS
