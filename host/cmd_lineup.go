package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"assay/host/entity"
	"assay/host/eval"
	"assay/host/lineup"
	"assay/host/replay"
	"assay/host/store"
	"assay/registry"
	"assay/registry/activation"
)

type lineupCmd struct {
	Show     lineupShowCmd     `cmd:"" help:"Show the active lineup, another revision, or the history."`
	Set      lineupSetCmd      `cmd:"" help:"Activate a lineup on all hosts, as a new revision."`
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
	Revision int64 `placeholder:"N" help:"Show this revision instead of the active one."`
	History  bool  `help:"List all activations."`
	File     bool  `help:"${lineup_show_file}"`
	JSON     bool  `help:"${lineup_show_json}"`
}

func (cmd *lineupShowCmd) Run(ctx context.Context, cfg *Config, t *terminal) error {
	return withBackend(ctx, cfg, t, func(b *backend) error {
		a, err := b.authority(ctx, cfg)
		if err != nil {
			return err
		}
		if cmd.History {
			return a.showHistory(ctx, b.store, t, cmd.JSON)
		}
		inForce, err := a.inForce(ctx)
		if err != nil {
			return err
		}
		r, err := b.store.LineupRevision(ctx, cmp.Or(cmd.Revision, inForce.Lineup.Revision))
		if err != nil {
			return err
		}
		shown := shownLineup{LineupRevision: &r}
		if r.Revision == inForce.Lineup.Revision {
			r.Lineup = inForce.Document // what was signed
			shown.Canary = newShownCanary(inForce.Canary)
		}
		r.Lineup.Base = inForce.Hash.String()
		switch {
		case cmd.File:
			return t.json(r.Lineup)
		case cmd.JSON:
			return t.json(shown)
		}
		t.printf("revision %d (%s), bias %v, review from %d, block from %d\n", r.Revision, r.Origin, r.Lineup.Bias,
			r.Lineup.Bands.Review, r.Lineup.Bands.Block)
		if r.Activation != 0 {
			t.printf("activation %d by %s", r.Activation, r.Author)
			if r.Note != "" {
				t.printf(": %s", r.Note)
			}
			t.printf("\n")
		}
		if shown.Canary != nil {
			t.printf("canary: revision %d scores for %d%% of the accounts, and is withdrawn if it changes more than "+
				"%v of the verdicts\n", shown.Canary.Revision, shown.Canary.Share, shown.Canary.Limit)
		}
		t.printf("\n")
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
		return t.table([]string{"LAYER", "WEIGHT", "FLOOR", "REQUIRED", "MODE"}, rows)
	})
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
func (a *authority) showHistory(ctx context.Context, s *store.Store, t *terminal, asJSON bool) error {
	stored, err := s.Activations(ctx)
	if err != nil {
		return err
	}
	slices.Reverse(stored)
	history := make([]pastActivation, len(stored))
	rows := make([][]string, len(stored))
	for i, row := range stored {
		p := pastActivation{ActivatedAt: row.ActivatedAt, Revision: row.Revision, Author: "not signed",
			Reason: row.Note}
		if row.Signed != nil {
			p.Author = "unknown: its signature is not valid"
			if signed, err := a.Trust.Open(*row.Signed); err == nil {
				p = pastActivation{signed.Number, row.ActivatedAt, signed.Lineup.Revision,
					newShownCanary(signed.Canary), signed.Author, signed.Reason}
			}
		}
		number, lineup := "", strconv.FormatInt(p.Revision, 10)
		if p.Number != 0 {
			number = strconv.FormatInt(p.Number, 10)
		}
		if c := p.Canary; c != nil {
			lineup = fmt.Sprintf("%d, canary %d (%d%%)", p.Revision, c.Revision, c.Share)
		}
		history[i] = p
		rows[i] = []string{number, p.ActivatedAt.UTC().Format(time.DateTime), lineup, p.Author, p.Reason}
	}
	if asJSON {
		return t.json(history)
	}
	return t.table([]string{"ACTIVATION", "TIME (UTC)", "REVISION", "AUTHOR", "REASON"}, rows)
}

type lineupSetCmd struct {
	File   string `arg:"" help:"Lineup as JSON. '-' reads standard input."`
	Reason string `aliases:"note" placeholder:"TEXT" help:"Reason for the change, signed and kept in the history."`
	Force  bool   `help:"${lineup_force}"`
	Above  int64  `placeholder:"N" help:"${lineup_above}"`
	JSON   bool   `help:"Print JSON."`
}

func (cmd *lineupSetCmd) Run(ctx context.Context, cfg *Config, t *terminal) error {
	change := fileChange{file: cmd.File, asJSON: cmd.JSON,
		propose: func(_ lineup.Verified, file activation.Lineup) lineup.Proposal {
			return lineup.Proposal{Lineup: file, Reason: cmd.Reason, Above: cmd.Above}
		},
		judge: func(report *replay.Report) error {
			return checkFlips(report, cfg.FlipLimit, cmd.Force, cmd.Reason)
		}}
	return change.run(ctx, cfg, t)
}

// fileChange is a change of what is in force by the lineup of a file.
type fileChange struct {
	file    string
	propose func(base lineup.Verified, file activation.Lineup) lineup.Proposal
	judge   func(*replay.Report) error // fails if the lineup changes too much
	asJSON  bool
}

// run has every live host prepare the change and shows what the lineup would change. Then it puts the change in force.
func (c fileChange) run(ctx context.Context, cfg *Config, t *terminal) error {
	l, err := readLineup(c.file)
	if err != nil {
		return err
	}
	return withBackend(ctx, cfg, t, func(b *backend) error {
		a, err := b.authority(ctx, cfg)
		if err != nil {
			return err
		}
		base, err := a.inForce(ctx)
		if err != nil {
			return err
		}
		if err := a.checkBase(ctx, t, l, base); err != nil {
			return err
		}
		next, err := lineup.Pin(ctx, b.store, l, base.Document)
		if err != nil {
			return err
		}
		manifests, err := tryLineup(ctx, cfg, b, t, next)
		if err == nil {
			err = next.CheckFitness(manifests)
		}
		if err != nil {
			return fmt.Errorf("nothing was changed, revision %d stays in force: %w", base.Lineup.Revision, err)
		}
		for _, warning := range slowTypes(manifests) {
			fmt.Fprintf(t.err, "warning: %s\n", warning)
		}
		stored, err := lineup.StoreLineup(ctx, b.store, next, registry.OriginOperator)
		if err != nil {
			return err
		}
		proposal := c.propose(base, stored)
		proposal.Base, proposal.Reason = base.Activation, cmp.Or(proposal.Reason, l.Note)
		warnOfCanary(t, proposal)
		change := a.complete(proposal)
		rollout := b.rollout(t, c.asJSON)
		prepared, err := b.prepare(ctx, a, rollout, change)
		if err != nil {
			return a.unchanged(ctx, t, base, next, err)
		}
		defer prepared.Close()
		report, err := b.report(ctx, cfg, t, prepared, base.Document, next)
		if err == nil {
			err = c.show(t, report)
		}
		if err == nil {
			err = c.judge(report)
		}
		if err != nil {
			return a.unchanged(ctx, t, base, next, err)
		}
		signed, err := b.commit(ctx, a, change)
		if errors.Is(err, activation.ErrSuperseded) {
			return a.unchanged(ctx, t, base, next, err)
		}
		if err != nil {
			return err
		}
		return activated(ctx, b, t, rollout, signed.Activation, c.asJSON)
	})
}

// checkBase fails if a lineup derives from another activation than the one in force, and shows who changed what.
func (a *authority) checkBase(
	ctx context.Context, t *terminal, l registry.LineupDocument, inForce lineup.Verified,
) error {
	if l.Base == "" {
		fmt.Fprintf(t.err, "warning: the file does not say which activation it derives from: it replaces %d, which is "+
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
	from, err := a.lineupOf(ctx, signed)
	if err != nil {
		return err
	}
	return errors.Join(conflict, a.showConflict(ctx, t, from, l))
}

// unchanged explains why a lineup that derives from base was not put in force. If another operator was faster, that is
// the reason, whatever the hosts said, and both changes are shown.
func (a *authority) unchanged(
	ctx context.Context, t *terminal, base lineup.Verified, next registry.LineupDocument, reason error,
) error {
	now, err := a.inForce(ctx)
	if err != nil || now.Hash == base.Hash {
		return errors.Join(err,
			fmt.Errorf("nothing was changed, revision %d stays in force: %w", base.Lineup.Revision, reason))
	}
	return errors.Join(
		fmt.Errorf("nothing was changed: %w: %d by %s", activation.ErrSuperseded, now.Number, now.Author),
		a.showConflict(ctx, t, base.Document, next))
}

// showConflict prints what changed in force since the lineup from, and what the file changes of it.
func (a *authority) showConflict(ctx context.Context, t *terminal, from, file registry.LineupDocument) error {
	inForce, err := a.inForce(ctx)
	if err != nil {
		return err
	}
	out := &terminal{out: t.err, err: t.err}
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
		out.printf("%s:\n\n", change.heading)
		changes := registry.Diff(from, to, nil)
		if len(changes) == 0 {
			out.printf("nothing\n")
		} else if err := printChanges(out, changes, "BEFORE", "AFTER"); err != nil {
			return err
		}
		out.printf("\n")
	}
	return nil
}

// lineupOf returns the lineup of an activation from the history, as it was signed.
func (a *authority) lineupOf(ctx context.Context, signed string) (registry.LineupDocument, error) {
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
	ctx context.Context, cfg *Config, b *backend, t *terminal, l registry.LineupDocument,
) (manifests []registry.Manifest, err error) {
	box := b.openSandbox(cfg, quietLog(t))
	return lineup.Try(ctx, b.store, box, l)
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
		if most := time.Duration(fuel) * time.Nanosecond; most > checkTimeout-lookupTimeout {
			warnings = append(warnings, fmt.Sprintf("%s: the layers' budgets together are %d units of fuel, about %v; "+
				"a check that burns them all is refused after %v", kind, fuel, most.Round(time.Millisecond),
				checkTimeout))
		}
	}
	return warnings
}

func readLineup(file string) (registry.LineupDocument, error) {
	data, err := readFile(file)
	if err != nil {
		return registry.LineupDocument{}, err
	}
	return registry.ParseLineup(data)
}

func readFile(name string) ([]byte, error) {
	if name == "-" {
		return io.ReadAll(os.Stdin)
	}
	return os.ReadFile(name)
}

type lineupDiffCmd struct {
	Target string `arg:"" help:"File, or number of a revision."`
	JSON   bool   `help:"Print JSON."`
}

func (cmd *lineupDiffCmd) Run(ctx context.Context, cfg *Config, t *terminal) error {
	return withBackend(ctx, cfg, t, func(b *backend) error {
		a, err := b.authority(ctx, cfg)
		if err != nil {
			return err
		}
		inForce, err := a.inForce(ctx)
		if err != nil {
			return err
		}
		next, err := lineupAt(ctx, b.store, cmd.Target)
		if err == nil {
			next, err = lineup.Pin(ctx, b.store, next, inForce.Document)
		}
		if err != nil {
			return err
		}
		plugins, err := publishedManifests(ctx, b.store)
		if err != nil {
			return err
		}
		changes := registry.Diff(inForce.Document, next, plugins)
		manifests := make([]registry.Manifest, len(next.Layers))
		var clearing []string
		for i, item := range next.Layers { // the permission to clear is shown even if it does not change
			manifests[i] = plugins[item.Layer]
			if lowest, _ := item.Range(manifests[i]); lowest < 0 {
				clearing = append(clearing, fmt.Sprintf("%s (down to %d)", item.Layer, lowest))
			}
		}
		refused := ""
		if err := next.CheckFitness(manifests); err != nil {
			refused = err.Error()
		}
		prepared, err := measureOnHosts(ctx, b.rollout(t, true), a, next)
		if err != nil {
			return err
		}
		defer prepared.Close()
		report, err := b.report(ctx, cfg, t, prepared, inForce.Document, next)
		if err != nil {
			return err
		}
		if cmd.JSON {
			return t.json(prediction{changes, refused, report})
		}
		if len(changes) == 0 {
			t.printf("No difference from revision %d, the active one.\n", inForce.Lineup.Revision)
		} else if err := printChanges(t, changes, fmt.Sprintf("REVISION %d", inForce.Lineup.Revision),
			"NEW"); err != nil {
			return err
		}
		if len(clearing) > 0 {
			t.printf("\nMay clear: %s.\n", strings.Join(clearing, ", "))
		}
		if refused != "" {
			t.printf("\n`assay lineup set` refuses this lineup: %s\n", refused)
		}
		t.printf("\n")
		return report.WriteText(t.out)
	})
}

// publishedManifests returns the manifests of all published plugins by name@version.
func publishedManifests(ctx context.Context, s *store.Store) (map[string]registry.Manifest, error) {
	published, err := s.Plugins(ctx)
	if err != nil {
		return nil, err
	}
	manifests := map[string]registry.Manifest{}
	for _, p := range published {
		if manifests[p.Ref()], err = registry.ParseManifest(p.Manifest); err != nil {
			return nil, fmt.Errorf("reading the manifest of %s: %w", p.Ref(), err)
		}
	}
	return manifests, nil
}

func printChanges(t *terminal, changes []registry.Change, from, to string) error {
	rows := make([][]string, len(changes))
	for i, c := range changes {
		rows[i] = []string{c.What, c.From, c.To}
	}
	return t.table([]string{"WHAT", from, to}, rows)
}

// lineupAt reads a lineup: a revision if target is a number, else a file.
func lineupAt(ctx context.Context, s *store.Store, target string) (registry.LineupDocument, error) {
	if n, err := strconv.ParseInt(target, 10, 64); err == nil {
		r, err := s.LineupRevision(ctx, n)
		return r.Lineup, err
	}
	return readLineup(target)
}

type lineupRollbackCmd struct {
	Revision int64  `arg:"" optional:"" help:"Revision to activate; the one before the active one by default."`
	Reason   string `aliases:"note" placeholder:"TEXT" help:"Reason for the change, signed and kept in the history."`
	JSON     bool   `help:"Print JSON."`
}

func (cmd *lineupRollbackCmd) Run(ctx context.Context, cfg *Config, t *terminal) error {
	return withBackend(ctx, cfg, t, func(b *backend) error {
		a, err := b.authority(ctx, cfg)
		if err != nil {
			return err
		}
		base, err := a.inForce(ctx)
		if err != nil {
			return err
		}
		wanted := cmd.Revision
		if wanted == 0 {
			if wanted, err = a.revisionBefore(ctx, base.Activation); err != nil {
				return err
			}
		}
		// Neither tried nor held to the constraints: it was in force, and must be reachable at once in an emergency.
		target, _, err := a.Earlier(ctx, base.Activation, wanted)
		if errors.Is(err, registry.ErrNoRevision) { // not in the signed history: what an earlier release stored
			var l registry.LineupDocument
			if target, l, err = b.unsigned(ctx, t, wanted); err == nil {
				_, err = tryLineup(ctx, cfg, b, t, l)
			}
		}
		if err != nil {
			return err
		}
		proposal := lineup.Proposal{Base: base.Activation, Lineup: target, Reason: cmd.Reason}
		warnOfCanary(t, proposal)
		signed, err := b.change(ctx, a, proposal)
		if err != nil {
			return err
		}
		return activated(ctx, b, t, b.rollout(t, cmd.JSON), signed.Activation, cmd.JSON)
	})
}

// revisionBefore returns the revision that was in force before the lineup of an activation.
func (a *authority) revisionBefore(ctx context.Context, inForce activation.Activation) (int64, error) {
	for before := inForce; before.Previous != (registry.Digest{}); {
		signed, err := a.Records.Activation(ctx, before.Previous)
		if err != nil {
			return 0, err
		}
		if before, err = activation.Unverified(signed); err != nil { // Earlier holds it to its hash
			return 0, err
		}
		if before.Lineup != inForce.Lineup {
			return before.Lineup.Revision, nil
		}
	}
	return 0, errors.New("no other lineup was in force before")
}

// unsigned stores a revision of an earlier release, which nobody signed, as one that can be signed.
func (b *backend) unsigned(
	ctx context.Context, t *terminal, revision int64,
) (activation.Lineup, registry.LineupDocument, error) {
	r, err := b.store.LineupRevision(ctx, revision)
	if err != nil {
		return activation.Lineup{}, r.Lineup, err
	}
	fmt.Fprintf(t.err, "warning: revision %d was never signed: its content is what the database says\n", revision)
	l, err := lineup.Pin(ctx, b.store, r.Lineup, registry.LineupDocument{})
	if err != nil {
		return activation.Lineup{}, l, err
	}
	stored, err := lineup.StoreLineup(ctx, b.store, l, r.Origin)
	return stored, l, err
}

type lineupKeyCmd struct {
	File string `arg:"" help:"File to create; ASSAY_OPERATOR_KEY names it afterwards."`
	Name string `placeholder:"NAME" default:"assay/operator" help:"Name of the key (default: ${default})."`
}

func (cmd *lineupKeyCmd) Run(t *terminal) error {
	if _, err := os.Stat(cmd.File); err == nil {
		return fmt.Errorf("%s exists already", cmd.File)
	}
	key, err := createOperatorKey(cmd.File, cmd.Name)
	if err == nil {
		t.printf("%s %s\n", activation.Operator, key.Verifier)
	}
	return err
}

type lineupFitCmd struct {
	labelledValues `embed:""`

	Lineup     string   `placeholder:"FILE" help:"${fit_lineup}"`
	L2         float64  `name:"l2" default:"0.05" placeholder:"X" help:"${fit_l2} (default: ${default})."`
	Prevalence float64  `default:"0.3" placeholder:"P" help:"${fit_prevalence} (default: ${default})."`
	ReviewFPR  float64  `default:"0.01" placeholder:"P" help:"${fit_review_fpr} (default: ${default})."`
	BlockFPR   float64  `default:"0.002" placeholder:"P" help:"${fit_block_fpr} (default: ${default})."`
	SuffixFPR  float64  `default:"0.05" placeholder:"P" help:"${fit_suffix_fpr} (default: ${default})."`
	Only       []string `placeholder:"LAYER" help:"${fit_only}"`
	Feedback   bool     `help:"${fit_feedback}"`
	Out        string   `short:"o" placeholder:"FILE" help:"Write the fitted lineup to this file."`
	JSON       bool     `help:"Print JSON."`
}

// Validate checks the flags. Kong calls it.
func (cmd *lineupFitCmd) Validate() error {
	for name, share := range map[string]float64{"prevalence": cmd.Prevalence, "review-fpr": cmd.ReviewFPR,
		"block-fpr": cmd.BlockFPR, "suffix-fpr": cmd.SuffixFPR} {
		if !(share > 0 && share < 1) {
			return fmt.Errorf("--%s must be between 0 and 1, not %v", name, share)
		}
	}
	if !(cmd.L2 >= 0) {
		return errors.New("--l2 must not be negative")
	}
	return nil
}

// fitReport is the JSON output of `assay lineup fit`.
type fitReport struct {
	Lineup  registry.LineupDocument `json:"-"`       // written to a file of its own
	Changes []registry.Change       `json:"changes"` // relative to the lineup with the old weights
	*eval.Fit
}

func (cmd *lineupFitCmd) Run(ctx context.Context, cfg *Config, t *terminal) error {
	rows, _, err := cmd.read()
	if err == nil && len(rows) == 0 && !cmd.Feedback {
		err = errNoRows
	}
	if err == nil && cmd.Feedback { // is in the database
		_, err = cfg.loadInstallation()
	}
	if err != nil {
		return err
	}
	return withMeasurement(ctx, cfg, t, cmd.Lineup, false, func(m *measurement) error {
		scored, err := eval.Run(ctx, m, m.model, rows, 0, scoringProgress(t))
		if err != nil {
			return err
		}
		if cmd.Feedback {
			labels, err := m.feedback(ctx)
			if err != nil {
				return err
			}
			scored = append(scored, m.model.Scored(labels)...)
		}
		fit, err := eval.FitLineup(m.model, scored, eval.FitOptions{L2: cmd.L2, Prevalence: cmd.Prevalence,
			ReviewFPR: cmd.ReviewFPR, BlockFPR: cmd.BlockFPR, SuffixFPR: cmd.SuffixFPR, Only: cmd.Only})
		if err != nil {
			return err
		}
		r := fitReport{Lineup: m.fitted(fit), Fit: fit}
		r.Lineup.Note = fmt.Sprintf("Fitted to %d rows of %s", fit.Rows, strings.Join(baseNames(cmd.Files), ", "))
		r.Changes = registry.Diff(m.document, r.Lineup, nil)
		return cmd.print(t, r)
	})
}

func (cmd *lineupFitCmd) print(t *terminal, r fitReport) error {
	document := func(out io.Writer) error { return (&terminal{out: out}).json(r.Lineup) }
	if cmd.Out != "" {
		if err := writeTo(cmd.Out, document); err != nil {
			return fmt.Errorf("writing the lineup: %w", err)
		}
	}
	if cmd.JSON {
		return t.json(r)
	}
	if err := r.WriteText(t.out); err != nil {
		return err
	}
	t.printf("\n")
	if err := printChanges(t, r.Changes, "BEFORE", "FITTED"); err != nil {
		return err
	}
	if _, _, versioned := r.Lineup.Layers[0].Ref(); versioned && cmd.Out != "" {
		t.printf("\nActivate it with: assay lineup set %s\n", cmd.Out)
	}
	return nil
}
