package main

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"assay/host/apikey"
	"assay/host/auditlog"
	"assay/host/operator"
	"assay/host/postgres/postgrestest"
	"assay/host/store/storetest"
)

const operatorToken = "0123456789abcdef"

// shownState is the state that a host shows an operator.
type shownState struct {
	Health operator.Health
	operator.State
}

// askOperator returns the operator's page of a host, as JSON or HTML.
func askOperator(t *testing.T, h *hostProcess, accept string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, h.admin+operator.Path, nil)
	storetest.NoError(t, err)
	request.Header.Set("Authorization", "Bearer "+operatorToken)
	request.Header.Set("Accept", accept)
	response, err := http.DefaultClient.Do(request)
	storetest.NoError(t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	storetest.NoError(t, err)
	if response.StatusCode != http.StatusOK {
		t.Fatalf("the operator's page got %d:\n%s", response.StatusCode, text)
	}
	return string(text)
}

func (h *hostProcess) state(t *testing.T) (s shownState) {
	t.Helper()
	storetest.NoError(t, json.Unmarshal([]byte(askOperator(t, h, "application/json")), &s))
	return s
}

// warns reports whether a state has a warning with a text.
func warns(warnings []operator.Warning, text string) bool {
	return slices.ContainsFunc(warnings, func(w operator.Warning) bool { return strings.Contains(w.What, text) })
}

// TestOperatorState looks at the operator's page of a host that answers checks, and then at that of one without a
// database.
func TestOperatorState(t *testing.T) {
	t.Parallel()
	dir := dataDir(t)
	proxy := storetest.NewProxy(t, postgrestest.Database(t))
	host := startHost(t, dir, proxy.URL, "--operator-token", operatorToken, "--test-checkout")
	key := outputJSON[apikey.Issued](t, dir, proxy.URL, "keys", "create", "--plan", "pro").Secret
	const value = "paypa1-secure-login.xyz"
	if a := post(http.DefaultClient, host.url, key, `{"domain":"`+value+`"}`); a.Status != http.StatusOK {
		t.Fatalf("a check: %+v", a)
	}
	storetest.Until(t, "the page to show the check", func() bool {
		s := host.state(t)
		lexical := slices.IndexFunc(s.Lineup.Layers, func(l operator.Layer) bool { return l.Name == "lexical" })
		return lexical >= 0 && s.Lineup.Layers[lexical].Scored == 1 && s.Lineup.Layers[lexical].FuelMean > 0 &&
			s.Lineup.Layers[lexical].FuelP99 <= float64(s.Lineup.Layers[lexical].Budget) &&
			len(s.Hosts) == 1 && s.Hosts[0].This && s.Hosts[0].Activation == s.Lineup.Activation &&
			len(s.Audit.Chains) == 2 && s.Audit.Chains[0].Records > 1 && s.Audit.Chains[0].Signed > 0
	})
	s := host.state(t)
	if s.Health != operator.Healthy || len(s.NotReady) > 0 || len(s.Unknown) > 0 || s.Lineup.Author == "" {
		t.Errorf("the state is %+v", s)
	}
	for _, text := range []string{"No list is subscribed", "can read the operator’s key", "test checkout"} {
		if !warns(s.Warnings, text) {
			t.Errorf("%q is missing from %+v", text, s.Warnings)
		}
	}
	if warns(s.Warnings, "a proxy that is not trusted") {
		t.Error("a proxy is noticed, but there is none")
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, host.url+"/api/check-public",
		strings.NewReader(`{"domain":"example.com"}`))
	storetest.NoError(t, err)
	request.Header.Set("X-Forwarded-For", "198.51.100.7")
	response, err := http.DefaultClient.Do(request)
	storetest.NoError(t, err)
	storetest.NoError(t, response.Body.Close())
	if s = host.state(t); !warns(s.Warnings, "a proxy that is not trusted") {
		t.Errorf("an untrusted proxy is missing from %+v", s.Warnings)
	}
	for _, accept := range []string{"text/html", "application/json"} {
		if text := askOperator(t, host, accept); strings.Contains(text, value) || strings.Contains(text, key) ||
			strings.Contains(text, operatorToken) || !strings.Contains(text, "lexical") {
			t.Errorf("the page shows a checked value or a secret, or lacks a layer:\n%s", text)
		}
	}

	proxy.Set(nil, true)
	storetest.Until(t, "the page to show the outage", func() bool {
		s = host.state(t)
		return s.Health == operator.Failing && len(s.Unknown) == 6
	})
	if !warns(s.NotReady, "Database") || s.NotReady[0].Do == "" || len(s.Hosts) != 0 || s.Lineup.Activation == 0 ||
		warns(s.Warnings, "No list is subscribed") {
		t.Errorf("without a database, the state is %+v", s)
	}
	if text := askOperator(t, host, "text/html"); !strings.Contains(text, "This host takes no checks") ||
		!strings.Contains(text, "the database does not respond") || !strings.Contains(text, "lexical") {
		t.Errorf("without a database, the page is\n%s", text)
	}
	proxy.Set(nil, false)
	storetest.Until(t, "the page to show the end of the outage", func() bool {
		return host.state(t).Health == operator.Healthy
	})
}

