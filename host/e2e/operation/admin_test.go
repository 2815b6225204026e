package operation

import (
	"encoding/json"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/pprof/profile"

	"assay/host/access/apikey"
	"assay/host/auditlog"
	"assay/host/hosttest"
	"assay/host/store/postgres/postgrestest"
	"assay/host/store/storetest"
	"assay/host/web/operator"
	"assay/registry/expect"
)

// TestAdmin looks at what a host shows operators, and that customers do not see it.
func TestAdmin(t *testing.T) {
	t.Parallel()
	dir, database, host := hosttest.NewHost(t, "--witness=http://127.0.0.1:1 "+hosttest.WitnessKey)
	key := hosttest.OutputJSON[apikey.Issued](t, dir, database, "keys", "create", "--plan", "pro").Secret
	a := hosttest.Post(http.DefaultClient, host.URL, key, `{"domain":"example.com"}`)
	expect.Must(t, a.Status == http.StatusOK, "a check: %+v", a)
	expect.Until(t, "the report of a witness that is down", func() bool {
		return strings.Contains(hosttest.Get(t, host.Admin+"/readyz", ""),
			`{"status":"ready","degraded":["witness w.example `+`has not cosigned checkpoints of audit chain 0`)
	})
	expect.That(t, strings.Contains(hosttest.Get(t, host.Admin+"/metrics", ""),
		`assay_witness_waiting_seconds{witness="w.example"} `), "a witness has no metric")
	for _, path := range []string{"/readyz", "/healthz"} {
		expect.That(t, !strings.Contains(hosttest.Get(t, host.URL+path, ""), "degraded"), "%s tells customers", path)
	}
	for _, path := range []string{"/metrics", "/debug/pprof/heap", "/operator"} {
		response, _ := fetch(t, http.DefaultClient, host.URL+path)
		expect.That(t, response.StatusCode == http.StatusNotFound, "customers get %s with status %d", path,
			response.StatusCode)
	}
	metrics := hosttest.Get(t, host.Admin+"/metrics", "")
	wantDocumentedMetrics(t, metrics)
	wantMonitoredMetrics(t, metrics)
	for _, name := range []string{"heap", "goroutine", "profile?seconds=1"} {
		recorded := hosttest.Get(t, host.Admin+"/debug/pprof/"+name, "")
		p := expect.Value(profile.Parse(strings.NewReader(recorded)))(t) // as go tool pprof does
		expect.That(t, len(p.SampleType) != 0, "profile %s has no samples", name)
	}

	// A second host with the same explicit address does not start.
	second := hosttest.Command(t.Context(), hosttest.DataDir(t), database, "--admin-listen",
		strings.TrimPrefix(host.Admin, "http://"))
	_, err := hosttest.TryHost(t, second)
	expect.ErrorText(t, "an address that is taken", err, "address already in use")
}

// wantDocumentedMetrics looks for the metrics of docs/metrics.md. Those with labels may be missing.
func wantDocumentedMetrics(t *testing.T, scraped string) {
	t.Helper()
	for line := range strings.Lines(hosttest.ReadText(t, "../../../docs/metrics.md")) {
		name, rest, ok := strings.Cut(strings.TrimPrefix(line, "| `"), "` | ")
		_, labels, _ := strings.Cut(rest, " | ")
		optional := !strings.HasPrefix(labels, " | ") || strings.Contains(labels, "Absent without ")
		expect.That(t, !ok || optional || strings.Contains(scraped, "# TYPE "+name+" "),
			"a host does not have the metric %s of docs/metrics.md", name)
	}
}

