package resolver

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/miekg/dns"
)

// Status says what an answer is.
type Status string

// The statuses. NXDomain is of the name that was asked for, NoData of a name that exists without records of the kind.
const (
	OK       Status = "ok"
	NoData   Status = "nodata"
	NXDomain Status = "nxdomain"
	Dangling Status = "dangling" // an alias of a name that does not exist
	ServFail Status = "servfail" // the resolver could not find out, or what it found was not signed as it must be
)

// Answer is what the DNS says, cleaned: of the records of the kind asked for, those at the end of the chain of aliases.
type Answer struct {
	Status    Status
	Addresses []netip.Addr // A, AAAA: sorted, each once
	Hosts     []Host       // NS, MX: sorted by preference and name, each once; host names only
	Policies  []string     // TXT: those that begin with "v=", printable ASCII
	Alias     string       // the end of the chain of aliases, "" when there is none
	Records   int          // how many records there were, before any were cut off
	TTL       time.Duration
	Authentic bool // the resolver validated it by DNSSEC
	Bogus     bool // with ServFail: the resolver says that DNSSEC validation failed
	Stale     bool // past its time, and no new one to be had
}

// Host is a name server or mail server. The name of a null MX (RFC 7505) is "".
type Host struct {
	Name       string
	Preference int
}

const (
	maxAliases     = 12 // as many as common resolvers follow
	maxKept        = 32 // addresses or hosts
	maxPolicies    = 8
	maxPolicyBytes = 2048
)

var errAliases = errors.New("the aliases go in a circle or too far")

// decode reads an answer that belongs to q, and how long it may be kept.
func decode(q Question, m *dns.Msg) (Answer, time.Duration, error) {
	switch m.Rcode {
	case dns.RcodeSuccess, dns.RcodeNameError:
	case dns.RcodeServerFailure:
		return Answer{Status: ServFail, Bogus: failedValidation(m)}, failTTL, nil
	default:
		return Answer{}, failTTL, fmt.Errorf("the server answers %s", dns.RcodeToString[m.Rcode])
	}
	a := Answer{Authentic: m.AuthenticatedData}
	ttl := ^uint32(0)
	aliases := map[string]*dns.CNAME{}
	for _, rr := range m.Answer {
		if alias, ok := rr.(*dns.CNAME); ok && alias.Hdr.Class == dns.ClassINET {
			if owner := dns.CanonicalName(alias.Hdr.Name); aliases[owner] == nil {
				aliases[owner] = alias
			}
		}
	}
	end := q.Name
	for steps := 0; aliases[end] != nil; steps++ {
		if steps == maxAliases {
			return Answer{}, failTTL, errAliases
		}
		ttl = min(ttl, aliases[end].Hdr.Ttl)
		end = dns.CanonicalName(aliases[end].Target)
	}
	if end != q.Name {
		a.Alias = hostName(end)
	}
	for _, rr := range m.Answer {
		h := rr.Header()
		if h.Rrtype != uint16(q.Kind) || h.Class != dns.ClassINET || dns.CanonicalName(h.Name) != end {
			continue // belongs to another name: whoever answers could put anything there
		}
		ttl = min(ttl, h.Ttl)
		a.Records++
		a.add(rr)
	}
	a.tidy()
	if a.Records > 0 && m.Rcode == dns.RcodeSuccess {
		a.Status, a.TTL = OK, time.Duration(ttl)*time.Second
		return a, min(max(a.TTL, minTTL), maxTTL), nil
	}
	none := Answer{Status: NoData, Alias: a.Alias, Authentic: a.Authentic}
	if m.Rcode == dns.RcodeNameError {
		none.Status = NXDomain
		if end != q.Name { // the code is about the end of the chain (RFC 6604 section 3)
			none.Status = Dangling
		}
	}
	return none, min(max(missTTL(m), minMissTTL), maxMissTTL), nil
}

// add takes over one record.
func (a *Answer) add(rr dns.RR) {
	switch rr := rr.(type) {
	case *dns.A:
		if addr, ok := netip.AddrFromSlice(rr.A); ok {
			a.Addresses = append(a.Addresses, addr.Unmap())
		}
	case *dns.AAAA:
		if addr, ok := netip.AddrFromSlice(rr.AAAA); ok {
			a.Addresses = append(a.Addresses, addr)
		}
	case *dns.NS:
		a.addHost(rr.Ns, 0)
	case *dns.MX:
		a.addHost(rr.Mx, int(rr.Preference))
	case *dns.TXT:
		text := strings.Join(rr.Txt, "") // one record's strings are one text (RFC 7208 section 3.3)
		if len(text) >= 2 && strings.EqualFold(text[:2], "v=") && len(a.Policies) < maxPolicies {
			a.Policies = append(a.Policies, strings.Clone(text[:min(len(text), maxPolicyBytes)]))
		}
	}
}

func (a *Answer) addHost(name string, preference int) {
	if name = dns.CanonicalName(name); name == "." {
		a.Hosts = append(a.Hosts, Host{"", preference})
	} else if host := hostName(name); host != "" {
		a.Hosts = append(a.Hosts, Host{host, preference})
	}
}

// tidy sorts, removes doubles and cuts.
func (a *Answer) tidy() {
	slices.SortFunc(a.Addresses, netip.Addr.Compare)
	a.Addresses = slices.Clone(cut(slices.Compact(a.Addresses)))
	slices.SortFunc(a.Hosts, func(x, y Host) int {
		return cmp.Or(cmp.Compare(x.Preference, y.Preference), strings.Compare(x.Name, y.Name))
	})
	a.Hosts = slices.Clone(cut(slices.Compact(a.Hosts)))
	slices.Sort(a.Policies)
}

func cut[T any](all []T) []T { return all[:min(len(all), maxKept)] }

// hostName returns a canonical name without its last dot, or "" when it holds what no host's name can: names in the DNS
// may hold any byte.
func hostName(name string) string {
	name = strings.TrimSuffix(name, ".")
	for i := range len(name) {
		c := name[i]
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '_' && c != '.' {
			return ""
		}
	}
	return name
}

// missTTL is how long the absence may be kept (RFC 2308 section 5): 0 when the answer does not say.
func missTTL(m *dns.Msg) time.Duration {
	for _, rr := range m.Ns {
		if soa, ok := rr.(*dns.SOA); ok {
			return time.Duration(min(soa.Hdr.Ttl, soa.Minttl)) * time.Second
		}
	}
	return 0
}

// failedValidation says whether the resolver tells that the failure is DNSSEC's (extended errors 6 to 10 and 12, RFC
// 8914).
func failedValidation(m *dns.Msg) bool {
	opt := m.IsEdns0()
	if opt == nil {
		return false
	}
	for _, o := range opt.Option {
		if e, ok := o.(*dns.EDNS0_EDE); ok && (e.InfoCode >= 6 && e.InfoCode <= 10 || e.InfoCode == 12) {
			return true
		}
	}
	return false
}

// bytes is about how much memory the answer takes.
func (a *Answer) bytes() int {
	n := 150 + 24*len(a.Addresses) + len(a.Alias)
	for _, h := range a.Hosts {
		n += 24 + len(h.Name)
	}
	for _, p := range a.Policies {
		n += 16 + len(p)
	}
	return n
}
