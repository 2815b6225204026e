package network

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"

	"assay/host/entity"
	"assay/host/facts"
	"assay/host/facts/resolver"
	"assay/host/internal/internet"
)

// Net is the source "net": the autonomous systems and countries of a host's addresses, and the blocklists that list
// them. Without files and blocklists it makes no lookups.
type Net struct {
	resolver  Resolver
	asns      *Ranges
	countries *Ranges
	lists     []*blocklist
}

var _ facts.Source = (*Net)(nil)

// NetConfig configures Net. All fields but the resolver are optional.
type NetConfig struct {
	Resolver   Resolver
	ASNs       *Ranges // MaxMind-format file of autonomous systems
	Countries  *Ranges // MaxMind-format file of countries
	Blocklists []Blocklist
	Logger     *slog.Logger
}

// NewNet returns the source.
func NewNet(cfg NetConfig) *Net {
	n := &Net{resolver: cfg.Resolver, asns: cfg.ASNs, countries: cfg.Countries}
	for _, l := range cfg.Blocklists {
		n.lists = append(n.lists, &blocklist{Blocklist: l, resolver: cfg.Resolver, log: cfg.Logger})
	}
	return n
}

// Name implements facts.Source.
func (*Net) Name() string { return "net" }

// Table implements facts.Source.
func (*Net) Table() []entity.Fact { return slices.Clone(netTable) }

var netTable = []entity.Fact{
	entity.ListFact("net.asn", 103, "AS13335", "autonomous systems that announce the host's addresses, by number, "+
		"the first 8, separated by spaces; needs ASSAY_MMDB_ASN"),
	entity.TextFact("net.org", 80, "Cloudflare, Inc.", "organisation of the first system in net.asn"),
	entity.ListFact("net.country", 127, "DE", "countries of the addresses, ISO 3166-1 alpha-2, sorted, separated "+
		"by spaces; needs ASSAY_MMDB_COUNTRY"),
	entity.ListFact("net.listed", 1024, "zen.spamhaus.org=127.0.0.2", "DNS blocklists that list one of the "+
		"addresses, as zone=answer, sorted, separated by spaces; absent if none; needs ASSAY_DNSBL"),
	entity.ListFact("net.domain_listed", 1024, "dbl.spamhaus.org=127.0.1.4", "DNS blocklists that list the "+
		"registrable domain, as zone=answer, sorted, separated by spaces; absent if none"),
}

// maxAddresses limits how many of a host's addresses are looked up.
const maxAddresses = 8

// Observe implements facts.Source.
func (n *Net) Observe(ctx context.Context, e entity.Entity, wants func(string) bool) (entity.Facts, error) {
	s, ok := subjectOf(e)
	if !ok {
		return nil, nil
	}
	byAddress := n.asns != nil && wantsAny(wants, "net.asn", "net.org") || n.countries != nil && wants("net.country") ||
		wants("net.listed") && slices.ContainsFunc(n.lists, func(l *blocklist) bool { return !l.Domains })
	var lookUps group[entity.Facts]
	if byAddress {
		lookUps.run(func() (entity.Facts, error) { return n.byAddress(ctx, s.host, wants) })
	}
	if s.zone != "" && wants("net.domain_listed") {
		lookUps.run(func() (entity.Facts, error) {
			listed, err := n.listings(ctx, true, []string{s.zone})
			return entity.Facts{"net.domain_listed": listed}, err
		})
	}
	return wanted(&lookUps, wants)
}

// byAddress returns the facts about the host's public IPv4 addresses, or about its IPv6 addresses if it has no IPv4.
func (n *Net) byAddress(ctx context.Context, host string, wants func(string) bool) (entity.Facts, error) {
	a, err := known(ctx, n.resolver, host, resolver.A)
	if err == nil && a.Status == resolver.NoData {
		a, err = known(ctx, n.resolver, host, resolver.AAAA)
	}
	if err != nil {
		return nil, err
	}
	addresses := slices.DeleteFunc(slices.Clone(a.Addresses),
		func(a netip.Addr) bool { return internet.Special(a) != "" })
	addresses = addresses[:min(len(addresses), maxAddresses)]
	found := entity.Facts{}
	n.addSystems(found, addresses)
	if n.countries != nil {
		var countries []string
		for _, a := range addresses {
			countries = append(countries, n.countries.country(a))
		}
		found["net.country"] = strings.Join(distinct(countries), " ")
	}
	if wants("net.listed") {
		var reversed []string
		for _, a := range addresses {
			if a.Is4() {
				b := a.As4()
				reversed = append(reversed, fmt.Sprintf("%d.%d.%d.%d", b[3], b[2], b[1], b[0]))
			}
		}
		found["net.listed"], err = n.listings(ctx, false, reversed)
	}
	return found, err
}

// addSystems adds the autonomous systems of addresses to found.
func (n *Net) addSystems(found entity.Facts, addresses []netip.Addr) {
	if n.asns == nil {
		return
	}
	organisations := map[uint64]string{}
	var numbers []uint64
	for _, a := range addresses {
		if number, organisation := n.asns.system(a); number != 0 {
			organisations[number] = organisation
			numbers = append(numbers, number)
		}
	}
	slices.Sort(numbers)
	var texts []string
	for _, number := range slices.Compact(numbers) {
		texts = append(texts, fmt.Sprint("AS", number))
	}
	if len(texts) > 0 {
		found["net.asn"], found["net.org"] = strings.Join(texts, " "), organisations[numbers[0]]
	}
}

// listings queries every blocklist of domains, or of addresses, for each name.
func (n *Net) listings(ctx context.Context, domains bool, names []string) (string, error) {
	var lookUps group[string]
	for _, l := range n.lists {
		if l.Domains != domains {
			continue
		}
		for _, name := range names {
			lookUps.run(func() (string, error) { return l.lookUp(ctx, name) })
		}
	}
	entries, err := lookUps.wait()
	return strings.Join(distinct(entries), " "), err
}

// distinct sorts texts and drops empty ones and duplicates.
func distinct(texts []string) []string {
	slices.Sort(texts)
	texts = slices.Compact(texts)
	return slices.DeleteFunc(texts, func(s string) bool { return s == "" })
}
