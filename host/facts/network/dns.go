// Package network provides the fact sources "dns" and "net": DNS records of a domain, and data about its addresses. It
// needs no database; package resolver does the DNS queries.
package network

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"

	"assay/host/entity"
	"assay/host/facts"
	"assay/host/facts/resolver"
	"assay/host/internal/internet"
)

// Resolver answers DNS questions. *resolver.Resolver implements it.
type Resolver interface {
	// Lookup returns no later than ctx ends. An error means that nothing is known; a missing name is an answer.
	Lookup(ctx context.Context, q resolver.Question) (resolver.Answer, error)
}

// known is like Lookup, but fails if the servers could not resolve the name: then its records are unknown. Failed
// DNSSEC validation is an answer.
func known(ctx context.Context, r Resolver, name string, t resolver.Type) (resolver.Answer, error) {
	q := resolver.Question{Name: name, Type: t}
	a, err := r.Lookup(ctx, q)
	if err == nil && a.Status == resolver.ServFail && !a.Bogus {
		err = fmt.Errorf("resolving %s: %w", q, resolver.ErrUnanswered)
	}
	return a, err
}

// DNS is the source "dns".
type DNS struct {
	resolver Resolver
	secret   string // of probe
}

var _ facts.Source = DNS{}

// NewDNS returns the source.
func NewDNS(r Resolver) DNS { return DNS{r, resolver.RandomLabel()} }

// maxListed limits how many addresses or hosts a fact lists.
const maxListed = 8

// Name implements facts.Source.
func (DNS) Name() string { return "dns" }

// Table implements facts.Source.
func (DNS) Table() []entity.Fact { return slices.Clone(dnsTable) }

var dnsTable = []entity.Fact{
	entity.TextFact("dns.status", 8, "ok", "status of the name itself: ok, nodata (no address), nxdomain (no such "+
		"name), dangling (an alias of a missing name) or servfail"),
	entity.ListFact("dns.a", 127, "93.184.215.14", "public IPv4 addresses, sorted, the first 8, separated by "+
		"spaces; absent if none"),
	entity.ListFact("dns.aaaa", 319, "2606:2800:21f:cb07:6820:80da:af6b:8b2c", "public IPv6 addresses, sorted, the "+
		"first 8, separated by spaces; absent if none"),
	entity.ListFact("dns.special", 127, "loopback", "kinds of non-public IPv4 addresses, separated by spaces: "+
		"unspecified, loopback, private, shared, link_local, documentation, benchmark, multicast, reserved; absent "+
		"if all are public"),
	entity.NumberFact("dns.networks", "1", "number of different /16 networks of the public IPv4 addresses, from at "+
		"most 32 addresses"),
	entity.NumberFact("dns.ttl", "300", "seconds for which the resolver may cache the IPv4 addresses: at most the "+
		"owner's setting"),
	entity.TextFact("dns.alias", 253, "shops.myshopify.com", "the end of the chain of aliases (CNAME); absent if "+
		"none"),
	entity.TextFact("dns.zone", 8, "ok", "status of the registrable domain: ok, nodata (no name servers of its "+
		"own), nxdomain, dangling or servfail"),
	entity.ListFact("dns.ns", 2031, "a.iana-servers.net b.iana-servers.net", "name servers of the registrable "+
		"domain, sorted, the first 8, separated by spaces; absent if none"),
	entity.YesNoFact("dns.wildcard", "no", "yes or no: whether the registrable domain answers for every name below "+
		"it, so that a name's existence says nothing"),
	entity.ListFact("dns.mx", 2031, "aspmx.l.google.com", "mail servers of the mail domain (for a domain: of the "+
		"registrable domain), by preference, the first 8; none; or null if it accepts no mail (RFC 7505)"),
	entity.TextFact("dns.spf", 8, "softfail", "who may send as the mail domain (RFC 7208): none (no policy), "+
		"invalid, nobody, fail (only listed senders), softfail, neutral or pass_all (anyone)"),
	entity.TextFact("dns.dmarc", 10, "reject", "requested handling of forged mail (RFC 7489): none (no policy), "+
		"invalid, monitor, quarantine or reject"),
	entity.TextFact("dns.dnssec", 9, "unsigned", "DNSSEC status of the registrable domain: validated (by the "+
		"resolver), signed (not validated), unsigned or bogus"),
}

