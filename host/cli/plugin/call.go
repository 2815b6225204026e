package plugin

import (
	"fmt"
	"strings"

	"assay/host/internal/terminal"
	"assay/host/lineup/rehearsal"
	"assay/sdk"
)

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
			line("fact", "%s = %q", terminal.OneLine(f.Name), f.Value)
		case f.Declared:
			line("fact", "%s is absent", terminal.OneLine(f.Name))
		default:
			line("fact", "%s is absent: the manifest does not declare it", terminal.OneLine(f.Name))
		}
	}
	for _, name := range c.Unread {
		line("unread", "%s was given, and the layer did not read it", terminal.OneLine(name))
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
		line("failed", "%s", c.Failure)
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
		line("log", "%s: %s", levelName(l.Level), terminal.OneLine(l.Text))
	}
	if c.Printed != "" {
		line("printed", "%s", terminal.OneLine(strings.TrimSuffix(c.Printed, "\n")))
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
