package store

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/uptrace/bun"

	"assay/host/audit"
)

// Tree is the stored Merkle tree of an audit chain.
type Tree struct {
	audit.TreeHead
	First int64         // number of the record that is leaf 0
	Age   time.Duration // since it last grew
}

// Last returns the number of the last record in the tree.
func (t Tree) Last() int64 { return t.First + t.Size - 1 }

// NewTree returns the tree of a chain as it was stored. It reports false if no host can have stored it so.
func NewTree(chain int, after, first, size int64, root []byte) (Tree, bool) {
	if len(root) != len(audit.Hash{}) || size < 0 || after < 0 || first < 1 || first > math.MaxInt64-size {
		return Tree{}, false
	}
	return Tree{TreeHead: audit.TreeHead{Chain: chain, After: after, Size: size, Root: audit.Hash(root)}, First: first},
		true
}

// Trees returns the trees by chain, and a Damaged for those that it leaves out.
func (l AuditLog) Trees(ctx context.Context) (map[int]Tree, error) {
	var rows []struct {
		Chain              int
		After, First, Size int64
		Root               []byte
		Age                float64 // seconds
	}
	err := l.db.NewRaw(`SELECT chain, after, first_seq AS first, size, root,
			least(extract(epoch FROM clock_timestamp() - greatest(grown_at, '2000-01-01')), 1e9)::float8 AS age
		FROM audit_trees ORDER BY chain`).Scan(ctx, &rows)
	if err != nil {
		return nil, fmt.Errorf("reading Merkle trees: %w", err)
	}
	trees := make(map[int]Tree, len(rows))
	var damaged Damaged
	for _, r := range rows {
		tree, ok := NewTree(r.Chain, r.After, r.First, r.Size, r.Root)
		if !ok {
			damaged = append(damaged, &audit.BreakError{Chain: r.Chain, Seq: r.First,
				Reason: "the row of its Merkle tree was altered"})
			continue
		}
		tree.Age = time.Duration(r.Age * float64(time.Second))
		trees[r.Chain] = tree
	}
	return trees, damaged.Err()
}

// StartTree creates a chain's tree, unless it exists. Its leaf 0 will be the record with number first.
func (s *Store) StartTree(ctx context.Context, chain int, first int64) error {
	_, err := s.db.NewRaw(`INSERT INTO audit_trees (chain, first_seq, root) VALUES (?, ?, ?) ON CONFLICT DO NOTHING`,
		chain, first, audit.EmptyRoot[:]).Exec(ctx)
	return wrap(err, "starting the Merkle tree of audit chain %d", chain)
}

// GrowTree extends a chain's stored tree from one head to another, with the tiles that are new or longer. It reports
// false if the stored tree has another head. A stored tile is never overwritten: if one is not the beginning of the new
// one, the error is an *audit.BreakError.
func (s *Store) GrowTree(ctx context.Context, from, to audit.TreeHead, tiles []audit.Tile) (bool, error) {
	grown, err := callFunction(ctx, s.db, "audit_grow", int32(from.Chain), from.Size, from.Root[:], to.Size, to.Root[:],
		column(tiles, func(t audit.Tile) int32 { return int32(t.Level) }),
		column(tiles, func(t audit.Tile) int64 { return t.Index }),
		column(tiles, func(t audit.Tile) []byte { return t.Hashes }))
	if sqlState(err) == dataCorrupted {
		return false, &audit.BreakError{Chain: from.Chain, Seq: from.Size,
			Reason: "a stored tile of its Merkle tree differs from the records"}
	}
	return grown, wrap(err, "extending the Merkle tree of audit chain %d", from.Chain)
}

// dataCorrupted is the SQLSTATE with which audit_grow refuses to overwrite a tile.
const dataCorrupted = "XX001"

// Leaves returns the leaves of the records with from <= number <= until, at most limit, in order. The error is an
// *audit.BreakError if one is missing, stored twice, or not 32 bytes long.
func (s *Store) Leaves(ctx context.Context, chain int, from, until int64, limit int) ([]audit.Hash, error) {
	var rows []struct {
		Seq  int64
		Leaf []byte
	}
	err := s.db.NewRaw(`SELECT seq, leaf FROM ? WHERE chain = ? AND seq BETWEEN ? AND ?
		ORDER BY seq LIMIT ?`, recordsOf(chain), chain, from, until, limit).Scan(ctx, &rows)
	if err != nil {
		return nil, fmt.Errorf("reading leaves of audit chain %d: %w", chain, err)
	}
	leaves := make([]audit.Hash, len(rows))
	for i, r := range rows {
		switch {
		case r.Seq != from+int64(i):
			return nil, &audit.BreakError{Chain: chain, Seq: from + int64(i),
				Reason: "the record is missing or stored twice, so the Merkle tree cannot grow"}
		case len(r.Leaf) != len(audit.Hash{}):
			return nil, &audit.BreakError{Chain: chain, Seq: r.Seq, Reason: badLength}
		}
		leaves[i] = audit.Hash(r.Leaf)
	}
	return leaves, nil
}

// RecordedAt returns the time of a record.
func (s *Store) RecordedAt(ctx context.Context, chain int, seq int64) (at time.Time, err error) {
	err = s.db.NewRaw("SELECT recorded_at FROM ? WHERE chain = ? AND seq = ?", recordsOf(chain), chain, seq).
		Scan(ctx, &at)
	return at, wrap(err, "reading the time of record %d of audit chain %d", seq, chain)
}

// Tiles returns the hashes of tiles, as they are stored: more than asked for, fewer, or nil.
func (l AuditLog) Tiles(ctx context.Context, chain int, ids []audit.TileID) ([][]byte, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	tuples := column(ids, func(id audit.TileID) string { return fmt.Sprintf("(%d, %d)", id.Level, id.Index) })
	var rows []struct {
		Level  int
		Index  int64
		Hashes []byte
	}
	err := l.db.NewRaw(`SELECT level, place AS index, hashes FROM audit_tiles
		WHERE chain = ? AND (level, place) IN (?)`, chain, bun.Safe(strings.Join(tuples, ", "))).Scan(ctx, &rows)
	stored := make(map[audit.TileID][]byte, len(rows))
	for _, r := range rows {
		stored[audit.TileID{Level: r.Level, Index: r.Index}] = r.Hashes
	}
	return column(ids, func(id audit.TileID) []byte {
		return stored[audit.TileID{Level: id.Level, Index: id.Index}]
	}), wrap(err, "reading tiles of audit chain %d", chain)
}

// pruneTiles deletes a chain's tiles whose leaves all belong to records up to its anchor. Upper levels are kept,
// because the proofs of later records need them.
func (s *Store) pruneTiles(ctx context.Context, anchor audit.Anchor) error {
	_, err := s.db.NewRaw(`DELETE FROM audit_tiles AS t USING audit_trees AS tree
		WHERE tree.chain = ?0 AND t.chain = ?0 AND t.level = 0 AND t.place < (?1 + 1 - tree.first_seq) / ?2`,
		anchor.Chain, anchor.Seq, audit.TileWidth).Exec(ctx)
	return err
}
