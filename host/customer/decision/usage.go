package decision

import (
	"math"
	"time"

	"assay/host/check"
)

// Count is how many of an account's checks have the same day, key, type and verdict.
type Count struct {
	Date    string `json:"date"` // in UTC, such as 2026-01-31
	Key     string `json:"key"`  // the id of the API key
	Type    string `json:"type"`
	Verdict string `json:"verdict"`
	Checks  int    `json:"checks"`
}

// Usage is an account's use in a calendar month (UTC).
type Usage struct {
	Month    string  `json:"month"`    // such as 2026-01
	Quota    int     `json:"quota"`    // checks a month, as of today
	Used     int     `json:"used"`     // checks that count against the quota; erasures do not lower it
	Forecast *int    `json:"forecast"` // of Used at the end of the month, see [Forecast]
	Counts   []Count `json:"counts"`   // by day, key, type and verdict; without erased checks
}

// MonthFormat is the layout of a Usage's month.
const MonthFormat = "2006-01"

// ForecastDays is how many whole days before today a forecast extends into the rest of the month: a week, because
// weekends differ from working days.
const ForecastDays = 7

// Forecast returns how many checks will have been counted at the end of now's month if the rest of it is like the last
// whole days, given what was used so far and the counts of those days. It is nil if the first of them is less than two
// days before today.
func Forecast(used int, counts []Count, now time.Time) *int {
	now = now.UTC()
	today := now.Truncate(day)
	first, checks := today, 0
	for _, c := range counts {
		date, err := time.Parse(time.DateOnly, c.Date)
		if err != nil || date.Before(today.AddDate(0, 0, -ForecastDays)) || !date.Before(today) {
			continue
		}
		checks += c.Checks
		if date.Before(first) {
			first = date
		}
	}
	days := today.Sub(first) / day
	if days < 2 {
		return nil
	}
	end := time.Date(now.Year(), now.Month()+1, 1, 0, 0, 0, 0, time.UTC)
	rest := float64(checks) / float64(days) * end.Sub(now).Hours() / 24
	return new(used + int(math.Round(rest)))
}

// Span is how many checks an account made on a day or in an hour (UTC), by verdict.
type Span struct {
	Start                time.Time
	Unit                 Unit
	Allow, Review, Block int
}

// Checks returns the number of checks in the span.
func (s Span) Checks() int { return s.Allow + s.Review + s.Block }

func (s Span) String() string { return s.Start.UTC().Format(s.Unit.layout) }

// Unit is the length of a span.
type Unit struct {
	Name   string
	length time.Duration
	layout string // of Count.Date
}

// The units of spans.
var (
	Daily  = Unit{"day", 24 * time.Hour, time.DateOnly}
	Hourly = Unit{"hour", time.Hour, "2006-01-02 15:04"}
)

const day = 24 * time.Hour

// Spans sums counts for each of n days or hours from the first one, those without checks included.
func Spans(counts []Count, first time.Time, unit Unit, n int) []Span {
	spans := make([]Span, n)
	for i := range spans {
		spans[i] = Span{Start: first.Add(time.Duration(i) * unit.length), Unit: unit}
	}
	for _, c := range counts {
		start, err := time.Parse(unit.layout, c.Date)
		i := int(math.Floor(float64(start.Sub(first)) / float64(unit.length)))
		if err != nil || i < 0 || i >= n {
			continue // the clocks of two hosts differ
		}
		switch check.Verdict(c.Verdict) {
		case check.Allow:
			spans[i].Allow += c.Checks
		case check.Review:
			spans[i].Review += c.Checks
		case check.Block:
			spans[i].Block += c.Checks
		}
	}
	return spans
}
