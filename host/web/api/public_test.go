package api

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"assay/registry/expect"
)

func prefixes(list ...string) (ps []netip.Prefix) {
	for _, s := range list {
		ps = append(ps, netip.MustParsePrefix(s))
	}
	return ps
}

func TestPublicChecksDomainsOnly(t *testing.T) {
	t.Parallel()
	s := start(t, Config{})
	type testCase struct {
		body   string
		status int
		text   string
	}
	expect.Each(t, map[string]testCase{
		"a domain":              {`{"domain":"example.com"}`, 200, `"type":"domain"`},
		"a domain and an email": {`{"email":"a@example.com","domain":"example.com"}`, 200, `"type":"domain"`},
		"email":                 {`{"email":"a@example.com"}`, 400, "domain: is required; without a key, only domains"},
		"empty object":          {`{}`, 400, "domain: is required"},
		"malformed":             {`{`, 400, "not valid JSON"},
	}, func(t *testing.T, test testCase) {
		s.send(t, "POST", "/api/check-public", test.body).is(t, "answer", test.status, test.text)
	})
	t.Cleanup(func() {
		for _, req := range s.checker.requests() {
			expect.NoDiff(t, "difference", []string{"domain=example.com"}, fieldsOf(req))
		}
	})
}

// Every check counts against the limit, even one with a key; a request that names no domain does not.
func TestPublicLimit(t *testing.T) {
	t.Parallel()
	s := start(t, Config{Public: &public{limit: 2}})
	const domain = `{"domain":"example.com"}`
	s.send(t, "POST", "/api/check-public", domain)
	s.send(t, "POST", "/api/check-public", "{")
	s.send(t, "POST", "/api/check-public", `{"domain":"no domain"}`)
	s.send(t, "POST", "/api/check-public", domain, "Content-Type", "text/plain")
	s.send(t, "GET", "/api/check-public", "") // not routed to the endpoint
	s.ask(t, goodKey, "POST /api/check-public", domain).is(t, "within the limit", 200)
	s.ask(t, goodKey, "POST /api/check-public", domain).is(t, "beyond the limit", 429,
		"the hourly limit of checks without a key is used up; it resets at 2026-01-15T11:00:00.000Z")
	late := start(t, Config{Public: &public{limit: 0}, Now: nextHour.UTC}).send(t, "POST", "/api/check-public",
		exampleBody)
	expect.Equal(t, "Retry-After at the end of the hour", late.header.Get("Retry-After"), "1")
	for _, req := range s.checker.requests() {
		expect.Equal(t, "checked for account", req.Caller.Account, "acct_public")
	}
}

func TestPublicLimitAppliesToTheClientAddress(t *testing.T) {
	t.Parallel()
	spoofed := []string{"X-Forwarded-For", "198.51.100.1", "X-Real-Ip", "198.51.100.2", "Forwarded", "for=198.51.100.3",
		"Cf-Connecting-Ip", "198.51.100.4"}
	s := start(t, Config{TrustedProxies: prefixes("10.0.0.0/8")})
	s.send(t, "POST", "/api/check-public", exampleBody, spoofed...)
	expect.Equal(t, "uses counted for an untrusted peer", s.public.uses("127.0.0.1/32"), 1)
	s = start(t, Config{TrustedProxies: prefixes("::ffff:127.0.0.0/104", "10.0.0.0/8")})
	s.send(t, "POST", "/api/check-public", exampleBody,
		append(spoofed, "X-Forwarded-For", "203.0.113.9, 10.1.2.3", "X-Forwarded-For", "10.9.9.9")...)
	expect.Equal(t, "uses counted for the client of proxies", s.public.uses("203.0.113.9/32"), 1)
	expect.That(t, s.Forwarded().IsZero(), "a proxy is taken for untrusted, at %v", s.Forwarded())
}

// An untrusted proxy is logged once, and named when its clients' limit is used up.
func TestUntrustedProxyIsNoticed(t *testing.T) {
	t.Parallel()
	type testCase struct {
		headers []string
		trusted []string
		noticed bool
	}
	expect.Each(t, map[string]testCase{
		"X-Forwarded-For":          {[]string{"X-Forwarded-For", "198.51.100.1"}, nil, true},
		"Forwarded":                {[]string{"Forwarded", "for=198.51.100.1"}, nil, true},
		"another proxy is trusted": {[]string{"X-Forwarded-For", "198.51.100.1"}, []string{"10.0.0.0/8"}, true},
		"the proxy is trusted":     {[]string{"X-Forwarded-For", "198.51.100.1"}, []string{"127.0.0.0/8"}, false},
		"no header":                {nil, nil, false},
	}, func(t *testing.T, test testCase) {
		s := start(t, Config{Public: &public{limit: 1}, TrustedProxies: prefixes(test.trusted...)})
		var last reply
		for range 3 {
			last = s.send(t, "POST", "/api/check-public", exampleBody, test.headers...)
		}
		expect.That(t, last.status == 429 && strings.Contains(last.body, "ASSAY_TRUSTED_PROXIES") == test.noticed,
			"status %d: %s", last.status, last.body)
		if at := s.Forwarded(); at.IsZero() == test.noticed || test.noticed && time.Since(at) > time.Hour {
			t.Errorf("the proxy was noticed at %v", at)
		}
		want := map[bool]int{true: 1}[test.noticed]
		expect.Equal(t, "lines in the log", strings.Count(s.log.String(), "a proxy is not trusted"), want)
	})
}

