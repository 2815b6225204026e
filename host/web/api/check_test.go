package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"assay/host/access/admission"
	"assay/host/check"
	"assay/host/internal/internet"
	"assay/host/web/refusal"
	"assay/registry/expect"
)

func TestResultMatchesTheContract(t *testing.T) {
	t.Parallel()
	r := start(t, Config{}).check(t, `{"domain":"paypa1-secure-login.xyz"}`)
	r.wellBehaved(t)
	ref := r.body[strings.Index(r.body, "chk_"):]
	ref = ref[:strings.Index(ref, `"`)]
	want := `{"score":94,"verdict":"block","signals":["first","second"],"dominant_threat":"phishing","type":"domain",` +
		`"query":"paypa1-secure-login.xyz","timestamp":"2026-01-15T10:30:00.123Z","ref":"` + ref + `"}`
	expect.NoDiff(t, "difference", want, r.body)
	expect.Equal(t, "Cache-Control", r.header.Get("Cache-Control"), "no-store")
	got := newResult(&check.Decision{})
	expect.That(t, got.Signals != nil && got.Threat == nil, "signals %v, threat %v; want an empty list and null",
		got.Signals, got.Threat)
}

func TestContentType(t *testing.T) {
	t.Parallel()
	s := start(t, Config{})
	const body = `{"domain":"example.com"}`
	type testCase struct {
		headers []string
		status  int
	}
	expect.Each(t, map[string]testCase{
		"no Content-Type":         {nil, 200},
		"form, as curl -d sends":  {[]string{"Content-Type", "application/x-www-form-urlencoded"}, 200},
		"malformed type":          {[]string{"Content-Type", "application/json;;="}, 415},
		"utf-16":                  {[]string{"Content-Type", "application/json; charset=utf-16"}, 415},
		"upper case":              {[]string{"Content-Type", "APPLICATION/JSON"}, 200},
		"charset utf-8":           {[]string{"Content-Type", `application/json; charset="UTF-8"`}, 200},
		"identity":                {[]string{"Content-Encoding", "identity"}, 415},
		"second of two encodings": {[]string{"Content-Encoding", "", "Content-Encoding", "gzip"}, 415},
		"two Content-Types":       {[]string{"Content-Type", "application/json", "Content-Type", "text/plain"}, 400},
	}, func(t *testing.T, test testCase) {
		s.ask(t, goodKey, "POST /api/check", body, test.headers...).is(t, "answer", test.status)
	})
}

// Only a plausible key in a single header is looked up.
func TestAuthorization(t *testing.T) {
	t.Parallel()
	all, some := start(t, Config{Keys: keyFunc(func(context.Context, string) (check.Caller, error) {
		return check.Caller{}, nil
	})}), start(t, Config{})
	want := failure{Code: refusal.Unauthorized, Error: "the API key is missing, malformed, revoked or cancelled"}
	type testCase struct {
		site       *site
		lines      []string
		path, body string
		status     int
	}
	of := func(status int, lines ...string) testCase { return testCase{all, lines, "", exampleBody, status} }
	expect.Each(t, map[string]testCase{
		"plain":                  of(200, "Bearer key_0-9.~+/="),
		"longest":                of(200, "Bearer "+strings.Repeat("k", 256)),
		"upper case, two spaces": of(200, "BEARER  k"),
		"scheme and space":       of(401, "Bearer "),
		"key only":               of(401, "k"),
		"basic":                  of(401, "Basic k"),
		"two the same":           of(401, "Bearer k", "Bearer k"),
		"a list":                 of(401, "Bearer k, Bearer k"),
		"tab":                    of(401, "Bearer a\tb"),
		"not ASCII":              of(401, "Bearer ké"),
		"not UTF-8":              of(401, "Bearer k\xff"),
		"too long":               of(401, "Bearer "+strings.Repeat("k", 257)),
		"unknown":                {some, []string{"Bearer key-unknown"}, "", exampleBody, 401},
		"in the query": {some, nil, "?key=" + goodKey + "&authorization=Bearer+" + goodKey, exampleBody,
			401},
		"good key, invalid body":  {some, []string{"Bearer " + goodKey}, "", "{", 400},
		"wrong key, invalid body": {some, []string{"Bearer key-unknown"}, "", "{", 401},
	}, func(t *testing.T, test testCase) {
		var headers []string
		for _, line := range test.lines {
			headers = append(headers, "Authorization", line)
		}
		r := test.site.send(t, http.MethodPost, "/api/check"+test.path, test.body, headers...)
		r.is(t, "answer", test.status)
		if r.status == http.StatusUnauthorized {
			expect.NoDiff(t, "difference", want, r.failure(t))
		}
	})
}

func TestErrorsOfACheck(t *testing.T) {
	t.Parallel()
	s := start(t, Config{})
	internal := failure{Code: refusal.Internal,
		Error: "an internal error occurred; quote the ref when you contact support"}
	for key, test := range map[string]struct {
		status int
		body   failure // an internal error has a ref besides
	}{
		freeKey: {403, failure{Code: refusal.Plan,
			Error: "the free plan does not cover iban checks, only domain and email"}},
		busyKey: {503, failure{Code: refusal.Busy, Error: admission.ErrBusy.Error()}},
		failKey: {500, internal}, downKey: {500, internal}, panicKey: {500, internal},
	} {
		r := s.ask(t, key, "POST /api/check", `{"iban":"DE89370400440532013000"}`)
		r.is(t, key, test.status)
		got := r.failure(t)
		if test.status == 500 {
			expect.That(t, strings.HasPrefix(got.Ref, "chk_") && strings.Contains(s.log.String(), got.Ref) &&
				(key != failKey || got.Ref == knownRef), "%s: ref %q", key, got.Ref)
			got.Ref = ""
		}
		expect.NoDiff(t, key, test.body, got)
	}
	expect.Equal(t, "bytes of a panic logged", len(newPanic(strings.Repeat("x", 1000)).text), 256)
}

