package main

import (
	"assay/plugins/internal/train"
	"assay/plugins/lexical/ngram"
	"assay/plugins/lexical/pattern"
)

// row is a domain to train or test on.
type row struct {
	*train.Domain
	address ngram.Address
	slots   []uint32 // of the table of weights
	name    *pattern.Name
}

func newRow(d *train.Domain) row {
	r := row{Domain: d, address: ngram.Of(&d.Host), name: new(pattern.Name)}
	var buffer [ngram.MaxFeatures]uint32
	found := r.address.Features(buffer[:0])
	r.slots = make([]uint32, len(found))
	for i, h := range found {
		r.slots[i] = ngram.Slot(h)
	}
	r.name.Read(&d.Host)
	return r
}

// newRows returns the rows of domains, and the rows added for training.
func newRows(domains []*train.Domain) []row {
	rows := make([]row, 0, len(domains))
	for _, d := range domains {
		rows = append(rows, newRow(d))
	}
	return addSharedHosts(addBrands(rows))
}

// domainsOf returns the domain of each row.
func domainsOf(rows []row) []*train.Domain {
	domains := make([]*train.Domain, len(rows))
	for i, r := range rows {
		domains[i] = r.Domain
	}
	return domains
}

// weigh sets the training weights of all rows.
func weigh(rows []row) {
	train.Weigh(domainsOf(rows))
	for _, r := range rows {
		switch {
		case r.TestOnly:
			r.Weight = 0
		case r.Synthetic:
			r.Weight = brandWeight
		}
	}
	weighSharedHosts(rows)
	boundSuffixes(rows)
}
