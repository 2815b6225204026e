package network_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path"
	"path/filepath"
	"testing"

	"github.com/maxmind/mmdbwriter"
	"github.com/maxmind/mmdbwriter/mmdbtype"

	"assay/host/entity"
	"assay/host/facts"
	"assay/host/facts/network"
	"assay/host/facts/resolver"
	"assay/host/facts/resolver/resolvertest"
	"assay/registry/expect"
)

// ranges writes a MaxMind-format file.
func ranges(t *testing.T, records map[string]mmdbtype.DataType) *network.Ranges {
	t.Helper()
	tree := expect.Value(mmdbwriter.New(mmdbwriter.Options{DatabaseType: "Test", RecordSize: 24}))(t)
	for text, record := range records {
		_, prefix, err := net.ParseCIDR(text)
		expect.NoError(t, err)
		expect.NoError(t, tree.Insert(prefix, record))
	}
	file := expect.Value(os.Create(filepath.Join(t.TempDir(), "test.mmdb")))(t)
	defer file.Close()
	expect.Value(tree.WriteTo(file))(t)
	return expect.Value(network.OpenRanges(file.Name()))(t)
}

func system(number uint32, organisation string) mmdbtype.Map {
	return mmdbtype.Map{"autonomous_system_number": mmdbtype.Uint32(number),
		"autonomous_system_organization": mmdbtype.String(organisation)}
}

const hosts = `
	one.com. 60 IN A 41.0.0.9
	two.com. 60 IN A 42.0.0.9
	two.com. 60 IN A 41.0.0.9
	two.com. 60 IN A 10.0.0.9
	six.com. 60 IN AAAA 2a00:1450::9
	unknown.com. 60 IN A 99.0.0.9
	private.com. 60 IN A 10.0.0.9
	info.com. 60 IN A 43.0.0.9
	odd.com. 60 IN A 44.0.0.9
`

func TestNetTables(t *testing.T) {
	t.Parallel()
	asns := ranges(t, map[string]mmdbtype.DataType{
		"41.0.0.0/8":     system(13335, "Cloud\x00flare,  Inc."),
		"42.0.0.0/8":     system(701, "Elder Network"),
		"2a00:1450::/32": system(15169, "Google LLC"),
		"43.0.0.0/8": mmdbtype.Map{"asn": mmdbtype.String("AS64500"), "as_name": mmdbtype.String("Info Net"),
			"country_code": mmdbtype.String("NL")},
		"44.0.0.0/8": mmdbtype.Map{"autonomous_system_number": mmdbtype.String("many"), "asn": mmdbtype.Uint32(4)},
	})
	iso := func(code string) mmdbtype.Map { return mmdbtype.Map{"iso_code": mmdbtype.String(code)} }
	countries := ranges(t, map[string]mmdbtype.DataType{
		"41.0.0.0/8":     mmdbtype.Map{"country": iso("US"), "registered_country": iso("IE")},
		"42.0.0.0/8":     mmdbtype.Map{"registered_country": iso("DE")},
		"2a00:1450::/32": mmdbtype.Map{"country": iso("IE")},
		"43.0.0.0/8": mmdbtype.Map{"country": mmdbtype.String("Netherlands"),
			"country_code": mmdbtype.String("NL")},
		"44.0.0.0/8": mmdbtype.Map{"country": iso("<b>")},
	})
	expect.Each(t, map[string]entity.Facts{
		"one.com":     {"net.asn": "AS13335", "net.org": "Cloud flare, Inc.", "net.country": "US"},
		"two.com":     {"net.asn": "AS701 AS13335", "net.org": "Elder Network", "net.country": "DE US"},
		"six.com":     {"net.asn": "AS15169", "net.org": "Google LLC", "net.country": "IE"},
		"info.com":    {"net.asn": "AS64500", "net.org": "Info Net", "net.country": "NL"},
		"odd.com":     {},
		"unknown.com": {},
		"private.com": {},
		"missing.com": {},
	}, func(t *testing.T, want entity.Facts) {
		source := network.NewNet(network.NetConfig{Resolver: ask(t, resolvertest.Start(t, hosts)), ASNs: asns,
			Countries: countries, Logger: discard()})
		e := parse(t, entity.Domain, path.Base(t.Name()))
		expect.NoDiff(t, "facts", want, expect.Value(source.Observe(t.Context(), e, wanting(all(source)...)))(t))
	})
}

