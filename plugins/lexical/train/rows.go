package main

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"assay/host/entity"
	"assay/plugins/lexical/ngram"
	"assay/plugins/suffix"
	"assay/sdk"
)

// row is one labelled domain.
type row struct {
	bad      bool
	source   string
	category string
	site     string // the registrable domain, or the site under a shared host: never on both sides of a split
	address  ngram.Address
	target   bool    // of the files whose mix of sources is the one to be good at
	lent     bool    // made up in training: see exonerate and settle
	weight   float32 // in training
	features []uint32
}

// line is a row as its file gives it. Other fields are not read.
type line struct {
	Type     entity.Type `json:"type"`
	Value    string      `json:"value"`
	Label    *int        `json:"label"`
	Source   string      `json:"source"`
	Category string      `json:"category"`
}

// readFile reads the labelled domains of a file of JSON lines, gzipped when its name ends in .gz. Rows of other types are
// left out; a missing type is a domain. skipped counts values that no check would take. Errors name file and line.
func readFile(path string, target bool) (rows []row, skipped int, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, 0, fmt.Errorf("reading labelled rows: %w", err)
	}
	defer f.Close()
	var r io.Reader = f
	if strings.HasSuffix(path, ".gz") {
		zip, err := gzip.NewReader(f)
		if err != nil {
			return nil, 0, fmt.Errorf("unpacking %s: %w", path, err)
		}
		r = zip
	}
	rows, skipped, err = readRows(r, target)
	if err != nil {
		return nil, 0, fmt.Errorf("reading %s: %w", path, err)
	}
	return rows, skipped, nil
}

func readRows(r io.Reader, target bool) (rows []row, skipped int, err error) {
	scan := bufio.NewScanner(r)
	n := 0
	for scan.Scan() {
		n++
		if strings.TrimSpace(scan.Text()) == "" {
			continue
		}
		var l line
		if err := json.Unmarshal(scan.Bytes(), &l); err != nil {
			return nil, 0, fmt.Errorf("line %d: %w", n, err)
		}
		switch {
		case l.Label == nil || *l.Label != 0 && *l.Label != 1:
			return nil, 0, fmt.Errorf("line %d: label: want 0 (benign) or 1 (malicious)", n)
		case l.Value == "":
			return nil, 0, fmt.Errorf("line %d: value: is missing", n)
		case l.Source == "":
			return nil, 0, fmt.Errorf("line %d: source: is missing", n)
		case l.Type != "" && l.Type != entity.Domain:
			continue
		}
		read, err := parse(l, target)
		switch {
		case errors.As(err, new(*entity.InvalidError)) || errors.Is(err, errNoName):
			skipped++
		case err != nil:
			return nil, 0, fmt.Errorf("line %d: %w", n, err)
		default:
			rows = append(rows, read)
		}
	}
	if err := scan.Err(); err != nil {
		return nil, 0, fmt.Errorf("line %d: %w", n+1, err)
	}
	return rows, skipped, nil
}

var errNoName = errors.New("is itself a public suffix")

func parse(l line, target bool) (row, error) {
	e, err := entity.Parse(entity.Domain, l.Value, "")
	if err != nil {
		return row{}, err
	}
	r := row{bad: *l.Label == 1, source: l.Source, category: l.Category, target: target}
	var host suffix.Host
	var named bool
	sdk.Run(func(c *sdk.Check) sdk.Outcome { // reads the facts as the layer does
		host, named = suffix.Read(c)
		return sdk.Scored
	}, sdk.Facts(e.Facts))
	if !named {
		return row{}, errNoName
	}
	r.address = ngram.Of(&host)
	r.site = r.address.Name + "." + r.address.Suffix
	r.read()
	return r, nil
}

// read takes the row's features from its address.
func (r *row) read() {
	var space [ngram.MaxFeatures]ngram.Feature
	found := r.address.Features(space[:0])
	r.features = make([]uint32, len(found))
	for i, f := range found {
		r.features[i] = f.Hash
	}
}

// distinct drops every row whose site an earlier row has.
func distinct(rows []row) []row {
	seen := make(map[string]bool, len(rows))
	kept := rows[:0]
	for _, r := range rows {
		if !seen[r.site] {
			seen[r.site] = true
			kept = append(kept, r)
		}
	}
	return kept
}
