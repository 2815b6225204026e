package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"assay/host/lineup"
	"assay/host/store"
	"assay/registry"
)

type layersCmd struct {
	List layersListCmd `cmd:"" help:"List the layers in force, or all that are published."`
}

type layersListCmd struct {
	All  bool `help:"All published versions, in force or not."`
	JSON bool `help:"Print JSON."`
}

// layerLine is a layer as `assay layers list` shows it.
type layerLine struct {
	Name       string   `json:"name"`
	Version    string   `json:"version"`
	Digest     string   `json:"digest"`
	InForce    bool     `json:"in_force"`
	Weight     float64  `json:"weight"`
	Required   bool     `json:"required"`
	Entities   []string `json:"entities"`
	Summary    string   `json:"summary"`
	FirstParty bool     `json:"first_party"`
}

func (cmd *layersListCmd) Run(ctx context.Context, cfg *Config, t *terminal) error {
	return withBackend(ctx, cfg, t, func(b *backend) error {
		plugins, err := b.store.Plugins(ctx)
		if err != nil {
			return err
		}
		active, err := b.store.ActiveLineup(ctx)
		if err != nil && !errors.Is(err, registry.ErrNoRevision) {
			return err
		}
		lines, err := layerLines(plugins, active.Lineup, cmd.All)
		if err != nil {
			return err
		}
		if cmd.JSON {
			return t.json(lines)
		}
		rows := make([][]string, len(lines))
		for i, l := range lines {
			force := ""
			if l.InForce {
				force = fmt.Sprintf("%.2f", l.Weight)
			}
			rows[i] = []string{l.Name, l.Version, force, strings.Join(l.Entities, ","), l.Summary}
		}
		return t.table([]string{"LAYER", "VERSION", "WEIGHT", "ENTITIES", "SUMMARY"}, rows)
	})
}

func layerLines(plugins []registry.PublishedPlugin, l registry.LineupDocument, all bool) ([]layerLine, error) {
	items := map[string]registry.LineupLayer{}
	for _, item := range l.Layers {
		items[item.Layer] = item
	}
	lines := []layerLine{}
	for _, p := range plugins {
		item, inForce := items[p.Ref()]
		if !inForce && !all {
			continue
		}
		m, err := registry.ParseManifest(p.Manifest)
		if err != nil {
			return nil, fmt.Errorf("listing %s: %w", p.Ref(), err)
		}
		lines = append(lines, layerLine{
			Name: p.Name, Version: p.Version, Digest: p.Digest.String(), InForce: inForce,
			Weight: item.Weight, Required: item.Required,
			Entities: m.Entities, Summary: m.Summary, FirstParty: p.FirstParty,
		})
	}
	return lines, nil
}

type lineupCmd struct {
	Show     lineupShowCmd     `cmd:"" help:"Show the lineup in force, another revision, or the history."`
	Set      lineupSetCmd      `cmd:"" help:"Put a lineup in force on every host, as a new revision."`
	Diff     lineupDiffCmd     `cmd:"" help:"Show what a file or a revision would change."`
	Rollback lineupRollbackCmd `cmd:"" help:"Put an earlier revision in force again."`
	Fit      lineupFitCmd      `cmd:"" help:"Fit weights and bias to labelled values. Nothing is set: the result is a document for 'lineup diff' and 'lineup set'."`
}

type lineupShowCmd struct {
	Revision int64 `help:"This revision instead of the one in force." placeholder:"N"`
	History  bool  `help:"List all revisions."`
	JSON     bool  `help:"Print JSON: of one revision, with the document as 'lineup set' takes it in 'lineup'."`
}

func (cmd *lineupShowCmd) Run(ctx context.Context, cfg *Config, t *terminal) error {
	return withBackend(ctx, cfg, t, func(b *backend) error {
		if cmd.History {
			return showHistory(ctx, b.store, t, cmd.JSON)
		}
		r, err := revision(ctx, b.store, cmd.Revision)
		if err != nil {
			return err
		}
		if cmd.JSON {
			return t.json(r)
		}
		t.printf("revision %d (%s), bias %v, review from %d, block from %d\n\n", r.Revision, r.Origin, r.Lineup.Bias,
			r.Lineup.Bands.Review, r.Lineup.Bands.Block)
		rows := make([][]string, len(r.Lineup.Layers))
		for i, item := range r.Lineup.Layers {
			required := ""
			if item.Required {
				required = "yes"
			}
			rows[i] = []string{item.Layer, fmt.Sprintf("%.2f", item.Weight), required}
		}
		return t.table([]string{"LAYER", "WEIGHT", "REQUIRED"}, rows)
	})
}

