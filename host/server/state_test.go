package server

import (
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"assay/host/auditlog"
	"assay/host/installation"
	"assay/host/web/operator"
	"assay/registry/expect"
)

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
		cfg       installation.Config
		address   net.Addr
		forwarded time.Time
		imported  int
		signs     bool
		testing   bool
		want      []string
	}{
		"as it should be": {installation.Config{}, loopback, time.Time{}, 1, false, false, nil},
		"on all addresses": {installation.Config{}, all, time.Time{}, 1, false, false,
			[]string{"without TLS", "listens on 0.0.0.0:8080, and no proxy"}},
		"behind a TLS proxy": {installation.Config{URL: "https://assay.example",
			TrustedProxies: []string{"10.0.0.0/8"}}, all, time.Time{}, 1, false, false, nil},
		"with a certificate": {installation.Config{TLSCert: "c.pem", TLSKey: "k.pem"}, all, time.Time{}, 1, false,
			false, []string{"no proxy is trusted"}},
		"behind an untrusted proxy": {installation.Config{}, loopback, time.Now(), 1, false, false,
			[]string{"through a proxy that is not trusted"}},
		"behind another proxy than the trusted one": {installation.Config{TrustedProxies: []string{"10.0.0.0/8"}},
			loopback, time.Now(), 1, false, false, []string{"through a proxy that is not trusted"}},
		"a proxy of last week": {installation.Config{}, loopback, time.Now().AddDate(0, 0, -7), 1, false, false, nil},
		"a first start": {installation.Config{}, loopback, time.Time{}, 0, true, true,
			[]string{"No list", "operator’s key", "test checkout"}},
	} {
		o := &observer{host: &host{cfg: &test.cfg}, address: test.address, signs: test.signs, testing: test.testing,
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
	quiet := operator.Queues{Target: installation.CheckTarget}
	chain := func(c operator.Chain) operator.State {
		return operator.State{At: now, Queues: quiet, Audit: operator.Audit{Chains: []operator.Chain{c}}}
	}
	for name, test := range map[string]struct {
		state    operator.State
		problems []string // of signing and pruning
		want     string
	}{
		"nothing": {chain(operator.Chain{Records: 7, Signed: 7, SignAt: now.AddDate(-1, 0, 0)}), nil, ""},
		"a busy host": {operator.State{Queues: operator.Queues{Wait: 2 * installation.CheckTarget,
			Target: installation.CheckTarget}}, nil,
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
		o := &observer{host: &host{cfg: &installation.Config{}}, began: now.Add(-time.Hour)}
		var got []string
		add := func(_ operator.Severity, what, do string) {
			expect.That(t, do != "", "%s: nothing to do about %q", name, what)
			got = append(got, what)
		}
		o.warnOfQueues(&test.state, add)
		o.warnOfAudit(&test.state, auditlog.Status{Problems: test.problems}, add)
		expect.That(t, len(got) <= 1 && strings.Contains(strings.Join(got, ""), test.want) &&
			(test.want == "") == (got == nil), "%s: warnings %q, want %q", name, got, test.want)
	}
}
