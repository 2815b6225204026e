package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"assay/host/check"
	"assay/host/fleet"
	"assay/host/lineup"
	"assay/host/replay"
	"assay/registry"
)

// percent is a share that is written as a percentage, such as 1% or 0.5%.
type percent float64

// UnmarshalText reads a percentage from 0% to 100%.
func (p *percent) UnmarshalText(text []byte) error {
	number, found := strings.CutSuffix(strings.TrimSpace(string(text)), "%")
	share, err := strconv.ParseFloat(number, 64)
	if !found || err != nil || !(share >= 0 && share <= 100) {
		return fmt.Errorf("%q is not a percentage from 0%% to 100%%", text)
	}
	*p = percent(share / 100)
	return nil
}

func (p percent) String() string { return strconv.FormatFloat(100*float64(p), 'g', 4, 64) + "%" }

// prediction is the JSON output of `assay lineup diff`.
type prediction struct {
	Changes []registry.Change `json:"changes"`
	Refused string            `json:"refused,omitempty"` // why `lineup set` refuses the lineup
	Report  *replay.Report    `json:"report"`
}

// report returns the changes that a lineup makes, as measured by the hosts that prepared it, or by this process if
// there are none.
func (b *backend) report(
	ctx context.Context, cfg *Config, t *terminal, prepared *fleet.Proposal, base, next registry.LineupDocument,
) (*replay.Report, error) {
	stored := make([]json.RawMessage, len(prepared.Answers))
	for i, a := range prepared.Answers {
		stored[i] = a.Report
	}
	report, err := replay.MergeStored(stored...)
	if err == nil && report.References == 0 {
		return b.predict(ctx, cfg, t, base, next)
	}
	return report, err
}

// show prints the changes that a lineup makes.
func (c lineupChange) show(t *terminal, report *replay.Report) error {
	out := t.out
	if c.asJSON {
		out = t.err
	}
	return report.WriteText(out)
}

// predict reports the changes that a lineup makes compared with another one. Both are opened in this process, which has
// no recent checks, so it scores only the reference values.
func (b *backend) predict(
	ctx context.Context, cfg *Config, t *terminal, base, next registry.LineupDocument,
) (report *replay.Report, err error) {
	before, closeBefore, err := b.openDocument(ctx, cfg, t, base)
	if err != nil {
		return nil, fmt.Errorf("opening the lineup in force: %w", err)
	}
	defer func() { err = errors.Join(err, closeBefore()) }()
	after, closeAfter, err := b.openDocument(ctx, cfg, t, next)
	if err != nil {
		return nil, fmt.Errorf("opening the new lineup: %w", err)
	}
	defer func() { err = errors.Join(err, closeAfter()) }()
	report = replay.Merge()
	return report, report.AddReferences(ctx, before, after, nil)
}

// openDocument opens the layers of a lineup in this process. Layers without a version are the built-in ones.
func (b *backend) openDocument(
	ctx context.Context, cfg *Config, t *terminal, l registry.LineupDocument,
) (*check.Lineup, func() error, error) {
	candidate, err := b.opener(ctx, cfg, t).open(ctx, l)
	if err != nil {
		return nil, nil, err
	}
	return check.NewLineup(0, lineup.ByType(l.Bias), check.Bands(l.Bands), candidate.Members), candidate.Close, nil
}

// openCandidate opens the lineup of a file in this process, to score values without recording them.
func (b *backend) openCandidate(
	ctx context.Context, cfg *Config, t *terminal, file string,
) (*check.Checker, func() error, error) {
	l, err := readDocument(file)
	if err != nil {
		return nil, nil, err
	}
	candidate, closeLineup, err := b.openDocument(ctx, cfg, t, l)
	if err != nil {
		return nil, nil, err
	}
	live := &check.Live{}
	live.Swap(candidate)
	return b.newExplainer(ctx, cfg, t, live, closeLineup)
}

// forced reports whether an operator forces a change and says why.
func forced(force bool, reason string) bool { return force && strings.TrimSpace(reason) != "" }

// checkFlips fails if a lineup changes more of a type's verdicts than the operator allows, unless it is forced.
func checkFlips(report *replay.Report, limit percent, forced bool) error {
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
		parts[i] = fmt.Sprintf("%s: %d of %d (%s)", t.Type, t.Flips+t.Refused, t.Checks, percent(t.Share()))
	}
	return strings.Join(parts, ", ")
}
