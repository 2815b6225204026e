package plugin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"assay/host/installation"
	"assay/host/internal/terminal"
	"assay/host/lineup/rehearsal"
	"assay/host/sandbox"
	"assay/registry"
)

type pluginInspectCmd struct {
	Plugins []string `arg:"" name:"plugin" help:"${plugin_inspect_path}"`
	Diff    bool     `help:"Compare two plugins: what the second may do that the first may not, first."`
	Measure bool     `help:"Measure the plugin as 'assay plugin push' does."`
	terminal.Output
}

// inspection is the JSON output of `assay plugin inspect`.
type inspection struct {
	Plugin   string             `json:"plugin"`
	Digest   string             `json:"digest"`
	Bytes    int                `json:"bytes"`
	Class    registry.Class     `json:"class"`
	Range    [2]int             `json:"score_range"`
	MayClear bool               `json:"may_clear"`
	Imports  []string           `json:"imports"`
	Cases    int                `json:"cases"`
	Sections []registry.Section `json:"sections"`
	Manifest registry.Manifest  `json:"manifest"`
	Card     string             `json:"card,omitempty"` // of a layer that learned, see registry.CardSection

	Name       registry.PluginName `json:"name,omitzero"`         // and its owner, of a published plugin
	Signature  *pluginSignature    `json:"signature"`             // null if there is none
	Passport   *rehearsal.Passport `json:"passport,omitempty"`    // measured now, or when it was published
	MeasuredBy string              `json:"measured_by,omitempty"` // name of the key of a stored passport
}

func (cmd *pluginInspectCmd) Run(ctx context.Context, c *installation.Command) error {
	if want := 1 + min(1, len(cmd.Plugins)-1); cmd.Diff != (want == 2) || len(cmd.Plugins) != want {
		return terminal.Misuse{Err: errors.New("give one plugin, or two with --diff")}
	}
	all := make([]inspection, len(cmd.Plugins))
	for i, path := range cmd.Plugins {
		m, notes, name, err := readAnyPlugin(ctx, c, path)
		if err == nil {
			all[i], err = inspect(m)
			all[i].Name = name
			all[i].Signature = verifySignature(c.Config, m, notes[registry.NoteSignature])
		}
		if err == nil && cmd.Measure {
			all[i].Passport, err = measure(ctx, m)
		} else if err == nil {
			all[i].Passport, all[i].MeasuredBy, err = readPassport(c.Config, m, notes)
		}
		if err != nil {
			return err
		}
	}
	if cmd.Diff {
		changes := append(registry.DiffSets("import", all[0].Imports, all[1].Imports),
			registry.DiffManifests(all[0].Manifest, all[1].Manifest)...)
		changes = append(changes, comparePassports(all[0].Passport, all[1].Passport)...)
		slices.SortStableFunc(changes, func(a, b registry.ManifestChange) int { return rank(a) - rank(b) })
		return c.Show(changes, func() error { return printManifestChanges(c.Terminal, changes) })
	}
	return c.Show(all[0], func() error { return printInspection(c.Terminal, all[0]) })
}

// rank sorts changes that let a plugin do more before the others.
func rank(c registry.ManifestChange) int {
	if c.Grants {
		return 0
	}
	return 1
}

// readAnyPlugin reads or builds a plugin, or reads a published one, the notes about it and its name's owner.
func readAnyPlugin(ctx context.Context, c *installation.Command, path string) (
	m registry.Module, notes registry.Notes, owned registry.PluginName, err error) {
	name, version, published := strings.Cut(path, "@")
	if _, missing := os.Stat(path); published && missing != nil {
		s, err := c.Open(ctx)
		if err != nil {
			return m, nil, owned, err
		}
		p, err := s.Store.Plugin(ctx, name, version)
		if err == nil {
			m, err = s.Store.Module(ctx, p.Digest)
		}
		if err == nil {
			notes, err = s.Store.PluginNotes(ctx, p.Digest)
		}
		var names []registry.PluginName
		if err == nil {
			names, err = s.Store.PluginNames(ctx)
		}
		if at := slices.IndexFunc(names, func(n registry.PluginName) bool { return n.Name == name }); at >= 0 {
			owned = names[at]
		}
		return m, notes, owned, err
	}
	if m, err = readModule(ctx, path); err != nil {
		return m, nil, owned, err
	}
	signatures, err := readSignature("", path, m)
	if len(signatures) > 0 {
		notes = registry.Notes{registry.NoteSignature: signatures[0]}
	}
	return m, notes, owned, err
}

