package decision

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"assay/host/check"
	"assay/host/entity"
	"assay/registry/expect"
)

// listed is a list of checks, newest first, whose pages are short. The page after broken fails.
type listed struct {
	checks       []Check
	size, broken int
}

func (l listed) SearchChecks(ctx context.Context, _ check.Caller, q Query) (*Page, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	from := 0
	if q.After != (Cursor{}) {
		from = 1 + slices.IndexFunc(l.checks, func(c Check) bool { return c.Ref == q.After.Ref })
	}
	if l.broken > 0 && from >= l.broken {
		return nil, errors.New("the database is down")
	}
	until := min(from+l.size, len(l.checks))
	page := &Page{Checks: l.checks[from:until]}
	if until < len(l.checks) {
		page.Next = new(Cursor{time.Unix(0, 0), l.checks[until-1].Ref}.String())
	}
	return page, nil
}

func checksOf(n int) []Check {
	checks := make([]Check, n)
	for i := range checks {
		checks[i] = Check{Ref: fmt.Sprintf("chk_%026d", i), Timestamp: "2026-01-15T10:30:00.123Z", Type: "email",
			Score: i, Verdict: "allow", Key: "key_1", Revision: 7, Overridden: i == 1}
	}
	return checks
}

func TestExport(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1, 4, 5, 13} {
		t.Run(fmt.Sprintf("%d checks", n), func(t *testing.T) {
			t.Parallel()
			want, pages := checksOf(n), 0
			read := func(f Format) []byte {
				ctx, end := context.WithCancel(t.Context())
				count := func() { pages++ }
				e := expect.Value(NewExport(ctx, listed{checks: want, size: 4}, check.Caller{}, Query{}, f, count))(t)
				defer e.Close()
				end() // as the request's context ends before the body is sent
				return expect.Value(io.ReadAll(iotest.OneByteReader(e)))(t)
			}
			var document struct {
				Checks []Check
				Total  int
			}
			err := json.Unmarshal(read(JSON), &document)
			expect.That(t, err == nil && document.Total == n && slices.Equal(document.Checks, want), "%+v, %v",
				document, err)
			lines, err := csv.NewReader(strings.NewReader(string(read(CSV)))).ReadAll()
			expect.Must(t, err == nil && len(lines) == n+1 && len(lines[0]) == 8, "%d lines, %v", len(lines), err)
			const second = "chk_00000000000000000000000001 2026-01-15T10:30:00.123Z email 1 allow key_1 7 true"
			if n > 1 {
				expect.Equal(t, "a line", strings.Join(lines[2], " "), second)
			}
			further := max(0, n-1) / 4 * 2
			expect.That(t, pages == further, "paced %d times, want %d", pages, further)
		})
	}
}

func TestBrokenExport(t *testing.T) {
	t.Parallel()
	all := listed{checks: checksOf(10), size: 4, broken: 4}
	e := expect.Value(NewExport(t.Context(), all, check.Caller{}, Query{}, JSON, func() {}))(t)
	defer e.Close()
	text, err := io.ReadAll(e)
	expect.That(t, err != nil && !json.Valid(text), "a part of an export reads as a whole one: %v, %s", err, text)
	all.broken = 0
	e = expect.Value(NewExport(t.Context(), all, check.Caller{}, Query{}, CSV, func() {}))(t)
	e.Close()
	expect.Error(t, "a closed export reads on", expect.ErrorOf(io.ReadAll(e)), context.Canceled)
	expect.Failure(t, expect.ErrorOf(NewExport(expect.Ended(t), all, check.Caller{}, Query{}, CSV, func() {})),
		"an export began although its first page could not be read")
	var invalid *entity.InvalidError
	_, err = ParseFormat("xml")
	expect.That(t, errors.As(err, &invalid) && invalid.Field == "format", "format xml: %v", err)
}

func TestSelected(t *testing.T) {
	t.Parallel()
	counts := []Count{{"2026-01-01", "a", "domain", "allow", 1}, {"2026-01-02", "a", "email", "block", 2},
		{"2026-01-02", "b", "email", "allow", 4}}
	for name, test := range map[string]struct {
		q    Query
		want int
	}{"all": {Query{}, 7}, "verdict": {Query{Verdict: check.Allow}, 5}, "type": {Query{Type: entity.Email}, 6},
		"key": {Query{Key: "a"}, 3}, "all three": {Query{Verdict: check.Allow, Type: entity.Email, Key: "b"}, 4}} {
		expect.Equal(t, name, test.q.Selected(counts), test.want)
	}
}

func TestForecast(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC) // 10.5 days are left
	count := func(date string, checks int) Count { return Count{Date: date, Checks: checks} }
	for name, test := range map[string]struct {
		counts []Count
		want   int // -1: none
	}{
		"no checks":           {nil, -1},
		"only today":          {[]Count{count("2026-11-20", 50)}, -1},
		"one whole day":       {[]Count{count("2026-11-19", 50), count("2026-11-20", 9)}, -1},
		"two whole days":      {[]Count{count("2026-11-18", 10), count("2026-11-19", 30)}, 100 + 210},
		"a quiet yesterday":   {[]Count{count("2026-11-18", 10)}, 100 + 53},
		"a week":              {[]Count{count("2026-11-13", 7), count("2026-11-19", 7)}, 100 + 21},
		"older days":          {[]Count{count("2026-11-12", 9999), count("2026-11-13", 14)}, 100 + 21},
		"keys and types":      {[]Count{count("2026-11-13", 7), count("2026-11-13", 7)}, 100 + 21},
		"clocks that differ":  {[]Count{count("2026-11-21", 70), count("2026-11-13", 14)}, 100 + 21},
		"nothing but zeros":   {[]Count{count("2026-11-13", 0)}, 100},
		"an unreadable count": {[]Count{count("yesterday", 70)}, -1},
	} {
		got := -1
		if n := Forecast(100, test.counts, noon); n != nil {
			got = *n
		}
		expect.Equal(t, name+": forecast", got, test.want)
	}
	n := Forecast(5, []Count{count("2026-12-24", 700)}, time.Date(2026, 12, 31, 23, 59, 59, 0, time.UTC))
	expect.That(t, n != nil && *n == 5, "in the last second of the year: %v, want 5", n)
}

func TestSpans(t *testing.T) {
	t.Parallel()
	first := time.Date(2026, 2, 28, 0, 0, 0, 0, time.UTC)
	got := Spans([]Count{{"2026-02-28", "a", "domain", "allow", 2}, {"2026-02-28", "b", "email", "allow", 3},
		{"2026-03-01", "a", "domain", "review", 1}, {"2026-03-01", "a", "iban", "block", 4},
		{"2026-02-27", "a", "domain", "allow", 9}, {"2026-03-03", "a", "domain", "allow", 9}}, first, Daily, 3)
	expect.Equal(t, "days", fmt.Sprint(got), "[2026-02-28 2026-03-01 2026-03-02]")
	expect.Equal(t, "checks", fmt.Sprint(got[0].Allow, got[1].Review, got[1].Block, got[2].Checks()), "5 1 4 0")
	got = Spans([]Count{{"2026-02-28 23:00", "a", "domain", "allow", 2}, {"2026-03-01 00:00", "a", "iban", "block", 4}},
		first.Add(23*time.Hour), Hourly, 2)
	expect.Equal(t, "hours", fmt.Sprint(got), "[2026-02-28 23:00 2026-03-01 00:00]")
	expect.Equal(t, "checks", fmt.Sprint(got[0].Allow, got[1].Block), "2 4")
}
