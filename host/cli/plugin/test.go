package plugin

import (
	"context"
	"errors"
	"fmt"

	"assay/host/internal/terminal"
	"assay/host/lineup/rehearsal"
	"assay/host/sandbox"
	"assay/registry"
)

type pluginTestCmd struct {
	Plugin      string `arg:"" default:"." help:"${plugin_path}"`
	Watch       bool   `help:"Run the cases again after each change of the folder, until interrupted."`
	Conformance bool   `help:"${plugin_conformance}"`
	terminal.Output
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
	return withPlugin(ctx, t, cmd.Plugin, func(p *sandbox.Plugin, m registry.Module) error {
		report, err := runCases(ctx, p, m)
		if err != nil {
			return err
		}
		err = t.Show(report, func() error { printReport(t, report); return nil })
		if err == nil && report.Failed > 0 {
			err = fmt.Errorf("%d of %d cases failed", report.Failed, len(report.Cases))
		}
		return err
	})
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
		err = t.Show(conformance{rehearsal.VectorCount, mismatches}, func() error {
			for _, mismatch := range mismatches {
				t.Printf("facts %q\n-- want\n%s\n-- got\n%s\n\n", mismatch.Facts, mismatch.Want, mismatch.Got)
			}
			if len(mismatches) == 0 {
				t.Printf("%s: the same answers as in Go for %d vectors\n", m.Ref(), rehearsal.VectorCount)
			}
			return nil
		})
		if err == nil && len(mismatches) > 0 {
			return fmt.Errorf("%s differs from the first layer of `assay plugin new`", m.Ref())
		}
		return err
	})
}

var errNoCases = errors.New("the layer has no cases: write cases.jsonl, a case a line")

// runCases runs the cases of a module that is open.
func runCases(ctx context.Context, p *sandbox.Plugin, m registry.Module) (rehearsal.Report, error) {
	cases, err := m.Cases()
	if err == nil {
		err = knowsFacts(m)
	}
	if err != nil {
		return rehearsal.Report{}, err
	}
	if len(cases) == 0 {
		return rehearsal.Report{}, errNoCases
	}
	return rehearsal.Cases(ctx, p, cases)
}

// printReport prints the cases, those that failed with what the layer did, and the coverage.
func printReport(t *terminal.Terminal, r rehearsal.Report) {
	for _, c := range r.Cases {
		if len(c.Differences) == 0 {
			t.Printf("ok    %s\n", terminal.OneLine(c.Name))
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
		t.Printf("FAIL  %s\n", terminal.OneLine(c.Name))
		for _, difference := range c.Differences {
			t.Printf("      - %s\n", terminal.OneLine(difference))
		}
		printCall(t, c.Call, "      ")
	}
	t.Printf("\n%s: %d of %d cases passed, %d of %d signals emitted, %d variations of the values tried\n", r.Plugin,
		len(r.Cases)-r.Failed, len(r.Cases), r.Covered(), len(r.Signals), r.Varied)
	for _, s := range r.Signals {
		if s.Cases == 0 {
			t.Printf("  no case emits %s\n", s.Code)
		}
	}
	for _, fact := range r.Unread {
		t.Printf("  no case makes the layer read %s\n", fact)
	}
}
