package plugin

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"text/tabwriter"

	"assay/host/check"
	"assay/host/cli/measurement"
	"assay/host/installation"
	"assay/host/internal/terminal"
	"assay/host/measure/eval"
	"assay/host/sandbox"
	"assay/plugins/lexical/learn"
	"assay/registry"
)

// TrainCmd has the commands of `assay train`.
type TrainCmd struct {
	Lexical trainLexicalCmd `cmd:"" help:"${train_lexical_cmd}"`
}

type trainLexicalCmd struct {
	Files   []string `arg:"" name:"file" type:"existingfile" help:"${train_files}"`
	As      string   `required:"" placeholder:"VERSION" help:"${train_as}"`
	Lineup  string   `placeholder:"FILE" help:"${plugin_eval_lineup}"`
	SkipBad bool     `help:"${labelled_skip_bad}"`
	Out     string   `short:"o" placeholder:"FILE" help:"${plugin_out}"`
	terminal.Output
}

// training describes what a layer learned from, and how it scores names that it did not learn. It is the layer's card.
type training struct {
	Plugin  string         `json:"plugin"`
	From    string         `json:"from"` // the released layer that it began with
	Files   []trainingFile `json:"files"`
	Learned int            `json:"learned"` // names
	Share   float64        `json:"share"`   // of the learned change that the layer's own cases allow
	Held    []heldNames    `json:"held"`
}

type trainingFile struct {
	Name   string `json:"name"`
	SHA256 string `json:"sha256"`
}

// heldNames counts the held names of a source that the lineup reviews or blocks, with the layer in force and with the
// one that learned.
type heldNames struct {
	Source    string `json:"source"`
	Malicious bool   `json:"malicious"`
	Names     int    `json:"names"`
	Before    flags  `json:"before"`
	After     flags  `json:"after"`

	raised, lowered flags // names that only one of the two reviews or blocks
}

type flags struct {
	Reviewed int `json:"reviewed"` // or blocked
	Blocked  int `json:"blocked"`
}

func (f *flags) count(reviewed, blocked bool) {
	if reviewed {
		f.Reviewed++
	}
	if blocked {
		f.Blocked++
	}
}

func (cmd *trainLexicalCmd) Run(ctx context.Context, c *installation.Command) error {
	labelled := measurement.LabelledValues{Files: cmd.Files, Type: "domain", SkipBad: cmd.SkipBad, Valid: true}
	rows, _, err := labelled.Read()
	if err != nil {
		return err
	}
	released, err := installation.BuiltInLayer(ctx, c.Config, c.Terminal, "lexical")
	if err != nil {
		return err
	}
	card := training{From: released.Ref() + " " + released.Digest.String()}
	for _, file := range cmd.Files {
		content, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		card.Files = append(card.Files, trainingFile{measurement.BaseNames([]string{file})[0],
			fmt.Sprintf("%x", sha256.Sum256(content))})
	}
	c.Stage("learning")
	result, err := learn.Retrain(released, cmd.As, rows, func(wasm []byte) (passes bool, err error) {
		err = withModule(ctx, authorSandbox(c.Terminal), wasm, func(p *sandbox.Plugin, m registry.Module) error {
			report, err := runCases(ctx, p, m)
			passes = report.Failed == 0
			return err
		})
		return passes, err
	})
	if err != nil {
		return err
	}
	card.Learned, card.Share = result.Learned, math.Round(100*result.Share)/100
	if card.Held, err = cmd.measure(ctx, c, result); err != nil {
		return err
	}
	if err := card.honestWorse(); err != nil {
		return err
	}
	return cmd.write(c, card, result.Wasm)
}

// measure scores the held names by the lineup as it is and with the layer.
func (cmd *trainLexicalCmd) measure(ctx context.Context, c *installation.Command, result *learn.Retrained) (
	held []heldNames, err error) {
	err = withModule(ctx, authorSandbox(c.Terminal), result.Wasm, func(p *sandbox.Plugin, _ registry.Module) error {
		return measurement.Use(ctx, c, cmd.Lineup, false, func(m *measurement.Measurement) error {
			before, err := m.ScoreAll(ctx, c.Terminal, result.Held)
			if err != nil {
				return err
			}
			next, _, _ := m.With(p)
			after, err := next.ScoreAll(ctx, c.Terminal, result.Held)
			held = compare(m.Model.Bands, before, after)
			return err
		})
	})
	return held, err
}

