package plugin

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"assay/host/installation"
	"assay/host/internal/terminal"
	"assay/host/lineup/rehearsal"
	"assay/host/sandbox"
	"assay/registry"
	"assay/sdk"
)

type pluginTestCmd struct {
	Plugin      string `arg:"" default:"." help:"${plugin_path}"`
	Watch       bool   `help:"Run the cases again after each change of the folder, until interrupted."`
	Conformance bool   `help:"${plugin_conformance}"`
	JSON        bool   `help:"Print JSON."`
}

func (cmd *pluginTestCmd) Run(ctx context.Context, t *terminal.Terminal) error {
	switch {
	case cmd.Watch && (cmd.JSON || cmd.Conformance):
		return terminal.Misuse{Err: errors.New("--watch goes with no other flag")}
	case cmd.Conformance:
		return cmd.conform(ctx, t)
	case cmd.Watch:
		return watch(ctx, t, cmd.Plugin, func() error { return cmd.test(ctx, t) }, func() {})
	}
	return cmd.test(ctx, t)
}

// test runs the cases.
func (cmd *pluginTestCmd) test(ctx context.Context, t *terminal.Terminal) error {
	report, err := testPlugin(ctx, t, cmd.Plugin)
	if err != nil {
		return err
	}
	if cmd.JSON {
		err = t.JSON(report)
	} else {
		printReport(t, report)
	}
	if err == nil && report.Failed > 0 {
		err = fmt.Errorf("%d of %d cases failed", report.Failed, len(report.Cases))
	}
	return err
}

// conformance is the JSON output of `assay plugin test --conformance`.
type conformance struct {
	Vectors    int                  `json:"vectors"`
	Mismatches []rehearsal.Mismatch `json:"mismatches"` // the first ones
}

// conform compares the layer with the same layer in Go.
func (cmd *pluginTestCmd) conform(ctx context.Context, t *terminal.Terminal) error {
	return withPlugin(ctx, t, cmd.Plugin, func(p *sandbox.Plugin, m registry.Module) error {
		mismatches, err := rehearsal.Conform(ctx, p, rehearsal.VectorCount)
		if err != nil {
			return err
		}
		if cmd.JSON {
			err = t.JSON(conformance{rehearsal.VectorCount, mismatches})
		} else {
			for _, mismatch := range mismatches {
				t.Printf("facts %q\n-- want\n%s\n-- got\n%s\n\n", mismatch.Facts, mismatch.Want, mismatch.Got)
			}
		}
		if err == nil && len(mismatches) > 0 {
			return fmt.Errorf("%s differs from the first layer of `assay plugin new`", m.Ref())
		}
		if !cmd.JSON {
			t.Printf("%s: the same answers as in Go for %d vectors\n", m.Ref(), rehearsal.VectorCount)
		}
		return err
	})
}

var errNoCases = errors.New("the layer has no cases: write cases.jsonl, a case a line")

// testPlugin runs the cases of a layer.
func testPlugin(ctx context.Context, t *terminal.Terminal, path string) (report rehearsal.Report, err error) {
	err = withPlugin(ctx, t, path, func(p *sandbox.Plugin, m registry.Module) error {
		report, err = runCases(ctx, p, m)
		return err
	})
	return report, err
}

// runCases runs the cases of a module that is open.
func runCases(ctx context.Context, p *sandbox.Plugin, m registry.Module) (rehearsal.Report, error) {
	cases, err := m.Cases()
	if err != nil {
		return rehearsal.Report{}, err
	}
	if len(cases) == 0 {
		return rehearsal.Report{}, errNoCases
	}
	return rehearsal.Cases(ctx, p, cases)
}

// withPlugin reads or builds a plugin, opens it in the sandbox as a host does, and calls do.
func withPlugin(
	ctx context.Context, t *terminal.Terminal, path string, do func(*sandbox.Plugin, registry.Module) error,
) error {
	wasm, err := readPlugin(ctx, path)
	if err != nil {
		return err
	}
	box := sandbox.New(sandbox.Config{Compiler: installation.CompilerCommand(), NeverSuspend: true, Logger: installation.QuietLog(t)})
	return withModule(ctx, box, wasm, do)
}

// withModule opens a module in a sandbox, and calls do.
func withModule(
	ctx context.Context, box *sandbox.Sandbox, wasm []byte, do func(*sandbox.Plugin, registry.Module) error,
) error {
	m, err := registry.OpenModule(wasm)
	if err != nil {
		return err
	}
	p, err := box.Open(ctx, m)
	if err != nil {
		return err
	}
	return errors.Join(do(p, m), p.Close(ctx))
}

