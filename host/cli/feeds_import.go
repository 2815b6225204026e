package cli

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
	"assay/host/facts/feed"
	"assay/host/installation"
	"assay/host/internal/terminal"
	"assay/host/store"
	"assay/sdk"
)

type feedsImportCmd struct {
	From     string  `arg:"" name:"file|url" help:"${feeds_from}"`
	Name     string  `required:"" placeholder:"NAME" help:"${feeds_name}"`
	Kind     string  `required:"" enum:"bad,good,ranked" placeholder:"KIND" help:"Kind of the entries: ${enum}."`
	Format   string  `enum:"${formats}" default:"auto" help:"Format of the list: ${enum}."`
	Column   string  `placeholder:"COLUMN" help:"${feeds_column}"`
	Category string  `placeholder:"THREAT" help:"Threat of entries that do not name one: ${threats}."`
	Country  string  `placeholder:"CC" help:"${feeds_country}"`
	Licence  string  `placeholder:"TEXT" help:"Licence of the list, stored with it."`
	Expires  listAge `placeholder:"AGE" help:"${feeds_expires}"`
	terminal.Output
}

// listNames can be used in any sentence. They contain no comma, because facts separate them with commas.
var listNames = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9 ._-]{0,39}$`)

const maxLicence = 200 // bytes

// Validate checks the flags. Kong calls it.
func (cmd *feedsImportCmd) Validate() error {
	if !listNames.MatchString(cmd.Name) {
		return errors.New("--name must be 1 to 40 letters, digits, spaces, '.', '_' or '-', " +
			"starting with a letter or digit")
	}
	if cmd.Licence != "" {
		if err := entity.ValidateText("--licence", cmd.Licence, maxLicence, false); err != nil {
			return err
		}
	}
	if cmd.Category != "" && !slices.Contains(sdk.Threats(), sdk.Threat(cmd.Category)) {
		return fmt.Errorf("--category must be one of %s", threatNames())
	}
	if cmd.Category != "" && cmd.Kind != string(feed.Bad) {
		return errors.New("--category is only for lists of bad entities")
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

// listAge is a duration in hours, days or weeks.
type listAge time.Duration

// UnmarshalText parses an age such as 12h, 30d or 8w.
func (a *listAge) UnmarshalText(text []byte) error {
	unit := map[byte]time.Duration{'h': time.Hour, 'd': 24 * time.Hour, 'w': 7 * 24 * time.Hour}
	s := string(text)
	if s == "" {
		return nil
	}
	n, err := strconv.Atoi(s[:len(s)-1])
	if err != nil || n < 1 || n > 10_000 || unit[s[len(s)-1]] == 0 {
		return fmt.Errorf("%q is not an age such as 12h, 30d or 8w", s)
	}
	*a = listAge(time.Duration(n) * unit[s[len(s)-1]])
	return nil
}

// importResult is the output of `assay feeds import --json`.
type importResult struct {
	Name   string      `json:"name"`
	Kind   feed.Kind   `json:"kind"`
	Format feed.Format `json:"format"`
	feed.Change
	Items     int64                `json:"items"` // of the file
	Malformed int64                `json:"malformed"`
	Skipped   int64                `json:"passed_over"`
	First     []feed.MalformedItem `json:"first_malformed"`
	Seconds   float64              `json:"seconds"`
}

func (cmd *feedsImportCmd) Run(ctx context.Context, c *installation.Command) error {
	began := time.Now()
	if _, err := c.LoadInstallation(); err != nil { // before anything is fetched
		return err
	}
	source, err := openSource(ctx, c.Config, cmd.From)
	if err != nil {
		return err
	}
	defer source.Close()
	s, err := c.Open(ctx)
	if err != nil {
		return err
	}
	list, err := feed.Open(ctx, source, feed.Options{Format: feed.Format(cmd.Format), Column: cmd.Column,
		Country: cmd.Country, Ranked: cmd.Kind == string(feed.Ranked)})
	if err != nil {
		return err
	}
	defer list.Close()
	file, isFile := c.Err.(*os.File)
	progress := &listProgress{t: c.Terminal, name: cmd.Name, source: source,
		terminal: isFile && terminal.IsTerminal(file), last: time.Now()}
	change, err := s.Store.ImportFeed(ctx, cmd.list(list.Report().Format, began), func() ([]feed.Entry, error) {
		entries, err := list.Next()
		if errors.Is(err, io.EOF) {
			if malformed := list.Report().Misread(); malformed != nil {
				err = malformed
			}
		}
		progress.update(list.Report().Entries, err)
		return entries, err
	})
	r := list.Report()
	for _, m := range r.Examples {
		fmt.Fprintf(c.Err, "%s %d: %q %s\n", itemName(r.Format), m.Line, m.Text, m.Reason)
	}
	if errors.Is(err, store.ErrEmptyFeed) {
		return fmt.Errorf("%w (format %s; see --format and --column)", err, r.Format)
	}
	if err != nil {
		return err
	}
	return showImport(c.Terminal, cmd.Name, feed.Kind(cmd.Kind), r, change, time.Since(began))
}

// openSource opens a file, standard input ("-") or a URL.
func openSource(ctx context.Context, cfg *installation.Config, from string) (*feed.Source, error) {
	switch {
	case from == "-":
		return feed.NewSource(io.NopCloser(os.Stdin), -1), nil
	case isURL(from):
		return feed.Fetch(ctx, feed.Request{URL: from, Version: installation.Version, DNS: cfg.ConfiguredResolvers()})
	}
	file, err := os.Open(from)
	if err != nil {
		return nil, err
	}
	size := int64(-1)
	if info, err := file.Stat(); err == nil && info.Mode().IsRegular() {
		size = info.Size()
	}
	return feed.NewSource(file, size), nil
}

func isURL(from string) bool { return strings.Contains(from, "://") }

// itemName returns the kind of item that the number of a malformed item counts.
func itemName(format feed.Format) string {
	switch format {
	case feed.JSON, feed.MISP, feed.STIX:
		return "item"
	}
	return "line"
}

// list returns the metadata to store.
func (cmd *feedsImportCmd) list(format feed.Format, now time.Time) feed.List {
	l := feed.List{
		Name: cmd.Name, Kind: feed.Kind(cmd.Kind), Category: cmd.Category, Source: cmd.From, Format: format,
		Licence: cmd.Licence,
	}
	if isURL(cmd.From) {
		l.Source = feed.RedactURL(cmd.From)
	}
	if cmd.Expires > 0 {
		until := now.Add(time.Duration(cmd.Expires)).UTC()
		l.ExpiresAt, l.FreshUntil = &until, &until
	}
	return l
}

// showImport prints the result of reading a list.
func showImport(t *terminal.Terminal, name string, kind feed.Kind, r feed.Report, change feed.Change,
	took time.Duration) error {
	out := importResult{
		Name: name, Kind: kind, Format: r.Format, Change: change, Items: r.Items, Malformed: r.Malformed,
		Skipped: r.Skipped, First: append([]feed.MalformedItem{}, r.Examples...),
		Seconds: took.Round(time.Millisecond).Seconds(),
	}
	return t.Say(out, "%s now has %d entries: %d added, %d altered, %d removed.\n"+
		"Read as %s in %s: %d items, %d malformed, %d skipped.\n",
		name, change.Entries, change.Added, change.Altered, change.Removed,
		r.Format, took.Round(10*time.Millisecond), r.Items, r.Malformed, r.Skipped)
}

// listProgress reports the progress of reading: on a terminal it updates one line, otherwise it prints a line every few
// seconds.
type listProgress struct {
	t        *terminal.Terminal
	name     string
	source   *feed.Source
	terminal bool
	last     time.Time
}

// update prints how much was read, if it is time for it or err ends the reading.
func (p *listProgress) update(entries int64, err error) {
	every := 5 * time.Second
	if p.terminal {
		every = 200 * time.Millisecond
	}
	if time.Since(p.last) < every && err == nil {
		return
	}
	p.last = time.Now()
	total := ""
	if p.source.Size > 0 {
		total = fmt.Sprintf(" of %.1f", float64(p.source.Size)/(1<<20))
	}
	line := fmt.Sprintf("reading %s: %.1f%s MiB, %d entries", p.name, float64(p.source.BytesRead())/(1<<20), total,
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
	fmt.Fprint(p.t.Err, line)
}
