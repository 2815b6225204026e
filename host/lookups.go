package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"assay/host/entity"
	"assay/host/facts"
	"assay/host/facts/network"
	"assay/host/facts/registration"
	"assay/host/facts/reputation"
	"assay/host/facts/resolver"
	"assay/host/store"
)

// lookups collects facts from all enabled sources. A source is queried only if a layer of the active lineup reads its
// facts.
type lookups struct {
	*facts.Collector
	log     *slog.Logger
	dns     *resolver.Resolver  // nil if DNS is off
	similar *reputation.Similar // the caller must call Run, or Load once; nil without a database
	closers []func() error
}

// openLookups opens the sources that cfg enables, in addition to the given ones.
func (b *backend) openLookups(
	ctx context.Context, cfg *Config, log *slog.Logger, sources ...facts.Source,
) (*lookups, error) {
	return openLookups(ctx, cfg, b.store, log, sources...)
}

// openLookups is like the method of backend. Without a database, it leaves out the sources that need one.
func openLookups(
	ctx context.Context, cfg *Config, database *store.Store, log *slog.Logger, sources ...facts.Source,
) (l *lookups, err error) {
	l = &lookups{log: log}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.close())
		}
	}()
	servers := cfg.resolvers()
	if len(servers) > 0 {
		l.dns = resolver.New(resolver.Config{Servers: servers, Patience: lookupTimeout})
		l.closers = append(l.closers, l.dns.Close)
		_ = l.verifyDNS(ctx)
		addresses, err := cfg.addressTables()
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
	if cfg.RDAPURL != off {
		rdap, err := registration.New(registration.Config{Store: database, URL: cfg.RDAPURL,
			DNS: cfg.configuredResolvers(), Logger: log})
		if err != nil {
			return l, fmt.Errorf("ASSAY_RDAP_URL: %w", err)
		}
		l.closers = append(l.closers, rdap.Close)
		sources = append(sources, rdap)
	}
	l.similar = reputation.NewSimilar(database, log)
	sources = append(sources, reputation.NewFeed(database, l.similar.NoLists), reputation.NewGraph(database), l.similar)
	l.Collector = facts.NewCollector(log, sources...)
	return l, nil
}

// useLookups opens the sources for a command, calls do, and closes them.
func useLookups(
	ctx context.Context, cfg *Config, database *store.Store, t *terminal, do func(*lookups) error,
) (err error) {
	l, err := openLookups(ctx, cfg, database, quietLog(t))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.close()) }()
	if l.similar != nil {
		if err := l.similar.Load(ctx); err != nil {
			return err
		}
	}
	return do(l)
}

// A lookup of a command asks sources that have not answered again after this time, and gives up at last.
const (
	askAgainAfter = 200 * time.Millisecond
	giveUpAfter   = 5 * time.Second
)

// lookUp returns the wanted facts about an entity, and the sources that did not respond. Unlike a check, it waits for a
// registry, which is asked in the background.
func (l *lookups) lookUp(
	ctx context.Context, account string, e entity.Entity, wanted []string,
) (found entity.Facts, silent []string, err error) {
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

// verifyDNS finds DNS servers that give false answers, and logs changes. It is a maintenance job that never fails.
func (l *lookups) verifyDNS(ctx context.Context) error {
	before := l.problems()
	if l.dns != nil {
		l.dns.Verify(ctx)
	}
	if after := l.problems(); !slices.Equal(before, after) {
		l.log.Warn("DNS servers verified", "problems", after)
	}
	return nil
}

// problems returns a sentence for each DNS server that gives false answers.
func (l *lookups) problems() []string {
	if l.dns == nil {
		return nil
	}
	return l.dns.Problems()
}

func (l *lookups) close() error {
	var errs []error
	for i := len(l.closers) - 1; i >= 0; i-- {
		errs = append(errs, l.closers[i]())
	}
	return errors.Join(errs...)
}

// addressTables opens the files of networks and countries and parses the blocklists.
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