func TestOpenRangesRefuses(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "broken.mmdb")
	expect.NoError(t, os.WriteFile(file, []byte("no such format"), 0o600))
	for _, name := range []string{file, file + ".missing"} {
		expect.ErrorText(t, name, expect.ErrorOf(network.OpenRanges(name)), name)
	}
}

func TestNetWithoutFilesAndBlocklists(t *testing.T) {
	t.Parallel()
	server := resolvertest.Start(t, hosts)
	source := network.NewNet(network.NetConfig{Resolver: ask(t, server), Logger: discard()})
	got, err := source.Observe(t.Context(), parse(t, entity.Domain, "one.com"), wanting(all(source)...))
	expect.That(t, err == nil && len(got) == 0 && len(server.Questions()) == 0, "%v, %v, asked %v", got, err,
		server.Questions())
}

// twoLists returns a source with a list of addresses and one of domains.
func twoLists(t *testing.T, server *resolvertest.Server) *network.Net {
	return network.NewNet(network.NetConfig{Resolver: ask(t, server), Logger: discard(),
		Blocklists: []network.Blocklist{{Zone: "bl.example.com"}, {Zone: "dbl.example.com", Domains: true}}})
}

func TestBlocklists(t *testing.T) {
	t.Parallel()
	const healthy = `
		2.0.0.127.bl.example.com. 60 IN A 127.0.0.2
		test.dbl.example.com. 60 IN A 127.0.1.2
	`
	type testCase struct {
		value, zone string
		want        entity.Facts
		unknown     bool
	}
	expect.Each(t, map[string]testCase{
		"not listed": {"one.com", "", entity.Facts{}, false},
		"address": {"one.com", "9.0.0.41.bl.example.com. 60 IN A 127.0.0.4",
			entity.Facts{"net.listed": "bl.example.com=127.0.0.4"}, false},
		"one of the addresses": {"two.com", "9.0.0.42.bl.example.com. 60 IN A 127.0.0.2",
			entity.Facts{"net.listed": "bl.example.com=127.0.0.2"}, false},
		"private addresses": {"private.com", "9.0.0.10.bl.example.com. 60 IN A 127.0.0.2", entity.Facts{}, false},
		"domain": {"www.one.com", "one.com.dbl.example.com. 60 IN A 127.0.1.4",
			entity.Facts{"net.domain_listed": "dbl.example.com=127.0.1.4"}, false},
		"resolver turned away": {"one.com", "9.0.0.41.bl.example.com. 60 IN A 127.255.255.254", entity.Facts{}, true},
		"resolver turned away, otherwise": {"one.com", "one.com.dbl.example.com. 60 IN A 127.0.0.1", entity.Facts{},
			true},
		"answers that are not listings": {"one.com", "9.0.0.41.bl.example.com. 60 IN A 93.184.215.14", entity.Facts{},
			true},
		"a listing and something else": {"one.com",
			"9.0.0.41.bl.example.com. 60 IN A 127.0.0.2\n9.0.0.41.bl.example.com. 60 IN A 127.255.255.255",
			entity.Facts{}, true},
		"list of addresses that lists all": {"one.com",
			"9.0.0.41.bl.example.com. 60 IN A 127.0.0.2\n1.0.0.127.bl.example.com. 60 IN A 127.0.0.2", entity.Facts{},
			true},
		"list of domains that lists all": {"one.com",
			"one.com.dbl.example.com. 60 IN A 127.0.1.2\ninvalid.dbl.example.com. 60 IN A 127.0.1.2", entity.Facts{},
			true},
		"address in a list of domains' range": {"one.com", "9.0.0.41.bl.example.com. 60 IN A 127.0.1.2", entity.Facts{},
			true},
	}, func(t *testing.T, tc testCase) {
		source := twoLists(t, resolvertest.Start(t, hosts+healthy+tc.zone))
		got, err := source.Observe(t.Context(), parse(t, entity.Domain, tc.value),
			wanting("net.listed", "net.domain_listed"))
		expect.That(t, (err != nil) == tc.unknown, "error %v, want one: %v", err, tc.unknown)
		expect.NoDiff(t, "result", tc.want, got)
	})
}

