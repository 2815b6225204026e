package audit

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/mod/sumdb/tlog"
)

// TreeHead is the head of the Merkle tree (RFC 6962) over a chain's leaves.
type TreeHead struct {
	Chain int
	After int64 // number of the record that accepts the chain's last loss; 0: none. It is part of the tree's origin
	Size  int64 // number of leaves
	Root  Hash
}

// EmptyRoot is the root of a tree without leaves (RFC 6962, section 2.1).
var EmptyRoot = Hash(sha256.Sum256(nil))

// Tiles have 256 hashes (C2SP tlog-tiles).
const (
	tileHeight = 8
	TileWidth  = 1 << tileHeight
)

// TileID names the first Width hashes of a tile: those of the subtrees with 256^Level leaves each, from number
// Index*256 on.
type TileID struct {
	Level int   // 0 to 7
	Index int64 // from 0
	Width int   // 1 to TileWidth
}

// Path returns the tile's path (C2SP tlog-tiles), such as "tile/0/x001/067.p/8".
func (id TileID) Path() string {
	path := tlog.Tile{H: tileHeight, L: id.Level, N: id.Index, W: id.Width}.Path()
	return "tile/" + strings.TrimPrefix(path, fmt.Sprintf("tile/%d/", tileHeight))
}

// ParseTilePath parses the path of a tile of hashes. A path has one valid form.
func ParseTilePath(path string) (TileID, error) {
	rest, ok := strings.CutPrefix(path, "tile/")
	// The longest number is below 2^63, so that tlog's arithmetic does not overflow.
	if !ok || strings.HasPrefix(rest, "data/") || len(rest) > 40 {
		return TileID{}, fmt.Errorf("%q is not the path of a tile", path)
	}
	t, err := tlog.ParseTilePath(fmt.Sprintf("tile/%d/%s", tileHeight, rest))
	if err != nil || t.L >= 64/tileHeight || t.N >= 1<<max(0, 63-tileHeight*(t.L+1)) {
		return TileID{}, fmt.Errorf("%q is not the path of a tile", path)
	}
	return TileID{t.L, t.N, t.W}, nil
}

// Tile is a tile with its hashes, Width times 32 bytes.
type Tile struct {
	TileID
	Hashes []byte
}

// ReadTiles returns the hashes of each tile, Width times 32 bytes. It may return fewer or none for a tile that is not
// stored.
type ReadTiles func(ids []TileID) ([][]byte, error)

// Tree is a Merkle tree to which leaves are appended. It keeps only its right edge in memory: one tile per level.
type Tree struct {
	size  int64
	edge  [][]byte // by level: the hashes of the tile that is not full
	first []int    // by level: how many of these Take has returned
	full  []Tile   // since Take
}

// ErrTiles means that stored tiles are missing or contradict each other.
var ErrTiles = errors.New("stored tiles of the Merkle tree are missing or differ from its head")

// Edge returns the tiles on the right edge of a tree of size leaves that are not full: OpenTree reads these.
func Edge(size int64) (ids []TileID) {
	for level := 0; size > 0; level++ {
		if width := int(size % TileWidth); width > 0 {
			ids = append(ids, TileID{level, size / TileWidth, width})
		}
		size /= TileWidth
	}
	return ids
}

// OpenTree returns the tree of the first size leaves. It reads only tiles on its right edge, and does not verify them:
// compare Root with a known head. The error is ErrTiles if a tile is missing.
func OpenTree(size int64, read ReadTiles) (*Tree, error) {
	t := &Tree{size: size}
	ids := Edge(size)
	if len(ids) == 0 {
		return t, nil
	}
	tiles, err := readTiles(ids, read)
	if err != nil {
		return nil, err
	}
	for i, id := range ids {
		t.level(id.Level)
		t.edge[id.Level], t.first[id.Level] = append([]byte(nil), tiles[i]...), id.Width
	}
	return t, nil
}

// readTiles returns hashes of the width that each id asks for.
func readTiles(ids []TileID, read ReadTiles) ([][]byte, error) {
	tiles, err := read(ids)
	if err != nil {
		return nil, err
	}
	if len(tiles) != len(ids) {
		return nil, ErrTiles
	}
	for i, id := range ids {
		n := id.Width * len(Hash{})
		if len(tiles[i]) < n {
			return nil, fmt.Errorf("%w: %s", ErrTiles, id.Path())
		}
		tiles[i] = tiles[i][:n]
	}
	return tiles, nil
}

// level makes room for a level and those below it.
func (t *Tree) level(n int) {
	for len(t.edge) <= n {
		t.edge, t.first = append(t.edge, nil), append(t.first, 0)
	}
}

// Size returns the number of leaves.
func (t *Tree) Size() int64 { return t.size }

// Append adds a leaf.
func (t *Tree) Append(leaf Hash) {
	t.size++
	for n, index := 0, (t.size-1)/TileWidth; ; n, index = n+1, index/TileWidth {
		t.level(n)
		t.edge[n] = append(t.edge[n], leaf[:]...)
		if len(t.edge[n]) < TileWidth*len(leaf) {
			return
		}
		t.full = append(t.full, Tile{TileID{n, index, TileWidth}, t.edge[n]})
		leaf = subtree(t.edge[n])
		t.edge[n], t.first[n] = nil, 0
	}
}

// subtree returns the root of a complete subtree, given its lowest hashes, whose number is a power of two.
func subtree(hashes []byte) Hash {
	level := append(make([]byte, 0, TileWidth*sha256.Size), hashes...)
	var node [1 + 2*sha256.Size]byte
	node[0] = 0x01
	for n := len(level) / sha256.Size; n > 1; n /= 2 {
		for i := range n / 2 {
			copy(node[1:], level[2*i*sha256.Size:2*(i+1)*sha256.Size])
			sum := sha256.Sum256(node[:])
			copy(level[i*sha256.Size:], sum[:])
		}
	}
	return Hash(level[:sha256.Size])
}

// Root returns the root of the tree.
func (t *Tree) Root() Hash {
	var root Hash
	empty := true
	for _, hashes := range t.edge {
		for n := len(hashes) / sha256.Size; n > 0; n &= n - 1 {
			last := n & -n // the smallest complete subtree is the rightmost one
			left := subtree(hashes[(n-last)*sha256.Size : n*sha256.Size])
			if empty {
				root, empty = left, false
			} else {
				root = Hash(tlog.NodeHash(tlog.Hash(left), tlog.Hash(root)))
			}
		}
	}
	if empty {
		return EmptyRoot
	}
	return root
}

// Head returns the tree's head for the given chain.
func (t *Tree) Head(chain int) TreeHead { return TreeHead{Chain: chain, Size: t.size, Root: t.Root()} }

// Full returns how many full tiles Take would return.
func (t *Tree) Full() int { return len(t.full) }

// Take returns the tiles that are new or longer since the last call.
func (t *Tree) Take() []Tile {
	tiles := t.full
	t.full = nil
	for _, id := range Edge(t.size) {
		if id.Width > t.first[id.Level] {
			t.first[id.Level] = id.Width
			tiles = append(tiles, Tile{id, append([]byte(nil), t.edge[id.Level]...)})
		}
	}
	return tiles
}
