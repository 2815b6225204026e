package audit_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"testing"

	"golang.org/x/mod/sumdb/tlog"

	"assay/host/audit"
	"assay/registry/expect"
)

// leaf returns a leaf that depends on n only.
func leaf(n int64) audit.Hash { return sha256.Sum256(binary.BigEndian.AppendUint64(nil, uint64(n))) }

// tiles stores tiles as the database does: a tile only grows.
type tiles map[audit.TileID][]byte

func (s tiles) keep(t testing.TB, added []audit.Tile) {
	t.Helper()
	for _, tile := range added {
		key := audit.TileID{Level: tile.Level, Index: tile.Index}
		expect.Must(t, len(tile.Hashes) == tile.Width*sha256.Size && bytes.HasPrefix(tile.Hashes, s[key]),
			"%s has %d hashes, or replaces others", tile.Path(), len(tile.Hashes)/sha256.Size)
		s[key] = tile.Hashes
	}
}

func (s tiles) read(ids []audit.TileID) (found [][]byte, err error) {
	for _, id := range ids {
		found = append(found, s[audit.TileID{Level: id.Level, Index: id.Index}])
	}
	return found, nil
}

// reference computes roots and proofs from all hashes of a tree, as package tlog stores them.
type reference []tlog.Hash

func (r *reference) add(t testing.TB, n int64) {
	t.Helper()
	*r = append(*r, must(tlog.StoredHashesForRecordHash(n, tlog.Hash(leaf(n)), *r))...)
}

func (r reference) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	hashes := make([]tlog.Hash, len(indexes))
	for i, x := range indexes {
		hashes[i] = r[x]
	}
	return hashes, nil
}

// grown returns the tiles and the reference of a tree of n leaves.
func grown(t testing.TB, n int64) (tiles, reference) {
	t.Helper()
	stored, all, tree := tiles{}, reference{}, &audit.Tree{}
	for i := range n {
		all.add(t, i)
		tree.Append(leaf(i))
		if i%97 == 0 { // leave partial tiles
			stored.keep(t, tree.Take())
		}
	}
	stored.keep(t, tree.Take())
	return stored, all
}

func (r reference) head(t testing.TB, size int64) audit.TreeHead {
	t.Helper()
	return audit.TreeHead{Chain: 3, Size: size, Root: audit.Hash(must(tlog.TreeHash(size, r)))}
}

// Sizes around the edges of tiles on the first three levels.
var sizes = []int64{0, 1, 2, 3, 7, 255, 256, 257, 511, 512, 65535, 65536, 65537, 65793, 66000}

func TestTreeAgreesWithTlog(t *testing.T) {
	t.Parallel()
	stored, all := grown(t, 66000)
	for _, size := range sizes {
		tree := must(audit.OpenTree(size, stored.read))
		got, want := tree.Head(3), all.head(t, size)
		expect.That(t, got == want, "opened with %d leaves, the tree has the head %+v, want %+v", size, got, want)
		if size == 66000 {
			continue
		}
		tree.Append(leaf(size))
		got, want = tree.Head(3), all.head(t, size+1)
		expect.That(t, got == want, "with leaf %d, the tree has the head %+v, want %+v", size, got, want)
	}
}

// The tiles to store are those that tlog names.
func TestTakeReturnsWhatGrew(t *testing.T) {
	t.Parallel()
	for _, from := range sizes {
		for _, n := range []int64{1, 256, 700} {
			stored, _ := grown(t, min(from, 1000)) // the tiles of larger trees have the same shape
			from := min(from, 1000)
			tree := must(audit.OpenTree(from, stored.read))
			for i := range n {
				tree.Append(leaf(from + i))
			}
			want := map[audit.TileID]bool{}
			for _, tile := range tlog.NewTiles(8, from, from+n) {
				want[audit.TileID{Level: tile.L, Index: tile.N, Width: tile.W}] = true
			}
			for _, tile := range tree.Take() {
				expect.That(t, want[tile.TileID], "from %d, %d more: unexpected tile %s", from, n, tile.Path())
				delete(want, tile.TileID)
			}
			expect.That(t, len(want) == 0 && len(tree.Take()) == 0,
				"from %d, %d more: missing %v, or tiles are returned twice", from, n, want)
		}
	}
}