// inspect describes a plugin.
func inspect(m registry.Module) (i inspection, err error) {
	line := newPluginLine(m)
	i = inspection{Plugin: line.Plugin, Digest: line.Digest, Bytes: len(m.Wasm), Class: line.Class, Range: line.Range,
		MayClear: line.Range[0] < 0, Manifest: m.Manifest, Card: m.Card()}
	if i.Imports, err = sandbox.Imports(m); err != nil {
		return i, err
	}
	if i.Sections, err = registry.Sections(m.Wasm); err != nil {
		return i, err
	}
	cases, err := m.Cases()
	i.Cases = len(cases)
	return i, err
}

func printInspection(t *terminal.Terminal, i inspection) error {
	m := i.Manifest
	t.Printf("%s: %s\n%s, %d bytes\n%s.\n", i.Plugin, m.Summary, i.Digest, i.Bytes, i.Signature)
	switch {
	case i.Name.Transfer != "":
		t.Printf("An operator gave the name %s to %s.\n", i.Name.Name, i.Name.Owner)
	case i.Name.Owner != "":
		t.Printf("The name %s belongs to %s, which published it first.\n", i.Name.Name, i.Name.Owner)
	}
	if i.Card != "" {
		t.Printf("\n%s", i.Card)
	}
	t.Printf("\n%s\n", permissions(m))
	t.Printf("Budget of a call: %d units of fuel, %d MiB of memory. Suggested weight %v. %d cases.\n\n", m.BudgetFuel,
		m.MemoryMB, m.DefaultWeight, i.Cases)
	threats := make([]string, len(m.Threats))
	for n, threat := range m.Threats {
		threats[n] = string(threat)
	}
	for _, list := range []struct {
		label string
		names []string
	}{{"Scores", m.Entities}, {"Reads", m.Facts}, {"Names", threats}, {"Imports", i.Imports}} {
		t.Printf("%-8s %s\n", list.label, cmp.Or(strings.Join(list.names, ", "), "nothing"))
	}
	t.Printf("\n")
	rows := make([][]string, len(m.Signals))
	for n, s := range m.Signals {
		points := ""
		if s.Points != 0 {
			points = strconv.Itoa(s.Points)
		}
		rows[n] = []string{s.Code, points, s.Warrants, s.Text}
	}
	if err := t.Table([]string{"SIGNAL", "POINTS", "WARRANTS", "MEANING"}, rows); err != nil {
		return err
	}
	t.Printf("\n")
	rows = nil
	for _, s := range i.Sections {
		rows = append(rows, []string{s.Name, strconv.Itoa(s.Bytes), fmt.Sprintf("%.1f%%",
			100*float64(s.Bytes)/float64(i.Bytes))})
	}
	if err := t.Table([]string{"SECTION", "BYTES", "SHARE"}, rows); err != nil || i.Passport == nil {
		return err
	}
	t.Printf("\n")
	if i.MeasuredBy != "" {
		t.Printf("Measured by %s:\n", i.MeasuredBy)
	}
	printPassport(t, *i.Passport)
	return nil
}

// printManifestChanges prints what an operator must know before they put the second plugin in a lineup.
func printManifestChanges(t *terminal.Terminal, changes []registry.ManifestChange) error {
	if len(changes) == 0 {
		t.Printf("The manifests and the imports are the same.\n")
		return nil
	}
	rows := make([][]string, len(changes))
	for i, c := range changes {
		may := ""
		if c.Grants {
			may = "more"
		}
		rows[i] = []string{may, c.What, c.From, c.To}
	}
	return t.Table([]string{"MAY DO", "WHAT", "FROM", "TO"}, rows)
}
