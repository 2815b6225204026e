package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"assay/host/entity"
	"assay/host/eval"
	"assay/plugins/internal/suffix"
	"assay/plugins/lexical/ngram"
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

// readFile reads the labelled domains of a file of JSON lines, plain or gzipped. Rows of other types are left out.
// skipped counts values that no check would take. Errors name file and line.
func readFile(path string, target bool) (rows []row, skipped int, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, 0, fmt.Errorf("reading labelled rows: %w", err)
	}
	defer f.Close()
	rows, skipped, err = readRows(f, target)
	if err != nil {
		return nil, 0, fmt.Errorf("reading %s: %w", path, err)
	}
	return rows, skipped, nil
}

func readRows(in io.Reader, target bool) (rows []row, skipped int, err error) {
	labelled, faults, err := eval.Read(in, entity.Domain)
	if err != nil {
		return nil, 0, err
	}
	if len(faults) > 0 {
		return nil, 0, faults[0]
	}
	for _, l := range labelled {
		switch {
		case l.Type != entity.Domain:
			continue
		case l.Source == "":
			return nil, 0, fmt.Errorf("%s: source is missing", l.Value)
		}
		read, err := parse(l, target)
		switch {
		case errors.As(err, new(*entity.InvalidError)) || errors.Is(err, errNoName):
			skipped++
		case err != nil:
			return nil, 0, fmt.Errorf("%s: %w", l.Value, err)
		default:
			rows = append(rows, read)
		}
	}
	return rows, skipped, nil
}

var errNoName = errors.New("is itself a public suffix")

func parse(l eval.Row, target bool) (row, error) {
	e, err := entity.Parse(entity.Domain, l.Value, "")
	if err != nil {
		return row{}, err
	}
	r := row{bad: l.Malicious, source: l.Source, category: l.Category, target: target}
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
