package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"assay/host/entity"
	"assay/host/eval"
	"assay/plugins/internal/suffix"
	"assay/plugins/patterns/feature"
	"assay/sdk"
)

// row is one labelled domain.
type row struct {
	bad      bool
	source   string
	category string
	family   string  // of the source, see familyOf
	site     string  // the registrable domain, or the site under a shared host: never on both sides of a split
	target   bool    // of the files whose mix of sources is the one to be good at
	weight   float64 // in training
	host     suffix.Host
	name     *feature.Name
}

// readFile reads the labelled domains of a file of JSON lines, plain or gzipped. Rows of other types are left out.
// skipped counts values that no check would take, and those under suffixes of public bodies, of which the layer says
// nothing.
func readFile(path string, target bool) (rows []*row, skipped int, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, 0, fmt.Errorf("reading labelled rows: %w", err)
	}
	defer f.Close()
	labelled, faults, err := eval.Read(f, entity.Domain)
	if err != nil {
		return nil, 0, fmt.Errorf("reading %s: %w", path, err)
	}
	if len(faults) > 0 {
		return nil, 0, fmt.Errorf("reading %s: %w", path, faults[0])
	}
	for _, l := range labelled {
		if l.Type != entity.Domain {
			continue
		}
		r, err := parse(l, target)
		switch {
		case errors.As(err, new(*entity.InvalidError)) || errors.Is(err, errUnjudged):
			skipped++
		case err != nil:
			return nil, 0, fmt.Errorf("reading %s: %s: %w", path, l.Value, err)
		default:
			rows = append(rows, r)
		}
	}
	return rows, skipped, nil
}

var errUnjudged = errors.New("is nothing that the layer judges")

func parse(l eval.Row, target bool) (*row, error) {
	e, err := entity.Parse(entity.Domain, l.Value, "")
	if err != nil {
		return nil, err
	}
	r := &row{bad: l.Malicious, source: l.Source, category: l.Category, family: familyOf(l), target: target,
		name: new(feature.Name)}
	var named bool
	sdk.Run(func(c *sdk.Check) sdk.Outcome { // reads the facts as the layer does
		r.host, named = suffix.Read(c)
		return sdk.Scored
	}, sdk.Facts(e.Facts))
	if !named || !r.host.Private && suffix.Restricted(r.host.Suffix) {
		return nil, errUnjudged
	}
	r.site = r.host.Name + "." + r.host.Suffix
	r.name.Read(&r.host)
	return r, nil
}

// familyOf names the family of a row's source: lists of one publisher copy from each other, and share the name's first
// word.
func familyOf(l eval.Row) string {
	first, _, _ := strings.Cut(l.Source, "_")
	return side(l.Malicious) + " " + first
}

func side(bad bool) string {
	if bad {
		return "bad"
	}
	return "good"
}

// distinct drops every row whose site an earlier row has.
func distinct(rows []*row) []*row {
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

// targetWeight is what a target row counts in training, against the pool's average row.
const targetWeight = 3

// weigh sets the rows' weights so that the pool counts as if it had the target files' mix of sources, and of shared
// hosts among good and bad rows: a source that is large only because its publisher is diligent does not drown the
// others.
func weigh(rows []*row) {
	for _, r := range rows {
		r.weight = 1
	}
	for _, key := range []func(*row) string{
		func(r *row) string { return r.source + " " + side(r.bad) },
		func(r *row) string { return fmt.Sprint(r.bad, r.host.OnSharedHosting()) },
	} {
		target, pool := map[string]float64{}, map[string]float64{}
		var ofTarget, ofPool float64
		for _, r := range rows {
			if r.target {
				target[key(r)] += r.weight
				ofTarget += r.weight
			} else {
				pool[key(r)] += r.weight
				ofPool += r.weight
			}
		}
		if ofTarget == 0 || ofPool == 0 {
			break
		}
		for _, r := range rows {
			if !r.target {
				r.weight *= max(target[key(r)], 0.5) / ofTarget / (pool[key(r)] / ofPool)
			}
		}
	}
	for _, r := range rows {
		if r.target {
			r.weight = targetWeight
		}
	}
}
