package telemetry

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
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

// TestObserver checks that checks and layers are counted under their labels, whoever counts first.
func TestObserver(t *testing.T) {
	t.Parallel()
	o := &Observer{Metrics: NewMetrics(), Logger: slog.New(slog.DiscardHandler)}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for _, layer := range []string{"lexical", "graph"} {
				o.LayerRan(entity.Domain, check.Outcome{Layer: layer, Micros: 3, Fuel: 5}, nil)
				o.LayerRan(entity.Domain, check.Outcome{Layer: layer, Abstained: true}, nil)
				o.LayerRan(entity.Domain, check.Outcome{Layer: layer}, &check.Failure{Reason: check.Trap})
			}
			o.CheckDone(&check.Decision{Type: entity.Email, Fused: check.Fused{Verdict: check.Block}}, time.Second)
			o.CheckDone(&check.Decision{Type: entity.Email, Fused: check.Fused{Verdict: check.Allow}}, time.Second)
		})
	}
	all.Wait()
	has(t, o.Metrics, `assay_layer_outcomes_total{layer="lexical",outcome="scored"} 8`,
		`assay_layer_outcomes_total{layer="graph",outcome="abstained"} 8`,
		`assay_layer_outcomes_total{layer="graph",outcome="trap"} 8`, `assay_layer_fuel_count{layer="lexical"} 24`,
		`assay_layer_fuel_sum{layer="lexical"} 40`, `assay_layer_seconds_count{layer="graph"} 24`,
		`assay_checks_total{type="email",verdict="block"} 8`, `assay_check_seconds_count{type="email"} 16`)
}

// has checks that metrics contain lines, and returns all of them.
func has(t *testing.T, m *Metrics, lines ...string) string {
	t.Helper()
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", http.NoBody))
	for _, line := range lines {
		expect.That(t, strings.Contains(w.Body.String(), "\n"+line+"\n"), "the metrics lack %s", line)
	}
	return w.Body.String()
}

// Shadow layers are counted apart from those that count.
func TestShadowMetrics(t *testing.T) {
	t.Parallel()
	m := NewMetrics()
	live := &check.Decision{Type: entity.Email, Fused: check.Fused{Verdict: check.Allow}}
	m.ShadowRan(live, check.Fused{Verdict: check.Block}, []check.Outcome{{Layer: "mailbox"},
		{Layer: "graph", Failure: check.Trap}, {Layer: "feeds", Abstained: true}})
	m.ShadowRan(live, check.Fused{Verdict: check.Allow}, []check.Outcome{{Layer: "mailbox"}})
	m.ShadowLeftOut(live)
	all := has(t, m, `assay_shadow_checks_total{shadow_verdict="block",type="email",verdict="allow"} 1`,
		`assay_shadow_layer_outcomes_total{layer="mailbox",outcome="scored"} 2`,
		`assay_shadow_layer_outcomes_total{layer="graph",outcome="trap"} 1`,
		`assay_shadow_layer_outcomes_total{layer="feeds",outcome="abstained"} 1`, `assay_shadow_left_out_total 1`)
	expect.Equal(t, "calls in shadow count as calls of live layers",
		strings.Contains(all, "assay_layer_outcomes_total{"), false)
	want := map[string]*LayerUse{"mailbox": {Outcomes: map[string]uint64{"scored": 2}},
		"graph": {Outcomes: map[string]uint64{string(check.Trap): 1}},
		"feeds": {Outcomes: map[string]uint64{"abstained": 1}}}
	expect.NoDiff(t, "uses", want, m.ShadowUses())
	ran, changed, leftOut := m.ShadowChecks()
	expect.That(t, ran == 2 && changed == 1 && leftOut == 1, "%d checks, %d changed, %d left out", ran, changed,
		leftOut)
}