// printReport prints the cases, those that failed with what the layer did, and the coverage.
func printReport(t *terminal.Terminal, r rehearsal.Report) {
	for _, c := range r.Cases {
		if len(c.Differences) == 0 {
			t.Printf("ok    %s\n", oneLine(c.Name))
		}
	}
	printFailures(t, r)
}

// printFailures prints the cases that failed with what the layer did, and the coverage.
func printFailures(t *terminal.Terminal, r rehearsal.Report) {
	for _, c := range r.Cases {
		if len(c.Differences) == 0 {
			continue
		}
		t.Printf("FAIL  %s\n", oneLine(c.Name))
		for _, difference := range c.Differences {
			t.Printf("      - %s\n", oneLine(difference))
		}
		printCall(t, c.Call, "      ")
	}
	t.Printf("\n%s: %d of %d cases passed, %d of %d signals emitted\n", r.Plugin, len(r.Cases)-r.Failed, len(r.Cases),
		r.Covered(), len(r.Signals))
	for _, s := range r.Signals {
		if s.Cases == 0 {
			t.Printf("  no case emits %s\n", s.Code)
		}
	}
	for _, fact := range r.Unread {
		t.Printf("  no case makes the layer read %s\n", fact)
	}
}

// printCall prints what a layer did with a value.
func printCall(t *terminal.Terminal, c rehearsal.Call, indent string) {
	if c.Outcome == "" {
		return // the value could not be read
	}
	line := liner(t, indent)
	line("value", "%s %q", c.Type, c.Value)
	printAnswer(t, c, indent)
	for _, f := range c.Facts {
		switch {
		case f.Known:
			line("fact", "%s = %q", oneLine(f.Name), f.Value)
		case f.Declared:
			line("fact", "%s is absent", oneLine(f.Name))
		default:
			line("fact", "%s is absent: the manifest does not declare it", oneLine(f.Name))
		}
	}
	for _, name := range c.Unread {
		line("unread", "%s was given, and the layer did not read it", oneLine(name))
	}
	printLog(t, c, indent)
	line("cost", "%d of %d units of fuel (%.1f%%), %d KiB of memory, %.1f us", c.Fuel, c.Budget,
		100*float64(c.Fuel)/float64(c.Budget), c.Memory>>10, c.Micros)
}

// liner returns a function that prints a line with a label.
func liner(t *terminal.Terminal, indent string) func(label, format string, args ...any) {
	return func(label, format string, args ...any) {
		t.Printf("%s%-8s %s\n", indent, label, fmt.Sprintf(format, args...))
	}
}

// printAnswer prints the score and what explains it.
func printAnswer(t *terminal.Terminal, c rehearsal.Call, indent string) {
	line := liner(t, indent)
	switch c.Outcome {
	case rehearsal.Failed:
		line("failed", "%s", oneLine(c.Failure))
	case rehearsal.Abstained:
		line("outcome", "abstains")
	default:
		line("score", "%d", c.Score)
	}
	for _, s := range c.Signals {
		line("signal", "%+d %s: %s", s.Points, s.Code, s.Text)
	}
	if c.Threat != "" {
		line("threat", "%s", c.Threat)
	}
}

// printLog prints what the layer wrote for its author.
func printLog(t *terminal.Terminal, c rehearsal.Call, indent string) {
	line := liner(t, indent)
	for _, l := range c.Log {
		line("log", "%s: %s", levelName(l.Level), oneLine(l.Text))
	}
	if c.Printed != "" {
		line("printed", "%s", oneLine(strings.TrimSuffix(c.Printed, "\n")))
	}
	if c.LogDropped > 0 {
		line("log", "%d bytes more were dropped", c.LogDropped)
	}
}

// levelName returns the word for a level.
func levelName(level sdk.Level) string {
	switch level {
	case sdk.Debug:
		return "debug"
	case sdk.Warn:
		return "warning"
	case sdk.Error:
		return "error"
	}
	return "info"
}

// oneLine quotes a layer's text if it is more than a line of printable characters: it must not control the terminal.
func oneLine(text string) string {
	if !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool { return !strconv.IsPrint(r) }) {
		return strconv.Quote(text)
	}
	return text
}
