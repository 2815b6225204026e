package lineup

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"assay/host/installation"
	"assay/host/internal/terminal"
	"assay/host/lineup/fleet"
	"assay/registry"
	"assay/registry/activation"
)

// rollout returns a rollout to all hosts that prints their progress.
func rollout(b *installation.Backend, t *terminal.Terminal, asJSON bool) *fleet.Rollout {
	return &fleet.Rollout{Store: b.Store, Observe: func(e fleet.Event) {
		out := t.Out
		if asJSON {
			out = t.Err
		}
		text := e.Host.Name + ": " + e.What
		if e.Reason != "" {
			text += ", " + e.Reason
		}
		fmt.Fprintln(out, text)
	}}
}

// measureOnHosts makes every live host measure a lineup. Without the operator's key, the lineup may differ from the one
// in force in weights, bias and bands, but not in layers.
func measureOnHosts(
	ctx context.Context, rollout *fleet.Rollout, a *installation.Authority, l registry.LineupDocument,
) (*fleet.Proposal, error) {
	text, err := l.Canonical()
	if err != nil {
		return nil, err
	}
	if a.Operator == nil {
		return rollout.Prepare(ctx, fleet.Candidate{Document: string(text)})
	}
	signed, err := activation.SignMeasurement(text, a.Operator)
	if err != nil {
		return nil, err
	}
	return rollout.Prepare(ctx, fleet.Candidate{Signed: signed})
}

// Activated is an activation that runs. It is the JSON output of the commands that change what is in force.
type Activated struct {
	Revision   int64 `json:"revision"`
	Activation int64 `json:"activation"`
	Canary     int64 `json:"canary,omitempty"` // its revision
	Share      int   `json:"share,omitempty"`  // of the canary
	Hosts      int   `json:"hosts"`            // that run it
	Skipped    int   `json:"skipped"`          // because they are silent

	text string // what became of it
}

// await waits until every live host runs an activation. Its error names the hosts that do not.
func await(ctx context.Context, b *installation.Backend, rollout *fleet.Rollout, a activation.Activation) (Activated, error) {
	what := fmt.Sprintf("revision %d", a.Lineup.Revision)
	done := Activated{Revision: a.Lineup.Revision, Activation: a.Number}
	if a.Canary != nil {
		what = fmt.Sprintf("canary revision %d for %d%% of the accounts", a.Canary.Revision, a.Canary.Share)
		done.Canary, done.Share = a.Canary.Revision, a.Canary.Share
	}
	running, failure := rollout.Await(ctx, a.Number)
	if failure != nil {
		return done, fmt.Errorf("activation %d (%s) is %s, but not everywhere:\n%w", a.Number, what,
			runningOn(running), failure)
	}
	hosts, err := b.Store.Hosts(ctx)
	if err != nil {
		return done, err
	}
	skipped := fleet.Silent(hosts)
	done.Hosts, done.Skipped = len(running), len(skipped)
	done.text = fmt.Sprintf("%s is %s.\n", strings.ToUpper(what[:1])+what[1:], runningOn(running))
	if len(skipped) > 0 {
		done.text += fmt.Sprintf("Skipped, because silent: %s. They refuse checks until they run it.\n",
			strings.Join(skipped, ", "))
	}
	return done, nil
}

func (done Activated) Print(t *terminal.Terminal, asJSON bool) error {
	if asJSON {
		return t.JSON(done)
	}
	t.Printf("%s", done.text)
	return nil
}

// runningOn describes the hosts on which an activation is in force.
func runningOn(hosts []fleet.Host) string {
	switch len(hosts) {
	case 0:
		return "stored, but no host runs it"
	case 1:
		return "in force on " + hosts[0].Name
	}
	return fmt.Sprintf("in force on %d hosts", len(hosts))
}

type lineupHostsCmd struct {
	JSON bool `help:"Print JSON."`
}

// Run lists the hosts and what each runs.
func (cmd *lineupHostsCmd) Run(ctx context.Context, cfg *installation.Config, t *terminal.Terminal) error {
	return installation.Use(ctx, cfg, t, func(b *installation.Backend) error {
		hosts, err := b.Store.Hosts(ctx)
		if err != nil {
			return err
		}
		if cmd.JSON {
			return t.JSON(hosts)
		}
		last, err := b.LastActivation(ctx)
		if err != nil {
			return err
		}
		rows := make([][]string, len(hosts))
		for i, h := range hosts {
			state := "running"
			switch {
			case h.Silent():
				state = fmt.Sprintf("silent for %v", h.Unseen.Round(time.Second))
			case h.Problem != "":
				state = fmt.Sprintf("refused activation %d: %s", h.Refused, h.Problem)
			}
			rows[i] = []string{h.Name, h.StartedAt.UTC().Format(time.DateTime), strconv.FormatInt(h.Activation, 10),
				revisions(h, last), state}
		}
		if err := t.Table([]string{"HOST", "STARTED (UTC)", "ACTIVATION", "REVISION", "STATE"}, rows); err != nil {
			return err
		}
		for _, h := range hosts {
			if h.Canary != "" {
				t.Printf("\nThe canary on %s: %s.\n", h.Name, h.Canary)
			}
		}
		return nil
	})
}

// revisions returns the revision of the lineup that a host runs, and of its canary if that is known.
func revisions(h fleet.Host, last activation.Activation) string {
	if h.Activation == last.Number && last.Canary != nil {
		return fmt.Sprintf("%d, canary %d (%d%%)", h.Revision, last.Canary.Revision, last.Canary.Share)
	}
	return strconv.FormatInt(h.Revision, 10)
}