func TestProofs(t *testing.T) {
	t.Parallel()
	stored, all := grown(t, 66000)
	for _, size := range sizes {
		head := all.head(t, size)
		for _, index := range []int64{0, 1, 255, 256, 65535, 65536, size - 1} {
			proof, err := audit.ProveInclusion(head, index, stored.read)
			if index < 0 || index >= size {
				expect.Failure(t, err, "leaf %d is proved to be in a tree of %d", index, size)
				continue
			}
			expect.NoError(t, err)
			expect.Error(t, fmt.Sprintf("leaf %d of %d", index, size),
				audit.CheckInclusion(head, index, leaf(index), proof), nil)
			expect.Failure(t, audit.CheckInclusion(head, index, leaf(index+1), proof),
				"leaf %d of %d is proved to be another", index, size)
		}
		for _, older := range sizes {
			proof, err := audit.ProveConsistency(older, head, stored.read)
			if older > size {
				expect.Failure(t, err, "a tree of %d is proved to be the beginning of one of %d", older, size)
				continue
			}
			expect.NoError(t, err)
			before := all.head(t, older)
			expect.Error(t, fmt.Sprintf("%d and %d leaves", older, size),
				audit.CheckConsistency(before, head, proof), nil)
			before.Root[0]++
			if err := audit.CheckConsistency(before, head, proof); err == nil && older > 0 {
				t.Errorf("a forged tree of %d is proved to be the beginning of one of %d", older, size)
			}
		}
	}
}

// Tiles come from a database that may have been altered.
func TestAlteredTilesProveNothing(t *testing.T) {
	t.Parallel()
	stored, all := grown(t, 1000)
	head := all.head(t, 1000)
	for id, hashes := range stored {
		hashes[len(hashes)-1] ^= 1
		proof, err := audit.ProveInclusion(head, id.Index*256%1000, stored.read)
		expect.That(t, err != nil || audit.CheckInclusion(head, id.Index*256%1000, leaf(id.Index*256%1000),
			proof) == nil, "with %+v altered, an invalid proof is returned", id)
		hashes[len(hashes)-1] ^= 1
	}
	delete(stored, audit.TileID{Level: 0, Index: 3})
	expect.Error(t, "a proof without its tile", expect.ErrorOf(audit.ProveInclusion(head, 999, stored.read)),
		audit.ErrTiles)
	expect.Error(t, "opening a tree without its edge", expect.ErrorOf(audit.OpenTree(1000, stored.read)),
		audit.ErrTiles)
	// The tiles without a retained leaf are pruned, and proofs of the others survive.
	stored, _ = grown(t, 1000)
	delete(stored, audit.TileID{Level: 0, Index: 0})
	delete(stored, audit.TileID{Level: 0, Index: 1})
	for _, index := range []int64{512, 999} {
		proof, err := audit.ProveInclusion(head, index, stored.read)
		expect.That(t, err == nil && audit.CheckInclusion(head, index, leaf(index), proof) == nil,
			"after pruning, leaf %d has no proof: %v", index, err)
	}
}

func TestTilePaths(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]audit.TileID{
		"tile/0/000":                {Width: 256},
		"tile/0/x001/067.p/8":       {Index: 1067, Width: 8},
		"tile/2/x123/x456/789":      {Level: 2, Index: 123456789, Width: 256},
		"tile/7/000.p/1":            {Level: 7, Width: 1},
		"tile/0/x000/000":           {}, // leading zeros
		"tile/0/0":                  {},
		"tile/0/000.p/0":            {},
		"tile/0/000.p/256":          {},
		"tile/00/000":               {},
		"tile/8/000":                {},
		"tile/data/000":             {},
		"tile/entries/000":          {},
		"checkpoint":                {},
		"tile/0/000/../000":         {},
		"tile/7/001":                {}, // leaves beyond 2^63
		"tile/0/x999/x999/x999/999": {Index: 999999999999, Width: 256},
		"tile/0/x999/x999/x999/x999/x999/x999/x999/x999/999": {},
	} {
		got, err := audit.ParseTilePath(path)
		expect.That(t, got == want && (err == nil) == (want.Width > 0), "%s is parsed as %+v, %v", path, got, err)
		expect.That(t, err != nil || got.Path() == path, "%s is written as %s", path, got.Path())
	}
}

func FuzzParseTilePath(f *testing.F) {
	f.Add("tile/0/x001/067.p/8")
	f.Fuzz(func(t *testing.T, path string) {
		if id, err := audit.ParseTilePath(path); err == nil && (id.Path() != path || id.Index < 0) {
			t.Errorf("%q is parsed as %+v, which is written %q", path, id, id.Path())
		}
	})
}
