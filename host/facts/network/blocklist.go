package network

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"sync"

	"golang.org/x/net/publicsuffix"

	"assay/host/facts"
	"assay/host/facts/resolver"
)

// Blocklist is a DNS zone that lists addresses or domains (RFC 5782).
type Blocklist struct {
	Zone    string
	Domains bool // true for a list of domains, false for a list of addresses
}

// ParseBlocklist parses a setting: a zone that lists addresses, or "domain:" followed by a zone that lists domains.
func ParseBlocklist(text string) (Blocklist, error) {
	zone, domains := strings.CutPrefix(strings.TrimSpace(text), "domain:")
	zone = strings.ToLower(strings.Trim(zone, "."))
	if _, err := publicsuffix.EffectiveTLDPlusOne(zone); err != nil ||
		strings.Trim(zone, "abcdefghijklmnopqrstuvwxyz0123456789-_.") != "" {
		return Blocklist{}, errors.New("a zone is not of the form zen.spamhaus.org or domain:dbl.spamhaus.org")
	}
	return Blocklist{Zone: zone, Domains: domains}, nil
}

// blocklist queries a Blocklist.
type blocklist struct {
	Blocklist
	resolver Resolver
	log      *slog.Logger
	warned   sync.Once
}

var (
	// Valid answers; some lists of domains use 127.0.1.x.
	addressAnswers = netip.MustParsePrefix("127.0.0.0/24")
	domainAnswers  = netip.MustParsePrefix("127.0.0.0/16")
	// refusal is the answer of lists that refuse a resolver, and of many resolvers that block names.
	refusal = netip.MustParseAddr("127.0.0.1")
)

// lookUp returns "zone=answer" if the list contains name, a domain or a reversed address, and "" otherwise. It fails if
// the answer is an error code, or if the list contains its control name, which must never be listed.
func (l *blocklist) lookUp(ctx context.Context, name string) (string, error) {
	control := "1.0.0.127" // RFC 5782 section 5: never listed
	if l.Domains {
		control = "invalid"
	}
	controlErr := make(chan error, 1)
	go func() {
		a, err := l.resolver.Lookup(ctx, resolver.Question{Name: control + "." + l.Zone, Type: resolver.A})
		if err == nil && a.Status == resolver.OK {
			err = fmt.Errorf("%w: the blocklist %s lists everything", facts.ErrUnanswered, l.Zone)
			l.warn(err)
		}
		controlErr <- err
	}()
	a, err := l.resolver.Lookup(ctx, resolver.Question{Name: name + "." + l.Zone, Type: resolver.A})
	if err == nil {
		err = <-controlErr
	}
	if err != nil {
		return "", err
	}
	switch a.Status {
	case resolver.OK:
	case resolver.NXDomain, resolver.NoData:
		return "", nil
	default:
		return "", fmt.Errorf("%w: the blocklist %s answers %s", facts.ErrUnanswered, l.Zone, a.Status)
	}
	within := addressAnswers
	if l.Domains {
		within = domainAnswers
	}
	for _, answer := range a.Addresses {
		if !within.Contains(answer) || answer == refusal {
			err := fmt.Errorf("%w: the blocklist %s answers %s, which is not a listing: it may not serve this resolver",
				facts.ErrUnanswered, l.Zone, answer)
			l.warn(err)
			return "", err
		}
	}
	return l.Zone + "=" + a.Addresses[0].String(), nil
}

// warn logs the first error only, because every check would repeat it.
func (l *blocklist) warn(err error) {
	l.warned.Do(func() { l.log.Warn("DNS blocklist is not used", "error", err) })
}
