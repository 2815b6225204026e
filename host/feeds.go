package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"assay/host/entity"
	"assay/host/feed"
	"assay/host/store"
	"assay/sdk"
)

type feedsCmd struct {
	Import   feedsImportCmd   `cmd:"" help:"Import a list of known bad or known good entities, in place of what the list held before."`
	List     feedsListCmd     `cmd:"" help:"List the imported lists."`
	Withdraw feedsWithdrawCmd `cmd:"" help:"Take a list out of force, on every host at once, and delete its entries."`
}

type feedsImportCmd struct {
	From     string  `arg:"" name:"file|url" help:"The list: a file, an https URL, or - for standard input; packed by gzip or not."`
	Name     string  `required:"" placeholder:"NAME" help:"What the list is called in reasons, such as URLhaus. The next import under this name replaces it."`
	Kind     string  `required:"" enum:"bad,good" placeholder:"KIND" help:"What it says of its entries: ${enum}."`
	Format   string  `enum:"auto,hosts,plain,csv,json,misp,stix" default:"auto" help:"How it is written: ${enum}."`
	Column   string  `placeholder:"COLUMN" help:"CSV: the name or number of the column that holds the entities. JSON: the member's name."`
	Category string  `placeholder:"THREAT" help:"The threat of entries that name none of their own: ${threats}."`
	Country  string  `placeholder:"CC" help:"Read phone numbers in national format as this country's; without, they are refused."`
	Licence  string  `placeholder:"TEXT" help:"Under which terms the list may be used, to be remembered with it."`
	Expires  listAge `placeholder:"AGE" help:"After which it has no effect unless it is imported anew, such as 12h, 30d or 8w (default: never)."`
	JSON     bool    `help:"Print JSON."`
}

