package auditlog

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"math"
	"slices"
	"time"

	"assay/host/audit"
	"assay/host/check"
	"assay/host/store"
	"assay/registry/fault"
	"assay/sdk/receipt"
)

// exportFormat names the format of exports, which docs/audit-format.md describes.
const exportFormat = "assay-audit-export-1"

// The lines of an export, in their order: a header, each chain followed by its records, the stored states, the end.
type (
	exportHeader struct {
		Format     string `json:"format"`
		ExportedAt string `json:"exported_at"`
		Key        string `json:"key"` // a hint: a verifier must get the key from elsewhere

		Statements []string `json:"statements,omitempty"`
	}
	exportChain struct {
		Chain       int          `json:"chain"`
		Head        exportHead   `json:"head"`
		Anchors     []string     `json:"anchors"`
		Tree        *exportTree  `json:"tree"` // null if there is none
		Edge        []exportTile `json:"edge"`
		Checkpoints []string     `json:"checkpoints"`
	}
	exportHead struct {
		Seq  int64       `json:"seq"`
		Hash receipt.Hex `json:"hash"`
	}
	exportTree struct {
		After int64       `json:"after,omitempty"`
		First int64       `json:"first"`
		Size  int64       `json:"size"`
		Root  receipt.Hex `json:"root"`
	}
	exportTile struct {
		Level  int         `json:"level"`
		Index  int64       `json:"index"`
		Hashes receipt.Hex `json:"hashes"`
	}
	exportRecord struct {
		Seq  int64       `json:"seq"`
		Leaf receipt.Hex `json:"leaf"`
		Hash receipt.Hex `json:"hash"`
		receipt.Record
		Erased []exportErased `json:"erased,omitempty"`
	}
	exportErased struct {
		Seq  int64       `json:"seq"`
		Leaf receipt.Hex `json:"leaf"`
	}
	exportState struct {
		State  string      `json:"state"` // the type
		ID     string      `json:"id"`
		Digest receipt.Hex `json:"digest"`
	}
	exportEnd struct {
		Records int64 `json:"records"`
		End     bool  `json:"end"`
	}
)

// WriteExport writes a snapshot of the audit log as a file that OpenExport reads, so that it can be verified without
// the database, and returns the number of records. It does not verify them. progress is called with the number of
// records so far after every progressRecords of them.
func WriteExport(ctx context.Context, log store.AuditLog, key audit.Public, at time.Time, to io.Writer,
	progress func(int64)) (records int64, err error) {
	w := bufio.NewWriterSize(to, 1<<16)
	lines := json.NewEncoder(w)
	lines.SetEscapeHTML(false)
	heads, err := log.Chains(ctx)
	var statements []string
	if err == nil {
		statements, err = log.KeyStatements(ctx)
	}
	if err == nil {
		key, err = key.With(statements)
	}
	if err == nil {
		err = lines.Encode(exportHeader{exportFormat, at.UTC().Format(check.TimeFormat), key.VerifierKey(), statements})
	}
	for _, head := range heads {
		if err != nil {
			break
		}
		var start audit.Head
		if start, err = writeChain(ctx, log, key, head, lines); err != nil {
			break
		}
		for row, rowErr := range log.Rows(ctx, head.Chain, start.Seq, math.MaxInt64) {
			if err = rowErr; err == nil {
				err = lines.Encode(exported(row))
			}
			if err != nil {
				break
			}
			if records++; records%progressRecords == 0 {
				progress(records)
			}
		}
	}
	if err == nil {
		err = writeStates(ctx, log, lines)
	}
	if err == nil {
		err = lines.Encode(exportEnd{records, true})
	}
	if err == nil {
		err = w.Flush()
	}
	return records, fault.Wrap(err, "exporting the audit log")
}

// writeStates writes the stored states in ascending order.
func writeStates(ctx context.Context, log store.AuditLog, lines *json.Encoder) error {
	states, err := log.States(ctx)
	slices.SortFunc(states, store.StoredState.Compare)
	for _, s := range states {
		if err == nil {
			err = lines.Encode(exportState{s.Type, s.ID, s.Digest})
		}
	}
	return err
}

// progressRecords is how many records are exported between two reports of progress.
const progressRecords = 500_000

// writeChain writes a chain without its records, and returns the head after which they begin.
func writeChain(ctx context.Context, log store.AuditLog, key audit.Public, head audit.Head, lines *json.Encoder) (
	start audit.Head, err error) {
	start = audit.Genesis(head.Chain)
	c := exportChain{Chain: head.Chain, Head: exportHead{head.Seq, head.Hash[:]}, Edge: []exportTile{}}
	anchors, err := log.Anchors(ctx, head.Chain, key)
	if n := len(anchors); n > 0 {
		start = anchors[n-1].Head
	}
	if err == nil {
		c.Anchors, err = log.AnchorNotes(ctx, head.Chain)
	}
	if err == nil {
		c.Checkpoints, err = log.Checkpoints(ctx, head.Chain, 0)
	}
	var trees map[int]store.Tree
	if err == nil {
		trees, err = log.Trees(ctx)
	}
	if err != nil {
		return start, err
	}
	if tree, ok := trees[head.Chain]; ok {
		c.Tree = &exportTree{tree.After, tree.First, tree.Size, tree.Root[:]}
		ids := audit.Edge(start.Seq + 1 - tree.First)
		tiles, err := log.Tiles(ctx, head.Chain, ids)
		if err != nil {
			return start, err
		}
		for i, id := range ids {
			hashes := tiles[i][:min(len(tiles[i]), id.Width*len(audit.Hash{}))]
			c.Edge = append(c.Edge, exportTile{id.Level, id.Index, hashes})
		}
	}
	return start, lines.Encode(c)
}

// exported returns the line of a record.
func exported(row audit.Row) exportRecord {
	line := exportRecord{Seq: row.Seq, Leaf: row.Leaf[:], Hash: row.Hash[:],
		Record: receipt.NewRecord(row.Nonce, row.Record)}
	for _, e := range row.Erased {
		line.Erased = append(line.Erased, exportErased{e.Seq, e.Leaf[:]})
	}
	return line
}
