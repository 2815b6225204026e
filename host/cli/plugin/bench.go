package plugin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"assay/host/entity"
	"assay/host/installation"
	"assay/host/internal/terminal"
	"assay/host/lineup/rehearsal"
	"assay/host/sandbox"
	"assay/registry"
	"assay/registry/fault"
)

type pluginBenchCmd struct {
	Plugin   string `arg:"" default:"." help:"${plugin_path}"`
	Values   string `placeholder:"FILE" help:"${plugin_values}"`
	Rounds   int    `default:"20" help:"How often to call the layer with each value."`
	Baseline string `placeholder:"PATH" help:"${plugin_baseline}"`
	JSON     bool   `help:"Print JSON. It is a file for --baseline."`
}

func (cmd *pluginBenchCmd) Run(ctx context.Context, t *terminal.Terminal) error {
	corpus, err := cmd.corpus()
	if err != nil {
		return err
	}
	measure := func(path string) (got rehearsal.Measurement, err error) {
		err = withPlugin(ctx, t, path, func(p *sandbox.Plugin, m registry.Module) error {
			cases, err := m.Cases()
			values := slices.Clone(corpus)
			if cmd.Values == "" {
				for _, v := range rehearsal.Variations(cases) {
					values = append(values, v.Subject)
				}
			}
			if err == nil {
				got, err = rehearsal.Measure(ctx, p, values, max(1, cmd.Rounds))
			}
			return err
		})
		return got, err
	}
	got, err := measure(cmd.Plugin)
	if err != nil {
		return err
	}
	var baseline *rehearsal.Measurement
	if cmd.Baseline != "" {
		if baseline, err = readBaseline(cmd.Baseline, measure); err != nil {
			return err
		}
	}
	return t.Show(got, func() error { return printMeasurement(t, got, baseline) })
}

// corpus returns the values of the file, or the built-in ones.
func (cmd *pluginBenchCmd) corpus() ([]rehearsal.Subject, error) {
	if cmd.Values == "" {
		return rehearsal.Corpus(), nil
	}
	text, err := installation.ReadFileOrStdin(cmd.Values)
	if err != nil {
		return nil, err
	}
	var corpus []rehearsal.Subject
	for line := range bytes.Lines(text) {
		if value := string(bytes.TrimSpace(line)); value != "" {
			corpus = append(corpus, rehearsal.Subject{Type: entity.Guess(value), Value: value})
		}
	}
	return corpus, nil
}

// readBaseline returns the measurement in a file of JSON, or measures another version of the plugin.
func readBaseline(
	path string, measure func(path string) (rehearsal.Measurement, error),
) (*rehearsal.Measurement, error) {
	var m rehearsal.Measurement
	if filepath.Ext(path) != ".json" {
		m, err := measure(path)
		return &m, err
	}
	text, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(text, &m)
	}
	if err == nil && m.Calls == 0 {
		err = errors.New("it is not an output of `assay plugin bench --json`")
	}
	return &m, fault.Wrap(err, "reading the baseline %s", path)
}

func printMeasurement(t *terminal.Terminal, m rehearsal.Measurement, baseline *rehearsal.Measurement) error {
	t.Printf("%s: %d calls with %d values\n", m.Plugin, m.Calls, m.Values)
	if baseline != nil {
		t.Printf("Compared with %s: %d calls with %d values\n", baseline.Plugin, baseline.Calls, baseline.Values)
	} else {
		baseline = &rehearsal.Measurement{}
	}
	t.Printf("\n")
	rows := [][]string{
		costs("fuel", m.Fuel, baseline.Fuel, 1, 0, strconv.FormatInt(m.Budget, 10)),
		costs("memory (KiB)", m.Memory, baseline.Memory, 1<<10, 0, strconv.Itoa(m.Limit>>10)),
		costs("time (us)", m.Micros, baseline.Micros, 1, 1, ""),
	}
	if err := t.Table([]string{"", "MEDIAN", "90%", "99%", "MOST", "LIMIT"}, rows); err != nil {
		return err
	}
	t.Printf("\nMost fuel: %.70q\n", m.Longest)
	if m.Failed > 0 {
		t.Printf("%d calls failed: `assay plugin run` shows why\n", m.Failed)
	}
	return nil
}

// costs returns a row of the table, in the given unit and with the given number of decimals. A cost is followed by its
// change from the baseline, if there is one.
func costs(what string, d, baseline rehearsal.Distribution, unit float64, decimals int, limit string) []string {
	cell := func(now, before float64) string {
		text := strconv.FormatFloat(now/unit, 'f', decimals, 64)
		if before > 0 {
			text += fmt.Sprintf(" (%+.1f%%)", 100*(now-before)/before)
		}
		return text
	}
	return []string{what, cell(d.Median, baseline.Median), cell(d.P90, baseline.P90), cell(d.P99, baseline.P99),
		cell(d.Maximum, baseline.Maximum), limit}
}
