package lineup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"assay/host/entity"
	"assay/host/installation"
	"assay/host/internal/terminal"
	"assay/host/lineup"
	"assay/host/lineup/replay"
	"assay/registry"
	"assay/registry/activation"
)

type lineupSetCmd struct {
	File   string `arg:"" help:"Lineup as JSON. '-' reads standard input."`
	Reason string `aliases:"note" placeholder:"TEXT" help:"Reason for the change, signed and kept in the history."`
	Force  bool   `help:"${lineup_force}"`
	Above  int64  `placeholder:"N" help:"${lineup_above}"`
	JSON   bool   `help:"Print JSON."`
}

func (cmd *lineupSetCmd) Run(ctx context.Context, cfg *installation.Config, t *terminal.Terminal) error {
	change := SetChange(cfg, lineup.Proposal{Reason: cmd.Reason, Above: cmd.Above},
		Forced(cmd.Force, cmd.Reason), cmd.JSON)
	return change.runFile(ctx, cfg, t, cmd.File)
}

// WithInForce opens the backend of an installation and calls fn with what is in force there.
func WithInForce(
	ctx context.Context, cfg *installation.Config, t *terminal.Terminal, fn func(b *installation.Backend, a *installation.Authority, base lineup.Verified) error,
) error {
	return installation.Use(ctx, cfg, t, func(b *installation.Backend) error {
		a, err := b.Authority(ctx, cfg)
		if err != nil {
			return err
		}
		base, err := a.Current(ctx)
		if err != nil {
			return err
		}
		return fn(b, a, base)
	})
}

// LineupChange is a change to a lineup.
type LineupChange struct {
	propose func(base lineup.Verified, next activation.Lineup) lineup.Proposal
	judge   func(*replay.Report) error // fails if the lineup changes too much
	asJSON  bool
}

// SetChange returns the change that makes a lineup the one for all accounts. A canary of the proposal stays.
func SetChange(cfg *installation.Config, p lineup.Proposal, forced, asJSON bool) LineupChange {
	return LineupChange{asJSON: asJSON,
		propose: func(_ lineup.Verified, next activation.Lineup) lineup.Proposal {
			p.Lineup = next
			return p
		},
		judge: func(report *replay.Report) error { return checkFlips(report, cfg.FlipLimit, forced) }}
}

// runFile puts the lineup of a file in force and prints the result.
func (c LineupChange) runFile(ctx context.Context, cfg *installation.Config, t *terminal.Terminal, file string) error {
	l, err := readLineup(file)
	if err != nil {
		return err
	}
	return WithInForce(ctx, cfg, t, func(b *installation.Backend, a *installation.Authority, base lineup.Verified) error {
		if err := checkBase(ctx, a, t, l, base); err != nil {
			return err
		}
		done, err := c.Put(ctx, cfg, t, b, a, base, l)
		if err != nil {
			return err
		}
		return done.Print(t, c.asJSON)
	})
}

// Put makes every live host prepare a lineup and shows its effect on verdicts. Then it puts it in force.
func (c LineupChange) Put(
	ctx context.Context, cfg *installation.Config, t *terminal.Terminal, b *installation.Backend, a *installation.Authority, base lineup.Verified,
	l registry.LineupDocument,
) (done Activated, err error) {
	next, err := lineup.Pin(ctx, b.Store, l, base.Document)
	if err != nil {
		return done, err
	}
	manifests, err := tryLineup(ctx, cfg, b, t, next)
	if err == nil {
		err = next.CheckFitness(manifests)
	}
	if err != nil {
		return done, fmt.Errorf("nothing was changed, revision %d stays in force: %w", base.Lineup.Revision, err)
	}
	for _, warning := range slowTypes(manifests) {
		fmt.Fprintf(t.Err, "warning: %s\n", warning)
	}
	stored, err := lineup.StoreLineup(ctx, b.Store, next, registry.OriginOperator)
	if err != nil {
		return done, err
	}
	proposal := c.propose(base, stored)
	proposal.Base, proposal.Reason = base.Activation, cmp.Or(proposal.Reason, l.Note)
	warnOfCanary(t, proposal)
	change := a.Complete(proposal)
	rollout := rollout(b, t, c.asJSON)
	prepared, err := b.Prepare(ctx, a, rollout, change)
	if err != nil {
		return done, unchanged(ctx, a, t, base, next, err)
	}
	defer prepared.Close()
	report, err := report(ctx, b, cfg, t, prepared, base.Document, next)
	if err == nil {
		err = c.show(t, report)
	}
	if err == nil {
		err = c.judge(report)
	}
	if err != nil {
		return done, unchanged(ctx, a, t, base, next, err)
	}
	signed, err := b.Commit(ctx, a, change)
	if errors.Is(err, activation.ErrSuperseded) {
		return done, unchanged(ctx, a, t, base, next, err)
	}
	if err != nil {
		return done, err
	}
	return await(ctx, b, rollout, signed.Activation)
}

