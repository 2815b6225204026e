package feed

import (
	"archive/zip"
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"assay/host/entity"
	"assay/registry/fault"
)

// Limits of reading. They bound the memory that any list can use.
const (
	maxLine        = 64 << 10 // bytes; longer lines are malformed
	maxBytes       = 4 << 30  // of an uncompressed list
	maxZIP         = 64 << 20 // of a ZIP file, which is held in memory
	maxExamples    = 5        // malformed items in a report
	maxExampleText = 60       // bytes of a malformed item in a report
	chunkItems     = 2000     // items that a worker normalises at a time
	chunkBytes     = 1 << 20  // of their texts
)

// Options configures reading.
type Options struct {
	Format Format // "" means Auto
	// Column selects the entities: in CSV by the column's name or its number, starting at 1, in JSON by the member's
	// name. If it is empty, a column or member with a usual name is selected.
	Column   string
	MaxBytes int64            // uncompressed; 0 means 4 GiB
	Workers  int              // goroutines that normalise items; 0 means one per processor
	Ranked   bool             // read the rank of each domain; the list must be CSV
	Country  string           // ISO 3166-1 code for phone numbers in national format; without it they are malformed
	Now      func() time.Time // decides which indicators have expired; nil means time.Now
}

// MalformedItem is a line, or an item of a JSON document, that could not be read.
type MalformedItem struct {
	Line   int64  `json:"line"` // starting at 1; in JSON documents the number of the item
	Text   string `json:"text"`
	Reason string `json:"reason"` // a predicate, such as "has no host name"
}

// Report summarises reading. Items is the sum of Entries, Malformed and Skipped.
type Report struct {
	Format    Format
	Items     int64 // without comments and empty lines
	Entries   int64 // including duplicates
	Malformed int64
	Skipped   int64           // revoked, expired, not meant for detection, or not an entity, such as an IP address
	Examples  []MalformedItem // the first malformed items
}

// Misread returns an error if more than half of the items are malformed: the list is probably in another format, or is
// an error page.
func (r Report) Misread() error {
	if r.Malformed*2 <= r.Items {
		return nil
	}
	return fmt.Errorf("%d of the %d items could not be read as format %s, so nothing was changed: "+
		"see --format and --column", r.Malformed, r.Items, r.Format)
}

// Reader reads the entries of one list. It is not safe for concurrent use.
type Reader struct {
	cancel context.CancelFunc
	out    chan chunk
	done   sync.WaitGroup
	err    error // set before out is closed
	report Report
	ctx    context.Context
}

// item is an item of a list before normalisation.
type item struct {
	line      int64
	text      string
	kind      entity.Type // "" if unknown
	category  string
	rank      int32
	skip      bool
	malformed string // the reason, or ""
}

// chunk is a batch of items, with the entries and errors that a worker derived from them.
type chunk struct {
	items     []item
	entries   []Entry
	examples  []MalformedItem
	malformed int64
	skipped   int64
}

