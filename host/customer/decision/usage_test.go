package decision

import (
	"fmt"
	"testing"
	"time"

	"assay/registry/expect"
)

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
	last := time.Date(2026, 12, 31, 23, 59, 59, 0, time.UTC)
	n := Forecast(5, []Count{count("2026-12-24", 700)}, last)
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
