package cli

import (
	"context"
	"strconv"

	"assay/host/customer/feedback"
	"assay/host/installation"
	"assay/host/internal/terminal"
	"assay/host/measure/eval"
)

type feedbackCmd struct {
	Signals feedbackSignalsCmd `cmd:"" help:"${feedback_signals_cmd}"`
}

type feedbackSignalsCmd struct{ terminal.Output }

// signalLine is a signal in the output of `assay feedback signals`.
type signalLine struct {
	feedback.Tally
	Precision eval.Number   `json:"precision"` // the share of fraud
	Interval  eval.Interval `json:"interval"`  // 95%
}

func (cmd *feedbackSignalsCmd) Run(ctx context.Context, s *installation.Session) error {
	labelled, err := s.Store.Labelled(ctx)
	if err != nil {
		return err
	}
	lines := []signalLine{}
	for _, tally := range feedback.TallySignals(labelled) {
		n := tally.Fraud + tally.Legitimate
		lines = append(lines, signalLine{tally, eval.Number(float64(tally.Fraud) / float64(n)),
			eval.Wilson(tally.Fraud, n)})
	}
	header := []string{"LAYER", "VERSION", "SIGNAL", "FRAUD", "LEGITIMATE", "PRECISION", "95% INTERVAL"}
	return terminal.List(s.Terminal, lines, header, func(l signalLine) []string {
		return []string{l.Layer, l.Version, l.Signal, strconv.Itoa(l.Fraud), strconv.Itoa(l.Legitimate),
			percentOf(l.Precision), intervalOf(l.Interval)}
	})
}

func intervalOf(i eval.Interval) string { return percentOf(i[0]) + " to " + percentOf(i[1]) }

func percentOf(n eval.Number) string { return strconv.FormatFloat(100*float64(n), 'f', 0, 64) + "%" }
