package main

import (
	"context"
	"strconv"

	"assay/host/eval"
	"assay/host/feedback"
)

type feedbackCmd struct {
	Signals feedbackSignalsCmd `cmd:"" help:"${feedback_signals_cmd}"`
}

type feedbackSignalsCmd struct {
	JSON bool `help:"Print JSON."`
}

// signalLine is a signal in the output of `assay feedback signals`.
type signalLine struct {
	feedback.Tally
	Precision eval.Number   `json:"precision"` // the share of fraud
	Interval  eval.Interval `json:"interval"`  // 95%
}

func (cmd *feedbackSignalsCmd) Run(ctx context.Context, cfg *Config, t *terminal) error {
	return withBackend(ctx, cfg, t, func(b *backend) error {
		labelled, err := b.store.Labelled(ctx)
		if err != nil {
			return err
		}
		lines := []signalLine{}
		for _, tally := range feedback.TallySignals(labelled) {
			n := tally.Fraud + tally.Legitimate
			lines = append(lines, signalLine{tally, eval.Number(float64(tally.Fraud) / float64(n)),
				eval.Wilson(tally.Fraud, n)})
		}
		if cmd.JSON {
			return t.json(lines)
		}
		rows := make([][]string, len(lines))
		for i, l := range lines {
			rows[i] = []string{l.Layer, l.Version, l.Signal, strconv.Itoa(l.Fraud), strconv.Itoa(l.Legitimate),
				percentOf(l.Precision), percentOf(l.Interval[0]) + " to " + percentOf(l.Interval[1])}
		}
		return t.table([]string{"LAYER", "VERSION", "SIGNAL", "FRAUD", "LEGITIMATE", "PRECISION", "95% INTERVAL"}, rows)
	})
}

func percentOf(n eval.Number) string { return strconv.FormatFloat(100*float64(n), 'f', 0, 64) + "%" }
