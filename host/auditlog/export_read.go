package auditlog

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"

	"github.com/go-json-experiment/json"

	"assay/host/audit"
	"assay/host/store"
)

// Export is an exported audit log. It implements Log, and reads the records from the file each time.
type Export struct {
	file       io.ReaderAt
	statements []string
	chains     []exportedChain // ascending
	states     []store.StoredState
}

// exportedChain is a chain of an export and the place of its records in the file.
type exportedChain struct {
	exportChain
	from, until int64 // bytes
	records     int64
}

// ErrExport means that a file is not a complete export.
var ErrExport = errors.New("the file is not a complete export of an audit log")

// strict rejects members that are not verified, such as "Score" next to "score", so that nobody relies on them.
var strict = json.RejectUnknownMembers(true)

// maxExportLine bounds a line, in bytes. The longest is an erasure's, which names each record that it erased.
const maxExportLine = 256 << 20

// OpenExport reads the places of the chains in an export of size bytes. The error is ErrExport if the file is not one,
// or was cut off.
func OpenExport(file io.ReaderAt, size int64) (*Export, error) {
	e := &Export{file: file}
	lines, at := exportLines(file, 0, size), int64(0)
	var header exportHeader
	if !lines.Scan() || json.Unmarshal(lines.Bytes(), &header, strict) != nil || header.Format != exportFormat {
		return nil, fmt.Errorf("reading export: %w: its first line is not that of %s", ErrExport, exportFormat)
	}
	e.statements = header.Statements
	at += int64(len(lines.Bytes())) + 1
	var end exportEnd
	records := int64(0)
	for number := 2; lines.Scan(); number++ {
		line := lines.Bytes()
		next := at + int64(len(line)) + 1
		n := len(e.chains)
		var err error
		switch {
		case end.End:
			err = errors.New("it follows the end")
		case bytes.HasPrefix(line, []byte(`{"state":`)):
			err = e.addState(line)
		case len(e.states) > 0 && !bytes.HasPrefix(line, []byte(`{"records":`)):
			err = errors.New("it follows the stored states")
		case bytes.HasPrefix(line, []byte(`{"chain":`)):
			c := exportedChain{from: next, until: next}
			err = json.Unmarshal(line, &c.exportChain, strict)
			if n > 0 && c.Chain <= e.chains[n-1].Chain {
				err = errors.New("the chains are not in ascending order")
			}
			e.chains = append(e.chains, c)
		case bytes.HasPrefix(line, []byte(`{"records":`)):
			err = json.Unmarshal(line, &end, strict)
		case n == 0:
			err = errors.New("it belongs to no chain")
		default:
			e.chains[n-1].until = next
			e.chains[n-1].records++
			records++
		}
		if err != nil {
			return nil, fmt.Errorf("reading export: %w: line %d: %w", ErrExport, number, err)
		}
		at = next
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("reading export: %w", err)
	}
	if !end.End || end.Records != records {
		return nil, fmt.Errorf("reading export: %w: it has %d records, and its last line does not say so", ErrExport,
			records)
	}
	return e, nil
}

func (e *Export) addState(line []byte) error {
	var s exportState
	if err := json.Unmarshal(line, &s, strict); err != nil {
		return err
	}
	state := store.StoredState{Type: s.State, ID: s.ID, Digest: s.Digest}
	if n := len(e.states); n > 0 && e.states[n-1].Compare(state) >= 0 {
		return errors.New("the stored states are not in ascending order")
	}
	e.states = append(e.states, state)
	return nil
}

// States implements Log.
func (e *Export) States(context.Context) ([]store.StoredState, error) { return e.states, nil }

func exportLines(file io.ReaderAt, from, until int64) *bufio.Scanner {
	lines := bufio.NewScanner(io.NewSectionReader(file, from, until-from))
	lines.Buffer(make([]byte, 0, 1<<16), maxExportLine)
	return lines
}

// find returns a chain, or an empty one.
func (e *Export) find(chain int) exportedChain {
	for _, c := range e.chains {
		if c.Chain == chain {
			return c
		}
	}
	return exportedChain{}
}

// KeyStatements implements Log.
func (e *Export) KeyStatements(context.Context) ([]string, error) { return e.statements, nil }

