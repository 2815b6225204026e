package apikey_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp/cmpopts"

	"assay/host/access/apikey"
	"assay/registry/expect"
)

func TestParseScopes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, given, err string
		want             []apikey.Scope
	}{
		{"none", "", "", nil},
		{"one", "events", "", []apikey.Scope{apikey.ScopeEvents}},
		{"in another order, twice", "privacy check privacy", "",
			[]apikey.Scope{apikey.ScopeCheck, apikey.ScopePrivacy}},
		{"all", "check batch events feedback overrides privacy", "", apikey.Scopes()},
		{"unknown", "check admin",
			`unknown scope "admin"; the scopes are check, batch, events, feedback, overrides and privacy`, nil},
		{"upper case", "Check", `unknown scope "Check"`, nil},
	} {
		got, err := apikey.ParseScopes(strings.Fields(c.given))
		expect.NoDiff(t, c.name, c.want, got)
		expect.Outcome(t, c.name, err, c.err)
	}
}

func TestLimitsPermit(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		limits apikey.Limits
		want   string
	}{
		"no limits":             {apikey.Limits{}, "check batch events feedback overrides privacy"},
		"one scope":             {apikey.Limits{Scopes: []apikey.Scope{apikey.ScopeEvents}}, "events"},
		"a test key":            {apikey.Limits{Test: true}, "check batch"},
		"a test key for checks": {apikey.Limits{Test: true, Scopes: []apikey.Scope{apikey.ScopeCheck}}, "check"},
		"a test key for events": {apikey.Limits{Test: true, Scopes: []apikey.Scope{apikey.ScopeEvents}}, ""},
	} {
		var got []string
		for _, s := range apikey.Scopes() {
			if c.limits.Permits(s) {
				got = append(got, string(s))
			}
		}
		expect.Equal(t, name+": permits", strings.Join(got, " "), c.want)
	}
}

func TestLimitsAdmit(t *testing.T) {
	t.Parallel()
	type testCase struct {
		networks, addr string
		want           bool
	}
	expect.Each(t, map[string]testCase{
		"no list":                      {"", "192.0.2.7", true},
		"no list, no address":          {"", "", true},
		"a list, no address":           {"0.0.0.0/0 ::/0", "", false},
		"a single address":             {"192.0.2.7", "192.0.2.7", true},
		"its neighbour":                {"192.0.2.7", "192.0.2.8", false},
		"the last of a network":        {"192.0.2.0/25", "192.0.2.127", true},
		"the next network":             {"192.0.2.0/25", "192.0.2.128", false},
		"IPv6":                         {"2001:db8::/32", "2001:db8:ffff::1", true},
		"the next IPv6 network":        {"2001:db8::/32", "2001:db9::1", false},
		"the second of two":            {"192.0.2.0/24 2001:db8::/32", "2001:db8::1", true},
		"IPv4 is not in ::/0":          {"::/0", "192.0.2.7", false},
		"an address as IPv6 writes it": {"::ffff:192.0.2.7", "192.0.2.7", true},
	}, func(t *testing.T, c testCase) {
		networks := expect.Value(apikey.ParseNetworks(strings.Fields(c.networks)))(t)
		addr, _ := netip.ParseAddr(c.addr)
		expect.Equal(t, "admitted", (apikey.Limits{Networks: networks}).Admits(addr), c.want)
	})
}

func TestParseNetworks(t *testing.T) {
	t.Parallel()
	var many []string
	for i := range apikey.MaxNetworks {
		many = append(many, fmt.Sprintf("10.%d.0.0/16", i))
	}
	for name, c := range map[string]struct {
		given []string
		want  []string
		err   string
	}{
		"none":                {},
		"both forms, twice":   {[]string{"192.0.2.7", "::1", "192.0.2.7/32"}, []string{"192.0.2.7/32", "::1/128"}, ""},
		"the most":            {many, many, ""},
		"one more":            {append(many, "10.99.0.0/16"), nil, "at most 50 networks"},
		"no address":          {[]string{"office"}, nil, `"office" is neither an address nor a network`},
		"too long a prefix":   {[]string{"192.0.2.0/33"}, nil, "is neither"},
		"a zone":              {[]string{"fe80::1%eth0"}, nil, "is neither"},
		"IPv4 mapped, prefix": {[]string{"::ffff:192.0.2.0/120"}, nil, "is neither"},
		"address and length":  {[]string{"192.0.2.7/24"}, nil, "the network is 192.0.2.0/24, the address 192.0.2.7"},
	} {
		got, err := apikey.ParseNetworks(c.given)
		var texts []string
		for _, p := range got {
			texts = append(texts, p.String())
		}
		expect.NoDiff(t, name, c.want, texts, cmpopts.EquateEmpty())
		expect.Outcome(t, name, err, c.err)
	}
}
