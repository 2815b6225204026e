package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
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
	store.FeedChange
	Items     int64              `json:"items"` // in the file
	Malformed int64              `json:"malformed"`
	Passed    int64              `json:"passed_over"`
	First     []malformedExample `json:"first_malformed"`
	Seconds   float64            `json:"seconds"`
}

type malformedExample struct {
	Line   int64  `json:"line"`
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
		list, err := feed.Open(ctx, in, feed.Options{Format: feed.Format(cmd.Format), Column: cmd.Column, Country: cmd.Country})
		if err != nil {
			return err
		}
		defer list.Close()
		progress := newListProgress(t, cmd.Name, in)
		change, err := b.store.ImportFeed(ctx, cmd.feed(list.Report().Format, began), func() ([]feed.Entry, error) {
			entries, err := list.Next()
			progress.step(list.Report().Entries, err != nil)
			if errors.Is(err, io.EOF) {
				if wrong := tooMalformed(list.Report()); wrong != nil {
					err = wrong
				}
			}
			return entries, err
		})
		r := list.Report()
		for _, c := range r.First {
			fmt.Fprintf(t.err, "line %d: %q %s\n", c.Line, c.Text, c.Reason)
		}
		if err != nil {
			return err
		}
		return cmd.print(t, r, change, time.Since(began))
	})
}

// feed is the list as it will be stored.
func (cmd *feedsImportCmd) feed(format feed.Format, now time.Time) store.Feed {
	f := store.Feed{
		Name: cmd.Name, Kind: feed.Kind(cmd.Kind), Category: cmd.Category, Source: sourceOf(cmd.From), Format: format, Licence: cmd.Licence,
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

func (cmd *feedsImportCmd) print(t *terminal, r feed.Report, change store.FeedChange, took time.Duration) error {
	if cmd.JSON {
		out := imported{
			Name: cmd.Name, Kind: feed.Kind(cmd.Kind), Format: r.Format, FeedChange: change, Items: r.Items, Malformed: r.Malformed,
			Passed: r.Passed, First: []malformedExample{}, Seconds: took.Round(time.Millisecond).Seconds(),
		}
		for _, c := range r.First {
			out.First = append(out.First, malformedExample(c))
		}
		return t.json(out)
	}
	t.printf("%s holds %d entries now: %d added, %d altered, %d removed.\n", cmd.Name, change.Entries, change.Added, change.Altered, change.Removed)
	t.printf("Read as %s in %s: %d items, %d malformed, %d passed over.\n", r.Format, took.Round(10*time.Millisecond), r.Items, r.Malformed, r.Passed)
	return nil
}

// Limits of fetching a list.
const (
	fetchTimeout  = 15 * time.Minute
	answerTimeout = 30 * time.Second
	fetchAtMost   = 1 << 30 // bytes, packed
	fetchHops     = 5
)

// listSource is a list that is read, and how far.
type listSource struct {
	in    io.Reader
	close func()
	size  int64 // bytes, -1 when it is not known
	read  atomic.Int64
}

func (s *listSource) Read(p []byte) (int, error) {
	n, err := s.in.Read(p)
	if s.read.Add(int64(n)) > fetchAtMost {
		return 0, fmt.Errorf("it is larger than %d MiB", fetchAtMost>>20)
	}
	return n, err
}

// openList opens a file, standard input, or what a URL names.
func openList(ctx context.Context, from string) (*listSource, error) {
	if from == "-" {
		return &listSource{in: os.Stdin, close: func() {}, size: -1}, nil
	}
	if strings.Contains(from, "://") {
		return fetchList(ctx, from)
	}
	file, err := os.Open(from)
	if err != nil {
		return nil, err
	}
	s := &listSource{in: file, close: func() { _ = file.Close() }, size: -1}
	if info, err := file.Stat(); err == nil && info.Mode().IsRegular() {
		s.size = info.Size()
	}
	return s, nil
}

func fetchList(ctx context.Context, from string) (*listSource, error) {
	at, err := url.Parse(from)
	if err != nil {
		return nil, errors.New("fetching list: it is not a URL")
	}
	if err := safeToFetch(at); err != nil {
		return nil, fmt.Errorf("fetching list: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.ResponseHeaderTimeout = answerTimeout
	client := &http.Client{Transport: transport, CheckRedirect: func(r *http.Request, via []*http.Request) error {
		if len(via) > fetchHops {
			return errors.New("it leads from one address to the next")
		}
		return safeToFetch(r.URL)
	}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, from, nil)
	if err != nil {
		cancel()
		return nil, fmt.Errorf("fetching list: %w", err)
	}
	request.Header.Set("User-Agent", "assay/"+version)
	response, err := client.Do(request) //nolint:bodyclose // whoever reads the list closes it
	if err != nil {
		cancel()
		return nil, fmt.Errorf("fetching list: %w", redacted(err))
	}
	s := &listSource{in: response.Body, size: response.ContentLength, close: func() { _ = response.Body.Close(); cancel() }}
	if response.StatusCode != http.StatusOK {
		s.close()
		return nil, fmt.Errorf("fetching list: the server answers %s", response.Status)
	}
	return s, nil
}

// redacted is a client's error without the URL, which may hold a key.
func redacted(err error) error {
	var failed *url.Error
	if errors.As(err, &failed) {
		return failed.Err
	}
	return err
}

// safeToFetch wants https, since who can alter a list on its way decides what is blocked; on this machine http will do.
func safeToFetch(at *url.URL) error {
	addr := net.ParseIP(at.Hostname())
	switch {
	case at.Scheme == "https", at.Scheme == "http" && (at.Hostname() == "localhost" || addr.IsLoopback()):
		return nil
	case at.Scheme == "http":
		return errors.New("http lets others alter the list on its way: use https, or fetch it yourself and import the file")
	}
	return fmt.Errorf("it cannot be fetched by %q, only by https", at.Scheme)
}

// sourceOf is what is remembered of where a list came from: no user, password or query, which may hold a key.
func sourceOf(from string) string {
	at, err := url.Parse(from)
	if err != nil || !strings.Contains(from, "://") {
		return from
	}
	return (&url.URL{Scheme: at.Scheme, Host: at.Host, Path: at.Path}).String()
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

func (p *listProgress) step(entries int64, last bool) {
	every := 5 * time.Second
	if p.terminal {
		every = 200 * time.Millisecond
	}
	if time.Since(p.shown) < every && !last {
		return
	}
	p.shown = time.Now()
	of := ""
	if p.source.size > 0 {
		of = fmt.Sprintf(" of %.1f", float64(p.source.size)/(1<<20))
	}
	line := fmt.Sprintf("reading %s: %.1f%s MiB, %d entries", p.name, float64(p.source.read.Load())/(1<<20), of, entries)
	switch {
	case last && p.terminal:
		fmt.Fprintf(p.t.err, "\r\033[K%s; storing ...\n", line)
	case last:
		fmt.Fprintf(p.t.err, "%s; storing ...\n", line)
	case p.terminal:
		fmt.Fprintf(p.t.err, "\r\033[K%s", line)
	default:
		fmt.Fprintln(p.t.err, line)
	}
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
				f.Name, string(f.Kind), f.Category, strconv.Itoa(f.Entries), f.ImportedAt.UTC().Format(time.DateTime), expires, f.Licence, f.Source,
			}
		}
		return t.table([]string{"LIST", "KIND", "CATEGORY", "ENTRIES", "IMPORTED (UTC)", "EXPIRES (UTC)", "LICENCE", "SOURCE"}, rows)
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
