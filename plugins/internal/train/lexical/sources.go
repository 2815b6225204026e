package main

import (
	"cmp"
	"slices"

	"assay/host/entity"
	"assay/host/measure/eval"
	"assay/plugins/internal/train"
)

// heldOut are publishers whose rows are never trained on: their terms forbid commercial use (OpenPhish, Citizen Lab) or
// require that derived works have their licence. The validation set has their rows, and a tenth of the other honest
// ones.
var heldOut = []string{"openphish", "citizenlab", "scamsniffer", "jarelllama", "blackrabbitz", "kadhosts", "ut1"}

// validation names the sources to validate on. A source of reports counts with at most maxValidation rows.
var validation = []string{"openphish", "scamsniffer", "jarelllama", "ut1_shopping", "ut1_bank"}

const (
	maxValidation = 15_000
	maxFeedAge    = 0.5 // years of the reports of OpenPhish to validate on
	honestShare   = 10  // one in this many honest names is validated on
)

// factors multiply the weights of sources: noisy lists of reports hold hacked sites of honest owners, dead names or
// unconfirmed new ones, and the others differ in how much their names resemble those that hosts check.
var factors = map[string]float64{
	"sw_typo": 0.05, "labhost": 0.2,
	"blp_phishing": 0.15, "maltrail_magentocore": 0.15, "infinitytec": 0.15, "pdd2018_phish": 0.15, "spam404": 0.15,
	"sw_scam": 0.15, "iam_py_test": 0.15, "usom": 0.15, "red_flag_domains": 0.15,
	"globalantiscam": 0.5, "chongluadao": 0.5, "maltrail_browser_locker": 0.5, "cert_pl": 0.5,
	"kagi_smallweb": 0.5, "awesome_lists": 0.5, "isadev_targets": 1.6, "jsorg_targets": 1.6,
	"tranco100k": 2, "2fa_directory": 2, "maltrail_fakeapp": 2, "phishtank": 2, "phishing_database_add": 2,
	"opendns_random2014": 4, "hsts_preload": 5, "alltheplaces": 5,
}

// divide marks rows that must not be trained on: those of sites in never, those of held-out publishers, and a part of
// the honest ones. It returns the rows to validate on.
func divide(domains []*train.Domain, never map[string]bool) (validate []*train.Domain) {
	bySource := map[string][]*train.Domain{}
	for _, d := range domains {
		held := slices.Contains(heldOut, train.Publisher(d.Source))
		switch {
		case never[d.Site]:
			d.TestOnly = true
		case held:
			d.TestOnly = true
			if d.Source != "openphish" || d.Age <= maxFeedAge {
				bySource[d.Source] = append(bySource[d.Source], d)
			}
		case !d.Malicious && eval.Hash(d.Site)%honestShare == 0:
			d.TestOnly = true
			validate = append(validate, d)
		}
	}
	for _, source := range validation {
		rows := bySource[source]
		slices.SortFunc(rows, func(a, b *train.Domain) int {
			return cmp.Or(cmp.Compare(eval.Hash(a.Site), eval.Hash(b.Site)), cmp.Compare(a.Site, b.Site))
		})
		validate = append(validate, rows[:min(len(rows), maxValidation)]...)
	}
	return validate
}

// mailSites returns the sites of the mail domains of labelled addresses, which no model may learn, because the
// addresses measure it. If path is "", there are none.
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
