// Package customer calls hosts as customers' programs do: checks, billing, privacy, the clients and the examples.
package customer

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"assay/host/cli"
	"assay/host/facts/resolver/resolvertest"
	"assay/host/hosttest"
	"assay/host/installation"
	"assay/host/store/postgres/postgrestest"
	"assay/registry"
	"assay/registry/expect"
)

func TestLookupSettings(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		given installation.Config
		want  string // the setting that the error names
	}{
		"defaults":         {installation.Config{}, ""},
		"no key for TLS":   {installation.Config{TLSCert: "c.pem"}, "ASSAY_TLS_KEY: it is empty"},
		"no certificate":   {installation.Config{TLSKey: "k.pem"}, "ASSAY_TLS_CERT: it is empty"},
		"a resolver":       {installation.Config{DNS: []string{"192.0.2.53:53", "[2001:db8::53]:5353"}}, ""},
		"a server and off": {installation.Config{DNS: []string{"192.0.2.53:53", "off"}}, "ASSAY_DNS"},
		"no port":          {installation.Config{DNS: []string{"192.0.2.53"}}, "ASSAY_DNS"},
		"no address":       {installation.Config{DNS: []string{":53"}}, "ASSAY_DNS"},
		"no scheme":        {installation.Config{RDAPURL: "rdap.example"}, "ASSAY_RDAP_URL"},
		"another scheme":   {installation.Config{RDAPURL: "ftp://rdap.example"}, "ASSAY_RDAP_URL"},
		"blocklists":       {installation.Config{DNSBL: []string{"zen.example.org", "domain:dbl.example.org"}}, ""},
		"a URL as a list":  {installation.Config{DNSBL: []string{"zen.example.org", "https://x"}}, "ASSAY_DNSBL"},
	} {
		test.given.Listen, test.given.DataDir = "127.0.0.1:0", "x"
		test.given.DatabaseConnections, test.given.Chains = 12, 1
		expect.Outcome(t, name, test.given.Validate(), test.want)
	}
	missing := filepath.Join(t.TempDir(), "none")
	for setting, c := range map[string]installation.Config{"ASSAY_MMDB_ASN": {MMDBASN: missing},
		"ASSAY_MMDB_COUNTRY": {MMDBCountry: missing}} {
		expect.ErrorText(t, "with a missing file", expect.ErrorOf(c.AddressTables()), setting)
	}
}

// TestLookups runs a host with a DNS server and an RDAP server on loopback. Another DNS server, which answers for names
// that do not exist, is not used, and the host says so.
func TestLookups(t *testing.T) {
	t.Parallel()
	server := resolvertest.Start(t, `
		established.com. 300 IN A 93.184.215.14
		established.com. 300 IN NS a.iana-servers.net.
		fresh-offer.com. 300 IN A 93.184.215.14
		fresh-offer.com. 300 IN NS a.share-dns.com.
		silent.com. 300 IN A 93.184.215.14
	`)
	portal := resolvertest.Start(t, "")
	portal.HandleAll(resolvertest.Redirect)
	silent := make(chan struct{})
	t.Cleanup(func() { close(silent) })
	for _, name := range []string{"silent.com", "_dmarc.silent.com"} {
		server.Handle(name, func(dns.ResponseWriter, *dns.Msg) { server.Wait(silent) })
	}
	registered := map[string]time.Time{"established.com": time.Date(1999, 1, 2, 0, 0, 0, 0, time.UTC),
		"fresh-offer.com": time.Now().Add(-80 * time.Hour)}
	rdap := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		domain := strings.TrimPrefix(r.URL.Path, "/domain/")
		created, ok := registered[domain]
		if domain == "never-answered.com" {
			<-r.Context().Done()
			return
		}
		if !ok {
			http.NotFound(w, r)
			return
		}
		fmt.Fprintf(w, `{"objectClassName": "domain", "events": [{"eventAction": "registration", "eventDate": %q}]}`,
			created.UTC().Format(time.RFC3339))
	}))
	t.Cleanup(rdap.Close)

	dir, database := hosttest.DataDir(t), postgrestest.Database(t)
	settings := []string{"--dns", server.Addr + "," + portal.Addr, "--rdap-url", rdap.URL}
	host := hosttest.StartHost(t, dir, database, settings...)
	b := hosttest.OpenStore(t, dir, database)
	issued := expect.Value(installation.IssueKey(t.Context(), b.Store, installation.Unlimited(), "test"))(t)
	// Only the layers that read these facts, with weights that make every signal count.
	l := hosttest.OutputJSON[struct{ Lineup registry.LineupDocument }](t, dir, database, "lineup", "show").Lineup
	l.Layers = nil
	for _, layer := range hosttest.OutputJSON[[]cli.LayerLine](t, dir, database, "layers", "list", "--all") {
		if layer.Name == "network" || layer.Name == "standing" {
			l.Layers = append(l.Layers, registry.LineupLayer{Layer: layer.Name + "@" + layer.Version,
				Weight: registry.ForAll(9)})
		}
	}
	expect.Value(hosttest.ActivateLineup(t.Context(), b, dir, l))(t)

	wantSignal := func(body, want string) {
		t.Helper()
		a := hosttest.WaitForScore(t, host, issued.Secret, body, func(a hosttest.Answer) bool {
			return slices.ContainsFunc(a.Signals, func(s string) bool { return strings.Contains(s, want) })
		})
		expect.That(t, a.Status == http.StatusOK, "%s: %+v", body, a)
	}
	wantSignal(`{"domain":"no-such-domain-at-all.com"}`, "The domain no-such-domain-at-all.com does not exist")
	wantSignal(`{"email":"jane@no-such-domain-at-all.com"}`, "No mail can reach it")
	wantSignal(`{"domain":"fresh-offer.com"}`, "fresh-offer.com was registered 3 days ago")
	wantSignal(`{"domain":"fresh-offer.com"}`, "Name servers of share-dns.com")
	wantSignal(`{"domain":"established.com"}`, "Registered since 1999")
	wantSignal(`{"domain":"never-answered.com"}`, "Assay: Scored without the domain's registration: no answer in time")
	wantSignal(`{"domain":"silent.com"}`, "Assay: Scored without DNS: no answer in time")

	// The command line reads the registrations that the host stored.
	shown := hosttest.OutputJSON[cli.Explanation](t, dir, database,
		append([]string{"check", "fresh-offer.com"}, settings...)...)
	expect.That(t, strings.Contains(strings.Join(shown.Signals, "\n"), "registered 3 days ago"), "assay check: %+v",
		shown)
	for path, want := range map[string]string{
		"/readyz": `{"status":"ready","degraded":["the DNS server ` + portal.Addr +
			` answers for names that do not exist"]}`,
		"/metrics": "assay_dns_untrusted_servers 1",
	} {
		hosttest.Has(t, hosttest.Get(t, host.Admin+path, ""), want)
	}
}

func TestMain(m *testing.M) { os.Exit(hosttest.Main(m)) }
