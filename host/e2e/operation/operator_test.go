package operation

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"assay/host/access/apikey"
	"assay/host/hosttest"
	"assay/host/store/postgres/postgrestest"
	"assay/host/store/storetest"
	"assay/host/web/operator"
	"assay/registry/expect"
)

// TestOperatorState looks at the operator's page of a host that answers checks, and then at that of one without a
// database.
func TestOperatorState(t *testing.T) {
	t.Parallel()
	dir := hosttest.DataDir(t)
	proxy := storetest.NewProxy(t, postgrestest.Database(t))
	host := hosttest.StartHost(t, dir, proxy.URL, "--operator-token", hosttest.OperatorToken, "--test-checkout")
	key := hosttest.OutputJSON[apikey.Issued](t, dir, proxy.URL, "keys", "create", "--plan", "pro").Secret
	const value = "paypa1-secure-login.xyz"
	a := hosttest.Post(http.DefaultClient, host.URL, key, `{"domain":"`+value+`"}`)
	expect.Must(t, a.Status == http.StatusOK, "a check: %+v", a)
	expect.Until(t, "the page to show the check", func() bool {
		s := host.State(t)
		lexical := slices.IndexFunc(s.Lineup.Layers, func(l operator.Layer) bool { return l.Name == "lexical" })
		return lexical >= 0 && s.Lineup.Layers[lexical].Scored == 1 && s.Lineup.Layers[lexical].FuelMean > 0 &&
			s.Lineup.Layers[lexical].FuelP99 <= float64(s.Lineup.Layers[lexical].Budget) &&
			len(s.Hosts) == 1 && s.Hosts[0].This && s.Hosts[0].Activation == s.Lineup.Activation &&
			len(s.Audit.Chains) == 2 && s.Audit.Chains[0].Records > 1 && s.Audit.Chains[0].Signed > 0
	})
	s := host.State(t)
	expect.That(t, s.Health == operator.Healthy && len(s.NotReady) == 0 && len(s.Unknown) == 0 && s.Lineup.Author != "",
		"the state is %+v", s)
	for _, text := range []string{"No list is subscribed", "can read the operator’s key", "test checkout"} {
		expect.That(t, hosttest.Warns(s.Warnings, text), "%q is missing from %+v", text, s.Warnings)
	}
	expect.That(t, !hosttest.Warns(s.Warnings, "a proxy that is not trusted"), "a proxy is noticed, but there is none")
	hosttest.Send(t, host, "", "POST", "/api/check-public", `{"domain":"example.com"}`,
		"X-Forwarded-For", "198.51.100.7")
	if s = host.State(t); !hosttest.Warns(s.Warnings, "a proxy that is not trusted") {
		t.Errorf("an untrusted proxy is missing from %+v", s.Warnings)
	}
	for _, accept := range []string{"text/html", "application/json"} {
		text := hosttest.AskOperator(t, host, accept)
		expect.That(t, !strings.Contains(text, value) && !strings.Contains(text, key) && strings.Contains(text,
			"a score of 100 adds 1.3 log-odds") && strings.Contains(text, "lexical") && !strings.Contains(text,
			hosttest.OperatorToken), "the page shows a checked value or a secret, or lacks a layer:\n%s", text)
	}

	proxy.Set(nil, true)
	expect.Until(t, "the page to show the outage", func() bool {
		s = host.State(t)
		return s.Health == operator.Failing && len(s.Unknown) == 6
	})
	expect.That(t, hosttest.Warns(s.NotReady, "Database") && s.NotReady[0].Do != "" && len(s.Hosts) == 0 &&
		s.Lineup.Activation != 0 && !hosttest.Warns(s.Warnings, "No list is subscribed"),
		"without a database, the state is %+v", s)
	hosttest.Has(t, hosttest.AskOperator(t, host, "text/html"), "This host takes no checks",
		"the database does not respond", "lexical")
	proxy.Set(nil, false)
	expect.Until(t, "the page to show the end of the outage", func() bool {
		return host.State(t).Health == operator.Healthy
	})
}
