package audit

import (
	"fmt"

	"golang.org/x/mod/sumdb/tlog"
)

// ProveInclusion returns the proof (RFC 6962, section 2.1.1) that leaf index is in a tree. The tiles that it reads are
// verified with the head. The error is ErrTiles if one is missing.
func ProveInclusion(head TreeHead, index int64, read ReadTiles) (_ []Hash, err error) {
	defer concluding("proving inclusion", &err)
	if index < 0 || index >= head.Size {
		return nil, fmt.Errorf("leaf %d is outside a tree of %d leaves", index, head.Size)
	}
	proof, err := tlog.ProveRecord(head.Size, index, verified(head, read))
	return convert[Hash](proof), err
}

// CheckInclusion verifies the proof that a leaf is in a tree.
func CheckInclusion(head TreeHead, index int64, leaf Hash, proof []Hash) (err error) {
	defer concluding("verifying inclusion", &err)
	return tlog.CheckRecord(convert[tlog.Hash](proof), head.Size, tlog.Hash(head.Root), index, tlog.Hash(leaf))
}

// ProveConsistency returns the proof (RFC 6962, section 2.1.2) that the tree of the first size leaves is the beginning
// of a tree. It is empty if size is 0. The tiles that it reads are verified with the head. The error is ErrTiles if one
// is missing.
func ProveConsistency(size int64, head TreeHead, read ReadTiles) (_ []Hash, err error) {
	defer concluding("proving consistency", &err)
	if size < 0 || size > head.Size {
		return nil, fmt.Errorf("a tree of %d leaves cannot begin one of %d", size, head.Size)
	}
	if size == 0 {
		return nil, nil
	}
	proof, err := tlog.ProveTree(head.Size, size, verified(head, read))
	return convert[Hash](proof), err
}

// CheckConsistency verifies the proof that a tree is the beginning of another. An empty tree begins every tree.
func CheckConsistency(older, newer TreeHead, proof []Hash) (err error) {
	defer concluding("verifying consistency", &err)
	if older.Size == 0 && len(proof) == 0 {
		return nil
	}
	return tlog.CheckTree(convert[tlog.Hash](proof), newer.Size, tlog.Hash(newer.Root), older.Size,
		tlog.Hash(older.Root))
}

func convert[To, From ~[32]byte](hashes []From) []To {
	converted := make([]To, len(hashes))
	for i, h := range hashes {
		converted[i] = To(h)
	}
	return converted
}

// verified returns a reader that verifies each tile with the head of the tree.
func verified(head TreeHead, read ReadTiles) tlog.HashReader {
	return tlog.TileHashReader(tlog.Tree{N: head.Size, Hash: tlog.Hash(head.Root)}, tileReader(read))
}

// tileReader implements tlog.TileReader.
type tileReader ReadTiles

func (tileReader) Height() int { return tileHeight }

func (tileReader) SaveTiles([]tlog.Tile, [][]byte) {}

func (r tileReader) ReadTiles(tiles []tlog.Tile) ([][]byte, error) {
	ids := make([]TileID, len(tiles))
	for i, t := range tiles {
		ids[i] = TileID{t.L, t.N, t.W}
	}
	return readTiles(ids, ReadTiles(r))
}