// listNames are safe in any sentence, and hold no comma, which separates them in facts.
var listNames = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9 ._-]{0,39}$`)

// Validate says what is wrong with the flags. Kong calls it.
func (cmd *feedsImportCmd) Validate() error {
	if !listNames.MatchString(cmd.Name) {
		return errors.New("--name must be 1 to 40 of A-Z, a-z, 0-9, blank, '.', '_' and '-', a letter or digit first")
	}
	if cmd.Category != "" && !slices.Contains(sdk.Threats(), sdk.Threat(cmd.Category)) {
		return fmt.Errorf("--category must be one of %s", threatNames())
	}
	if cmd.Category != "" && cmd.Kind == string(feed.Good) {
		return errors.New("--category: a list of known good entities has none")
	}
	if _, err := entity.Country(cmd.Country); err != nil {
		return fmt.Errorf("--country: %w", err)
	}
	return nil
}

func threatNames() string {
	names := make([]string, len(sdk.Threats()))
	for i, t := range sdk.Threats() {
		names[i] = string(t)
	}
	return strings.Join(names, ", ")
}

// listAge is a duration in the units of lists: hours, days, weeks.
type listAge time.Duration

// UnmarshalText reads 12h, 30d or 8w.
func (a *listAge) UnmarshalText(text []byte) error {
	unit := map[byte]time.Duration{'h': time.Hour, 'd': 24 * time.Hour, 'w': 7 * 24 * time.Hour}
	s := string(text)
	if s == "" {
		return nil
	}
	n, err := strconv.Atoi(s[:len(s)-1])
	if err != nil || n < 1 || n > 10_000 || unit[s[len(s)-1]] == 0 {
		return fmt.Errorf("%q is no age such as 12h, 30d or 8w", s)
	}
	*a = listAge(time.Duration(n) * unit[s[len(s)-1]])
	return nil
}

// imported is what an import prints.
type imported struct {
	Name   string      `json:"name"`
	Kind   feed.Kind   `json:"kind"`
	Format feed.Format `json:"format"`
	feed.Change
	Items     int64              `json:"items"` // in the file
	Malformed int64              `json:"malformed"`
	Passed    int64              `json:"passed_over"`
	First     []malformedExample `json:"first_malformed"`
	Seconds   float64            `json:"seconds"`
}

type malformedExample struct {
	Line   int64  `json:"line"` // of JSON documents the number of the item
	Text   string `json:"text"`
	Reason string `json:"reason"`
}

func (cmd *feedsImportCmd) Run(ctx context.Context, cfg *Config, t *terminal) error {
	began := time.Now()
	in, err := openList(ctx, cmd.From)
	if err != nil {
		return err
	}
	defer in.close()
	return withBackend(ctx, cfg, t, func(b *backend) error {
		list, err := feed.Open(ctx, in, feed.Options{Format: feed.Format(cmd.Format), Column: cmd.Column,
			Country: cmd.Country})
		if err != nil {
			return err
		}
		defer list.Close()
		progress := newListProgress(t, cmd.Name, in)
		change, err := b.store.ImportFeed(ctx, cmd.feed(list.Report().Format, began), func() ([]feed.Entry, error) {
			entries, err := list.Next()
			if errors.Is(err, io.EOF) {
				if wrong := tooMalformed(list.Report()); wrong != nil {
					err = wrong
				}
			}
			progress.step(list.Report().Entries, err)
			return entries, err
		})
		r := list.Report()
		for _, c := range r.First {
			fmt.Fprintf(t.err, "%s %d: %q %s\n", placeIn(r.Format), c.Line, c.Text, c.Reason)
		}
		if errors.Is(err, store.ErrEmptyFeed) {
			return fmt.Errorf("%w; it was read as %s: see --format and --column", err, r.Format)
		}
		if err != nil {
			return err
		}
		return cmd.print(t, r, change, time.Since(began))
	})
}

// placeIn is what a complaint's number counts.
func placeIn(format feed.Format) string {
	switch format {
	case feed.JSON, feed.MISP, feed.STIX:
		return "item"
	}
	return "line"
}

// feed is the list as it will be stored.
func (cmd *feedsImportCmd) feed(format feed.Format, now time.Time) feed.List {
	f := feed.List{
		Name: cmd.Name, Kind: feed.Kind(cmd.Kind), Category: cmd.Category, Source: sourceOf(cmd.From), Format: format,
		Licence: cmd.Licence,
	}
	if cmd.Expires > 0 {
		until := now.Add(time.Duration(cmd.Expires)).UTC()
		f.ExpiresAt = &until
	}
	return f
}

// tooMalformed refuses what was most likely read in the wrong way, or is an error page in place of a list.
func tooMalformed(r feed.Report) error {
	if r.Malformed*2 <= r.Items {
		return nil
	}
	return fmt.Errorf("%d of the %d items could not be read as format %s, so nothing was changed: see --format and --column", r.Malformed, r.Items, r.Format)
}

func (cmd *feedsImportCmd) print(t *terminal, r feed.Report, change feed.Change, took time.Duration) error {
	if cmd.JSON {
		out := imported{
			Name: cmd.Name, Kind: feed.Kind(cmd.Kind), Format: r.Format, Change: change, Items: r.Items,
			Malformed: r.Malformed,
			Passed:    r.Passed, First: []malformedExample{}, Seconds: took.Round(time.Millisecond).Seconds(),
		}
		for _, c := range r.First {
			out.First = append(out.First, malformedExample(c))
		}
		return t.json(out)
	}
	t.printf("%s holds %d entries now: %d added, %d altered, %d removed.\n", cmd.Name, change.Entries, change.Added,
		change.Altered, change.Removed)
	t.printf("Read as %s in %s: %d items, %d malformed, %d passed over.\n", r.Format, took.Round(10*time.Millisecond),
		r.Items, r.Malformed, r.Passed)
	return nil
}

// listProgress shows how far reading is: one line on a terminal, else one every few seconds.
type listProgress struct {
	t        *terminal
	name     string
	source   *listSource
	terminal bool
	shown    time.Time
}

func newListProgress(t *terminal, name string, source *listSource) *listProgress {
	f, ok := t.err.(*os.File)
	return &listProgress{t: t, name: name, source: source, terminal: ok && isTerminal(f), shown: time.Now()}
}

// step shows how many entries were read, and after the last, or when reading failed, where it ended.
func (p *listProgress) step(entries int64, err error) {
	every := 5 * time.Second
	if p.terminal {
		every = 200 * time.Millisecond
	}
	if time.Since(p.shown) < every && err == nil {
		return
	}
	p.shown = time.Now()
	of := ""
	if p.source.size > 0 {
		of = fmt.Sprintf(" of %.1f", float64(p.source.size)/(1<<20))
	}
	line := fmt.Sprintf("reading %s: %.1f%s MiB, %d entries", p.name, float64(p.source.read.Load())/(1<<20), of,
		entries)
	if p.terminal {
		line = "\r\033[K" + line
	}
	switch {
	case errors.Is(err, io.EOF):
		line += "; storing ...\n"
	case err != nil || !p.terminal:
		line += "\n"
	}
	fmt.Fprint(p.t.err, line)
}

type feedsListCmd struct {
	JSON bool `help:"Print JSON."`
}

func (cmd *feedsListCmd) Run(ctx context.Context, cfg *Config, t *terminal) error {
	return withBackend(ctx, cfg, t, func(b *backend) error {
		feeds, err := b.store.Feeds(ctx)
		if err != nil {
			return err
		}
		if cmd.JSON {
			return t.json(feeds)
		}
		now := time.Now()
		rows := make([][]string, len(feeds))
		for i, f := range feeds {
			expires := "never"
			if f.ExpiresAt != nil {
				expires = f.ExpiresAt.UTC().Format(time.DateTime)
			}
			if !f.InForce(now) {
				expires = "expired " + expires
			}
			rows[i] = []string{
				f.Name, string(f.Kind), f.Category, strconv.Itoa(f.Entries), f.ImportedAt.UTC().Format(time.DateTime),
				expires, f.Licence, f.Source,
			}
		}
		return t.table([]string{"LIST", "KIND", "CATEGORY", "ENTRIES", "IMPORTED (UTC)", "EXPIRES (UTC)", "LICENCE",
			"SOURCE"}, rows)
	})
}

type feedsWithdrawCmd struct {
	Name string `arg:"" help:"The list's name."`
	JSON bool   `help:"Print JSON."`
}

func (cmd *feedsWithdrawCmd) Run(ctx context.Context, cfg *Config, t *terminal) error {
	return withBackend(ctx, cfg, t, func(b *backend) error {
		if err := b.store.WithdrawFeed(ctx, cmd.Name); err != nil {
			return err
		}
		if cmd.JSON {
			return t.json(map[string]string{"name": cmd.Name, "state": "withdrawn"})
		}
		t.printf("%s is withdrawn.\n", cmd.Name)
		return nil
	})
}