// subject holds the names to look up for an entity, in A-labels.
type subject struct {
	host string // the name itself
	zone string // the registrable domain; "" if the name is itself a public suffix
	mail string // the mail domain
}

// subjectOf returns the names to look up, and whether there are any. Names without a public suffix are not looked up:
// a resolver may know them from a private network, which callers must not learn about.
func subjectOf(e entity.Entity) (subject, bool) {
	s := subject{host: e.Facts["domain.ascii"], zone: e.Facts["domain.registrable"]}
	if s.host == "" || e.Facts["domain.suffix_kind"] == "unlisted" {
		return s, false
	}
	s.mail = s.host
	if e.Type == entity.Domain && s.zone != "" {
		s.mail = s.zone
	}
	return s, true
}

// Observe implements facts.Source.
func (d DNS) Observe(ctx context.Context, e entity.Entity, wants func(string) bool) (entity.Facts, error) {
	s, ok := subjectOf(e)
	if !ok {
		return nil, nil
	}
	var lookUps group[entity.Facts]
	// ask looks up one record type of name and derives facts from the answer.
	ask := func(name string, record resolver.Type, derive func(resolver.Answer) entity.Facts) {
		lookUps.run(func() (entity.Facts, error) {
			a, err := known(ctx, d.resolver, name, record)
			if a.Status == "" {
				return nil, err
			}
			return derive(a), err
		})
	}
	if wantsAny(wants, "dns.status", "dns.a", "dns.special", "dns.networks", "dns.ttl", "dns.alias") {
		lookUps.run(func() (entity.Facts, error) { return d.addresses(ctx, s.host, wants("dns.status")) })
	}
	if wants("dns.aaaa") {
		ask(s.host, resolver.AAAA, func(a resolver.Answer) entity.Facts {
			return entity.Facts{"dns.aaaa": publicAddresses(a.Addresses)}
		})
	}
	if s.zone != "" && wantsAny(wants, "dns.zone", "dns.ns") {
		ask(s.zone, resolver.NS, func(a resolver.Answer) entity.Facts {
			return entity.Facts{"dns.zone": string(a.Status), "dns.ns": hostNames(a.Hosts)}
		})
	}
	if s.zone != "" && wants("dns.dnssec") {
		ask(s.zone, resolver.DS, dnssec)
	}
	if s.zone != "" && wants("dns.wildcard") {
		ask(d.probe(s.zone), resolver.A, wildcard)
	}
	if wants("dns.mx") {
		ask(s.mail, resolver.MX, mailServers)
	}
	if wants("dns.spf") {
		lookUps.run(func() (entity.Facts, error) { return d.spf(ctx, s.mail) })
	}
	if wants("dns.dmarc") {
		lookUps.run(func() (entity.Facts, error) { return d.dmarc(ctx, s.mail, s.zone) })
	}
	return wanted(&lookUps, wants)
}

func wantsAny(wants func(string) bool, facts ...string) bool {
	return slices.ContainsFunc(facts, wants)
}

// group runs lookups concurrently. Each ends when its context ends.
type group[T any] struct {
	running sync.WaitGroup
	mu      sync.Mutex
	results []T
	errs    []error
}

func (g *group[T]) run(lookUp func() (T, error)) {
	g.running.Go(func() {
		result, err := lookUp()
		g.mu.Lock()
		defer g.mu.Unlock()
		g.results = append(g.results, result)
		g.errs = append(g.errs, err)
	})
}

// wait returns the results of all lookups. Its error wraps facts.ErrUnanswered if only other servers are to blame.
func (g *group[T]) wait() ([]T, error) {
	g.running.Wait()
	for i, err := range g.errs {
		if errors.Is(err, resolver.ErrUntrusted) {
			g.errs[i] = fmt.Errorf("%w: %w", facts.ErrUntrusted, err)
		} else if errors.Is(err, resolver.ErrUnanswered) {
			g.errs[i] = fmt.Errorf("%w: %w", facts.ErrUnanswered, err)
		}
	}
	return g.results, facts.Join(g.errs...)
}