// warningsOf returns what is warned of settings.
func warningsOf(o *observer, r reading) (all []operator.Warning) {
	o.warnOfSettings(r, func(severity operator.Severity, what, do string) {
		all = append(all, operator.Warning{Severity: severity, What: what, Do: do})
	})
	return all
}

func TestWarningsOfSettings(t *testing.T) {
	t.Parallel()
	loopback := &net.TCPAddr{IP: net.IPv6loopback, Port: 8080}
	all := &net.TCPAddr{IP: net.IPv4zero, Port: 8080}
	for name, test := range map[string]struct {
		cfg       Config
		address   net.Addr
		forwarded time.Time
		imported  int
		signs     bool
		testing   bool
		want      []string
	}{
		"as it should be": {Config{}, loopback, time.Time{}, 1, false, false, nil},
		"on all addresses": {Config{}, all, time.Time{}, 1, false, false,
			[]string{"without TLS", "listens on 0.0.0.0:8080, and no proxy"}},
		"behind a TLS proxy": {Config{URL: "https://assay.example", TrustedProxies: []string{"10.0.0.0/8"}}, all,
			time.Time{}, 1, false, false, nil},
		"with a certificate": {Config{TLSCert: "c.pem", TLSKey: "k.pem"}, all, time.Time{}, 1, false, false,
			[]string{"no proxy is trusted"}},
		"behind an untrusted proxy": {Config{}, loopback, time.Now(), 1, false, false,
			[]string{"through a proxy that is not trusted"}},
		"behind another proxy than the trusted one": {Config{TrustedProxies: []string{"10.0.0.0/8"}}, loopback,
			time.Now(), 1, false, false, []string{"through a proxy that is not trusted"}},
		"a proxy of last week": {Config{}, loopback, time.Now().AddDate(0, 0, -7), 1, false, false, nil},
		"a first start": {Config{}, loopback, time.Time{}, 0, true, true,
			[]string{"No list", "operator’s key", "test checkout"}},
	} {
		o := &observer{cfg: &test.cfg, address: test.address, signs: test.signs, testing: test.testing,
			forwarded: func() time.Time { return test.forwarded }}
		got := warningsOf(o, reading{imported: test.imported})
		if !slices.EqualFunc(got, test.want, func(w operator.Warning, text string) bool {
			return strings.Contains(w.What, text) && w.Do != ""
		}) {
			t.Errorf("%s: warnings %+v, want %q", name, got, test.want)
		}
	}
}

func TestWarningsOfQueuesAndAudit(t *testing.T) {
	t.Parallel()
	now := time.Now()
	quiet := operator.Queues{Target: checkTarget}
	chain := func(c operator.Chain) operator.State {
		return operator.State{At: now, Queues: quiet, Audit: operator.Audit{Chains: []operator.Chain{c}}}
	}
	for name, test := range map[string]struct {
		state    operator.State
		problems []string // of signing and pruning
		want     string
	}{
		"nothing": {chain(operator.Chain{Records: 7, Signed: 7, SignAt: now.AddDate(-1, 0, 0)}), nil, ""},
		"a busy host": {operator.State{Queues: operator.Queues{Wait: 2 * checkTarget, Target: checkTarget}}, nil,
			"Checks are refused"},
		"a late graph": {operator.State{Queues: operator.Queues{Graph: operator.GraphQueue{Oldest: time.Hour}}}, nil,
			"graph is 1h0m0s behind"},
		"late events": {operator.State{Queues: operator.Queues{Webhooks: operator.WebhookQueue{Due: 1,
			Late: time.Hour}}}, nil, "events have waited for 1h0m0s"},
		"late reviews": {operator.State{Queues: operator.Queues{Reviews: operator.ReviewQueue{Open: 1,
			Oldest: 200 * time.Hour}}}, nil, "Reviews have waited for 8 days"},
		"a damaged chain": {chain(operator.Chain{Number: 4, Damage: "its last record is missing"}), nil,
			"chain 4 is damaged"},
		"an old checkpoint": {chain(operator.Chain{Records: 8, Signed: 7, SignAt: now.Add(-time.Hour)}), nil,
			"no checkpoint of audit chain 0"},
		"no checkpoint ever": {chain(operator.Chain{Records: 8}), nil, "no checkpoint of audit chain 0"},
		"a fresh checkpoint": {chain(operator.Chain{Records: 8, Signed: 7, SignAt: now.Add(-time.Minute)}), nil, ""},
		"a failed signature": {chain(operator.Chain{}), []string{"storing checkpoint: disk full\nmore"},
			"disk full (and 1 more"},
	} {
		o := &observer{cfg: &Config{}, began: now.Add(-time.Hour)}
		var got []string
		add := func(_ operator.Severity, what, do string) {
			if do == "" {
				t.Errorf("%s: nothing to do about %q", name, what)
			}
			got = append(got, what)
		}
		o.warnOfQueues(&test.state, add)
		o.warnOfAudit(&test.state, auditlog.Status{Problems: test.problems}, add)
		if len(got) > 1 || !strings.Contains(strings.Join(got, ""), test.want) || (test.want == "") != (got == nil) {
			t.Errorf("%s: warnings %q, want %q", name, got, test.want)
		}
	}
}
