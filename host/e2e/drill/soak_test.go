//go:build !race

package drill

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"assay/host/cli"
	"assay/host/hosttest"
	"assay/host/installation"
	"assay/host/measure/bench"
	"assay/registry/expect"
)

// soakMetric is a measurement that must not grow while a host serves the same load.
type soakMetric struct {
	name   string
	source string  // the metric of the host; "": a latency as the client sees it, in ms
	scale  float64 // of the source
	most   float64 // growth per minute; of a latency, the share of its mean
}

var soakMetrics = []soakMetric{
	{"memory, MiB", "process_resident_memory_bytes", 1 << 20, 0.5},
	{"heap, MiB", "go_memstats_heap_inuse_bytes", 1 << 20, 0.25},
	{"goroutines", "go_goroutines", 1, 0.25},
	{"descriptors", "process_open_fds", 1, 0.25},
	{"p50, ms", "", 1, 0.01},
	{"p99, ms", "", 1, 0.01},
}

// soakWarmUp is the share of the time in which caches and pools may fill.
const soakWarmUp = 0.2

// TestSoak offers a host 70% of its capacity for the time of -for. Its memory, goroutines, descriptors and latencies
// must not grow. Without -for, it only shows that they are measured.
func TestSoak(t *testing.T) {
	t.Parallel()
	report := beginResults(resultsFile)
	minute, minutes, rate, bodies := time.Second/4, 2, 20, 100
	if *drillFor > 0 {
		minute, minutes, bodies = time.Minute, max(5, int(drillFor.Minutes())), 1<<16
	}
	dir, database, host := hosttest.NewHost(t)
	issued := expect.Value(installation.IssueKey(t.Context(), hosttest.OpenStore(t, dir, database).Store,
		installation.Unlimited(), "soak"))(t)
	target := bench.Target{URL: host.URL + "/api/check", Keys: []string{issued.Secret}, Bodies: bench.Bodies(bodies)}
	var capacity bench.Figures
	if *drillFor > 0 {
		capacity = expect.Value(bench.Saturate(t.Context(), target, 64, time.Minute))(t)
		rate = int(0.7 * capacity.PerSecond)
	}
	series := make([][]float64, len(soakMetrics))
	refused := 0
	for range minutes {
		ctx, stop := context.WithCancel(t.Context())
		sampled := make(chan []float64)
		go func() { sampled <- smallest(ctx, host.Admin) }()
		var figures bench.Figures
		hosttest.Repeat(func() bool { // a busy machine may refuse all
			figures = expect.Value(bench.Offer(t.Context(), target, rate, minute))(t)
			return figures.P50 > 0
		})
		stop()
		for i, value := range append(<-sampled, milliseconds(figures.P50), milliseconds(figures.P99)) {
			series[i] = append(series[i], value)
		}
		if refused += figures.Refused; figures.Errors+figures.Failed > 0 {
			t.Errorf("%d requests failed, one with: %v", figures.Errors+figures.Failed, figures.Failure)
		}
		t.Logf("%d a second, %d refused, p50 %v, p99 %v", rate, figures.Refused, figures.P50, figures.P99)
	}
	for i, m := range soakMetrics {
		expect.That(t, slices.Min(series[i]) > 0 && !math.IsInf(slices.Max(series[i]), 1), "%s was not measured: %v",
			m.name, series[i])
	}
	if *drillFor == 0 {
		return
	}
	for _, problem := range growth(series) {
		t.Error(problem)
	}
	text := soakReport(series)
	text = fmt.Sprintf("`just soak %v`: one host, %d checks a second, 70%% of the %.0f that 64 connections got for a "+
		"minute; %d refused.\n\n", *drillFor, rate, capacity.PerSecond, refused) + text
	t.Log("\n" + text)
	expect.NoError(t, report.write("Soak", text))
}

