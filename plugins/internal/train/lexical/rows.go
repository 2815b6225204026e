package main

import (
	"assay/plugins/internal/train"
	"assay/plugins/lexical/ngram"
)

// row is a domain to train or test on.
type row struct {
	*train.Domain
	address  ngram.Address
	features []uint32
}

func newRow(d *train.Domain, address ngram.Address) row {
	var buffer [ngram.MaxFeatures]ngram.Feature
	found := address.Features(buffer[:0])
	features := make([]uint32, len(found))
	for i, f := range found {
		features[i] = f.Hash
	}
	return row{d, address, features}
}

// newRows returns the rows of domains, and the rows added for training.
func newRows(domains []*train.Domain) []row {
	rows := make([]row, 0, len(domains))
	for _, d := range domains {
		rows = append(rows, newRow(d, ngram.Of(&d.Host)))
	}
	return addSharedHosts(addBrands(addHostLabels(rows)))
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
		if r.Synthetic {
			r.Weight = brandWeight
		}
	}
	weighSharedHosts(rows)
}
