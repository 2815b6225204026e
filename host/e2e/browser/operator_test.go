// Package browser uses the pages of hosts in a browser, as customers and operators do.
package browser

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"assay/host/customer/decision"
	"assay/host/customer/privacy"
	"assay/host/hosttest"
	"assay/host/web/operator"
	"assay/registry/expect"
)

// operatorStates are the states in which operators look at the page, from the best to the worst.
func operatorStates(now time.Time) map[string]*operator.State {
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	layer := func(name string, scored uint64, p99 float64, weights map[string]float64) operator.Layer {
		return operator.Layer{Name: name, Version: "1.4.0", Mode: "live", Weights: weights, Scored: scored,
			Abstained: scored / 3, Budget: 2_000_000, FuelMean: p99 / 3, FuelP99: p99}
	}
	queues := operator.Queues{Wait: 2 * time.Millisecond, Target: 160 * time.Millisecond}
	all := func(w float64) map[string]float64 {
		return map[string]float64{"domain": w, "email": w + .25, "phone": w / 2, "iban": w / 3}
	}
	first := &operator.State{
		At: now, Host: "assay-1:8080", Version: "0.1.0",
		Hosts: []operator.Host{{Name: "assay-1:8080", This: true, Version: "0.1.0", Seen: time.Second,
			Since: ago(time.Minute), Activation: 1, Revision: 1}},
		Lineup: operator.Lineup{Activation: 1, Revision: 1, Author: "built-in", Since: ago(time.Minute),
			Layers: []operator.Layer{{Name: "lexical", Version: "1.4.0", Mode: "live", Weights: all(3), Budget: 2e6}}},
		Queues: queues,
		Audit: operator.Audit{Chains: []operator.Chain{{Records: 1, At: ago(time.Minute), Signed: 1,
			SignAt: ago(50 * time.Second)}}},
	}
	busy := &operator.State{
		At: now, Host: "assay-eu-west-1a-frontend-0:8080", Version: "0.1.0 (4f2c9d1)",
		Warnings: []operator.Warning{
			{Severity: operator.Problem, What: "Host assay-3:8080 refused activation 48: module is not published",
				Do: "`assay lineup hosts` says why. `assay lineup rollback` restores the previous lineup."},
			{Severity: operator.Caution, What: "Requests arrive through a proxy that is not trusted",
				Do: "All clients behind the proxy share one limit. Name its network in `ASSAY_TRUSTED_PROXIES`."},
			{Severity: operator.Advice, What: "This host can read the operator’s key",
				Do: "Move `/var/lib/assay/operator.key` to where lineups are changed from."},
		},
		Hosts: []operator.Host{
			{Name: "assay-eu-west-1a-frontend-0:8080", This: true, Version: "0.1.0 (4f2c9d1)", Seen: time.Second,
				Since: ago(49 * time.Hour), Activation: 48, Revision: 17,
				Canary: "of 12,881 values that it scored, 3 have another verdict (most often email: review instead " +
					"of allow)"},
			{Name: "assay-3:8080", Seen: time.Second, Since: ago(30 * time.Minute), Activation: 47, Revision: 16,
				Refused: 48, Problem: "loading lineup revision 17: layer mailbox@1.5.0: module is not published"},
			{Name: "assay-4:8080", Seen: 47 * time.Second, Silent: true, Since: ago(20 * 24 * time.Hour),
				Activation: 48, Revision: 17},
		},
		Lineup: operator.Lineup{Activation: 48, Revision: 17, Author: "ana@laptop",
			Reason: "fewer reviews of new domains of known registrars", Since: ago(26 * time.Hour),
			Canary: &operator.Canary{Revision: 18, Share: 10, Limit: "1%"},
			Shadow: &operator.Shadow{Checks: 18_211, Changed: 31, LeftOut: 402},
			Layers: []operator.Layer{layer("lexical", 1_204_551, 64_000, all(3.125)),
				layer("lookalike", 1_204_551, 1_024_000, map[string]float64{"domain": 5.5, "email": 4.25}),
				layer("numbering", 88_120, 16_000, map[string]float64{"phone": 6}),
				layer("checksum", 3100, 4000, map[string]float64{"iban": 9})},
		},
		Queues: operator.Queues{Checks: 184, Wait: 61 * time.Millisecond, Target: 160 * time.Millisecond, Ledger: 96,
			Graph: operator.GraphQueue{Checks: 10_344, Oldest: 3 * time.Second, More: true},
			Webhooks: operator.WebhookQueue{Pending: 512, Due: 40, Retried: 31, Late: 4 * time.Second, Failing: 2,
				Disabled: 1}, Lists: map[string]int{"current": 4, "failing": 1, "stale": 1}},
		Audit: operator.Audit{Chains: []operator.Chain{
			{Number: 0, Records: 18_220_441, At: ago(time.Second), Signed: 18_201_118, SignAt: ago(4 * time.Minute)},
			{Number: 2, Records: 9, Damage: "its head differs from its last record"},
		}},
	}
	busy.Lineup.Layers[1].Failed = map[string]uint64{"fuel": 12, "trap": 1}
	busy.Lineup.Layers[1].Required = true
	busy.Lineup.Layers[2].Mode = "shadow"
	busy.Lineup.Layers[3].Mode = "off"
	const down = "the database does not respond"
	outage := &operator.State{
		At: now, Host: "assay-1:8080", Version: "0.1.0", NotReady: []operator.Warning{{Severity: operator.Problem,
			What: "The database does not respond",
			Do:   "See that Postgres runs, and that `ASSAY_DATABASE_URL` leads to it."}},
		Lineup: busy.Lineup, Queues: queues,
		Unknown: map[operator.Part]string{operator.Hosts: down, operator.Webhooks: down, operator.Graph: down,
			operator.Lists: down, operator.Chains: down},
	}
	return map[string]*operator.State{"first": first, "busy": busy, "outage": outage}
}