// Chains implements Log.
func (e *Export) Chains(context.Context) (heads []audit.Head, err error) {
	var damaged store.Damaged
	for _, c := range e.chains {
		if len(c.Head.Hash) != len(audit.Hash{}) {
			damaged = append(damaged, &audit.BreakError{Chain: c.Chain, Seq: c.Head.Seq,
				Reason: "the head's hash is not 32 bytes long"})
			continue
		}
		heads = append(heads, audit.Head{Chain: c.Chain, Seq: c.Head.Seq, Hash: audit.Hash(c.Head.Hash)})
	}
	return heads, damaged.Err()
}

// Anchors implements Log.
func (e *Export) Anchors(_ context.Context, chain int, key audit.Public) (anchors []audit.Anchor, err error) {
	last := int64(-1)
	for _, note := range e.find(chain).exportChain.Anchors {
		anchor, err := key.OpenAnchor(note)
		if err != nil || anchor.Chain != chain || anchor.Seq <= last {
			return nil, &audit.BreakError{Chain: chain, Seq: last + 1,
				Reason: "an anchor here was not signed by the installation's key, or is not in its place"}
		}
		anchors, last = append(anchors, anchor), anchor.Seq
	}
	return anchors, nil
}

// Rows implements Log. It yields all records of the chain, because an export begins with the newest anchor.
func (e *Export) Rows(_ context.Context, chain int, _, _ int64) iter.Seq2[audit.Row, error] {
	return func(yield func(audit.Row, error) bool) {
		c := e.find(chain)
		lines := exportLines(e.file, c.from, c.until)
		for lines.Scan() {
			var r exportRecord
			err := json.Unmarshal(lines.Bytes(), &r, strict)
			if err == nil && (len(r.Leaf) != len(audit.Hash{}) || len(r.Hash) != len(audit.Hash{})) {
				err = errors.New("its leaf or hash is not 32 bytes long")
			}
			var row audit.Row
			if err == nil {
				row, err = r.row()
			}
			if err != nil {
				yield(audit.Row{}, &audit.BreakError{Chain: chain, Seq: r.Seq, Reason: err.Error()})
				return
			}
			if !yield(row, nil) {
				return
			}
		}
		if err := lines.Err(); err != nil {
			yield(audit.Row{}, fmt.Errorf("reading export: %w", err))
		}
	}
}

// row returns the record of a line whose leaf and hash have the right length.
func (r exportRecord) row() (audit.Row, error) {
	row := audit.Row{Seq: r.Seq, Leaf: audit.Hash(r.Leaf), Hash: audit.Hash(r.Hash), Nonce: r.Nonce,
		Record: r.Content()}
	for _, erased := range r.Erased {
		if len(erased.Leaf) != len(audit.Hash{}) {
			return row, errors.New("a leaf in its list of erased records is not 32 bytes long")
		}
		row.Erased = append(row.Erased, audit.Erased{Seq: erased.Seq, Leaf: audit.Hash(erased.Leaf)})
	}
	return row, nil
}

// Trees implements Log.
func (e *Export) Trees(context.Context) (map[int]store.Tree, error) {
	trees := map[int]store.Tree{}
	var damaged store.Damaged
	for _, c := range e.chains {
		t := c.Tree
		if t == nil {
			continue
		}
		tree, ok := store.NewTree(c.Chain, t.After, t.First, t.Size, t.Root)
		if !ok {
			damaged = append(damaged, &audit.BreakError{Chain: c.Chain, Seq: t.First,
				Reason: "its Merkle tree was altered"})
			continue
		}
		trees[c.Chain] = tree
	}
	return trees, damaged.Err()
}

// Checkpoints implements Log. It returns all checkpoints of the chain.
func (e *Export) Checkpoints(_ context.Context, chain int, _ int64) ([]string, error) {
	return e.find(chain).exportChain.Checkpoints, nil
}

// Tiles implements Log.
func (e *Export) Tiles(_ context.Context, chain int, ids []audit.TileID) ([][]byte, error) {
	edge, tiles := e.find(chain).Edge, make([][]byte, len(ids))
	for i, id := range ids {
		at := slices.IndexFunc(edge, func(t exportTile) bool { return t.Level == id.Level && t.Index == id.Index })
		if at >= 0 {
			tiles[i] = edge[at].Hashes
		}
	}
	return tiles, nil
}
