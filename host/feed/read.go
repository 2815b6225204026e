package feed

import (
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
)

// Limits of what is read. A list within them needs a bounded amount of memory, however it is made.
const (
	maxLine  = 64 << 10 // bytes; what is longer counts as malformed
	maxBytes = 4 << 30  // of the list, unpacked
	shown    = 5        // complaints that are kept
	echoed   = 60       // bytes of a line that a complaint repeats
	perChunk = 2000     // items that one worker normalises at a time
)

// Options say how to read a list.
type Options struct {
	Format Format // "" is Auto
	// CSV: the name of the column or its number from 1; JSON: the member's name. "" finds one by its name
	Column  string
	Country string           // how phone numbers in national format are read; "" refuses them
	Now     func() time.Time // for indicators that have ended; nil is the system's clock
}

// Complaint is why a line, or an item of a document without lines, was not read.
type Complaint struct {
	Line   int64 // from 1; of JSON documents the number of the item
	Text   string
	Reason string
}

// Report is how reading went.
type Report struct {
	Format    Format
	Items     int64 // that the list holds, comments and empty lines left out
	Entries   int64 // of them that were read; the same one may be listed more than once
	Malformed int64
	// over: revoked, expired, not meant as an indicator, or of what cannot be checked, such as IP addresses
	Passed int64
	First  []Complaint // the first that were malformed
}

// Reader reads the entries of one list. Its methods must be called by one goroutine.
type Reader struct {
	cancel context.CancelFunc
	out    chan chunk
	done   sync.WaitGroup
	err    error // why reading ended; written before out is closed
	report Report
	ctx    context.Context
}

// item is what a format found in one place of a list, not normalised yet.
type item struct {
	line     int64
	text     string
	kind     entity.Type // "" to be guessed
	category string
	skip     bool   // to be passed over
	reason   string // why it is malformed; "" when it is not
}

// chunk is a number of items on their way through a worker.
type chunk struct {
	items      []item
	entries    []Entry
	complaints []Complaint
	malformed  int64
	passed     int64
}

