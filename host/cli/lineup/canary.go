package lineup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"assay/host/installation"
	"assay/host/internal/terminal"
	"assay/host/lineup"
	"assay/host/lineup/replay"
	"assay/registry"
	"assay/registry/activation"
)

// WholePercent is a share in whole percent, such as 5%.
type WholePercent int

// UnmarshalText reads a share.
func (p *WholePercent) UnmarshalText(text []byte) error {
	number, found := strings.CutSuffix(strings.TrimSpace(string(text)), "%")
	n, err := strconv.Atoi(number)
	if !found || err != nil || n < 1 || n > activation.MaxShare {
		return fmt.Errorf("%q is not a whole percentage from 1%% to %d%%", text, activation.MaxShare)
	}
	*p = WholePercent(n)
	return nil
}

type lineupCanaryCmd struct {
	File   string            `arg:"" optional:"" help:"${lineup_canary_file}"`
	Share  WholePercent      `placeholder:"PERCENT" help:"Share of the accounts, such as 5%: always the same accounts."`
	Limit  *activation.Limit `placeholder:"PERCENT" help:"${lineup_canary_limit}"`
	Stop   bool              `help:"End the canary instead, at once."`
	Reason string            `placeholder:"TEXT" help:"Reason for the change, signed and kept in the history."`
	JSON   bool              `help:"Print JSON."`
}

// Validate checks the flags. Kong calls it.
func (cmd *lineupCanaryCmd) Validate() error {
	switch {
	case cmd.Stop && (cmd.File != "" || cmd.Share != 0 || cmd.Limit != nil):
		return errors.New("--stop takes neither a file nor --share or --limit")
	case !cmd.Stop && cmd.File != "" && cmd.Share == 0:
		return errors.New("--share is missing")
	case !cmd.Stop && cmd.File == "" && cmd.Share == 0 && cmd.Limit == nil:
		return errors.New("a file, --share, --limit or --stop is required")
	}
	return nil
}

// Run starts, changes or ends a canary.
func (cmd *lineupCanaryCmd) Run(ctx context.Context, cfg *installation.Config, t *terminal.Terminal) error {
	if cmd.File == "" {
		return changeCanary(ctx, cfg, t, cmd.Reason, cmd.JSON, cmd.changed)
	}
	return CanaryChange(cfg, cmd.Share, cmd.Limit, cmd.Reason, cmd.JSON).runFile(ctx, cfg, t, cmd.File)
}

// CanaryChange returns the change that makes a lineup the canary. Without a limit, it is the one for new lineups.
func CanaryChange(
	cfg *installation.Config, share WholePercent, limit *activation.Limit, reason string, asJSON bool,
) LineupChange {
	if limit == nil {
		limit = new(activation.Limit)
		*limit = activation.Limit(math.Round(float64(cfg.FlipLimit) * 10_000))
	}
	return LineupChange{asJSON: asJSON, judge: canaryWithin(*limit),
		propose: func(base lineup.Verified, next activation.Lineup) lineup.Proposal {
			return lineup.Proposal{Lineup: base.Lineup, Reason: reason,
				Canary: &activation.Canary{Lineup: next, Share: int(share), Limit: *limit}}
		}}
}

// changed returns the proposal for a changed or ended canary.
func (cmd *lineupCanaryCmd) changed(in activation.Activation) (activation.Lineup, *activation.Canary) {
	if cmd.Stop {
		return in.Lineup, nil
	}
	canary := *in.Canary
	canary.Share = cmp.Or(int(cmd.Share), canary.Share)
	if cmd.Limit != nil {
		canary.Limit = *cmd.Limit
	}
	return in.Lineup, &canary
}

// canaryWithin returns a function that fails if a lineup changes more verdicts than the limit of its canary allows.
func canaryWithin(limit activation.Limit) func(*replay.Report) error {
	return func(report *replay.Report) error {
		if excess := excessFlips(report, limit.Share()); excess != "" {
			return fmt.Errorf("the lineup would change more than %v of recent verdicts (%s), and so be withdrawn; to "+
				"try it anyway, raise --limit", limit, excess)
		}
		return nil
	}
}

type lineupPromoteCmd struct {
	Reason string `placeholder:"TEXT" help:"Reason for the change, signed and kept in the history."`
	JSON   bool   `help:"Print JSON."`
}

// Run makes the canary the lineup. Every host has it open already, so nothing is prepared.
func (cmd *lineupPromoteCmd) Run(ctx context.Context, cfg *installation.Config, t *terminal.Terminal) error {
	return changeCanary(ctx, cfg, t, cmd.Reason, cmd.JSON, Promoted)
}

// Promoted returns what is in force once a canary is promoted.
func Promoted(base activation.Activation) (activation.Lineup, *activation.Canary) {
	return base.Canary.Lineup, nil
}

var errNoCanary = errors.New("there is no canary: `assay lineup canary FILE --share 5%` starts one")

// changeCanary changes, promotes or ends the canary in force, at once.
func changeCanary(
	ctx context.Context, cfg *installation.Config, t *terminal.Terminal, reason string, asJSON bool,
	change func(base activation.Activation) (activation.Lineup, *activation.Canary),
) error {
	return WithInForce(ctx, cfg, t, func(b *installation.Backend, a *installation.Authority, base lineup.Verified) error {
		done, err := PutCanary(ctx, b, t, a, base, reason, asJSON, change)
		if err != nil {
			return err
		}
		return done.Print(t, asJSON)
	})
}

func PutCanary(
	ctx context.Context, b *installation.Backend, t *terminal.Terminal, a *installation.Authority, base lineup.Verified, reason string, asJSON bool,
	change func(base activation.Activation) (activation.Lineup, *activation.Canary),
) (Activated, error) {
	if base.Canary == nil {
		return Activated{}, errNoCanary
	}
	proposal := lineup.Proposal{Base: base.Activation, Reason: reason}
	proposal.Lineup, proposal.Canary = change(base.Activation)
	signed, err := b.Change(ctx, a, proposal)
	if err != nil {
		return Activated{}, err
	}
	return await(ctx, b, rollout(b, t, asJSON), signed.Activation)
}

// warnOfCanary warns that a proposal ends the canary in force.
func warnOfCanary(t *terminal.Terminal, p lineup.Proposal) {
	if p.Base.Canary != nil && p.Canary == nil {
		fmt.Fprintf(t.Err, "warning: this ends the canary, revision %d\n", p.Base.Canary.Revision)
	}
}

// ShownLineup is the JSON output of `assay lineup show`.
type ShownLineup struct {
	*registry.LineupRevision
	Canary *shownCanary `json:"canary,omitempty"` // next to the lineup in force
}

type shownCanary struct {
	Revision int64  `json:"revision"`
	Share    int    `json:"share"` // in percent
	Limit    string `json:"limit"`
}

func newShownCanary(c *activation.Canary) *shownCanary {
	if c == nil {
		return nil
	}
	return &shownCanary{c.Revision, c.Share, c.Limit.String()}
}
