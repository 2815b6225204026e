package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"assay/registry"
)

type layersCmd struct {
	List layersListCmd `cmd:"" help:"List the layers of the active lineup, or all published layers."`
}

type layersListCmd struct {
	All  bool `help:"List all published versions."`
	JSON bool `help:"Print JSON."`
}

// layerLine is a layer in the output of `assay layers list`.
type layerLine struct {
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
			weight := ""
			if l.Active {
				weight = l.Weight.String()
			}
			rows[i] = []string{l.Name, l.Version, string(l.Class), scoreRange(l.Range), weight,
				strconv.FormatInt(l.BudgetFuel, 10),
				strings.Join(l.Entities, ","), l.Summary}
		}
		return t.table([]string{"LAYER", "VERSION", "CLASS", "SCORE", "WEIGHT", "BUDGET", "ENTITIES", "SUMMARY"}, rows)
	})
}

// layerLines returns the plugins that the lineup names, or all of them.
func layerLines(plugins []registry.PublishedPlugin, lineup registry.LineupDocument, all bool) ([]layerLine, error) {
	items := map[string]registry.LineupLayer{}
	for _, item := range lineup.Layers {
		items[item.Layer] = item
	}
	lines := []layerLine{}
	for _, p := range plugins {
		item, active := items[p.Ref()]
		if !active && !all {
			continue
		}
		m, err := registry.ParseManifest(p.Manifest)
		if err != nil {
			return nil, fmt.Errorf("listing %s: %w", p.Ref(), err)
		}
		lowest, highest := item.Range(m)
		lines = append(lines, layerLine{
			Name: p.Name, Version: p.Version, Digest: p.Digest.String(), Active: active,
			Class: m.LayerClass(), Range: [2]int{lowest, highest},
			Weight: item.Weight, Required: item.Required,
			Entities: m.Entities, BudgetFuel: m.BudgetFuel, Summary: m.Summary, FirstParty: p.FirstParty,
		})
	}
	return lines, nil
}

// scoreRange returns a range of scores as text, such as "-60 to 0".
func scoreRange(r [2]int) string { return fmt.Sprintf("%d to %d", r[0], r[1]) }