// A layer can spell the checked entity with dots between the letters, so the log holds nothing that it wrote. And a
// customer can send values for which a layer fails, so the log has a line a minute about them.
func TestLogOfFailures(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		o := &Observer{Metrics: NewMetrics(), Logger: slog.New(slog.NewTextHandler(&log, nil))}
		fail := func(reason check.FailureReason) {
			o.LayerRan(entity.Email, check.Outcome{Layer: "spy", Version: "1.2.3"}, &check.Failure{
				Reason: reason, Rule: "the manifest does not declare the signal",
				Err:    errors.New(`the manifest declares no signal code "j.a.n.e"`),
				Output: check.Output{Text: "j.a.n.e\n@\n", Lines: 1234, Bytes: 3210, Level: 8},
			})
		}
		fail(check.Refused)
		fail(check.Refused)
		fail(check.Trap)
		<-time.After(logFailuresEvery)
		fail(check.Refused)
		const line = `level=WARN msg="layer lost" layer=spy version=1.2.3 type=email reason=%s ` +
			`rule="the manifest does not declare the signal" output_level=8 output_lines_below=2048 ` +
			"output_bytes_below=4096 failures=%d\n"
		expect.Equal(t, "logged", regexp.MustCompile(`time=\S+ `).ReplaceAllString(log.String(), ""),
			fmt.Sprintf(line, "refused", 1)+fmt.Sprintf(line, "trap", 1)+fmt.Sprintf(line, "refused", 2))
		has(t, o.Metrics, `assay_layer_outcomes_total{layer="spy",outcome="refused"} 3`)
	})
}

func TestLayerUses(t *testing.T) {
	t.Parallel()
	m := NewMetrics()
	expect.Equal(t, "before the first call, the uses", len(m.LayerUses()), 0)
	o := Observer{Metrics: m, Logger: slog.New(slog.DiscardHandler)}
	for i := range 100 {
		out := check.Outcome{Layer: "names", Fuel: 2000}
		if i == 0 {
			out.Fuel = 200_000 // the one call in a hundred that the 99th percentile leaves out
		}
		o.LayerRan(entity.Domain, out, nil)
	}
	o.LayerRan(entity.Domain, check.Outcome{Layer: "age", Fuel: 900, Abstained: true}, nil)
	o.LayerRan(entity.Domain, check.Outcome{Layer: "age", Fuel: 1100}, &check.Failure{Reason: check.Trap})
	want := map[string]*LayerUse{
		"names": {Outcomes: map[string]uint64{"scored": 100}, FuelMean: 3980, FuelP99: 4000},
		"age":   {Outcomes: map[string]uint64{"abstained": 1, string(check.Trap): 1}, FuelMean: 1000, FuelP99: 4000},
	}
	expect.NoDiff(t, "uses", want, m.LayerUses())
}

func TestServiceMetrics(t *testing.T) {
	t.Parallel()
	m := NewMetrics()
	for range 3 {
		m.RequestAnswered("/api/check", 200, time.Millisecond)
	}
	m.RequestAnswered("/api/check", 503, time.Second)
	m.BatchDone(1, time.Millisecond, 7)
	expect.Equal(t, "the ledger's queue", m.LedgerQueue(), 7)
	m.WatchServer(func() (requests, connections, refused int) { return 1, 2, 3 })
	m.WatchDatabase(func() sql.DBStats {
		return sql.DBStats{MaxOpenConnections: 5, InUse: 2, Idle: 1, WaitCount: 7,
			WaitDuration: 1500 * time.Millisecond}
	})
	ready := false
	m.WatchReady(func() bool { return ready })
	observe := m.WatchQueues()
	has(t, m, `assay_http_requests_total{code="200",route="/api/check"} 3`,
		`assay_http_requests_total{code="503",route="/api/check"} 1`, `assay_http_seconds_count{route="/api/check"} 4`,
		`assay_http_seconds_sum{route="/api/check"} 1.003`, "assay_http_requests_under_way 1",
		"assay_http_connections 2", "assay_http_connections_refused_total 3", "assay_database_connections_max 5",
		"assay_database_connections_in_use 2", "assay_database_connections_idle 1", "assay_database_waits_total 7",
		"assay_database_wait_seconds_total 1.5", "assay_ready 0", "assay_webhook_events_due 0",
		"assay_queues_read_timestamp_seconds 0")
	ready = true
	observe(Queues{EventsDue: 4, OldestDue: 90 * time.Second, Failing: 2, Graph: 6, OldestGraph: time.Second},
		time.UnixMilli(1500))
	has(t, m, "assay_ready 1", "assay_webhook_events_due 4", "assay_webhook_oldest_due_seconds 90",
		"assay_webhook_failing_endpoints 2", "assay_graph_contributions_waiting 6",
		"assay_graph_oldest_waiting_seconds 1", "assay_queues_read_timestamp_seconds 1.5")
}

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