// checkBase fails if a lineup derives from another activation than the one in force, and shows both changes.
func checkBase(
	ctx context.Context, a *installation.Authority, t *terminal.Terminal, l registry.LineupDocument, inForce lineup.Verified,
) error {
	if l.Base == "" {
		fmt.Fprintf(t.Err, "warning: the file does not say which activation it derives from: it replaces %d, which is "+
			"in force now. `assay lineup show --file` writes a file that says so\n", inForce.Number)
		return nil
	}
	if l.Base == inForce.Hash.String() {
		return nil
	}
	conflict := fmt.Errorf("the file derives from another activation than %d, which is in force: write a new file "+
		"with `assay lineup show --file` and make your change again", inForce.Number)
	hash, err := registry.ParseDigest(l.Base)
	if err != nil {
		return fmt.Errorf("reading the file's base: %w", err)
	}
	signed, err := a.Records.Activation(ctx, hash)
	if errors.Is(err, activation.ErrNone) {
		return errors.Join(conflict, errors.New("the activation that it derives from is not in this database"))
	}
	if err != nil {
		return err
	}
	from, err := lineupOf(ctx, a, signed)
	if err != nil {
		return err
	}
	return errors.Join(conflict, showConflict(ctx, a, t, from, l))
}

// unchanged explains why a lineup that derives from base was not put in force. If another operator was faster, that is
// the reason, regardless of the hosts' answers, and both changes are shown.
func unchanged(
	ctx context.Context, a *installation.Authority, t *terminal.Terminal, base lineup.Verified, next registry.LineupDocument, reason error,
) error {
	now, err := a.Current(ctx)
	if err != nil || now.Hash == base.Hash {
		return errors.Join(err,
			fmt.Errorf("nothing was changed, revision %d stays in force: %w", base.Lineup.Revision, reason))
	}
	return errors.Join(
		fmt.Errorf("nothing was changed: %w: %d by %s", activation.ErrSuperseded, now.Number, now.Author),
		showConflict(ctx, a, t, base.Document, next))
}

// showConflict prints the differences of the lineup in force and of the file from the lineup from.
func showConflict(ctx context.Context, a *installation.Authority, t *terminal.Terminal, from, file registry.LineupDocument) error {
	inForce, err := a.Current(ctx)
	if err != nil {
		return err
	}
	out := &terminal.Terminal{Out: t.Err, Err: t.Err}
	for _, change := range []struct {
		heading string
		to      registry.LineupDocument
	}{
		{fmt.Sprintf("Changed in force by %s (activation %d)", inForce.Author, inForce.Number), inForce.Document},
		{"Changed by the file", file},
	} {
		to := change.to
		for i, item := range to.Layers { // a layer without a digest keeps that of its version
			for _, before := range from.Layers {
				if item.Layer == before.Layer && item.Digest == "" {
					to.Layers = slices.Clone(to.Layers)
					to.Layers[i].Digest = before.Digest
				}
			}
		}
		out.Printf("%s:\n\n", change.heading)
		changes := registry.Diff(from, to, nil)
		if len(changes) == 0 {
			out.Printf("nothing\n")
		} else if err := printChanges(out, changes, "BEFORE", "AFTER"); err != nil {
			return err
		}
		out.Printf("\n")
	}
	return nil
}

// lineupOf returns the lineup of an activation from the history, as it was signed.
func lineupOf(ctx context.Context, a *installation.Authority, signed string) (registry.LineupDocument, error) {
	s, err := a.Trust.Open(signed)
	if err != nil {
		return registry.LineupDocument{}, err
	}
	text, err := a.Records.LineupText(ctx, s.Lineup.Revision)
	if err != nil {
		return registry.LineupDocument{}, err
	}
	return registry.OpenLineup(text, s.Lineup.Hash)
}

// tryLineup opens the layers of a lineup in this process, before any host has to.
func tryLineup(
	ctx context.Context, cfg *installation.Config, b *installation.Backend, t *terminal.Terminal, l registry.LineupDocument,
) (manifests []registry.Manifest, err error) {
	box := b.OpenSandbox(cfg, installation.QuietLog(t))
	return lineup.Try(ctx, b.Store, box, l)
}

// slowTypes returns a warning for each entity type whose layers, if all burn their budgets, leave no time for lookups
// before a check's deadline. Such a check is refused. A unit of fuel takes about a nanosecond.
func slowTypes(manifests []registry.Manifest) []string {
	var warnings []string
	for _, kind := range entity.Types() {
		var fuel int64
		for _, m := range manifests {
			if slices.Contains(m.Entities, string(kind)) {
				fuel += m.BudgetFuel
			}
		}
		if most := time.Duration(fuel) * time.Nanosecond; most > installation.CheckTimeout-installation.LookupTimeout {
			warnings = append(warnings, fmt.Sprintf("%s: the layers' budgets together are %d units of fuel, about %v; "+
				"a check that burns them all is refused after %v", kind, fuel, most.Round(time.Millisecond),
				installation.CheckTimeout))
		}
	}
	return warnings
}

func readLineup(file string) (registry.LineupDocument, error) {
	data, err := installation.ReadFile(file)
	if err != nil {
		return registry.LineupDocument{}, err
	}
	return registry.ParseLineup(data)
}
