package lineup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"assay/host/installation"
	"assay/host/internal/terminal"
	"assay/host/lineup/fleet"
	"assay/host/lineup/replay"
	"assay/registry"
)

// prediction is the JSON output of `assay lineup diff`.
type prediction struct {
	Changes []registry.Change `json:"changes"`
	Refused string            `json:"refused,omitempty"` // why `lineup set` refuses the lineup
	Report  *replay.Report    `json:"report"`
}

// report returns the changes that a lineup makes, as measured by the hosts that prepared it, or by this process if
// there are none.
func report(
	ctx context.Context, b *installation.Backend, cfg *installation.Config, t *terminal.Terminal, prepared *fleet.Proposal, base, next registry.LineupDocument,
) (*replay.Report, error) {
	stored := make([]json.RawMessage, len(prepared.Answers))
	for i, a := range prepared.Answers {
		stored[i] = a.Report
	}
	report, err := replay.MergeStored(stored...)
	if err == nil && report.References == 0 {
		return predict(ctx, b, cfg, t, base, next)
	}
	return report, err
}

// show prints the changes that a lineup makes.
func (c LineupChange) show(t *terminal.Terminal, report *replay.Report) error {
	out := t.Out
	if c.asJSON {
		out = t.Err
	}
	return report.WriteText(out)
}

// predict reports the changes that a lineup makes compared with another one. Both are opened in this process, which has
// no recent checks, so it scores only the reference values.
func predict(
	ctx context.Context, b *installation.Backend, cfg *installation.Config, t *terminal.Terminal, base, next registry.LineupDocument,
) (report *replay.Report, err error) {
	before, closeBefore, err := b.OpenDocument(ctx, cfg, t, base)
	if err != nil {
		return nil, fmt.Errorf("opening the lineup in force: %w", err)
	}
	defer func() { err = errors.Join(err, closeBefore()) }()
	after, closeAfter, err := b.OpenDocument(ctx, cfg, t, next)
	if err != nil {
		return nil, fmt.Errorf("opening the new lineup: %w", err)
	}
	defer func() { err = errors.Join(err, closeAfter()) }()
	report = replay.Merge()
	return report, report.AddReferences(ctx, before, after, nil)
}

// Forced reports whether an operator forces a change and says why.
func Forced(force bool, reason string) bool { return force && strings.TrimSpace(reason) != "" }

// checkFlips fails if a lineup changes more of a type's verdicts than the operator allows, unless it is forced.
func checkFlips(report *replay.Report, limit installation.Percent, forced bool) error {
	excess := excessFlips(report, float64(limit))
	if excess == "" || forced {
		return nil
	}
	return fmt.Errorf("the lineup would change more than %v of recent verdicts (%s); to activate it anyway, use "+
		"--force --reason TEXT. The limit is ASSAY_FLIP_LIMIT", limit, excess)
}

// excessFlips lists the types for which a lineup changes more verdicts than the limit, or returns "".
func excessFlips(report *replay.Report, limit float64) string {
	beyond := report.Beyond(limit)
	parts := make([]string, len(beyond))
	for i, t := range beyond {
		parts[i] = fmt.Sprintf("%s: %d of %d (%s)", t.Type, t.Flips+t.Refused, t.Checks, installation.Percent(t.Share()))
	}
	return strings.Join(parts, ", ")
}
