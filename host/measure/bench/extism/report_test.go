package extism

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
)

// report is the comparison with Extism, and where it was measured.
type report struct {
	Revision string `json:"revision"` // of this repository; ends in "+" if files have changed since
	Go       string `json:"go"`
	System   string `json:"system"`
	CPU      string `json:"cpu"`
	Cores    int    `json:"cores"`
	Rows     []row  `json:"rows"`
}

// row compares calls of one layer. The ratio is the median of the ratios of short runs, not the ratio of the medians.
type row struct {
	Layer     string  `json:"layer"`     // its language
	Instances string  `json:"instances"` // shared, or put-back after each call
	AssayNS   float64 `json:"assay_ns"`
	ExtismNS  float64 `json:"extism_ns"`
	Ratio     float64 `json:"ratio"` // Extism's time to the sandbox's
}

// measured collects the rows of a benchmark.
type measured struct {
	mu   sync.Mutex
	rows map[[2]string]row
}

func (m *measured) add(r row) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.rows[[2]string{r.Layer, r.Instances}] = r
}

var results = measured{rows: map[[2]string]row{}}

// TestMain prints the table after a benchmark.
func TestMain(m *testing.M) {
	code := m.Run()
	if len(results.rows) > 0 {
		if err := newReport(results.rows).write(os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

func newReport(rows map[[2]string]row) report {
	order := func(a, b [2]string) int { return cmp.Or(cmp.Compare(b[0], a[0]), cmp.Compare(b[1], a[1])) }
	r := report{Revision: revision(), Go: runtime.Version(), System: runtime.GOOS + "/" + runtime.GOARCH, CPU: cpu(),
		Cores: runtime.NumCPU()}
	for _, key := range slices.SortedFunc(maps.Keys(rows), order) {
		r.Rows = append(r.Rows, rows[key])
	}
	return r
}

// write prints the report as text, and then as JSON in one line.
func (r report) write(to io.Writer) error {
	fmt.Fprintf(to, "\nA call of a small layer, and how many times longer it takes through Extism\n%s, %d cores, %s, %s, "+
		"revision %s\n\n", r.CPU, r.Cores, r.System, r.Go, r.Revision)
	table := tabwriter.NewWriter(to, 0, 0, 3, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "layer\tinstances\tassay us\textism us\tratio\t")
	for _, row := range r.Rows {
		fmt.Fprintf(table, "%s\t%s\t%.2f\t%.2f\t%.1f\t\n", row.Layer, row.Instances, row.AssayNS/1000, row.ExtismNS/1000,
			row.Ratio)
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("printing the table: %w", err)
	}
	line, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("printing the table as JSON: %w", err)
	}
	_, err = fmt.Fprintf(to, "\n%s\n", line)
	return err
}

func revision() string {
	head, err := exec.Command("git", "rev-parse", "--short", "HEAD").Output()
	if err != nil {
		return "unknown"
	}
	changes, err := exec.Command("git", "status", "--porcelain", "--untracked-files=no").Output()
	if err != nil || len(changes) > 0 {
		return string(bytes.TrimSpace(head)) + "+"
	}
	return string(bytes.TrimSpace(head))
}

// cpu returns the processor's name, which only Linux tells in this way.
func cpu() string {
	info, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return "unknown processor"
	}
	for line := range strings.Lines(string(info)) {
		if key, value, _ := strings.Cut(line, ":"); strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "unknown processor"
}

func TestReport(t *testing.T) {
	t.Parallel()
	rows := map[[2]string]row{}
	for _, r := range []row{{"c", "shared", 900, 45_000, 50}, {"go", "put-back", 4000, 80_000, 20}} {
		rows[[2]string{r.Layer, r.Instances}] = r
	}
	r := newReport(rows)
	var out bytes.Buffer
	if err := r.write(&out); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	var decoded report
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &decoded); err != nil || len(decoded.Rows) != 2 {
		t.Fatalf("the last line is not the report: %v\n%s", err, out.String())
	}
	if decoded.Rows[0].Layer != "go" || decoded.Cores == 0 || decoded.Revision == "" || decoded.Go != runtime.Version() {
		t.Errorf("the report is %+v", decoded)
	}
	for _, want := range []string{"go    put-back       4.00       80.00    20.0", "c      shared       0.90       45.00"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the table lacks %q:\n%s", want, out.String())
		}
	}
}