// openCases are two reviews, one of which a person has taken.
type openCases struct{ operator.Reviews }

func (openCases) OpenReviews(context.Context, int) ([]decision.Case, error) {
	asked := decision.Case{Review: privacy.Review{Ref: "chk_01KF0HBGZ0Q8WJ3V5N7T9R2M4C", State: decision.Asked,
		Reason:  "The customer says that the address is ten years old.\nShe sent a bank statement.",
		AskedAt: privacy.Time{Time: time.Now()}}, Account: "acct_01KF0HBGZ0Q8WJ3V5N7T9R2M4C", Type: "email", Score: 91,
		Verdict: "block", Timestamp: "2026-01-15T10:30:00.123Z", Revision: 17}
	taken := asked
	taken.Ref, taken.State, taken.Reviewer = "chk_01KF0HBGZ0Q8WJ3V5N7T9R2M4D", decision.Taken, "Ana"
	return []decision.Case{asked, taken}, nil
}

// TestOperatorPages looks at the operator's page in each state, as TestCustomer does at the customers' pages.
func TestOperatorPages(t *testing.T) {
	t.Parallel()
	p, states := browse(t), operatorStates(time.Now())
	state := states["first"]
	const token = "a token that nobody guesses"
	handler := expect.Value(operator.New(operator.Config{Token: token, Now: time.Now,
		Client: func(*http.Request) netip.Prefix { return netip.MustParsePrefix("192.0.2.0/24") },
		State:  func(context.Context) *operator.State { return state }, Look: os.DirFS("../../web/console/static"),
		Reviews: openCases{}, Logger: slog.New(slog.DiscardHandler)}))(t)
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)

	p.do(chromedp.Navigate(server.URL + operator.Path))
	p.see("It opens with the token in ASSAY_OPERATOR_TOKEN.").look("operator-signin")
	p.write("token", "not the token").press("Sign in", "This is not the token of this host.")
	p.look("operator-wrong-token")
	p.write("token", token).press("Sign in", "Healthy: this host takes checks")
	for _, name := range []string{"first", "busy", "outage"} {
		state = states[name]
		p.do(chromedp.Navigate(server.URL + operator.Path))
		p.see(state.Headline()).look("operator-" + name)
		p.wide(name)
	}
	p.press("Reviews", "The customer says that").look("operator-reviews")
	p.press("Sign out", "It opens with the token in ASSAY_OPERATOR_TOKEN.")
}

// wide takes a screenshot on a large screen.
func (p *person) wide(name string) {
	p.Helper()
	p.do(chromedp.EmulateViewport(1400, 900))
	pixels := evaluate[int](p, "document.documentElement.scrollWidth - document.documentElement.clientWidth")
	expect.That(p, pixels == 0, "%s is %d pixels wider than a large screen", name, pixels)
	p.capture(fmt.Sprintf("operator-%s-wide", name))
	p.do(chromedp.EmulateViewport(1100, 800))
}

func TestMain(m *testing.M) { os.Exit(hosttest.Main(m)) }
