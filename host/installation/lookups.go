package installation

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"assay/host/entity"
	"assay/host/facts"
	"assay/host/facts/feed"
	"assay/host/facts/network"
	"assay/host/facts/registration"
	"assay/host/facts/reputation"
	"assay/host/facts/resolver"
	"assay/host/internal/terminal"
	"assay/host/store"
)

// Lookups collects facts from all enabled sources. A source is queried only if a layer of the active lineup reads its
// facts.
type Lookups struct {
	*facts.Collector
	log     *slog.Logger
	dns     *resolver.Resolver  // nil if DNS is off
	Similar *reputation.Similar // the caller must call Run, or Load once; nil without a database
	closers []func() error
}

// OpenLookups opens the sources that cfg enables, in addition to the given ones. Without a database, it leaves out
// those that need one.
func OpenLookups(ctx context.Context, cfg *Config, database *store.Store, log *slog.Logger, sources ...facts.Source) (
	l *Lookups, err error) {
	l = &Lookups{log: log}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.Close())
		}
	}()
	servers := cfg.Resolvers()
	if len(servers) > 0 {
		l.dns = resolver.New(resolver.Config{Servers: servers, Patience: lookupTimeout})
		l.closers = append(l.closers, l.dns.Close)
		_ = l.VerifyDNS(ctx)
		addresses, err := cfg.AddressTables()
		if err != nil {
			return l, err
		}
		addresses.Resolver, addresses.Logger = l.dns, log
		sources = append(sources, network.NewDNS(l.dns), network.NewNet(addresses))
	}
	if database == nil {
		l.Collector = facts.NewCollector(log, sources...)
		return l, nil
	}
	if cfg.RDAPURL != Off {
		rdap, err := registration.New(registration.Config{Store: database, URL: cfg.RDAPURL,
			DNS: cfg.ConfiguredResolvers(), Logger: log})
		if err != nil {
			return l, fmt.Errorf("ASSAY_RDAP_URL: %w", err)
		}
		l.closers = append(l.closers, rdap.Close)
		sources = append(sources, rdap)
	}
	l.Similar = reputation.NewSimilar(database, log)
	sources = append(sources, reputation.NewFeed(database, l.Similar.NoLists), reputation.NewGraph(database), l.Similar)
	l.Collector = facts.NewCollector(log, sources...)
	return l, nil
}

// UseLookups opens the sources for a command, calls do, and closes them.
func UseLookups(
	ctx context.Context, cfg *Config, database *store.Store, t *terminal.Terminal, do func(*Lookups) error,
) (err error) {
	l, err := OpenLookups(ctx, cfg, database, QuietLog(t))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	if l.Similar != nil {
		if err := l.Similar.Load(ctx); err != nil {
			return err
		}
	}
	return do(l)
}

// A command asks the sources that have not answered again after askAgainAfter, and gives up after giveUpAfter.
const (
	askAgainAfter = 200 * time.Millisecond
	giveUpAfter   = 5 * time.Second
)

// LookUp returns the wanted facts about an entity, and the sources that did not respond. Unlike a check, it waits for a
// registry, which is asked in the background.
func (l *Lookups) LookUp(ctx context.Context, account string, e entity.Entity, wanted []string) (
	found entity.Facts, silent []string, err error) {
	wanted = slices.Sorted(slices.Values(wanted))
	end := time.After(giveUpAfter)
	for {
		found, silent, err = l.Collect(ctx, account, e, wanted)
		if err != nil || len(silent) == 0 {
			return found, silent, err
		}
		select {
		case <-end:
			return found, silent, nil
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		case <-time.After(askAgainAfter):
		}
	}
}

// VerifyDNS finds DNS servers that give false answers, and logs changes. It is a maintenance job that never fails.
func (l *Lookups) VerifyDNS(ctx context.Context) error {
	before := l.FalseDNS()
	if l.dns != nil {
		l.dns.Verify(ctx)
	}
	if after := l.FalseDNS(); !slices.Equal(before, after) {
		l.log.Warn("DNS servers verified", "problems", after)
	}
	return nil
}

// FalseDNS returns a sentence for each DNS server that gives false answers.
func (l *Lookups) FalseDNS() []string {
	if l.dns == nil {
		return nil
	}
	return l.dns.Problems()
}

// Close closes the sources.
func (l *Lookups) Close() error {
	var errs []error
	for _, closer := range slices.Backward(l.closers) {
		errs = append(errs, closer())
	}
	return errors.Join(errs...)
}

// NewSubscriber returns a subscriber that stores lists in the database.
func NewSubscriber(s *store.Store, cfg *Config, log *slog.Logger) *feed.Subscriber {
	return &feed.Subscriber{Store: s, Version: Version, DNS: cfg.ConfiguredResolvers(), Logger: log, Now: time.Now}
}

// AddressTables opens the files of networks and countries and parses the blocklists.
func (c *Config) AddressTables() (n network.NetConfig, err error) {
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