func TestBlocklistQueriesPerFact(t *testing.T) {
	t.Parallel()
	expect.Each(t, map[string][]string{
		"net.listed":        {"1.0.0.127.bl.example.com A", "9.0.0.41.bl.example.com A", "one.com A"},
		"net.domain_listed": {"invalid.dbl.example.com A", "one.com.dbl.example.com A"},
		"net.asn":           nil,
	}, func(t *testing.T, want []string) {
		server := resolvertest.Start(t, hosts)
		source := twoLists(t, server)
		expect.Value(source.Observe(t.Context(), parse(t, entity.Domain, "one.com"), wanting(path.Base(t.Name()))))(t)
		expect.NoDiff(t, "asked", want, server.Questions())
	})
}

// TestAddressLimit asserts that a name with many addresses causes a bounded number of queries.
func TestAddressLimit(t *testing.T) {
	t.Parallel()
	server := resolvertest.Start(t, "")
	for i := range 20 {
		server.Add(t, fmt.Sprintf("many.com. 60 IN A 41.0.%d.9", i))
	}
	source := network.NewNet(network.NetConfig{Resolver: ask(t, server), Logger: discard(),
		Blocklists: []network.Blocklist{{Zone: "bl.example.com"}}})
	expect.Value(source.Observe(t.Context(), parse(t, entity.Domain, "many.com"), wanting("net.listed")))(t)
	// The name, the list's own check and eight addresses.
	expect.Equal(t, "questions", len(server.Questions()), 1+1+8)
}

func TestParseBlocklist(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]network.Blocklist{
		"zen.spamhaus.org": {Zone: "zen.spamhaus.org"}, " ZEN.spamhaus.org. ": {Zone: "zen.spamhaus.org"},
		"domain:dbl.spamhaus.org":  {Zone: "dbl.spamhaus.org", Domains: true},
		"key123.zen.dq.example.de": {Zone: "key123.zen.dq.example.de"},
		"":                         {}, "org": {}, "domain:": {}, "a b.com": {}, "https://zen.spamhaus.org": {},
		"a..b.com": {},
	} {
		got, err := network.ParseBlocklist(text)
		expect.That(t, (err == nil) == (want.Zone != "") && (err != nil || got == want),
			"ParseBlocklist(%q) = %v, %v, want %v", text, got, err, want)
	}
}

// errorsByType is a resolver that fails with an error for each type of question.
type errorsByType map[resolver.Type]error

func (e errorsByType) Lookup(_ context.Context, q resolver.Question) (resolver.Answer, error) {
	err := e[q.Type]
	if err == nil {
		return resolver.Answer{Status: resolver.NXDomain}, nil
	}
	return resolver.Answer{}, fmt.Errorf("resolving %s: %w", q, err)
}

// TestWhoFailed checks that an error of this host's own is never reported as the silence of others, even next to one.
func TestWhoFailed(t *testing.T) {
	t.Parallel()
	type testCase struct {
		resolver   errorsByType
		unanswered bool
	}
	expect.Each(t, map[string]testCase{
		"silent servers": {errorsByType{resolver.A: resolver.ErrUnanswered, resolver.MX: resolver.ErrUnresponsive},
			true},
		"a busy host":         {errorsByType{resolver.A: resolver.ErrLate, resolver.MX: resolver.ErrUnanswered}, false},
		"a full resolver":     {errorsByType{resolver.A: resolver.ErrUnanswered, resolver.MX: resolver.ErrBusy}, false},
		"the end of the time": {errorsByType{resolver.MX: context.DeadlineExceeded}, false},
	}, func(t *testing.T, tt testCase) {
		_, err := network.NewDNS(tt.resolver).Observe(t.Context(), parse(t, entity.Domain, "example.com"),
			wanting("dns.a", "dns.mx"))
		expect.That(t, err != nil && errors.Is(err, facts.ErrUnanswered) == tt.unanswered, "dns: error %v", err)
		if tt.resolver[resolver.A] == nil {
			return
		}
		lists := network.NewNet(network.NetConfig{Resolver: tt.resolver, Logger: slog.New(slog.DiscardHandler),
			Blocklists: []network.Blocklist{{Zone: "dbl.example.org", Domains: true}}})
		_, err = lists.Observe(t.Context(), parse(t, entity.Domain, "example.com"), wanting("net.domain_listed"))
		want := errors.Is(tt.resolver[resolver.A], resolver.ErrUnanswered)
		expect.That(t, err != nil && errors.Is(err, facts.ErrUnanswered) == want, "net: error %v", err)
	})
}
