package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"assay/host/check"
	"assay/host/entity"
	"assay/host/installation"
	"assay/host/internal/terminal"
)

type checkCmd struct {
	Value   string `arg:"" help:"Domain, email address, phone number or IBAN."`
	Type    string `enum:"domain,email,phone,iban,auto" default:"auto" help:"Type of the value: ${enum}."`
	Country string `placeholder:"CC" help:"The request's region.country: ISO 3166-1 alpha-2, or EU."`
	Lineup  string `placeholder:"FILE" help:"${check_lineup}"`
	terminal.Output
}

// Explanation is the JSON output of `assay check`.
type Explanation struct {
	Score     int             `json:"score"`
	Lowest    int             `json:"score_min"`
	Highest   int             `json:"score_max"`
	Verdict   check.Verdict   `json:"verdict"`
	Signals   []string        `json:"signals"`
	Threat    *string         `json:"dominant_threat"`
	Type      entity.Type     `json:"type"`
	Query     string          `json:"query"`
	Timestamp string          `json:"timestamp"`
	Revision  int64           `json:"lineup_revision"` // 0: a candidate, or the built-in lineup
	Layers    []check.Outcome `json:"layers"`
	Override  *check.Override `json:"override"` // null if none decided
}

func (cmd *checkCmd) Run(ctx context.Context, c *installation.Command) error {
	o, err := installation.NewOpener(ctx, c, cmd.Lineup)
	if err != nil {
		return err
	}
	checker, closeChecker, err := o.Checker(ctx, cmd.Lineup, cmd.kind())
	if err != nil {
		return err
	}
	return errors.Join(cmd.explain(ctx, c.Terminal, checker), closeChecker())
}

// kind returns the type of the value.
func (cmd *checkCmd) kind() entity.Type {
	if cmd.Type == "auto" {
		return entity.Guess(cmd.Value)
	}
	return entity.Type(cmd.Type)
}

// explain scores the value and prints the decision.
func (cmd *checkCmd) explain(ctx context.Context, t *terminal.Terminal, checker *check.Checker) error {
	d, err := checker.Explain(ctx, check.Field{Type: cmd.kind(), Value: cmd.Value}, cmd.Country)
	if err != nil {
		return err
	}
	name := cmp.Or(cmd.Lineup, "built-in")
	if d.Revision != 0 {
		name = fmt.Sprintf("revision %d", d.Revision)
	}
	return t.Show(newExplanation(d), func() error { return printDecision(t, d, name) })
}

func newExplanation(d *check.Decision) Explanation {
	e := Explanation{
		Score: d.Score, Lowest: d.Lowest, Highest: d.Highest, Verdict: d.Verdict, Signals: []string{},
		Type: d.Type, Query: d.Query, Timestamp: d.At.Format(check.TimeFormat), Revision: d.Revision,
		Layers: d.Layers, Override: d.Override,
	}
	for _, s := range d.Signals {
		e.Signals = append(e.Signals, s.Text)
	}
	if d.Threat != "" {
		e.Threat = &d.Threat
	}
	return e
}

func printDecision(t *terminal.Terminal, d *check.Decision, lineup string) error {
	threat := ""
	if d.Threat != "" {
		threat = ", " + strings.ReplaceAll(d.Threat, "_", " ")
	}
	t.Printf("%s %q: %d of 100, %s%s (lineup %s)\n\n", d.Type, d.Query, d.Score, d.Verdict, threat, lineup)
	var rows [][]string
	for _, o := range d.Layers {
		state := fmt.Sprint(o.Score)
		switch {
		case o.Failure != "":
			state = "lost: " + string(o.Failure)
		case o.Abstained:
			state = "abstains"
		}
		rows = append(rows, []string{
			o.Layer + "@" + o.Version, state, fmt.Sprintf("%.2f", o.Weight), fmt.Sprintf("%+.2f", o.Contribution),
			fmt.Sprintf("%d us", o.Micros), "", "",
		})
		for _, s := range o.Signals {
			rows = append(rows, []string{"", fmt.Sprintf("%+d", s.Points), "", "", "", s.Code, s.Text})
		}
	}
	if err := t.Table([]string{"LAYER", "SCORE", "WEIGHT", "LOG-ODDS", "TIME", "SIGNAL", "REASON"}, rows); err != nil {
		return err
	}
	for _, s := range d.Signals {
		if strings.HasPrefix(s.Code, "host:") { // reported by the host, so not in the table of layers
			t.Printf("\n%s.\n", s.Text)
		}
	}
	return nil
}