// Open starts to read a list, which may be compressed with gzip or be the only file in a ZIP file. The caller must call
// Close.
func Open(ctx context.Context, in io.Reader, o Options) (*Reader, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	plain, err := unpack(in)
	if err != nil {
		return nil, err
	}
	text := bufio.NewReaderSize(&limitedReader{in: plain, left: cmp.Or(o.MaxBytes, maxBytes)}, maxLine)
	if head, err := text.Peek(3); err == nil && string(head) == "\ufeff" {
		_, _ = text.Discard(3)
	}
	if o.Format == "" || o.Format == Auto {
		o.Format = detect(text)
	}
	if o.Ranked && o.Format != CSV {
		return nil, fmt.Errorf("reading list: a ranked list must be CSV with ranks and domains, not %s", o.Format)
	}
	if o.Column != "" && o.Format != CSV && o.Format != JSON {
		return nil, fmt.Errorf("column: a list of format %s has no columns", o.Format)
	}
	read, ok := map[Format]func(*bufio.Reader, Options, func(item) error) error{
		Hosts: readHosts, Plain: readPlain, CSV: readCSV, JSON: readJSON, MISP: readMISP, STIX: readSTIX,
	}[o.Format]
	if !ok {
		return nil, fmt.Errorf("reading list: unknown format %q", o.Format)
	}
	r := &Reader{out: make(chan chunk, runtime.GOMAXPROCS(0)), report: Report{Format: o.Format}}
	r.ctx, r.cancel = context.WithCancel(ctx)
	raw := make(chan chunk, runtime.GOMAXPROCS(0))
	r.done.Go(func() {
		defer close(raw)
		r.err = sendChunks(r.ctx, raw, func(take func(item) error) error { return read(text, o, take) })
	})
	var workers sync.WaitGroup
	for range cmp.Or(o.Workers, runtime.GOMAXPROCS(0)) {
		workers.Go(func() {
			for c := range raw {
				c.normalise(o.Country)
				select {
				case r.out <- c:
				case <-r.ctx.Done():
				}
			}
		})
	}
	r.done.Go(func() {
		workers.Wait()
		close(r.out)
	})
	return r, nil
}

// sendChunks groups items into chunks and sends them to the workers.
func sendChunks(ctx context.Context, raw chan<- chunk, read func(take func(item) error) error) error {
	var items []item
	size := 0
	send := func() error {
		select {
		case raw <- chunk{items: items}:
			items, size = make([]item, 0, chunkItems), 0
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	err := read(func(i item) error {
		size += len(i.text) + len(i.category)
		if items = append(items, i); len(items) == chunkItems || size > chunkBytes {
			return send()
		}
		return nil
	})
	if err == nil && len(items) > 0 {
		err = send()
	}
	return err
}

// Next returns the next entries, in no particular order, and io.EOF after the last. Any other error means that the list
// could not be read completely.
func (r *Reader) Next() ([]Entry, error) {
	for c := range r.out {
		r.report.Items += int64(len(c.items))
		r.report.Entries += int64(len(c.entries))
		r.report.Malformed += c.malformed
		r.report.Skipped += c.skipped
		r.report.Examples = append(r.report.Examples, c.examples...)
		slices.SortFunc(r.report.Examples, func(a, b MalformedItem) int { return cmp.Compare(a.Line, b.Line) })
		r.report.Examples = r.report.Examples[:min(maxExamples, len(r.report.Examples))]
		if len(c.entries) > 0 {
			return c.entries, nil
		}
	}
	// Workers drop chunks once the context ends, so the list may be incomplete even if reading it succeeded.
	if err := cmp.Or(r.err, r.ctx.Err()); err != nil {
		return nil, fmt.Errorf("reading list: %w", err)
	}
	return nil, io.EOF
}

// Report returns the report on the part read so far.
func (r *Reader) Report() Report { return r.report }

// Close stops reading and waits for the goroutines to end.
func (r *Reader) Close() {
	r.cancel()
	for range r.out { // unblocks workers
	}
	r.done.Wait()
}

// normalise converts the items of the chunk to entries.
func (c *chunk) normalise(country string) {
	c.entries = make([]Entry, 0, len(c.items))
	for _, i := range c.items {
		switch e, err := i.entry(country); {
		case i.skip, errors.Is(err, errAddress):
			c.skipped++
		case err == nil:
			c.entries = append(c.entries, e)
		default:
			c.malformed++
			if len(c.examples) < maxExamples {
				c.examples = append(c.examples, MalformedItem{i.line, clip(i.text), err.Error()})
			}
		}
	}
}

// errAddress means that an item is an IP address. Many lists mix them with domains.
var errAddress = errors.New("is an IP address")

// entry converts an item to an entry.
func (i item) entry(country string) (Entry, error) {
	if i.skip {
		return Entry{}, nil
	}
	if i.malformed != "" {
		return Entry{}, errors.New(i.malformed)
	}
	text, page := strings.TrimSpace(i.text), false
	if i.kind == "" {
		// Undo "defanging", which keeps readers of a list from following a link by mistake.
		text = strings.NewReplacer("[.]", ".", "[:]", ":", "hxxp", "http", "[@]", "@").Replace(text)
	}
	if isAddress(text) {
		return Entry{}, errAddress
	}
	if i.kind == "" {
		i.kind = entity.Guess(text)
	}
	if i.kind == entity.Domain {
		text, page = cutPage(text)
		text = strings.TrimPrefix(strings.TrimPrefix(text, "*."), ".")
	}
	e, err := entity.Parse(i.kind, text, country)
	if err != nil {
		return Entry{}, err
	}
	if e.Type == entity.Phone && country == "" && e.Facts["phone.assumed"] == "yes" {
		return Entry{}, errors.New("phone: is in national format, but no country was given")
	}
	out := Entry{Type: e.Type, Value: e.Value, Page: page, Category: Category(i.category), Rank: i.rank}
	switch e.Type {
	case entity.Domain:
		out.Name = e.Facts["domain.name"]
	case entity.Email:
		out.Name = e.Facts["email.user"]
	}
	return out, nil
}

// cutPage cuts path, query and fragment off a URL. It reports whether the URL is a page rather than a whole host.
func cutPage(text string) (host string, page bool) {
	start := 0
	if at := strings.Index(text, "://"); at >= 0 {
		start = at + 3
	}
	end := strings.IndexAny(text[start:], "/?#")
	if end < 0 {
		return text, false
	}
	rest := text[start+end:]
	return text[:start+end], rest != "/" && rest != "#"
}

// isAddress reports whether text is an IP address or network, including one with a port or in a URL.
func isAddress(text string) bool {
	if _, rest, found := strings.Cut(text, "://"); found {
		text = rest
		if end := strings.IndexAny(text, "/?#"); end >= 0 {
			text = text[:end]
		}
	}
	if _, err := netip.ParsePrefix(text); err == nil {
		return true
	}
	if _, err := netip.ParseAddrPort(text); err == nil {
		return true
	}
	_, err := netip.ParseAddr(strings.Trim(text, "[]"))
	return err == nil
}

// clip shortens text for a report and replaces characters that are unsafe to print.
func clip(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == utf8.RuneError {
			return '?'
		}
		return r
	}, s)
	if len(s) <= maxExampleText {
		return s
	}
	return strings.ToValidUTF8(s[:maxExampleText], "") + "…"
}