// TestOperatorState looks at the operator's page of a host, and then at it without a database.
func TestOperatorState(t *testing.T) {
	t.Parallel()
	dir, proxy := hosttest.DataDir(t), storetest.NewProxy(t, postgrestest.Database(t))
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
			len(s.Audit.Chains) == 3 && s.Audit.Chains[0].Records > 1 && s.Audit.Chains[0].Signed > 0
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
	s = host.State(t)
	expect.That(t, hosttest.Warns(s.Warnings, "a proxy that is not trusted"), "an untrusted proxy is missing: %+v", s)
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

// TestFirstRun does what a new user does: start a host, check values, start it again after a crash, and stop it.
func TestFirstRun(t *testing.T) {
	t.Parallel()
	hosttest.NeedPostgres(t)
	// Only its owner can enter a test's directory. When the test runs as root, Postgres uses another directory.
	dir := filepath.Join(t.TempDir(), "data")
	hosttest.LinkShared(t, dir, "layers", "compiled", "secret") // which the program made in an empty folder
	t.Cleanup(func() {
		if location := postgrestest.ClusterDir(dir); location != dir {
			expect.NoError(t, os.RemoveAll(location))
		}
	})
	host := hosttest.StartHost(t, dir, "")
	cases := map[string]struct {
		body, kind, verdict string
	}{
		"a look-alike":               {`{"domain":"paypa1-secure-login.xyz"}`, "domain", "block"},
		"a well-known domain":        {`{"domain":"google.com"}`, "domain", "allow"},
		"a mailbox at a provider":    {`{"email":"jane.doe@gmail.com"}`, "email", "allow"},
		"a valid German IBAN":        {`{"iban":"DE12 5001 0517 0648 4898 90"}`, "iban", "allow"},
		"an IBAN with a wrong digit": {`{"iban":"DE88 3704 0044 0532 0130 00"}`, "iban", "block"},
		"a valid French mobile":      {`{"phone":"06 12 34 56 78","region":{"country":"FR"}}`, "phone", "allow"},
	}
	for name, c := range cases {
		a := hosttest.CheckUntilComplete(host, host.Key, c.body)
		expect.That(t, a.Status == 200 && a.Type == c.kind && a.Verdict == c.verdict, "%s: %+v, want a %s with %s",
			name, a, c.kind, c.verdict)
		expect.That(t, c.verdict != "block" || len(a.Signals) != 0 && a.Threat != nil,
			"%s: blocked without a reason or a threat: %+v", name, a)
	}
	host.Stop(t, syscall.SIGKILL)
	again := hosttest.StartHost(t, dir, "")
	expect.Equal(t, "the key that the second start printed", again.Key, host.Key)
	a := hosttest.Post(http.DefaultClient, again.URL, again.Key, `{"domain":"google.com"}`)
	expect.That(t, a.Status == 200, "after a crash: %+v", a)
	reports := hosttest.OutputJSON[[]auditlog.Report](t, dir, "", "audit", "verify")
	wrong := slices.ContainsFunc(reports, func(r auditlog.Report) bool { return !r.OK })
	expect.That(t, len(reports) == 3 && !wrong && reports[0].Records >= int64(len(cases)+1), "audit verify: %+v",
		reports)
	again.Stop(t, syscall.SIGTERM)
	_, err := os.Stat(filepath.Join(postgrestest.ClusterDir(dir), "postgres", "postmaster.pid"))
	expect.Error(t, "the number of Postgres's process after the stop", err, fs.ErrNotExist)
}

const monitoring = "../../../examples/monitoring"

// promtool runs the program that checks Prometheus's files.
func promtool(t *testing.T, args ...string) {
	t.Helper()
	if _, err := exec.LookPath("promtool"); err != nil {
		t.Skip("promtool is not installed: it is in Debian's prometheus " +
			"(apt-get download prometheus && dpkg-deb -x prometheus_*.deb /tmp/prometheus, and its usr/bin in PATH)")
	}
	cmd := exec.CommandContext(t.Context(), "promtool", args...)
	cmd.Dir = monitoring
	out, err := cmd.CombinedOutput()
	expect.That(t, err == nil, "promtool %s: %v\n%s", strings.Join(args, " "), err, out)
}

// TestAlerts has promtool check the rules and run their tests. Each alert has a test and a line in the guide.
func TestAlerts(t *testing.T) {
	t.Parallel()
	promtool(t, "check", "config", "prometheus.yml")
	promtool(t, "test", "rules", "alerts_test.yml")
	rules, tests := hosttest.ReadText(t, monitoring+"/alerts.yml"), hosttest.ReadText(t, monitoring+"/alerts_test.yml")
	guide := hosttest.ReadText(t, "../../../docs/operations.md")
	alerts := regexp.MustCompile(`- alert: (\w+)`).FindAllStringSubmatch(rules, -1)
	expect.That(t, len(alerts) >= 10, "%d alerts", len(alerts))
	for _, a := range alerts {
		hosttest.Has(t, guide, "\n| `"+a[1]+"` |")
		n := len(regexp.MustCompile(`alertname: `+a[1]+`[^\n]*\n +exp_alerts:`).FindAllString(tests, -1))
		expect.That(t, n == 1, "%d tests expect that %s fires, want 1", n, a[1])
		hosttest.Has(t, tests, "{eval_time: 1h, alertname: "+a[1]+"}")
	}
}

// monitoredExpressions returns the expressions in the rules and the dashboard.
func monitoredExpressions(t *testing.T) map[string][]string {
	t.Helper()
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	expect.NoError(t, json.Unmarshal([]byte(hosttest.ReadText(t, monitoring+"/dashboard.json")), &dashboard))
	all := map[string][]string{}
	for _, p := range dashboard.Panels {
		for _, target := range p.Targets {
			all["panel "+p.Title] = append(all["panel "+p.Title], target.Expr)
		}
	}
	// An expression is the rest of its line, or the more indented lines below.
	expr := regexp.MustCompile(`(?m)- (?:alert|record): (\S+)\n +expr: (.*(?:\n {10,}\S.*)*)`)
	for _, m := range expr.FindAllStringSubmatch(hosttest.ReadText(t, monitoring+"/alerts.yml"), -1) {
		all["rule "+m[1]] = append(all["rule "+m[1]], m[2])
	}
	expect.Must(t, len(all) >= 30, "only %d rules and panels", len(all))
	return all
}

var (
	metricInExpression = regexp.MustCompile(`\b(?:assay|go|process)_\w+`)
	labelsInExpression = regexp.MustCompile(`\b(?:by|on|without|group_left) *\(([^)]*)\)|(\w+) *(?:=~|!~|!=|=) *"`)
	textInExpression   = regexp.MustCompile(`"[^"]*"`)
	histogramSuffix    = regexp.MustCompile(`_(bucket|sum|count)$`)
)

// wantMonitoredMetrics compares rules and dashboard with what a host serves. Metrics that a host has only in a certain
// state, such as with a canary, must be in docs/metrics.md, which package telemetry holds to the code.
func wantMonitoredMetrics(t *testing.T, served string) {
	t.Helper()
	documented := map[string][]string{} // metrics and their labels
	row := regexp.MustCompile("(?m)^\\| `(assay_\\w+)` \\| (\\w+) \\| (.*?) \\|")
	for _, m := range row.FindAllStringSubmatch(hosttest.ReadText(t, "../../../docs/metrics.md"), -1) {
		documented[m[1]] = strings.FieldsFunc(m[3], func(r rune) bool { return strings.ContainsRune("`, ", r) })
	}
	for what, expressions := range monitoredExpressions(t) {
		for _, e := range expressions {
			labels := []string{"instance", "job"}
			for _, name := range metricInExpression.FindAllString(textInExpression.ReplaceAllString(e, `""`), -1) {
				if histogramSuffix.MatchString(name) && documented[name] == nil {
					name, labels = histogramSuffix.ReplaceAllString(name, ""), append(labels, "le")
				}
				of, known := documented[name]
				labels = append(labels, of...)
				always := len(of) == 0 && name != "assay_certificate_expiry_timestamp_seconds"
				expect.That(t, (!always || strings.Contains(served, "\n# TYPE "+name+" ")) && (!strings.HasPrefix(name,
					"assay_") || known), "%s: no host serves %s", what, name)
			}
			for _, m := range labelsInExpression.FindAllStringSubmatch(e, -1) {
				for _, label := range strings.FieldsFunc(m[1]+m[2], func(r rune) bool { return r == ',' || r == ' ' }) {
					expect.That(t, slices.Contains(labels, label), "%s: the metrics of %s have no label %s", what, e,
						label)
				}
			}
		}
	}
}
