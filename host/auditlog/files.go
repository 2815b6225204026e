package auditlog

import (
	"context"

	"assay/host/audit"
	"assay/host/store"
)

// Files are the public files of the trees (C2SP tlog-tiles), by chain. They contain hashes, no records.
type Files struct{ Store *store.Store }

// AuditFile returns a chain's newest checkpoint or a tile, given its path, and whether it never changes. The content is
// nil if there is none.
func (f Files) AuditFile(ctx context.Context, chain int, path string) (content []byte, constant bool, err error) {
	if path == "checkpoint" {
		note, err := f.Store.NewestCheckpoint(ctx, chain)
		if note == "" {
			return nil, false, err
		}
		return []byte(note), false, err
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