// wanted waits for all lookups and returns their wanted facts.
func wanted(lookUps *group[entity.Facts], wants func(string) bool) (entity.Facts, error) {
	all, err := lookUps.wait()
	found := entity.Facts{}
	for _, some := range all {
		maps.Copy(found, some)
	}
	maps.DeleteFunc(found, func(name, value string) bool { return value == "" || !wants(name) })
	return found, err
}

// addresses looks up the IPv4 addresses of host, and its IPv6 addresses if the status depends on them.
func (d DNS) addresses(ctx context.Context, host string, status bool) (entity.Facts, error) {
	a, err := known(ctx, d.resolver, host, resolver.A)
	if err != nil {
		return entity.Facts{"dns.status": string(a.Status)}, err
	}
	found := entity.Facts{"dns.alias": a.Alias, "dns.special": strings.Join(specialKinds(a.Addresses), " ")}
	if a.Status == resolver.OK {
		found["dns.a"] = publicAddresses(a.Addresses)
		found["dns.networks"] = strconv.Itoa(networks(a.Addresses))
		found["dns.ttl"] = strconv.Itoa(int(a.TTL.Seconds()))
	}
	if !status {
		return found, nil
	}
	if a.Status == resolver.NoData {
		a, err = known(ctx, d.resolver, host, resolver.AAAA)
	}
	found["dns.status"] = string(a.Status)
	return found, err
}

// dnssec reports the DNSSEC state without validating signatures here: whether the parent has a DS record for the zone
// (RFC 4034 section 5), and whether the resolver validated it.
func dnssec(a resolver.Answer) entity.Facts {
	value := ""
	switch {
	case a.Bogus:
		value = "bogus"
	case a.Status == resolver.OK && a.Authentic:
		value = "validated"
	case a.Status == resolver.OK:
		value = "signed"
	case a.Status == resolver.NoData:
		value = "unsigned"
	}
	return entity.Facts{"dns.dnssec": value}
}

// probe returns a name that exists only if the zone has a wildcard. Each zone and process has its own label, so that an
// owner of two zones cannot recognise in one what was asked for in the other.
func (d DNS) probe(zone string) string {
	sum := sha256.Sum256([]byte(d.secret + zone))
	return hex.EncodeToString(sum[:12]) + "." + zone
}

// wildcard reads the answer for a random name, which exists only with a wildcard.
func wildcard(a resolver.Answer) entity.Facts {
	switch a.Status {
	case resolver.ServFail:
		return nil
	case resolver.OK:
		return entity.Facts{"dns.wildcard": "yes"}
	}
	return entity.Facts{"dns.wildcard": "no"}
}

func mailServers(a resolver.Answer) entity.Facts {
	hosts := hostNames(a.Hosts)
	switch {
	case a.Status == resolver.ServFail:
		return nil
	case hosts != "":
	case len(a.Hosts) > 0:
		hosts = "null"
	default:
		hosts = "none"
	}
	return entity.Facts{"dns.mx": hosts}
}

// publicAddresses lists the addresses that a public host can have. It omits others, because they may belong to a
// private network that the caller must not learn about.
func publicAddresses(all []netip.Addr) string {
	var texts []string
	for _, a := range all {
		if internet.Special(a) == "" && len(texts) < maxListed {
			texts = append(texts, a.String())
		}
	}
	return strings.Join(texts, " ")
}

func specialKinds(all []netip.Addr) []string {
	var kinds []string
	for _, a := range all {
		if kind := internet.Special(a); kind != "" && !slices.Contains(kinds, kind) {
			kinds = append(kinds, kind)
		}
	}
	return kinds
}

func networks(all []netip.Addr) int {
	seen := map[netip.Prefix]bool{}
	for _, a := range all {
		if network, err := a.Prefix(16); err == nil && internet.Special(a) == "" {
			seen[network] = true
		}
	}
	return len(seen)
}

func hostNames(hosts []resolver.Host) string {
	var names []string
	for _, h := range hosts {
		if h.Name != "" && len(names) < maxListed {
			names = append(names, h.Name)
		}
	}
	return strings.Join(names, " ")
}