func showHistory(ctx context.Context, s *store.Store, t *terminal, asJSON bool) error {
	history, err := s.LineupHistory(ctx)
	if err != nil {
		return err
	}
	if asJSON {
		return t.json(history)
	}
	rows := make([][]string, len(history))
	for i, r := range history {
		activated := "never"
		if r.ActivatedAt != nil {
			activated = r.ActivatedAt.UTC().Format(time.DateTime)
		}
		rows[i] = []string{strconv.FormatInt(r.Revision, 10), string(r.Origin), r.CreatedAt.UTC().Format(time.DateTime),
			activated, r.Note}
	}
	return t.table([]string{"REVISION", "ORIGIN", "CREATED (UTC)", "LAST IN FORCE FROM (UTC)", "NOTE"}, rows)
}

// revision returns a revision by number, or the one in force for 0.
func revision(ctx context.Context, s *store.Store, number int64) (registry.LineupRevision, error) {
	if number == 0 {
		return s.ActiveLineup(ctx)
	}
	return s.LineupRevision(ctx, number)
}

type lineupSetCmd struct {
	File string `arg:"" help:"The lineup as JSON; - reads standard input."`
	Note string `help:"Why, for the history." placeholder:"TEXT"`
	JSON bool   `help:"Print JSON."`
}

func (cmd *lineupSetCmd) Run(ctx context.Context, cfg *Config, t *terminal) error {
	l, err := readLineup(cmd.File)
	if err != nil {
		return err
	}
	return withBackend(ctx, cfg, t, func(b *backend) error {
		if err := tryLineup(ctx, cfg, b, t, l); err != nil {
			return err
		}
		note := cmd.Note
		if note == "" {
			note = l.Note
		}
		n, err := b.store.ActivateLineup(ctx, l, registry.OriginOperator, note)
		if err != nil {
			return err
		}
		if cmd.JSON {
			return t.json(map[string]int64{"revision": n})
		}
		t.printf("Revision %d is in force.\n", n)
		return nil
	})
}

// tryLineup opens a lineup's layers here before any host is told of it.
func tryLineup(ctx context.Context, cfg *Config, b *backend, t *terminal, l registry.LineupDocument) (err error) {
	box := b.openSandbox(cfg, quietLog(t))
	defer func() { err = errors.Join(err, box.Close()) }()
	return lineup.Try(ctx, b.store, box, l)
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
	Target string `arg:"" help:"A file, or the number of a revision."`
	JSON   bool   `help:"Print JSON."`
}

func (cmd *lineupDiffCmd) Run(ctx context.Context, cfg *Config, t *terminal) error {
	return withBackend(ctx, cfg, t, func(b *backend) error {
		active, err := b.store.ActiveLineup(ctx)
		if err != nil {
			return err
		}
		next, err := lineupAt(ctx, b.store, cmd.Target)
		if err != nil {
			return err
		}
		changes := registry.Diff(active.Lineup, next)
		if cmd.JSON {
			return t.json(changes)
		}
		if len(changes) == 0 {
			t.printf("No difference from revision %d, which is in force.\n", active.Revision)
			return nil
		}
		rows := make([][]string, len(changes))
		for i, c := range changes {
			rows[i] = []string{c.What, c.From, c.To}
		}
		return t.table([]string{"WHAT", fmt.Sprintf("REVISION %d", active.Revision), "WOULD BE"}, rows)
	})
}

func lineupAt(ctx context.Context, s *store.Store, target string) (registry.LineupDocument, error) {
	if n, err := strconv.ParseInt(target, 10, 64); err == nil {
		r, err := s.LineupRevision(ctx, n)
		return r.Lineup, err
	}
	return readLineup(target)
}

type lineupRollbackCmd struct {
	Revision int64  `arg:"" help:"The revision to return to."`
	Note     string `help:"Why, for the history." placeholder:"TEXT"`
	JSON     bool   `help:"Print JSON."`
}

func (cmd *lineupRollbackCmd) Run(ctx context.Context, cfg *Config, t *terminal) error {
	return withBackend(ctx, cfg, t, func(b *backend) error {
		r, err := b.store.LineupRevision(ctx, cmd.Revision)
		if err != nil {
			return err
		}
		if err := tryLineup(ctx, cfg, b, t, r.Lineup); err != nil {
			return err
		}
		if err := b.store.RollbackLineup(ctx, cmd.Revision, cmd.Note); err != nil {
			return err
		}
		if cmd.JSON {
			return t.json(map[string]int64{"revision": cmd.Revision})
		}
		t.printf("Revision %d is in force again.\n", cmd.Revision)
		return nil
	})
}
