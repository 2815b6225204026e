package operation

import (
	"encoding/json"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"assay/host/hosttest"
	"assay/registry/expect"
)

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