// unpack decompresses input that begins with the magic number of gzip (RFC 1952) or of a ZIP file.
func unpack(in io.Reader) (io.Reader, error) {
	b := bufio.NewReader(in)
	head, _ := b.Peek(4)
	var out io.Reader = b
	var err error
	switch {
	case bytes.HasPrefix(head, []byte{0x1f, 0x8b}):
		out, err = gzip.NewReader(b)
	case bytes.HasPrefix(head, []byte("PK\x03\x04")):
		out, err = unzip(b)
	}
	return out, fault.Wrap(err, "unpacking list")
}

// unzip opens the only file in a ZIP file, which it reads into memory: the directory is at the end.
func unzip(in io.Reader) (io.Reader, error) {
	data, err := io.ReadAll(io.LimitReader(in, maxZIP+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxZIP {
		return nil, fmt.Errorf("the ZIP file is larger than %d MiB", maxZIP>>20)
	}
	archive, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return nil, err
	}
	if len(archive.File) != 1 {
		return nil, fmt.Errorf("the ZIP file contains %d files instead of one", len(archive.File))
	}
	return archive.File[0].Open()
}

// limitedReader fails when the limit is exceeded. io.LimitReader would report io.EOF, as if the list were complete.
type limitedReader struct {
	in   io.Reader
	left int64
}

var errTooLarge = errors.New("the list is too large when uncompressed")

func (l *limitedReader) Read(p []byte) (int, error) {
	n, err := l.in.Read(p)
	if l.left -= int64(n); l.left < 0 {
		return 0, errTooLarge
	}
	return n, err
}