func TestHidesClients(t *testing.T) {
	t.Parallel()
	s := New(Config{TrustedProxies: prefixes("10.1.0.0/16")})
	var h fasthttp.RequestHeader
	h.Set("X-Forwarded-For", "198.51.100.1")
	for peer, want := range map[string]bool{
		"10.0.0.1": true, "172.17.0.1": true, "192.168.1.1": true, "127.0.0.1": true, "::1": true, "fd00::1": true,
		"169.254.1.1": true, "fe80::1%eth0": true, "100.64.0.1": true, "::ffff:10.0.0.1": true,
		"10.1.0.1": false, "::ffff:10.1.0.1": false, "203.0.113.1": false, "2001:db8::1": false, "100.128.0.1": false,
	} {
		expect.Equal(t, "hidesClients of "+peer, s.hidesClients(netip.MustParseAddr(peer), &h), want)
	}
}

func TestClientOf(t *testing.T) {
	t.Parallel()
	s := New(Config{TrustedProxies: prefixes("10.0.0.0/8")})
	for peer, want := range map[string]string{"10.0.0.1:80": "2001:db8:1:2::/64", "203.0.113.1:80": "203.0.113.1/32",
		"@": "invalid Prefix"} {
		expect.Equal(t, "the client of "+peer,
			s.ClientOf(peer, []string{"198.51.100.1", "2001:db8:1:2::3, 10.0.0.2"}).String(), want)
	}
}

func TestOriginalClient(t *testing.T) {
	t.Parallel()
	trusted := prefixes("10.0.0.0/8", "fd00::/8")
	for name, test := range map[string]struct{ peer, header, want string }{
		"untrusted peer":             {"203.0.113.1", "198.51.100.1", "203.0.113.1/32"},
		"no header":                  {"10.0.0.1", "", "10.0.0.1/32"},
		"one hop":                    {"10.0.0.1", "198.51.100.1", "198.51.100.1/32"},
		"fake, real":                 {"10.0.0.1", "1.1.1.1, 198.51.100.1", "198.51.100.1/32"},
		"through two proxies":        {"10.0.0.1", "1.1.1.1, 198.51.100.1, 10.0.0.2", "198.51.100.1/32"},
		"only proxies":               {"10.0.0.1", "10.0.0.3, 10.0.0.2", "10.0.0.3/32"},
		"garbage last":               {"10.0.0.1", "198.51.100.1, unknown", "10.0.0.1/32"},
		"garbage left of a proxy":    {"10.0.0.1", "198.51.100.1, <x>, 10.0.0.2", "10.0.0.2/32"},
		"garbage left of the client": {"10.0.0.1", "unknown, 198.51.100.1", "198.51.100.1/32"},
		"empty entry":                {"10.0.0.1", "198.51.100.1,", "10.0.0.1/32"},
		"IPv4 with port":             {"10.0.0.1", "198.51.100.1:5000", "198.51.100.1/32"},
		"IPv6":                       {"10.0.0.1", "2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"},
		"IPv6 with port":             {"10.0.0.1", "[2001:db8:1:2:3:4:5:6]:5000", "2001:db8:1:2::/64"},
		"IPv6 in brackets":           {"10.0.0.1", "[2001:db8:1:2:3:4:5:6]", "2001:db8:1:2::/64"},
		"IPv4 in brackets":           {"10.0.0.1", "[198.51.100.1]", "10.0.0.1/32"},
		"zone and port":              {"10.0.0.1", "[fe80::1%eth0]:80", "10.0.0.1/32"},
		"IPv4 within IPv6":           {"10.0.0.1", "::ffff:198.51.100.1", "198.51.100.1/32"},
		"IPv4 within IPv6, a proxy":  {"::ffff:10.0.0.1", "198.51.100.1, ::ffff:10.0.0.2", "198.51.100.1/32"},
		"zone":                       {"10.0.0.1", "fe80::1%eth0", "10.0.0.1/32"},
		"peer with zone":             {"fe80::1%eth0", "198.51.100.1", "fe80::/64"},
		"IPv6 proxies":               {"fd00::1", "2001:db8::1, fd00::2", "2001:db8::/64"},
		"a quoted address":           {"10.0.0.1", `"198.51.100.1"`, "10.0.0.1/32"},
	} {
		var entries []string
		if test.header != "" {
			entries = strings.Split(test.header, ",")
		}
		got := block(originalClient(netip.MustParseAddr(test.peer), entries, trusted))
		expect.That(t, got.String() == test.want, "%s: got %v, want %s", name, got, test.want)
	}
	got := block(netip.Addr{})
	expect.That(t, !got.IsValid(), "the block of no address is %v", got)
}

func FuzzOriginalClient(f *testing.F) {
	f.Add("1.1.1.1, 198.51.100.1, 10.0.0.2", "9.9.9.9")
	f.Add("[2001:db8::1]:80,, ::ffff:10.0.0.1", "x")
	f.Add("fe80::1%eth0", "")
	trusted := prefixes("10.0.0.0/8", "fd00::/8")
	peer := netip.MustParseAddr("10.0.0.1")
	f.Fuzz(func(t *testing.T, header, left string) {
		entries := strings.Split(header, ",")
		got := originalClient(peer, entries, trusted)
		expect.Must(t, got.IsValid() && got.Zone() == "" && !got.Is4In6() && block(got).IsValid(), "%q gives %v",
			header, got)
		stranger := netip.MustParseAddr("203.0.113.1")
		expect.Must(t, originalClient(stranger, entries, trusted) == stranger, "%q replaced an untrusted peer", header)
		if within(got, trusted) {
			return
		}
		// got is an untrusted hop, so entries to its left must not matter.
		again := originalClient(peer, append(strings.Split(left, ","), entries...), trusted)
		expect.Must(t, again == got, "%q gives %v, but with %q on its left %v", header, got, left, again)
		found := false
		for _, e := range entries {
			addr, ok := parseHop(e)
			found = found || ok && addr == got
		}
		expect.Must(t, found, "%v is not in %q", got, header)
	})
}
