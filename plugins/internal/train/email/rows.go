package main

import (
	"cmp"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/net/publicsuffix"

	"assay/host/entity"
	"assay/host/measure/eval"
	"assay/plugins/internal/train"
	"assay/plugins/mailbox/spelling"
)

// The files of labelled rows.
const (
	addressFile = "train_emails.jsonl"
	targetFile  = "train_domains.jsonl"
	poolFile    = "train_domains_pool.jsonl.gz"
)

// disposable is the category of addresses at disposable mail services.
const disposable = "disposable"

// hostOf returns the domain of a labelled address or domain, in lower case.
func hostOf(r *eval.Row) string {
	return strings.ToLower(r.Value[strings.LastIndexByte(r.Value, '@')+1:])
}

// listOf returns the name of the list that a row comes from. The source of an address constructed from a listed domain
// has a prefix.
func listOf(r *eval.Row) string { return r.Source[strings.IndexByte(r.Source, ':')+1:] }

// siteOf returns the registrable domain of host, or host itself if it has none.
func siteOf(host string) string {
	if site, err := publicsuffix.EffectiveTLDPlusOne(host); err == nil {
		return site
	}
	return host
}

// example is a labelled domain to train on.
type example struct {
	key      uint64 // hash of the registrable domain, the order of training
	domain   string
	site     string
	bad      bool
	mail     bool    // whether the label is that of an address, not of a site
	weight   float64 // in training; examples with weight 0 are ignored
	list     string
	category string
	features []spelling.Feature
}

func readAll(folder string) ([]example, error) {
	var rows []example
	for _, file := range []struct {
		name string
		kind entity.Type
	}{{addressFile, entity.Email}, {targetFile, entity.Domain}, {poolFile, entity.Domain}} {
		labelled, err := train.ReadRows(filepath.Join(folder, file.name), file.kind)
		if err != nil {
			return nil, err
		}
		for i := range labelled {
			if e, ok := exampleOf(&labelled[i]); ok {
				rows = append(rows, e)
			}
		}
	}
	return distinct(rows), nil
}

// exampleOf returns the example for a row. ok is false if the layer has rules for its category, or cannot split its
// host.
func exampleOf(r *eval.Row) (e example, ok bool) {
	if r.Category == "typo_provider" || r.Category == "freemail_person" {
		return e, false
	}
	host, mail := hostOf(r), r.Type == entity.Email
	suffix, _ := publicsuffix.PublicSuffix(host)
	d, ok := spelling.Of(host, suffix)
	if !ok {
		return e, false
	}
	if !mail {
		d.Left, host = "", d.Label+"."+d.Suffix // only the site's name is relevant to mail
	}
	site := d.Label + "." + d.Suffix
	e = example{
		key: mix(site), domain: host, site: site, bad: r.Malicious, mail: mail, list: listOf(r), category: r.Category,
	}
	if e.weight = weightOf(&e); e.weight > 0 {
		e.features = d.Features(nil)
	}
	return e, true
}

// weightOf returns the training weight of an example. The layer learns disposable domains only. Other reported domains
// have weight 0, because the lexical layer knows them and the evidence would count twice. Benign sites have a low
// weight: they are not mail domains, but complement the few legitimate addresses.
func weightOf(e *example) float64 {
	switch {
	case e.bad && e.category != disposable:
		return 0
	case e.mail:
		return 1
	}
	return 0.3
}

// mix returns an FNV-1a hash of s with its bits mixed further, so that similar names have unrelated hashes.
func mix(s string) uint64 {
	h := eval.Hash(s)
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	return h ^ h>>33
}

// distinct sorts rows by key, so that training doesn't depend on the order of the files, and keeps one row per domain
// and label, and at most maxSites of a list.
func distinct(rows []example) []example {
	slices.SortStableFunc(rows, func(a, b example) int {
		return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.domain, b.domain), cmp.Compare(ones(a.bad), ones(b.bad)),
			cmp.Compare(b.weight, a.weight), cmp.Compare(ones(b.mail), ones(a.mail)))
	})
	rows = slices.CompactFunc(rows, func(a, b example) bool { return a.domain == b.domain && a.bad == b.bad })
	sites := map[string]int{}
	return slices.DeleteFunc(rows, func(e example) bool {
		if e.mail {
			return false
		}
		sites[e.list]++
		return sites[e.list] > maxSites
	})
}

// maxSites is the maximum number of sites of one list to train on, so that the largest do not outweigh the others.
const maxSites = 15000

// ones returns 1 for true and 0 for false.
func ones(is bool) int {
	if is {
		return 1
	}
	return 0
}