// Open begins to read a list, packed by gzip or not. Close must be called.
func Open(ctx context.Context, in io.Reader, o Options) (*Reader, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	plain, err := unpack(in)
	if err != nil {
		return nil, err
	}
	text := bufio.NewReaderSize(&limited{in: plain, left: maxBytes}, maxLine)
	if head, err := text.Peek(3); err == nil && string(head) == "\ufeff" {
		_, _ = text.Discard(3)
	}
	if o.Format == "" || o.Format == Auto {
		o.Format = detect(text)
	}
	read, ok := map[Format]func(*bufio.Reader, Options, func(item) error) error{
		Hosts: readHosts, Plain: readPlain, CSV: readCSV, JSON: readJSON, MISP: readMISP, STIX: readSTIX,
	}[o.Format]
	if !ok {
		return nil, fmt.Errorf("reading list: there is no format %q", o.Format)
	}
	r := &Reader{out: make(chan chunk, runtime.GOMAXPROCS(0)), report: Report{Format: o.Format}}
	r.ctx, r.cancel = context.WithCancel(ctx)
	raw := make(chan chunk, runtime.GOMAXPROCS(0))
	r.done.Go(func() {
		defer close(raw)
		r.err = split(r.ctx, raw, func(take func(item) error) error { return read(text, o, take) })
	})
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
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

// split gathers items into chunks.
func split(ctx context.Context, raw chan<- chunk, read func(take func(item) error) error) error {
	var items []item
	send := func() error {
		select {
		case raw <- chunk{items: items}:
			items = make([]item, 0, perChunk)
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	err := read(func(i item) error {
		if items = append(items, i); len(items) == perChunk {
			return send()
		}
		return nil
	})
	if err == nil && len(items) > 0 {
		err = send()
	}
	return err
}

// Next returns more entries, in no order, or io.EOF after the last. Any other error means that the list could not be
// read to its end.
func (r *Reader) Next() ([]Entry, error) {
	for c := range r.out {
		r.report.Items += int64(len(c.items))
		r.report.Entries += int64(len(c.entries))
		r.report.Malformed += c.malformed
		r.report.Passed += c.passed
		r.report.First = append(r.report.First, c.complaints...)
		slices.SortFunc(r.report.First, func(a, b Complaint) int { return cmp.Compare(a.Line, b.Line) })
		r.report.First = r.report.First[:min(shown, len(r.report.First))]
		if len(c.entries) > 0 {
			return c.entries, nil
		}
	}
	// A worker drops what it has once the context ends, so half a list must not pass for a whole here either.
	if err := cmp.Or(r.err, r.ctx.Err()); err != nil {
		return nil, fmt.Errorf("reading list: %w", err)
	}
	return nil, io.EOF
}

// Report says how reading went so far.
func (r *Reader) Report() Report { return r.report }

// Close ends reading.
func (r *Reader) Close() {
	r.cancel()
	for range r.out { // so that no worker waits for somebody to take what it has
	}
	r.done.Wait()
}

// normalise reads the chunk's items as entities.
func (c *chunk) normalise(country string) {
	c.entries = make([]Entry, 0, len(c.items))
	for _, i := range c.items {
		switch e, err := i.entry(country); {
		case i.skip, errors.Is(err, errAddress):
			c.passed++
		case err == nil:
			c.entries = append(c.entries, e)
		default:
			c.malformed++
			if len(c.complaints) < shown {
				c.complaints = append(c.complaints, Complaint{i.line, clip(i.text), err.Error()})
			}
		}
	}
}

// errAddress means that an item is of an IP address. Lists that mix them with domains are read for the domains.
var errAddress = errors.New("is an IP address")

// entry reads one item as an entity.
func (i item) entry(country string) (Entry, error) {
	if i.skip {
		return Entry{}, nil
	}
	if i.reason != "" {
		return Entry{}, errors.New(i.reason)
	}
	text, page := strings.TrimSpace(i.text), false
	if i.kind == "" {
		// What is published "defanged", so that nobody follows it by mistake, is meant as it was.
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
		return Entry{}, errors.New("phone: is in national format, and no country was given")
	}
	out := Entry{Type: e.Type, Value: e.Value, Page: page, Category: Category(i.category)}
	switch e.Type {
	case entity.Domain:
		out.Name = e.Facts["domain.name"]
	case entity.Email:
		out.Name = e.Facts["email.user"]
	}
	return out, nil
}

// cutPage says whether a URL names a page and not a whole host: it has a path other than "/", or a query.
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

// isAddress knows IP addresses and networks, with a port or in a URL too.
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

// clip shortens a line for a complaint and makes it safe to print.
func clip(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == utf8.RuneError {
			return '?'
		}
		return r
	}, s)
	if len(s) <= echoed {
		return s
	}
	cut := echoed
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + "…"
}

// unpack undoes gzip where its mark is found.
func unpack(in io.Reader) (io.Reader, error) {
	b := bufio.NewReader(in)
	if head, _ := b.Peek(2); !bytes.Equal(head, []byte{0x1f, 0x8b}) {
		return b, nil
	}
	z, err := gzip.NewReader(b)
	if err != nil {
		return nil, fmt.Errorf("unpacking list: %w", err)
	}
	return z, nil
}

// limited fails, other than io.LimitReader, when there is more: half a list must not pass for a whole.
type limited struct {
	in   io.Reader
	left int64
}

var errTooLarge = fmt.Errorf("it is larger than %d GiB unpacked", maxBytes>>30)

func (l *limited) Read(p []byte) (int, error) {
	n, err := l.in.Read(p)
	if l.left -= int64(n); l.left < 0 {
		return 0, errTooLarge
	}
	return n, err
}
