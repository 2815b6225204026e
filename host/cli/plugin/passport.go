package plugin

import (
	"context"
	"fmt"
	"strings"

	"assay/host/installation"
	"assay/host/internal/terminal"
	"assay/host/lineup/rehearsal"
	"assay/registry"
)

// measure measures a module and returns its passport.
func measure(ctx context.Context, m registry.Module) (*rehearsal.Passport, error) {
	p, err := rehearsal.Issue(ctx, installation.MeasureCommand(), m)
	return &p, err
}

// issue measures a plugin that is about to be published, and prints warnings for its publisher. If this machine has the
// operator's key, issue signs the passport and adds it to the notes. It fails if the plugin must not be published.
func issue(ctx context.Context, c *installation.Command, m registry.Module, notes registry.Notes) (
	*rehearsal.Passport, error) {
	p, err := measure(ctx, m)
	var warnings []string
	if err == nil {
		warnings, err = p.Judge()
	}
	if err != nil {
		return nil, fmt.Errorf("publishing %s: %w", m.Ref(), err)
	}
	for _, warning := range warnings {
		fmt.Fprintf(c.Err, "warning: %s\n", terminal.OneLine(warning))
	}
	key, err := installation.ReadKey(c.OperatorKeyPath())
	if err == nil && key != nil {
		notes[registry.NotePassport], err = p.Sign(key)
	}
	return p, err
}

// readPassport returns the passport among the notes about a published plugin, or nil, and the name of its key.
func readPassport(c *installation.Config, m registry.Module, notes registry.Notes) (
	*rehearsal.Passport, string, error) {
	if notes[registry.NotePassport] == "" {
		return nil, "", nil
	}
	trust, err := c.ReadTrust()
	if err != nil {
		return nil, "", err
	}
	p, key, err := rehearsal.OpenPassport(trust, notes[registry.NotePassport], m.Digest)
	return &p, key, err
}

// printPassport prints the measurements in a few lines.
func printPassport(t *terminal.Terminal, p rehearsal.Passport) {
	t.Printf("%d values: the same answers in two processes, in repeated calls, and in used and new instances.\n",
		p.Values)
	t.Printf("Fuel of a call: %.0f in the middle, %.0f for 99%%, at most %d of %d (%.1f times). To start: %d.\n",
		p.Fuel.Median, p.Fuel.P99, p.MostFuel, p.Budget, p.Margin(), p.StartFuel)
	t.Printf("Memory: at most %d of %d KiB. Scores: %d to %d of %d to %d.", p.Memory>>10, p.Limit>>10, p.Scores[0],
		p.Scores[1], p.Range[0], p.Range[1])
	if len(p.Unread) > 0 {
		t.Printf(" No value made it ask for %s.", strings.Join(p.Unread, ", "))
	}
	t.Printf("\nHonest values that it raises by itself: %s.\n", falsePositives(p))
}

func falsePositives(p rehearsal.Passport) string {
	parts := make([]string, len(p.FalsePositives))
	for i, f := range p.FalsePositives {
		parts[i] = fmt.Sprintf("%d of %d (%s)", f.Review, f.Values, f.Type)
	}
	return strings.Join(parts, ", ")
}

// comparePassports lists how the measurements of two plugins differ. No measurement is a permission.
func comparePassports(from, to *rehearsal.Passport) (changes []registry.ManifestChange) {
	if from == nil || to == nil {
		return nil
	}
	rows := func(p *rehearsal.Passport) [][2]string {
		return [][2]string{{"measured fuel, in the middle", fmt.Sprintf("%.0f", p.Fuel.Median)},
			{"measured fuel, at most", fmt.Sprint(p.MostFuel)}, {"measured fuel to start", fmt.Sprint(p.StartFuel)},
			{"measured memory, in bytes", fmt.Sprint(p.Memory)},
			{"measured scores", fmt.Sprintf("%d to %d", p.Scores[0], p.Scores[1])},
			{"honest values raised", falsePositives(*p)}}
	}
	before := rows(from)
	for i, row := range rows(to) {
		if row != before[i] {
			changes = append(changes, registry.ManifestChange{What: row[0], From: before[i][1], To: row[1]})
		}
	}
	return changes
}
