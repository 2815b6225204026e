package network

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"sync"

	"golang.org/x/net/publicsuffix"

	"assay/host/facts/resolver"
)

// Blocklist is a zone of the DNS that lists addresses or domains (RFC 5782).
type Blocklist struct {
	Zone    string
	Domains bool // it lists domains, not addresses
}

// ParseBlocklist reads a setting: a zone that lists addresses, or "domain:" and one that lists domains.
func ParseBlocklist(text string) (Blocklist, error) {
	zone, domains := strings.CutPrefix(strings.TrimSpace(text), "domain:")
	zone = strings.ToLower(strings.Trim(zone, "."))
	if _, err := publicsuffix.EffectiveTLDPlusOne(zone); err != nil ||
		strings.Trim(zone, "abcdefghijklmnopqrstuvwxyz0123456789-_.") != "" {
		return Blocklist{}, fmt.Errorf("%q is no zone such as zen.spamhaus.org or domain:dbl.spamhaus.org", text)
	}
	return Blocklist{Zone: zone, Domains: domains}, nil
}

// blocklist asks a list.
type blocklist struct {
	Blocklist
	resolver Resolver
	log      *slog.Logger
	warned   sync.Once
}

var (
	// listings of addresses and of domains lie here; some lists of domains use 127.0.1.x.
	addressAnswers = netip.MustParsePrefix("127.0.0.0/24")
	domainAnswers  = netip.MustParsePrefix("127.0.0.0/16")
	// some lists' way to turn a resolver away, and many a false resolver's answer
	refusal = netip.MustParseAddr("127.0.0.1")
)

// look returns "zone=answer" when the list names name, a domain or a reversed address, and "" when it does not. A list
// that answers with error codes, or that names what none may name, is not believed.
func (l *blocklist) look(ctx context.Context, name string) (string, error) {
	control := "1.0.0.127" // RFC 5782 section 5: never listed
	if l.Domains {
		control = "invalid"
	}
	dead := make(chan error, 1)
	go func() {
		a, err := l.resolver.Ask(ctx, resolver.Question{Name: control + "." + l.Zone, Kind: resolver.A})
		if err == nil && a.Status == resolver.OK {
			err = fmt.Errorf("the blocklist %s lists everything", l.Zone)
			l.warn(err)
		}
		dead <- err
	}()
	a, err := l.resolver.Ask(ctx, resolver.Question{Name: name + "." + l.Zone, Kind: resolver.A})
	if err == nil {
		err = <-dead
	}
	if err != nil {
		return "", err
	}
	switch a.Status {
	case resolver.OK:
	case resolver.NXDomain, resolver.NoData:
		return "", nil
	default:
		return "", fmt.Errorf("the blocklist %s answers %s", l.Zone, a.Status)
	}
	within := addressAnswers
	if l.Domains {
		within = domainAnswers
	}
	for _, answer := range a.Addresses {
		if !within.Contains(answer) || answer == refusal {
			err := fmt.Errorf("the blocklist %s answers %s, which is no listing: it may not serve this resolver",
				l.Zone, answer)
			l.warn(err)
			return "", err
		}
	}
	return l.Zone + "=" + a.Addresses[0].String(), nil
}

// warn tells the operator once: every check would repeat it.
func (l *blocklist) warn(err error) {
	l.warned.Do(func() { l.log.Warn("a DNS blocklist is not used", "error", err) })
}
