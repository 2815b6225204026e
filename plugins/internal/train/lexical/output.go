package main

import (
	"assay/host/entity"
	"assay/host/measure/eval"
	"assay/plugins/internal/train"
)

// mailSites returns the sites of the mail domains of labelled addresses, which no model may learn: the addresses
// measure it. If path is "", there are none.
func mailSites(path string) (map[string]bool, error) {
	sites := map[string]bool{}
	if path == "" {
		return sites, nil
	}
	rows, err := train.ReadRows(path, entity.Email)
	if err != nil {
		return nil, err
	}
	for _, r := range rows {
		if d, err := train.NewDomain(entity.Email, r.Value); err == nil && d != nil {
			sites[d.Site] = true
		}
	}
	return sites, nil
}

// writeRows writes domains as assay eval and assay lineup fit read them. If path is "", it writes nothing.
func writeRows(path string, domains []*train.Domain) error {
	if path == "" {
		return nil
	}
	rows := make([]eval.Row, len(domains))
	for i, d := range domains {
		rows[i] = eval.Row{Type: entity.Domain, Value: d.Host.ASCII, Malicious: d.Malicious, Source: d.Source,
			Category: d.Category}
	}
	return train.WriteRows(path, rows, func(int) map[string]int { return nil })
}
