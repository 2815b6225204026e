package telemetry

import (
	"database/sql"
	"flag"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"assay/host/check"
	"assay/host/customer/webhook"
	"assay/host/entity"
	"assay/host/lineup"
	"assay/registry/expect"
)

var update = flag.Bool("update", false, "rewrite the table in docs/metrics.md")

const metricsPage = "../../docs/metrics.md"

// everyMetric returns metrics of which each has been used once.
func everyMetric() *Metrics {
	m := NewMetrics()
	none := func() []string { return nil }
	follower := &lineup.Follower{}
	m.WatchBuild("1.2.3", "abc")
	m.WatchLineup(follower)
	m.WatchFleet(follower, func() int { return 1 })
	m.WatchDegraded(none, none)
	m.WatchFile("log", none)
	m.WatchLookups([]string{"dns"}, []string{"answered"}, func(_, _ int) uint64 { return 0 })
	m.WatchGate(func() int { return 0 }, func() time.Duration { return 0 })
	m.WatchOverrides(func() int { return 0 }, none)
	m.WatchDelivery(func() (all, slow int) { return 0, 0 })
	m.WatchAudit(func() int { return 0 })
	m.WatchWitnesses([]string{"w"}, func(string) time.Duration { return 0 })
	m.WatchReady(func() bool { return true })
	m.WatchCertificate(func() time.Time { return time.Unix(1, 0) })
	m.WatchServer(func() (requests, connections, refused int) { return 0, 0, 0 })
	m.WatchDatabase(func() sql.DBStats { return sql.DBStats{} })
	m.WatchQueues()(Queues{}, time.Time{})
	m.RequestAnswered("/api/check", 200, time.Millisecond)
	m.ListFetched("Tranco", "updated")
	m.ListsObserved([]ListState{{"Tranco", 1, time.Unix(1, 0)}})
	m.CheckRefused("door")
	m.AttemptEnded(webhook.Outcome{}, 0)
	live := &check.Decision{Type: entity.Email, Fused: check.Fused{Verdict: check.Allow}, Override: &check.Override{}}
	m.ShadowRan(live, check.Fused{Verdict: check.Block}, []check.Outcome{{Layer: "mailbox"}})
	m.ShadowLeftOut(live)
	o := &Observer{Metrics: m}
	o.LayerRan(entity.Email, check.Outcome{Layer: "mailbox"}, nil)
	o.CheckDone(live, time.Millisecond)
	return m
}

// TestNames holds the names, types and labels of all metrics to docs/metrics.md, because dashboards and alerts rely on
// them, and checks them against the conventions of Prometheus.
func TestNames(t *testing.T) {
	t.Parallel()
	registry := everyMetric().registry
	families := expect.Value(registry.Gather())(t)
	problems, err := promlint.NewWithMetricFamilies(families).Lint()
	expect.That(t, err == nil && len(problems) == 0, "promlint: %v, %v", problems, err)
	var table strings.Builder
	table.WriteString("| metric | type | labels | meaning |\n|---|---|---|---|\n")
	gathered := map[string]bool{}
	for _, f := range families {
		gathered[f.GetName()] = true
		labels := map[string]bool{}
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				labels["`"+l.GetName()+"`"] = true
			}
		}
		if strings.HasPrefix(f.GetName(), "assay_") {
			fmt.Fprintf(&table, "| `%s` | %s | %s | %s |\n", f.GetName(), strings.ToLower(f.GetType().String()),
				strings.Join(slices.Sorted(maps.Keys(labels)), ", "), f.GetHelp())
		}
	}
	for _, name := range described(registry) {
		expect.That(t, gathered[name], "%s was not used by this test, so docs/metrics.md cannot list it", name)
	}
	text := expect.Value(os.ReadFile(metricsPage))(t)
	before, rest, _ := strings.Cut(string(text), "| metric |")
	_, after, _ := strings.Cut(rest, "|\n\n")
	want := before + table.String() + "\n" + after
	if *update {
		expect.NoError(t, os.WriteFile(metricsPage, []byte(want), 0o644))
		return
	}
	if diff := cmp.Diff(want, string(text)); diff != "" {
		t.Errorf("docs/metrics.md differs from the code (-code +page): dashboards and alerts rely on these names. If "+
			"the change is meant, run go test ./host/telemetry -run TestNames -update\n%s", diff)
	}
}

var describedName = regexp.MustCompile(`fqName: "(assay_[^"]+)"`)

// described returns the names of all metrics of a registry, also of those without a value.
func described(registry *prometheus.Registry) (names []string) {
	found := make(chan *prometheus.Desc)
	go func() {
		registry.Describe(found)
		close(found)
	}()
	for d := range found {
		if m := describedName.FindStringSubmatch(d.String()); m != nil {
			names = append(names, m[1])
		}
	}
	return names
}
