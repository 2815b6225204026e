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

// Status is the outcome of a lookup.
type Status string

// The outcomes of a lookup.
const (
	OK       Status = "ok"       // the name has records of the type
	NoData   Status = "nodata"   // the name exists, but has no records of the type
	NXDomain Status = "nxdomain" // the name does not exist
	Dangling Status = "dangling" // the name is an alias (CNAME) of a name that does not exist
	ServFail Status = "servfail" // resolution or DNSSEC validation failed
)

// Answer holds the records of the requested type that belong to the name or, if it is an alias, to its canonical name.
type Answer struct {
	Status    Status
	Addresses []netip.Addr  // A, AAAA: sorted, without duplicates, at most maxListed
	Hosts     []Host        // NS, MX: sorted by preference and name, without duplicates, at most maxListed
	Policies  []string      // TXT: SPF and DMARC records, printable ASCII; sorted, at most maxListed
	Alias     string        // the canonical name at the end of the CNAME chain; "" if the name is not an alias
	Records   int           // number of records in the response, including those not listed above
	TTL       time.Duration // smallest TTL of the records and of the CNAME chain; only with OK
	Authentic bool          // the server validated the answer with DNSSEC (AD bit)
	Bogus     bool          // with ServFail: the server reports that DNSSEC validation failed
}

// Host is a name server or mail server. A null MX (RFC 7505) has the name "".
type Host struct {
	Name       string
	Preference int
}

const (
	maxAliases     = 12 // length of a CNAME chain; common resolvers have similar limits
	maxListed      = 32 // addresses, hosts or policies in an answer
	maxPolicyBytes = 2048
)

var (
	errAliases = errors.New("the CNAME chain is circular or too long")
	errNoData  = errors.New("a record has no data")
)

// decode returns the answer in a response to q, and how long to cache it. It returns an error for response codes other
// than NOERROR, NXDOMAIN and SERVFAIL.
func decode(q Question, m *dns.Msg) (Answer, time.Duration, error) {
	switch m.Rcode {
	case dns.RcodeSuccess, dns.RcodeNameError:
	case dns.RcodeServerFailure:
		return Answer{Status: ServFail, Bogus: failedValidation(m)}, failureTTL, nil
	default:
		return Answer{}, failureTTL, fmt.Errorf("the server responded with %s", dns.RcodeToString[m.Rcode])
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
			return Answer{}, failureTTL, errAliases
		}
		ttl = min(ttl, aliases[end].Hdr.Ttl)
		end = dns.CanonicalName(aliases[end].Target)
	}
	if end != q.Name {
		a.Alias = hostName(end)
	}
	for _, rr := range m.Answer {
		h := rr.Header()
		if h.Rrtype != uint16(q.Type) || h.Class != dns.ClassINET || dns.CanonicalName(h.Name) != end {
			continue // a record of another name, which the server may have invented
		}
		if h.Rdlength == 0 { // only dynamic updates have such records (RFC 2136)
			return Answer{}, failureTTL, errNoData
		}
		ttl = min(ttl, h.Ttl)
		a.Records++
		a.add(rr)
	}
	a.normalize()
	if a.Records > 0 && m.Rcode == dns.RcodeSuccess {
		a.Status, a.TTL = OK, time.Duration(ttl)*time.Second
		return a, min(max(a.TTL, minTTL), maxTTL), nil
	}
	none := Answer{Status: NoData, Alias: a.Alias, Authentic: a.Authentic}
	if m.Rcode == dns.RcodeNameError {
		none.Status = NXDomain
		if end != q.Name { // the response code refers to the end of the CNAME chain (RFC 6604 section 3)
			none.Status = Dangling
		}
	}
	return none, min(max(negativeTTL(m), minNegativeTTL), maxNegativeTTL), nil
}

// add adds the data of one record.
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
		text := strings.Join(rr.Txt, "") // the strings of a record form one text (RFC 7208 section 3.3)
		version := strings.ToLower(text[:min(len(text), 8)])
		if strings.HasPrefix(version, "v=spf1") || version == "v=dmarc1" {
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

// normalize sorts the lists, removes duplicates and truncates to maxListed.
func (a *Answer) normalize() {
	slices.SortFunc(a.Addresses, netip.Addr.Compare)
	a.Addresses = slices.Clone(truncate(slices.Compact(a.Addresses)))
	slices.SortFunc(a.Hosts, func(x, y Host) int {
		return cmp.Or(cmp.Compare(x.Preference, y.Preference), strings.Compare(x.Name, y.Name))
	})
	a.Hosts = slices.Clone(truncate(slices.Compact(a.Hosts)))
	slices.Sort(a.Policies)
	a.Policies = slices.Clone(truncate(a.Policies))
}

func truncate[T any](all []T) []T { return all[:min(len(all), maxListed)] }

// hostName returns a canonical name without its trailing dot. It returns "" if the name contains bytes that are invalid
// in host names; DNS allows any byte (RFC 2181 section 11).
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

// negativeTTL returns the TTL of a negative answer (RFC 2308 section 5), or 0 if the response has no SOA record.
func negativeTTL(m *dns.Msg) time.Duration {
	for _, rr := range m.Ns {
		if soa, ok := rr.(*dns.SOA); ok {
			return time.Duration(min(soa.Hdr.Ttl, soa.Minttl)) * time.Second
		}
	}
	return 0
}

// failedValidation reports whether the response has an extended error for failed DNSSEC validation: 6 to 10 or 12 of
// RFC 8914 section 4.
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

// size estimates the memory that the answer takes, in bytes.
func (a *Answer) size() int {
	n := 150 + 24*len(a.Addresses) + len(a.Alias)
	for _, h := range a.Hosts {
		n += 24 + len(h.Name)
	}
	for _, p := range a.Policies {
		n += 16 + len(p)
	}
	return n
}