// Strings from a request must not share memory with fiber's buffers, which the next request overwrites.
func TestStringsOutliveTheRequest(t *testing.T) {
	t.Parallel()
	s := start(t, Config{})
	client := http.Client{Transport: &http.Transport{}} // uses one connection, and so the same buffers
	defer client.CloseIdleConnections()
	var want, got []string
	for n := range 200 {
		body := fmt.Sprintf(
			`{"region":{"country":"c%06d"},"domain":"d%06d.example","email":"e%06d@example.com"}`, n, n, n)
		req := expect.Value(http.NewRequest(http.MethodPost, "http://"+s.addr+"/api/check", strings.NewReader(body)))(t)
		req.Header.Set("Authorization", "Bearer "+goodKey)
		readReply(t, expect.Value(client.Do(req))(t)).is(t, body, 200, fmt.Sprintf(`"query":"d%06d.example"`, n))
		want = append(want, fmt.Sprintf("%s c%06d [domain=d%06d.example email=e%06d@example.com]", goodKey, n, n, n))
	}
	for _, req := range s.checker.requests() {
		got = append(got, fmt.Sprint(req.Caller.Account, " ", req.Country, " ", fieldsOf(req)))
	}
	expect.NoDiff(t, "difference", want, got)
}

func (s *site) batch(t testing.TB, body string) reply {
	t.Helper()
	return s.ask(t, goodKey, "POST "+batchPath, body, "Content-Type", "application/json")
}

func TestBatch(t *testing.T) {
	t.Parallel()
	s := start(t, Config{})
	r := s.batch(t, `{"x":1,"checks":[
		{"domain":"example.com","region":{"country":"FR"}}, {"email":7}, {}, "domain", {"iban":"DE89","domain":" "},
		{"domain":"a.com","x":[[[[[[[[]]]]]]]]}, {"domain":"a\u0000b.com"}, null
	]}`)
	r.is(t, "a batch", 200)
	var body struct {
		Results []struct{ Type, Query, Ref, Error string }
	}
	expect.NoError(t, json.Unmarshal([]byte(r.body), &body))
	var got []string
	for _, a := range body.Results {
		got = append(got, strings.TrimSpace(fmt.Sprint(a.Type, " ", a.Query, " ", a.Error)))
		expect.That(t, (a.Ref == "") == (a.Error != ""), "ref %q together with error %q", a.Ref, a.Error)
	}
	want := []string{
		"domain example.com",
		"email: must be a string, not a number",
		"one of domain, email, phone or iban is required",
		"the request must be a JSON object, not a string",
		"iban DE89",
		"the request is nested more than 8 levels deep",
		"domain: must not contain control characters",
		"the request must be a JSON object, not null",
	}
	expect.NoDiff(t, "difference", want, got)
	seen := s.checker.requests()
	expect.That(t, len(seen) == 2 && seen[0].Country == "FR" && seen[0].Caller.Account == goodKey, "checked %+v", seen)
}

func TestLargestBatch(t *testing.T) {
	t.Parallel()
	s, item := start(t, Config{}), `{"domain":"`+strings.Repeat("a", 1000)+`.com"}`
	r := s.batch(t, `{"checks":[`+strings.TrimSuffix(strings.Repeat(item+",", check.MaxBatch), ",")+`]}`)
	expect.That(t, r.status == 200 && len(s.checker.requests()) == check.MaxBatch, "status %d, %d requests: %.200s",
		r.status, len(s.checker.requests()), r.body)
	// Only a batch has the larger limit.
	blanks := strings.Repeat(" ", maxBatchBody)
	s.check(t, exampleBody+blanks[:maxBody-len(exampleBody)]).is(t, "a single check at the limit", 200)
	exceeds := fmt.Sprintf("the body exceeds %d bytes", maxBody)
	s.check(t, blanks[:maxBody+1]).is(t, "a single check", 413, exceeds)
	s.send(t, "POST", "/api/check", blanks[:maxBody+1]).is(t, "an oversize body without a key", 413, exceeds)
	s.batch(t, blanks+" ").is(t, "a batch", 413, fmt.Sprintf("the body exceeds %d bytes", maxBatchBody))
	for target, limit := range map[string]int{"http://assay.example" + batchPath + "?a=/": maxBatchBody,
		"/x://a" + batchPath: maxBody, "http://assay.example": maxBody} {
		var h fasthttp.RequestHeader
		h.SetRequestURI(target)
		expect.Equal(t, "limit of "+target, bodyLimit(&h), limit)
	}
}

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

// publicOf is a limit of which every check ends like those of an account.
type publicOf struct {
	*public
	account string
}

func (r publicOf) Caller() check.Caller {
	return check.Caller{Account: r.account, Plan: check.PublicPlan()}
}

// A 503 counts nothing.
func TestRefusedPublicChecksAreNotCounted(t *testing.T) {
	t.Parallel()
	for account, want := range map[string]int{busyKey: 0, lateKey: 0, failKey: 1} {
		p := &public{limit: 1}
		start(t, Config{Public: publicOf{p, account}}).send(t, "POST", "/api/check-public", exampleBody)
		expect.Equal(t, account+": uses counted", p.uses("127.0.0.1/32"), want)
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
		headers, trusted []string
		noticed          bool
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
		at := s.Forwarded()
		expect.That(t, !at.IsZero() == test.noticed && (!test.noticed || time.Since(at) <= time.Hour),
			"the proxy was noticed at %v", at)
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
	expect.That(t, !block(netip.Addr{}).IsValid(), "no address has a block")
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
		if internet.Within(got, trusted) {
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
