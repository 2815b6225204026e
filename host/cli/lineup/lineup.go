// Package lineup has the commands that show and change the lineup.
package lineup

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"time"

	"assay/host/check"
	"assay/host/installation"
	"assay/host/internal/terminal"
	"assay/registry/activation"
)

// Cmd has the commands of `assay lineup`.
type Cmd struct {
	Show     lineupShowCmd     `cmd:"" help:"Show the active lineup, another revision, or the history."`
	Set      lineupSetCmd      `cmd:"" help:"${lineup_set_cmd}"`
	Diff     lineupDiffCmd     `cmd:"" help:"Compare the active lineup with a file or another revision."`
	Canary   lineupCanaryCmd   `cmd:"" help:"${lineup_canary_cmd}"`
	Promote  lineupPromoteCmd  `cmd:"" help:"Make the canary the lineup for all accounts, at once."`
	Rollback lineupRollbackCmd `cmd:"" help:"Activate an earlier revision again, at once."`
	Shadow   lineupShadowCmd   `cmd:"" help:"Show what verdicts would have been if the layers in shadow counted."`
	Hosts    lineupHostsCmd    `cmd:"" help:"List the hosts and what each of them runs."`
	Fit      lineupFitCmd      `cmd:"" help:"${lineup_fit_cmd}"`
	Key      lineupKeyCmd      `cmd:"" help:"Create a key that signs activations, and print its line for trust files."`
}

type lineupShowCmd struct {
	Revision int64 `placeholder:"N" xor:"revision" help:"Show this revision instead of the active one."`
	History  bool  `xor:"revision,file" help:"List all activations."`
	File     bool  `xor:"file" help:"${lineup_show_file}"`
	JSON     bool  `help:"${lineup_show_json}"`
}

func (cmd *lineupShowCmd) Run(ctx context.Context, s *installation.Session) error {
	a, err := s.Authority(ctx, s.Config)
	if err != nil {
		return err
	}
	if cmd.History {
		return showHistory(ctx, a, s)
	}
	inForce, err := a.Current(ctx)
	if err != nil {
		return err
	}
	r, err := s.Store.LineupRevision(ctx, cmp.Or(cmd.Revision, inForce.Lineup.Revision))
	if err != nil {
		return err
	}
	shown := ShownLineup{LineupRevision: &r}
	if r.Revision == inForce.Lineup.Revision {
		r.Lineup = inForce.Document // what was signed
		shown.Canary = newShownCanary(inForce.Canary)
	}
	r.Lineup.Base = inForce.Hash.String()
	if cmd.File {
		return s.JSON(r.Lineup)
	}
	return s.Show(shown, func() error { return shown.print(s.Terminal) })
}

func (r ShownLineup) print(t *terminal.Terminal) error {
	t.Printf("revision %d (%s), log-odds of the bias: %v; review from a score of %d, block from %d\n", r.Revision,
		r.Origin, r.Lineup.Bias, r.Lineup.Bands.Review, r.Lineup.Bands.Block)
	if r.Activation != 0 {
		t.Printf("activation %d by %s", r.Activation, r.Author)
		if r.Reason != "" {
			t.Printf(": %s", r.Reason)
		}
		t.Printf("\n")
	}
	if r.Canary != nil {
		t.Printf("canary: revision %d scores for %d%% of the accounts, and is withdrawn if it changes more than "+
			"%v of the verdicts\n", r.Canary.Revision, r.Canary.Share, r.Canary.Limit)
	}
	t.Printf("\n")
	rows := make([][]string, len(r.Lineup.Layers))
	for i, item := range r.Lineup.Layers {
		required := ""
		if item.Required {
			required = "yes"
		}
		floor := ""
		if item.Floor != nil {
			floor = strconv.Itoa(*item.Floor)
		}
		rows[i] = []string{item.Layer, item.Weight.String(), floor, required, item.Runs()}
	}
	err := t.Table([]string{"LAYER", "WEIGHT", "FLOOR", "REQUIRED", "MODE"}, rows)
	t.Printf("\n%s\n", check.WeightMeans)
	return err
}

// pastActivation is an activation in the history.
type pastActivation struct {
	Number      int64        `json:"activation"` // 0: it is not signed
	ActivatedAt time.Time    `json:"activated_at"`
	Revision    int64        `json:"revision"`
	Canary      *shownCanary `json:"canary,omitempty"`
	Author      string       `json:"author"`
	Reason      string       `json:"reason"`
}

// showHistory lists all activations, newest first. It names those that no trusted key has signed.
func showHistory(ctx context.Context, a *installation.Authority, s *installation.Session) error {
	stored, err := s.Store.Activations(ctx)
	if err != nil {
		return err
	}
	slices.Reverse(stored)
	history := make([]pastActivation, len(stored))
	for i, row := range stored {
		history[i] = pastActivation{ActivatedAt: row.ActivatedAt, Revision: row.Revision,
			Author: "unknown: its signature is not valid", Reason: row.Reason}
		if signed, err := a.Trust.Open(row.Signed); err == nil {
			history[i] = pastActivation{signed.Number, row.ActivatedAt, signed.Lineup.Revision,
				newShownCanary(signed.Canary), signed.Author, signed.Reason}
		}
	}
	return terminal.List(s.Terminal, history, []string{"ACTIVATION", "TIME (UTC)", "REVISION", "AUTHOR", "REASON"},
		func(p pastActivation) []string {
			number, lineup := "", strconv.FormatInt(p.Revision, 10)
			if p.Number != 0 {
				number = strconv.FormatInt(p.Number, 10)
			}
			if c := p.Canary; c != nil {
				lineup = fmt.Sprintf("%d, canary %d (%d%%)", p.Revision, c.Revision, c.Share)
			}
			return []string{number, p.ActivatedAt.UTC().Format(time.DateTime), lineup, p.Author, p.Reason}
		})
}

type lineupKeyCmd struct {
	File string `arg:"" help:"File to create; ASSAY_OPERATOR_KEY names it afterwards."`
	Name string `placeholder:"NAME" default:"assay/operator" help:"Name of the key (default: ${default})."`
}

func (cmd *lineupKeyCmd) Run(t *terminal.Terminal) error {
	line, err := NewKeyLine(cmd.File, cmd.Name, activation.Operator)
	if err == nil {
		t.Printf("%s\n", line)
	}
	return err
}

// NewKeyLine creates a key in a file, and returns its line for trust files.
func NewKeyLine(file, name string, role activation.Role) (string, error) {
	if _, err := os.Stat(file); err == nil {
		return "", fmt.Errorf("%s exists already", file)
	}
	key, err := installation.CreateKey(file, name)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s %s", role, key.Verifier), nil
}
