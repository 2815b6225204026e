package main

import (
	"strconv"

	"assay/plugins/internal/quote"
	"assay/sdk"
)

// step gives points to numbers of at least from.
type step struct{ from, points int }

// The points are a judgement, because no labelled data says when its entities were checked. They are small, and follow
// the simulated replay in the test. Bursts count only for entities that customers do not know yet, because popular
// entities are checked all the time.
var (
	hourly  = [...]step{{200, 30}, {50, 20}, {20, 10}} // checks of a new entity by all customers, within an hour
	daily   = [...]step{{100, 10}}                     // the same within a day
	repeats = [...]step{{30, 10}, {10, 5}}             // checks by the caller's account within an hour
)

const (
	newDays     = 7  // days since the third customer first checked the entity
	knownDays   = 30 // days since the caller's account first checked it
	quietChecks = 2  // at most, within a day
	pointsKnown = -5
)

// Score scores an entity by the history.* facts.
func Score(c *sdk.Check) sdk.Outcome {
	if seen, met := c.Count(sdk.HistorySeen24h); met {
		if days, known := c.Count(sdk.HistoryFirstSeenDays); known && days < newDays {
			scoreBurst(c, seen, days)
		}
	}
	if days, met := c.Count(sdk.HistoryOwnFirstSeenDays); met {
		scoreOwn(c, days)
	}
	return sdk.Scored
}

// points returns the points of the first of steps that n reaches.
func points(steps []step, n int) int {
	for _, s := range steps {
		if n >= s.from {
			return s.points
		}
	}
	return 0
}

// scoreBurst scores many checks of an entity that is new to the customers.
func scoreBurst(c *sdk.Check, daySeen, days int) {
	hourSeen, _ := c.Count(sdk.HistorySeen1h)
	worth, seen, text := points(hourly[:], hourSeen), hourSeen, &burst
	if worth == 0 {
		worth, seen, text = points(daily[:], daySeen), daySeen, &busyDay
	}
	if worth > 0 {
		c.Signal(worth, text.code, quote.Fill(text.own, strconv.Itoa(seen), strconv.Itoa(days)))
	}
}

// scoreOwn scores the checks by the caller's own account.
func scoreOwn(c *sdk.Check, days int) {
	hour, _ := c.Count(sdk.HistoryOwnSeen1h)
	day, counted := c.Count(sdk.HistoryOwnSeen24h)
	if worth := points(repeats[:], hour); worth > 0 {
		c.Signal(worth, repeated.code, quote.Fill(repeated.own, strconv.Itoa(hour)))
	} else if counted && day <= quietChecks && days >= knownDays {
		c.Signal(pointsKnown, known.code, quote.Fill(known.own, strconv.Itoa(days)))
	}
}
