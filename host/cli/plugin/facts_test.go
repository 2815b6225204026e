package plugin

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"assay/host/facts/resolver/resolvertest"
	"assay/host/hosttest"
	"assay/host/installation"
	"assay/host/lineup/rehearsal"
	"assay/host/store/postgres/postgrestest"
	"assay/registry/expect"
	"assay/registry/project"
)

// TestPluginFacts records the facts of a value where a host runs, and calls a layer with them.
func TestPluginFacts(t *testing.T) {
	t.Parallel()
	_, file := hosttest.NewLayer(t, "aged", project.C)
	server := resolvertest.Start(t, `
		shop20245.com. 300 IN A 93.184.215.14
		shop20245.com. 300 IN NS a.iana-servers.net.
	`)
	rdap := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"objectClassName": "domain", "events": [{"eventAction": "registration", "eventDate": %q}]}`,
			time.Now().Add(-80*time.Hour).UTC().Format(time.RFC3339))
	}))
	t.Cleanup(rdap.Close)
	dir, database := hosttest.DataDir(t), postgrestest.Database(t)
	settings := []string{"--dns", server.Addr, "--rdap-url", rdap.URL}
	host := hosttest.StartHost(t, dir, database, settings...)
	issued := expect.Value(installation.IssueKey(t.Context(), hosttest.OpenStore(t, dir, database).Store,
		installation.Unlimited(), "test"))(t)
	a := hosttest.CheckUntilComplete(host, issued.Secret, `{"domain":"shop20245.com"}`)
	expect.Must(t, a.Status == http.StatusOK, "%+v", a)

	recorded := hosttest.WriteFile(t, "facts.json", nil)
	facts := func(args ...string) knownFacts {
		t.Helper()
		return hosttest.OutputJSON[knownFacts](t, dir, database,
			append(append([]string{"plugin", "facts", "shop20245.com"}, args...), settings...)...)
	}
	known := facts("--record", recorded)
	expect.That(t, known.Facts["rdap.age_days"] == "3" && known.Facts["dns.status"] != "" &&
		known.Parsed["domain.registrable"] == "shop20245.com" && known.Parsed["rdap.age_days"] == "" &&
		len(known.Unanswered) == 0, "%+v", known)
	for name := range known.Facts {
		expect.That(t, !strings.HasPrefix(name, "history."), "%s is known without an account", name)
	}
	if known := facts("--account", issued.Account); known.Facts["history.own_first_seen_days"] != "0" {
		t.Errorf("the account's history is unknown: %+v", known)
	}
	run := func(args ...string) rehearsal.Call {
		t.Helper()
		return hosttest.OutputJSON[rehearsal.Call](t, dir, database, append(append([]string{"plugin", "run", file,
			"shop20245.com"}, args...), settings...)...)
	}
	c := run("--facts", recorded)
	expect.That(t, c.Score == 50 && len(c.Unread) != 0, "with the recorded facts: %+v", c)
	c = run("--live")
	expect.That(t, c.Score == 50 && len(c.Unread) == 0, "with facts that are looked up: %+v", c)
	older := hosttest.WriteFile(t, "older.json", []byte(`{"rdap.age_days": "3000", "config.limit": "5"}`))
	c = run("--live", "--facts", older)
	expect.That(t, c.Score == 20 && len(c.Unread) == 1, "with a given fact: %+v", c)
	hosttest.Has(t, hosttest.Output(t, dir, database, append([]string{"plugin", "facts", "shop20245.com"},
		settings...)...), `domain "shop20245.com"`, "domain.registrable", "the value", "rdap.age_days", "lookup")
}

// TestPluginFactsWithoutInstallation looks facts up where there is neither a database nor DNS.
func TestPluginFactsWithoutInstallation(t *testing.T) {
	t.Parallel()
	hosttest.Has(t, hosttest.Runs(t, 0, "plugin", "facts", "jane@a.de"),
		"no database: there is no installation in .assay", "email.local")
	hosttest.Has(t, hosttest.Runs(t, 1, "plugin", "facts", "a b"), "domain: contains a space")
}
