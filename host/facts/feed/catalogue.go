package feed

import (
	"slices"
	"strings"
	"time"

	"assay/sdk"
)

// Terms say whether a list may be used commercially.
type Terms string

// The terms of use, as published.
const (
	Commercial    Terms = "commercial use allowed"
	NonCommercial Terms = "no commercial use"
	Unstated      Terms = "not stated: ask the publisher"
)

// Recommended is a public list that operators may subscribe to by its name.
type Recommended struct {
	Name     string        `json:"name"`
	URL      string        `json:"url"`
	Kind     Kind          `json:"kind"`
	Category sdk.Threat    `json:"category,omitempty"`
	Format   Format        `json:"format"`
	Column   string        `json:"column,omitempty"`
	Every    time.Duration `json:"-"`
	Licence  string        `json:"licence"`
	Terms    Terms         `json:"terms"`
	Adds     string        `json:"adds"`
}

// catalogue lists public lists with the terms that their publishers stated in 2026.
var catalogue = []Recommended{
	{Name: "disposable-email-domains", Kind: Bad, Category: sdk.Disposable, Format: Plain, Every: 24 * time.Hour,
		URL: "https://raw.githubusercontent.com/disposable-email-domains/disposable-email-domains/main/" +
			"disposable_email_blocklist.conf", Licence: "CC0 1.0", Terms: Commercial,
		Adds: "Disposable mail domains, checked by hand; PyPI uses it"},
	{Name: "disposable", Kind: Bad, Category: sdk.Disposable, Format: Plain, Every: 24 * time.Hour,
		URL:     "https://disposable.github.io/disposable-email-domains/domains_mx.txt",
		Licence: "MIT", Terms: Commercial,
		Adds: "Disposable mail domains from many sources, those that still accept mail"},
	{Name: "CERT-Polska", Kind: Bad, Category: sdk.Phishing, Format: Plain, Every: time.Hour,
		URL: "https://hole.cert.pl/domains/v2/domains.txt", Licence: "free for everyone", Terms: Commercial,
		Adds: "Fraudulent sites reported to the Polish CERT, verified by two people, of the last six months"},
	{Name: "Phishing.Database", Kind: Bad, Category: sdk.Phishing, Format: Plain, Every: 6 * time.Hour,
		URL: "https://raw.githubusercontent.com/Phishing-Database/Phishing.Database/master/" +
			"phishing-domains-ACTIVE.txt", Licence: "MIT", Terms: Commercial,
		Adds: "Hundreds of thousands of phishing domains that still respond, from unnamed sources"},
	{Name: "phishunt", Kind: Bad, Category: sdk.Phishing, Format: Plain, Every: 6 * time.Hour,
		URL: "https://phishunt.io/feed.txt", Licence: "CC0 1.0", Terms: Commercial,
		Adds: "Suspected phishing pages, found by their names and screenshots"},
	{Name: "polkadot-phishing", Kind: Bad, Category: sdk.InvestmentScam, Format: JSON, Column: "deny",
		Every: 6 * time.Hour, URL: "https://polkadot.js.org/phishing/all.json",
		Licence: "Apache-2.0", Terms: Commercial, Adds: "Scams against owners of cryptocurrencies"},
	{Name: "PhishTank", Kind: Bad, Category: sdk.Phishing, Format: CSV, Column: "url", Every: 24 * time.Hour,
		URL:     "https://data.phishtank.com/data/online-valid.csv.gz",
		Licence: "PhishTank terms of use", Terms: Commercial,
		Adds: "Phishing pages verified by a community; without a key in the URL a few downloads a day"},
	{Name: "URLhaus", Kind: Bad, Category: sdk.Malware, Format: Hosts, Every: 6 * time.Hour,
		URL: "https://urlhaus.abuse.ch/downloads/hostfile/", Licence: "abuse.ch terms of use", Terms: NonCommercial,
		Adds: "Hosts that spread malware; commercial use needs a contract with Spamhaus"},
	{Name: "OpenPhish", Kind: Bad, Category: sdk.Phishing, Format: Plain, Every: 12 * time.Hour,
		URL: "https://openphish.com/feed.txt", Licence: "OpenPhish terms of use", Terms: NonCommercial,
		Adds: "A sample of live phishing pages; commercial use needs written permission"},
	{Name: "Phishing-Army", Kind: Bad, Category: sdk.Phishing, Format: Plain, Every: 12 * time.Hour,
		URL:     "https://phishing.army/download/phishing_army_blocklist.txt",
		Licence: "CC BY-NC 4.0", Terms: NonCommercial,
		Adds: "Phishing domains from PhishTank, OpenPhish, CERT Polska, PhishFindR, urlscan and Phishunt"},
	{Name: "Tranco", Kind: Ranked, Format: CSV, Every: 24 * time.Hour,
		URL:     "https://tranco-list.eu/top-1m.csv.zip",
		Licence: "research list; cite Le Pochat et al., NDSS 2019", Terms: Unstated,
		Adds: "The million most popular domains, averaged over 30 days and several providers: hard to manipulate"},
	{Name: "Umbrella", Kind: Ranked, Format: CSV, Every: 24 * time.Hour,
		URL:     "https://s3-us-west-1.amazonaws.com/umbrella-static/top-1m.csv.zip",
		Licence: "free of charge (Cisco)", Terms: Unstated,
		Adds: "The million host names that Cisco's resolvers are asked for most, also of machines"},
	{Name: "Majestic-Million", Kind: Ranked, Format: CSV, Column: "Domain", Every: 24 * time.Hour,
		URL: "https://downloads.majestic.com/majestic_million.csv", Licence: "CC BY 3.0", Terms: Commercial,
		Adds: "The million domains that most networks link to"},
}

// Catalogue returns the built-in catalogue of public lists.
func Catalogue() []Recommended { return slices.Clone(catalogue) }

// FromCatalogue returns the list with the given name, ignoring case.
func FromCatalogue(name string) (Recommended, bool) {
	for _, r := range catalogue {
		if strings.EqualFold(r.Name, name) {
			return r, true
		}
	}
	return Recommended{}, false
}