// smallest samples a host's metrics until ctx ends, at least once, and returns the smallest value of each.
func smallest(ctx context.Context, admin string) []float64 {
	var least []float64
	for _, m := range soakMetrics {
		if m.source != "" {
			least = append(least, math.Inf(1))
		}
	}
	for {
		if page, err := hosttest.Scrape(context.WithoutCancel(ctx), admin); err == nil {
			for i := range least {
				least[i] = min(least[i], hosttest.MetricOf(page, soakMetrics[i].source)/soakMetrics[i].scale)
			}
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return least
		}
	}
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// growth returns a text for each metric that grows faster than it may. series has their values by minute.
func growth(series [][]float64) (problems []string) {
	for i, m := range soakMetrics {
		grown, most := slope(settled(series[i])), m.most
		if m.source == "" {
			most *= mean(settled(series[i]))
		}
		if grown > most {
			problems = append(problems, fmt.Sprintf("%s: grows by %.2f a minute, more than %.2f", m.name, grown, most))
		}
	}
	return problems
}

// settled returns the values after the warm-up.
func settled(values []float64) []float64 { return values[int(soakWarmUp*float64(len(values))):] }

// slope returns the growth per step of the line that fits the values best (least squares).
func slope(values []float64) float64 {
	middle, average := float64(len(values)-1)/2, mean(values)
	var above, below float64
	for i, v := range values {
		above += (float64(i) - middle) * (v - average)
		below += (float64(i) - middle) * (float64(i) - middle)
	}
	return above / below
}

func mean(values []float64) (sum float64) {
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}

func soakReport(series [][]float64) string {
	var b strings.Builder
	b.WriteString("| a minute's | first | median | last | growth per minute | limit |\n|---|---|---|---|---|---|\n")
	for i, m := range soakMetrics {
		values := settled(series[i])
		limit := m.most
		if m.source == "" {
			limit *= mean(values)
		}
		fmt.Fprintf(&b, "| %s | %.1f | %.1f | %.1f | %.3f | %.3f |\n", m.name, values[0],
			slices.Sorted(slices.Values(values))[len(values)/2], values[len(values)-1], slope(values), limit)
	}
	return b.String()
}

func TestSoakLimits(t *testing.T) {
	t.Parallel()
	const minutes = 60
	type testCase struct {
		metric int
		value  func(minute int) float64
		grows  bool
	}
	expect.Each(t, map[string]testCase{
		"flat":               {0, func(int) float64 { return 100 }, false},
		"a leak":             {0, func(m int) float64 { return 100 + float64(m) }, true},
		"a warm-up":          {0, func(m int) float64 { return 100 + 20*float64(min(m, 10)) }, false},
		"falling":            {3, func(m int) float64 { return 100 - float64(m) }, false},
		"latency that grows": {5, func(m int) float64 { return 2 + float64(m)/10 }, true},
	}, func(t *testing.T, test testCase) {
		series := make([][]float64, len(soakMetrics))
		for i := range series {
			for m := range minutes {
				value := 1.0
				if i == test.metric {
					value = test.value(m)
				}
				series[i] = append(series[i], value)
			}
		}
		problems := growth(series)
		expect.That(t, (len(problems) > 0) == test.grows, "problems: %q, want some: %v", problems, test.grows)
	})
}

// resultsIntro is the beginning of a new file of results.
const resultsIntro = `# Results

Long runs write this file; do not edit it. Each section is the last run of its suite.
`

// results is where a suite that is running will write.
type results struct{ file, revision string }

// beginResults notes on which revision a suite runs: a long one may end on another.
func beginResults(file string) results { return results{file, revision(filepath.Dir(file))} }

// write replaces the section with a title in the file, or appends it, with the time, the revision and the machine.
func (r results) write(title, text string) error {
	old, err := os.ReadFile(r.file)
	if errors.Is(err, fs.ErrNotExist) {
		old, err = []byte(resultsIntro), nil
	}
	if err != nil {
		return fmt.Errorf("writing results: %w", err)
	}
	text = wrap(fmt.Sprintf("%s, revision %s, %s.\n\n%s", time.Now().UTC().Format("2006-01-02 15:04 UTC"), r.revision,
		machine(), text))
	if err := os.WriteFile(r.file, []byte(replaceSection(string(old), title, text)), 0o644); err != nil {
		return fmt.Errorf("writing results: %w", err)
	}
	return nil
}

// replaceSection replaces the text under the heading "## title" of a document, or appends it with its heading.
func replaceSection(document, title, text string) string {
	sections := strings.SplitAfter(strings.TrimSpace(document)+"\n", "\n## ")
	section := title + "\n\n" + strings.TrimSpace(text) + "\n"
	for i, s := range sections[1:] {
		if heading, _, _ := strings.Cut(s, "\n"); heading == title {
			if strings.HasSuffix(s, "\n## ") {
				section += "\n## "
			}
			sections[i+1] = section
			return strings.Join(sections, "")
		}
	}
	return strings.Join(sections, "") + "\n## " + section
}

// wrap breaks the paragraphs of a text into lines. Rows of tables stay.
func wrap(text string) string {
	paragraphs := strings.Split(text, "\n\n")
	for i, p := range paragraphs {
		if !strings.HasPrefix(p, "|") {
			paragraphs[i] = strings.Join(cli.Wrap(p, 120), "\n")
		}
	}
	return strings.Join(paragraphs, "\n\n")
}

// revision returns the commit of a checkout, and says whether files other than results have changed since.
func revision(dir string) string {
	git := func(args ...string) string {
		cmd := exec.Command("git", args...)
		cmd.Dir = dir
		out, err := cmd.Output()
		if err != nil {
			return "unknown"
		}
		return strings.TrimSpace(string(out))
	}
	name := git("rev-parse", "--short", "HEAD")
	if git("status", "--porcelain", "--", ":/", ":(exclude,top)docs/results.md") != "" {
		name += " with changes"
	}
	return name
}

// machine describes the machine that runs this process.
func machine() string {
	text := fmt.Sprintf("%d processors", runtime.NumCPU())
	if name := field("/proc/cpuinfo", "model name"); name != "" {
		text += " (" + name + ")"
	}
	var kilobytes int
	if _, err := fmt.Sscan(field("/proc/meminfo", "MemTotal"), &kilobytes); err == nil {
		text += fmt.Sprintf(", %d GiB", (kilobytes+1<<19)>>20)
	}
	return text + ", " + runtime.GOOS
}

// field returns the first value of a name in a file of lines "name: value", or "".
func field(file, name string) string {
	text, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

func TestResults(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "results.md")
	for _, section := range [][2]string{{"Suite", "earlier text"}, {"Other", "Suite"}, {"Last", "the end"},
		{"Suite", "later\ntext\n\n| a |\n|---|\n| table |"}, {"Last", "the end"}} {
		expect.NoError(t, beginResults(file).write(section[0], section[1]))
	}
	text := string(expect.Value(os.ReadFile(file))(t))
	stamp := regexp.MustCompile(`\n20[^\n]* UTC, revision [^\n]* processors[^\n]*\n`)
	expect.Equal(t, "the file", stamp.ReplaceAllString(text, "\n(stamp)\n"), resultsIntro+`
## Suite

(stamp)

later text

| a |
|---|
| table |

## Other

(stamp)

Suite

## Last

(stamp)

the end
`)
}
