package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"assay/host/customer/feedback"
	"assay/host/installation"
	"assay/host/internal/terminal"
	"assay/host/measure/eval"
	"assay/host/store"
	"assay/registry"
)

type layersCmd struct {
	List layersListCmd `cmd:"" help:"List the layers of the active lineup, or all published layers."`
	Show layersShowCmd `cmd:"" help:"${layers_show_cmd}"`
}

type layersListCmd struct {
	All bool `help:"List all published versions."`
	terminal.Output
}

// LayerLine is a layer in the output of `assay layers list`.
type LayerLine struct {
	Name       string          `json:"name"`
	Version    string          `json:"version"`
	Digest     string          `json:"digest"`
	Class      registry.Class  `json:"class"`
	Range      [2]int          `json:"score_range"` // in the lineup, if it is active
	Active     bool            `json:"in_force"`
	Weight     registry.ByType `json:"weight"`
	Required   bool            `json:"required"`
	Entities   []string        `json:"entities"`
	BudgetFuel int64           `json:"budget_fuel"`
	Summary    string          `json:"summary"`
	FirstParty bool            `json:"first_party"`
	signals    []registry.SignalText
}

func (cmd *layersListCmd) Run(ctx context.Context, s *installation.Session) error {
	lines, err := layerLines(ctx, s.Store, cmd.All)
	if err != nil {
		return err
	}
	header := []string{"LAYER", "VERSION", "CLASS", "SCORE", "WEIGHT", "BUDGET", "ENTITIES", "SUMMARY"}
	return terminal.List(s.Terminal, lines, header, func(l LayerLine) []string {
		weight := ""
		if l.Active {
			weight = l.Weight.String()
		}
		return []string{l.Name, l.Version, string(l.Class), fmt.Sprintf("%d to %d", l.Range[0], l.Range[1]), weight,
			strconv.FormatInt(l.BudgetFuel, 10), strings.Join(l.Entities, ","), l.Summary}
	})
}

// layerLines returns a line for each published plugin that the active lineup names, or for all of them.
func layerLines(ctx context.Context, s *store.Store, all bool) ([]LayerLine, error) {
	plugins, err := s.Plugins(ctx)
	if err != nil {
		return nil, err
	}
	active, err := s.ActiveLineup(ctx)
	if err != nil && !errors.Is(err, registry.ErrNoRevision) {
		return nil, err
	}
	items := map[string]registry.LineupLayer{}
	for _, item := range active.Lineup.Layers {
		items[item.Layer] = item
	}
	lines := []LayerLine{}
	for _, p := range plugins {
		item, active := items[p.Ref()]
		if !active && !all {
			continue
		}
		m, err := p.ParseManifest()
		if err != nil {
			return nil, fmt.Errorf("listing %s: %w", p.Ref(), err)
		}
		lowest, highest := item.Range(m)
		lines = append(lines, LayerLine{
			Name: p.Name, Version: p.Version, Digest: p.Digest.String(), Active: active,
			Class: m.LayerClass(), Range: [2]int{lowest, highest}, Weight: item.Weight, Required: item.Required,
			Entities: m.Entities, BudgetFuel: m.BudgetFuel, Summary: m.Summary, FirstParty: p.FirstParty,
			signals: m.Signals,
		})
	}
	return lines, nil
}

type layersShowCmd struct {
	Layer string `arg:"" help:"${layers_show_layer}"`
	terminal.Output
}

// shownLayer is the JSON output of `assay layers show`.
type shownLayer struct {
	LayerLine
	Labels  int           `json:"labels"` // of values that the version scored
	Signals []shownSignal `json:"signals"`
}

// shownSignal is a signal of a layer, and its results for the values that customers labelled.
type shownSignal struct {
	registry.SignalText
	Fraud      int           `json:"fraud"`
	Legitimate int           `json:"legitimate"`
	HitRate    eval.Number   `json:"hit_rate"`  // share of the values for which it was raised; null without labels
	Precision  eval.Number   `json:"precision"` // share of fraud among these values; null if there are none
	Interval   eval.Interval `json:"interval"`  // of the precision, 95%
}

func (cmd *layersShowCmd) Run(ctx context.Context, s *installation.Session) error {
	shown, err := cmd.read(ctx, s.Store)
	if err != nil {
		return err
	}
	return s.Show(shown, func() error { return shown.print(s.Terminal) })
}

func (l shownLayer) print(t *terminal.Terminal) error {
	t.Printf("%s@%s: %s\n%d labelled values were scored by this version.\n\n", l.Name, l.Version, l.Summary, l.Labels)
	rows := make([][]string, len(l.Signals))
	for i, s := range l.Signals {
		rows[i] = []string{s.Code, strconv.Itoa(s.Points), s.Warrants, "", "", "", s.Text}
		if s.Fraud+s.Legitimate > 0 {
			rows[i][3], rows[i][4], rows[i][5] = percentOf(s.HitRate), percentOf(s.Precision), intervalOf(s.Interval)
		}
	}
	return t.Table([]string{"SIGNAL", "POINTS", "WARRANTS", "HIT RATE", "PRECISION", "95% INTERVAL", "MEANING"}, rows)
}

// read finds the layer: the named version, or that of the lineup in force, or the newest.
func (cmd *layersShowCmd) read(ctx context.Context, s *store.Store) (shown shownLayer, err error) {
	lines, err := layerLines(ctx, s, true)
	if err != nil {
		return shown, err
	}
	name, version, _ := strings.Cut(cmd.Layer, "@")
	lines = slices.DeleteFunc(lines, func(l LayerLine) bool {
		return l.Name != name || version != "" && l.Version != version
	})
	if len(lines) == 0 {
		return shown, fmt.Errorf("showing %s: %w", cmd.Layer, registry.ErrNoPlugin)
	}
	shown.LayerLine = lines[max(0, slices.IndexFunc(lines, func(l LayerLine) bool { return l.Active }))]
	labelled, err := s.Labelled(ctx)
	if err != nil {
		return shown, err
	}
	shown.Labels = feedback.CountScored(labelled, shown.Name, shown.Version)
	shown.Signals = signalsOf(shown, feedback.TallySignals(labelled))
	return shown, nil
}

// signalsOf returns the signals of a layer with their labels.
func signalsOf(of shownLayer, tallies []feedback.Tally) []shownSignal {
	signals := make([]shownSignal, len(of.signals))
	for i, s := range of.signals {
		signals[i].SignalText = s
		for _, t := range tallies {
			if t.Layer == of.Name && t.Version == of.Version && t.Signal == s.Code {
				signals[i].Fraud, signals[i].Legitimate = t.Fraud, t.Legitimate
			}
		}
		raised := signals[i].Fraud + signals[i].Legitimate
		signals[i].HitRate = eval.Number(float64(raised) / float64(of.Labels))
		signals[i].Precision = eval.Number(float64(signals[i].Fraud) / float64(raised))
		signals[i].Interval = eval.Wilson(signals[i].Fraud, raised)
	}
	return signals
}