// A log file spans about a day however often the host restarts, and is deleted before its first line is 30 days old.
func TestLogRotation(t *testing.T) {
	t.Parallel()
	const none = "none"
	now := time.Now()
	line := func(age time.Duration) string {
		return `{"time":"` + now.Add(-age).Format(time.RFC3339Nano) + `","msg":"ready"}` + "\n"
	}
	type testCase struct {
		text  string
		files int
	}
	expect.Each(t, map[string]testCase{
		"lines of today":                {line(23 * time.Hour), 1},
		"lines of yesterday":            {line(24 * time.Hour), 2},
		"lines of yesterday and today":  {line(25*time.Hour) + line(time.Hour), 2},
		"a line from the future":        {line(-time.Hour), 2},
		"an empty file":                 {"", 1},
		"no file":                       {none, 0},
		"a file that starts mid-record": {"ready\"}\n" + line(0), 2},
	}, func(t *testing.T, test testCase) {
		dir := t.TempDir()
		if test.text != none {
			expect.NoError(t, os.WriteFile(filepath.Join(dir, "assay.log"), []byte(test.text), 0o600))
		}
		_, log, err := OpenLog(dir, t.Output())
		expect.NoError(t, err)
		defer log.Close()
		for range 2 {
			expect.NoError(t, log.RotateIfDue(now))
		}
		files, err := filepath.Glob(filepath.Join(dir, "*"))
		expect.That(t, err == nil && len(files) == test.files, "files %v, error %v, want %d files", files, err,
			test.files)
		// The file's first line is up to a day older than its last, and the deletion up to a day late.
		expect.That(t, log.file.MaxAge+2 < 30, "a rotated file is deleted after %d days", log.file.MaxAge)
	})
}

// TestLogLines checks that every line reaches the file, in order, whoever writes it.
func TestLogLines(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	log, file, err := OpenLog(dir, t.Output())
	expect.NoError(t, err)
	const writers, lines = 4, 400 // together more than flushBytes
	var all sync.WaitGroup
	for writer := range writers {
		all.Go(func() {
			for n := range lines {
				log.Info("request", "writer", writer, "n", n)
			}
		})
	}
	all.Wait()
	expect.NoError(t, file.Close())
	text, err := os.ReadFile(filepath.Join(dir, "assay.log"))
	expect.Must(t, err == nil && len(text) >= flushBytes, "%d bytes, error %v", len(text), err)
	next := make([]int, writers)
	for line := range bytes.Lines(text) {
		var l struct{ Writer, N int }
		if err := json.Unmarshal(line, &l); err != nil || l.N != next[l.Writer] {
			t.Fatalf("line %q, want the writer's line %d; error %v", line, next[l.Writer], err)
		}
		next[l.Writer]++
	}
	for writer, n := range next {
		expect.That(t, n == lines, "%d lines of writer %d, want %d", n, writer, lines)
	}
}

// Lines that cannot be written, because the disk is full, are a problem that operators see.
func TestUnwrittenLog(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("this test needs /dev/full")
	}
	dir := t.TempDir()
	expect.NoError(t, os.Symlink("/dev/full", filepath.Join(dir, "assay.log")))
	log, file, err := OpenLog(dir, t.Output())
	expect.NoError(t, err)
	expect.NoDiff(t, "before the first line", []string(nil), file.Unwritten())
	log.Info("a line")
	file.flush()
	expect.NoDiff(t, "afterwards", []string{"the log cannot be written, and its lines are lost: write " + dir +
		"/assay.log: no space left on device"}, file.Unwritten())
	expect.NoError(t, os.Remove(filepath.Join(dir, "assay.log")))
	expect.NoError(t, file.Close())
	log.Info("a line")
	file.flush()
	expect.NoDiff(t, "with space", []string(nil), file.Unwritten())
	expect.NoError(t, file.Close())
}
