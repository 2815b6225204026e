package auditlog

import (
	"context"
	"strings"

	"assay/host/audit"
	"assay/host/store"
)

// Files are the public files of the trees (C2SP tlog-tiles), by chain. They contain hashes, no records.
type Files struct{ Store *store.Store }

// AuditFile returns a chain's newest checkpoint, its keys (see audit.ParseKeys) or a tile, given its path, and whether
// it never changes. The content is nil if there is none.
func (f Files) AuditFile(ctx context.Context, chain int, path string) (content []byte, constant bool, err error) {
	if path == "checkpoint" {
		note, err := f.Store.NewestCheckpoint(ctx, chain)
		if note == "" {
			return nil, false, err
		}
		return []byte(note), false, err
	}
	if path == "keys" {
		trees, err := f.Store.Trees(ctx)
		tree, ok := trees[chain]
		if !ok && err != nil {
			return nil, false, err
		}
		tree.Chain = chain
		return []byte(Keys(f.Store.Signer().Public, tree.TreeHead)), false, nil
	}
	id, _ := audit.ParseTilePath(path)
	if id.Width == 0 { // not a path of a tile
		return nil, false, nil
	}
	tiles, err := f.Store.Tiles(ctx, chain, []audit.TileID{id})
	if n := id.Width * len(audit.Hash{}); err == nil && len(tiles[0]) >= n {
		return tiles[0][:n], id.Width == audit.TileWidth, nil
	}
	return nil, false, err
}

// Keys returns the keys of trees as a file that audit.ParseKeys reads.
func Keys(key audit.Public, trees ...audit.TreeHead) string {
	var lines []string
	for _, tree := range trees {
		lines = append(lines, key.TreeKeys(tree)...)
	}
	for _, statement := range key.Statements() {
		lines = append(lines, "", strings.TrimSuffix(statement, "\n"))
	}
	return strings.Join(lines, "\n") + "\n"
}
