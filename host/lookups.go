package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"strings"

	"assay/host/facts"
	"assay/host/facts/network"
	"assay/host/facts/registration"
	"assay/host/facts/reputation"
	"assay/host/facts/resolver"
	"assay/host/store"
)

// off turns a source of facts off that is otherwise on by default.
const off = "off"

// lookups is what a host observes of entities, and what has to be closed for it. Nothing is asked before a layer of the
// lineup in force wants to know.
type lookups struct {
	*facts.Collector
	similar *reputation.Similar // its index is filled by Run, or once by Load
	closers []func() error
}

// openLookups opens the sources that cfg leaves on.
func (b *backend) openLookups(cfg *Config, log *slog.Logger) (l *lookups, err error) {
	l = &lookups{}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.close())
		}
	}()
	var sources []facts.Source
	servers := cfg.resolvers()
	if len(servers) > 0 {
		dns := resolver.New(resolver.Config{Servers: servers})
		l.closers = append(l.closers, dns.Close)
		addresses, err := cfg.addressTables()
		if err != nil {
			return l, err
		}
		addresses.Resolver, addresses.Logger = dns, log
		sources = append(sources, network.DNS{Resolver: dns}, network.NewNet(addresses))
	}
	if cfg.RDAPURL != off {
		rdap, err := registration.New(registration.Config{Store: keptRegistrations{b.store}, URL: cfg.RDAPURL,
			DNS: cfg.ownResolvers(), Logger: log})
		if err != nil {
			return l, fmt.Errorf("ASSAY_RDAP_URL: %w", err)
		}
		l.closers = append(l.closers, rdap.Close)
		sources = append(sources, rdap)
	}
	l.similar = reputation.NewSimilar(b.store, log)
	sources = append(sources, reputation.NewFeed(b.store, l.similar.NoLists), reputation.NewGraph(b.store), l.similar)
	l.Collector = facts.NewCollector(log, sources...)
	return l, nil
}

func (l *lookups) close() error {
	var errs []error
	for i := len(l.closers) - 1; i >= 0; i-- {
		errs = append(errs, l.closers[i]())
	}
	return errors.Join(errs...)
}

// ownResolvers are the DNS resolvers that the operator named, none when the system's are meant.
func (c *Config) ownResolvers() []string {
	if len(c.DNS) == 1 && c.DNS[0] == off {
		return nil
	}
	return c.DNS
}

// resolvers are the DNS resolvers to ask; none when DNS is off.
func (c *Config) resolvers() []string {
	if len(c.DNS) == 0 {
		return resolver.SystemServers()
	}
	return c.ownResolvers()
}

// addressTables opens what is known of addresses without asking anybody, and reads which blocklists to ask.
func (c *Config) addressTables() (n network.NetConfig, err error) {
	if n.Blocklists, err = c.blocklists(); err != nil {
		return n, err
	}
	if c.MMDBASN != "" {
		if n.ASNs, err = network.OpenRanges(c.MMDBASN); err != nil {
			return n, fmt.Errorf("ASSAY_MMDB_ASN: %w", err)
		}
	}
	if c.MMDBCountry != "" {
		if n.Countries, err = network.OpenRanges(c.MMDBCountry); err != nil {
			return n, fmt.Errorf("ASSAY_MMDB_COUNTRY: %w", err)
		}
	}
	return n, nil
}

func (c *Config) blocklists() ([]network.Blocklist, error) {
	var all []network.Blocklist
	for _, text := range c.DNSBL {
		list, err := network.ParseBlocklist(text)
		if err != nil {
			return nil, fmt.Errorf("ASSAY_DNSBL: %w", err)
		}
		all = append(all, list)
	}
	return all, nil
}

// validateLookups says what is wrong with the settings of lookups.
func (c *Config) validateLookups() error {
	for _, server := range c.ownResolvers() {
		if host, port, err := net.SplitHostPort(server); err != nil || host == "" || port == "" {
			return fmt.Errorf("ASSAY_DNS: %q is neither off nor of the form host:port", server)
		}
	}
	if c.RDAPURL != "" && c.RDAPURL != off {
		if u, err := url.Parse(c.RDAPURL); err != nil || u.Host == "" || !strings.HasPrefix(u.Scheme, "http") {
			return fmt.Errorf("ASSAY_RDAP_URL: %q is neither off nor a URL such as https://rdap.example.net/",
				c.RDAPURL)
		}
	}
	_, err := c.blocklists()
	return err
}

// keptRegistrations is the store as registration.Store.
type keptRegistrations struct{ store *store.Store }

func (k keptRegistrations) Registration(ctx context.Context, domain string) (registration.Kept, bool, error) {
	r, ok, err := k.store.Registration(ctx, domain)
	return registration.Kept{
		Outcome: registration.Outcome(r.Outcome), Created: r.Created, Expires: r.Expires, Registrar: r.Registrar,
		Status:  r.Status,
		Fetched: r.Fetched, Next: r.Next, Failures: r.Failures,
	}, ok, err
}

func (k keptRegistrations) KeepRegistration(ctx context.Context, domain string, r registration.Kept) error {
	return k.store.KeepRegistration(ctx, domain, store.Registration{
		Outcome: string(r.Outcome), Created: r.Created, Expires: r.Expires, Registrar: r.Registrar, Status: r.Status,
		Fetched: r.Fetched, Next: r.Next, Failures: r.Failures,
	})
}
