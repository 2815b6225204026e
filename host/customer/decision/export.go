package decision

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"io"
	"strconv"
	"sync"
	"time"

	"assay/host/check"
	"assay/host/entity"
)

// Format is how an export is written.
type Format string

// The formats of an export.
const (
	CSV  Format = "csv"  // a line of names, then a line for each check (RFC 4180)
	JSON Format = "json" // one object with the checks and their number at the end
)

// Type returns the media type.
func (f Format) Type() string {
	if f == CSV {
		return "text/csv; charset=utf-8"
	}
	return "application/json"
}

// ParseFormat returns the format with a name. The error is an *entity.InvalidError.
func ParseFormat(name string) (Format, error) {
	if f := Format(name); f == CSV || f == JSON {
		return f, nil
	}
	return "", &entity.InvalidError{Field: "format", Reason: "must be csv or json"}
}

// exportTimeout is how long an export may take.
const exportTimeout = 10 * time.Minute

// Searcher lists checks by pages.
type Searcher interface {
	SearchChecks(ctx context.Context, c check.Caller, q Query) (*Page, error)
}

// Source reads an account's checks. CountChecks counts those from one instant until another, which is not included.
type Source interface {
	Searcher
	CountChecks(ctx context.Context, c check.Caller, from, until time.Time) ([]Count, error)
}

// Download begins an export that is sent as a file with some headers. closed is called once, when the export is closed
// or could not begin.
func Download(ctx context.Context, s Source, c check.Caller, q Query, f Format, paced, closed func()) (
	e *Export, header map[string]string, err error) {
	counts, err := s.CountChecks(ctx, c, q.From, q.Until)
	if err == nil {
		e, err = NewExport(ctx, s, c, q, f, paced)
	}
	if err != nil {
		closed()
		return nil, nil, err
	}
	e.closed = sync.OnceFunc(closed)
	return e, map[string]string{"X-Total-Count": strconv.Itoa(q.Selected(counts)), "Content-Type": f.Type(),
		"Content-Disposition": `attachment; filename="checks.` + string(f) + `"`}, nil
}

// Export is a stream of all checks that a query selects. It holds one page at a time. Its reader gets an error if a
// page cannot be read, so that a partial export cannot be mistaken for a complete one. Close it after use.
type Export struct {
	search func(context.Context, Query) (*Page, error)
	paced  func()
	closed func()
	query  Query
	format Format

	ctx     context.Context
	cancel  context.CancelFunc
	buffer  bytes.Buffer
	written int
	done    bool
}

// NewExport begins an export and reads its first page, so that a query that fails is an error before anything is sent.
// paced is called before each further page is read.
func NewExport(ctx context.Context, s Searcher, c check.Caller, q Query, f Format, paced func()) (*Export, error) {
	q.Limit = MaxSearched
	search := func(ctx context.Context, q Query) (*Page, error) { return s.SearchChecks(ctx, c, q) }
	page, err := search(ctx, q)
	if err != nil {
		return nil, err
	}
	// The request's own context ends before its body is sent.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), exportTimeout)
	e := &Export{search: search, paced: paced, query: q, format: f, ctx: ctx, cancel: cancel}
	if f == CSV {
		e.buffer.WriteString("ref,timestamp,type,score,verdict,key,revision,overridden\r\n")
	} else {
		e.buffer.WriteString(`{"checks":[`)
	}
	return e, e.add(page)
}

// Read implements io.Reader.
func (e *Export) Read(p []byte) (int, error) {
	for e.buffer.Len() == 0 {
		if e.done {
			return 0, io.EOF
		}
		e.paced()
		page, err := e.search(e.ctx, e.query)
		if err != nil {
			return 0, err
		}
		if err := e.add(page); err != nil {
			return 0, err
		}
	}
	return e.buffer.Read(p)
}

// Close ends the export.
func (e *Export) Close() error {
	e.cancel()
	if e.closed != nil {
		e.closed()
	}
	return nil
}

// add writes a page, and the end after the last one.
func (e *Export) add(page *Page) (err error) {
	lines := csv.NewWriter(&e.buffer)
	lines.UseCRLF = true
	for _, c := range page.Checks {
		if e.format == CSV { // no field holds text that a customer wrote, which a spreadsheet could take for a formula
			err = lines.Write([]string{c.Ref, c.Timestamp, c.Type, strconv.Itoa(c.Score), c.Verdict, c.Key,
				strconv.FormatInt(c.Revision, 10), strconv.FormatBool(c.Overridden)})
		} else {
			err = e.addObject(c)
		}
		if err != nil {
			return err
		}
		e.written++
	}
	lines.Flush()
	if page.Next != nil {
		e.query.After, err = ParseCursor(*page.Next)
		return err
	}
	e.done = true
	if e.format == JSON {
		e.buffer.WriteString("\n],\"total\":" + strconv.Itoa(e.written) + "}\n")
	}
	return nil
}

func (e *Export) addObject(c Check) error {
	if e.written > 0 {
		e.buffer.WriteByte(',')
	}
	e.buffer.WriteByte('\n')
	object, err := json.Marshal(c)
	e.buffer.Write(object)
	return err
}

// Selected returns how many of the counted checks a query selects. It ignores times and values.
func (q Query) Selected(counts []Count) (n int) {
	for _, c := range counts {
		if (q.Verdict == "" || string(q.Verdict) == c.Verdict) && (q.Type == "" || string(q.Type) == c.Type) &&
			(q.Key == "" || q.Key == c.Key) {
			n += c.Checks
		}
	}
	return n
}
