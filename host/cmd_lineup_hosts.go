package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"

	"assay/host/canary"
	"assay/host/fleet"
	"assay/host/lineup"
	"assay/registry"
	"assay/registry/activation"
)

// hostName returns the name of a host that listens on an address, for people.
func hostName(address string) string {
	machine, err := os.Hostname()
	if err != nil {
		machine = "unknown"
	}
	return machine + address[strings.LastIndexByte(address, ':'):]
}

// newPulse returns the pulse that reports this host, its lineup and its canary's outcome to the other hosts.
func (b *backend) newPulse(
	id, name string, follower *lineup.Follower, watch *canary.Watch, log *slog.Logger,
) *fleet.Pulse {
	return &fleet.Pulse{Roster: b.store, ID: id, Name: name, Log: log,
		Changed: follower.StateChanged(), State: func() fleet.State {
			s := follower.State()
			return fleet.State{Activation: s.Activation, Revision: s.Revision, Refused: s.RefusedActivation,
				Problem: s.Reason, Canary: watch.Summary()}
		}}
}

func newHostID() string { return "host_" + ulid.Make().String() }

// rollout returns a rollout to all hosts that prints their progress.
func (b *backend) rollout(t *terminal, asJSON bool) *fleet.Rollout {
	return &fleet.Rollout{Store: b.store, Observe: func(e fleet.Event) {
		out := t.out
		if asJSON {
			out = t.err
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
	ctx context.Context, rollout *fleet.Rollout, a *authority, l registry.LineupDocument,
) (*fleet.Proposal, error) {
	text, err := l.Canonical()
	if err != nil {
		return nil, err
	}
	if a.operator == nil {
		return rollout.Prepare(ctx, fleet.Candidate{Document: string(text)})
	}
	signed, err := activation.SignMeasurement(text, a.operator)
	if err != nil {
		return nil, err
	}
	return rollout.Prepare(ctx, fleet.Candidate{Signed: signed})
}

// activated is an activation that runs. It is the JSON output of the commands that change what is in force.
type activated struct {
	Revision   int64 `json:"revision"`
	Activation int64 `json:"activation"`
	Canary     int64 `json:"canary,omitempty"` // its revision
	Share      int   `json:"share,omitempty"`  // of the canary
	Hosts      int   `json:"hosts"`            // that run it
	Skipped    int   `json:"skipped"`          // because they are silent

	text string // what became of it
}

// await waits until every live host runs an activation. Its error names the hosts that do not.
func (b *backend) await(ctx context.Context, rollout *fleet.Rollout, a activation.Activation) (activated, error) {
	what := fmt.Sprintf("revision %d", a.Lineup.Revision)
	done := activated{Revision: a.Lineup.Revision, Activation: a.Number}
	if a.Canary != nil {
		what = fmt.Sprintf("canary revision %d for %d%% of the accounts", a.Canary.Revision, a.Canary.Share)
		done.Canary, done.Share = a.Canary.Revision, a.Canary.Share
	}
	running, failure := rollout.Await(ctx, a.Number)
	if failure != nil {
		return done, fmt.Errorf("activation %d (%s) is %s, but not everywhere:\n%w", a.Number, what,
			runningOn(running), failure)
	}
	hosts, err := b.store.Hosts(ctx)
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

func (done activated) print(t *terminal, asJSON bool) error {
	if asJSON {
		return t.json(done)
	}
	t.printf("%s", done.text)
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
func (cmd *lineupHostsCmd) Run(ctx context.Context, cfg *Config, t *terminal) error {
	return withBackend(ctx, cfg, t, func(b *backend) error {
		hosts, err := b.store.Hosts(ctx)
		if err != nil {
			return err
		}
		if cmd.JSON {
			return t.json(hosts)
		}
		last, err := b.lastActivation(ctx)
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
		if err := t.table([]string{"HOST", "STARTED (UTC)", "ACTIVATION", "REVISION", "STATE"}, rows); err != nil {
			return err
		}
		for _, h := range hosts {
			if h.Canary != "" {
				t.printf("\nThe canary on %s: %s.\n", h.Name, h.Canary)
			}
		}
		return nil
	})
}

// lastActivation returns the activation that was stored last, unverified and for display only. It is the zero value if
// none can be read.
func (b *backend) lastActivation(ctx context.Context) (activation.Activation, error) {
	signed, _, err := b.store.LastActivation(ctx)
	if err != nil {
		return activation.Activation{}, err
	}
	last, _ := activation.Unverified(signed)
	return last, nil
}

// revisions returns the revision of the lineup that a host runs, and of its canary if that is known.
func revisions(h fleet.Host, last activation.Activation) string {
	if h.Activation == last.Number && last.Canary != nil {
		return fmt.Sprintf("%d, canary %d (%d%%)", h.Revision, last.Canary.Revision, last.Canary.Share)
	}
	return strconv.FormatInt(h.Revision, 10)
}
