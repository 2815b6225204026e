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
	n := used + int(math.Round(rest))
	return &n
}

// Day is how many checks an account made on a day (UTC), by verdict.
type Day struct {
	Date                 time.Time
	Allow, Review, Block int
}

const day = 24 * time.Hour

// Days sums counts for each of n days from the first one, days without checks included.
func Days(counts []Count, first time.Time, n int) []Day {
	days := make([]Day, n)
	for i := range days {
		days[i].Date = first.AddDate(0, 0, i)
	}
	for _, c := range counts {
		date, err := time.Parse(time.DateOnly, c.Date)
		i := int(math.Floor(date.Sub(first).Hours() / 24))
		if err != nil || i < 0 || i >= n {
			continue // the clocks of two hosts differ
		}
		switch check.Verdict(c.Verdict) {
		case check.Allow:
			days[i].Allow += c.Checks
		case check.Review:
			days[i].Review += c.Checks
		case check.Block:
			days[i].Block += c.Checks
		}
	}
	return days
}