// compare counts how two lineups score the same rows, by label and source.
func compare(bands check.Bands, before, after []eval.Scored) (all []heldNames) {
	for i := range before {
		row := &before[i]
		at := slices.IndexFunc(all, func(h heldNames) bool {
			return h.Source == row.Source && h.Malicious == row.Malicious
		})
		if at < 0 {
			at = len(all)
			all = append(all, heldNames{Source: row.Source, Malicious: row.Malicious})
		}
		h, was, is := &all[at], row.Score, after[i].Score
		h.Names++
		h.Before.count(was >= bands.Review, was >= bands.Block)
		h.After.count(is >= bands.Review, is >= bands.Block)
		h.raised.count(was < bands.Review && is >= bands.Review, was < bands.Block && is >= bands.Block)
		h.lowered.count(is < bands.Review && was >= bands.Review, is < bands.Block && was >= bands.Block)
	}
	slices.SortFunc(all, func(a, b heldNames) int {
		return cmp.Or(cmp.Compare(label(a.Malicious), label(b.Malicious)), cmp.Compare(a.Source, b.Source))
	})
	return all
}

// gotWorse reports whether more honest names of a source are reviewed or blocked than before, beyond what chance
// explains.
func (h heldNames) gotWorse() bool {
	return !h.Malicious && (significant(h.raised.Reviewed, h.lowered.Reviewed) ||
		significant(h.raised.Blocked, h.lowered.Blocked))
}

// significant reports whether such an excess of ups over downs is unlikely by chance: a one-sided sign test at 5%.
func significant(ups, downs int) bool {
	return float64(ups-downs) > 1.645*math.Sqrt(float64(ups+downs))
}

// honestWorse returns an error that names the sources of honest names that got worse.
func (t training) honestWorse() error {
	var all error
	for _, h := range t.Held {
		if h.gotWorse() {
			all = errors.Join(all, fmt.Errorf("  %q: of %d names, %d are reviewed or blocked instead of %d, "+
				"%d blocked instead of %d", h.Source, h.Names, h.After.Reviewed, h.Before.Reviewed, h.After.Blocked,
				h.Before.Blocked))
		}
	}
	if all != nil {
		return fmt.Errorf("nothing was written, because honest names got worse:\n%w", all)
	}
	return nil
}

// write writes the layer with its card, and its signature if this machine has the operator's key.
func (cmd *trainLexicalCmd) write(c *installation.Command, card training, wasm []byte) error {
	m, err := registry.OpenModule(wasm)
	if err != nil {
		return err
	}
	card.Plugin = m.Ref()
	if m, err = m.WithCard(card.text(m.Manifest)); err != nil {
		return err
	}
	key, err := installation.ReadKey(c.OperatorKeyPath())
	if err != nil {
		return err
	}
	line := newPluginLine(m)
	line.File = cmp.Or(cmd.Out, fileOf(m))
	if err := os.WriteFile(line.File, m.Wasm, 0o644); err != nil {
		return err
	}
	if key != nil {
		line.SignedBy = key.Name()
		if err := writeSignature(line.File+signatureSuffix, m, key); err != nil {
			return err
		}
	}
	return c.Show(struct {
		pluginLine
		Card training `json:"card"`
	}{line, card}, func() error {
		c.Printf("%s\n%s: %s", m.Card(), line.File, line.Digest)
		if key != nil {
			c.Printf(", signed by %s", line.SignedBy)
		}
		c.Printf("\n%s\nNext: assay plugin push %s\n", permissions(m.Manifest), line.File)
		return nil
	})
}

// text returns the card as the layer carries it.
func (t training) text(m registry.Manifest) []byte {
	var text bytes.Buffer
	fmt.Fprintf(&text, "%s began with %s.\nIt learned %d names, and keeps %.0f%% of the change, of:\n", t.Plugin,
		t.From, t.Learned, 100*t.Share)
	for _, f := range t.Files {
		fmt.Fprintf(&text, "  %s, SHA-256 %s\n", f.Name, f.SHA256)
	}
	blocks := "No name is blocked by its style alone: too few honest names were held to prove that it may be."
	if m.Blocks != nil {
		blocks = "A name may be blocked by its style alone: the manifest has the proof."
	}
	fmt.Fprintf(&text, "%s\n\nOf names that it did not learn, the lineup reviews or blocks (and blocks):\n\n", blocks)
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "SOURCE\tLABEL\tNAMES\tBEFORE\tAFTER")
	for _, h := range t.Held {
		fmt.Fprintf(table, "%s\t%s\t%d\t%s\t%s\n", h.Source, label(h.Malicious), h.Names,
			h.Before.text(h.Names), h.After.text(h.Names))
	}
	table.Flush()
	return text.Bytes()
}

func label(malicious bool) string {
	if malicious {
		return "reported"
	}
	return "honest"
}

func (f flags) text(names int) string {
	return fmt.Sprintf("%.1f%% (%.1f%%)", 100*float64(f.Reviewed)/float64(names), 100*float64(f.Blocked)/float64(names))
}
