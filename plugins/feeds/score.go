package main

import (
	"strconv"
	"strings"

	"assay/plugins/internal/quote"
	"assay/sdk"
)

// The points of each signal. Only a listing of the exact entity on an up-to-date list is final: nothing clears it. The
// others ask for a review, and two lists that agree block. A name below a listed one was not listed itself, and lists
// of pages include hacked sites of honest owners.
const (
	pointsExact   = 100
	pointsReview  = 25 // expired, disputed, mail domain, parent or disposable
	pointsPage    = 12
	pointsAnother = 4 // for each further list
	maxAnother    = 2 // further lists that count
)

// listing describes the best match of the entity on a list.
type listing struct {
	points           int
	code             string
	lead             string // before the names of the lists
	as, named, after string // the threat and the text after it
}

// Score scores an entity by the lists that contain it, from the feed.* facts.
func Score(c *sdk.Check) sdk.Outcome {
	lists := c.Get(sdk.FeedListed)
	if lists == "" {
		return sdk.Scored
	}
	l := match(c)
	category := sdk.Threat(c.Get(sdk.FeedCategory))
	switch {
	case category == sdk.Disposable:
		l = listing{points: pointsReview, code: signalListedDisposable,
			lead: "Mail domain listed as disposable by "}
	case category.Published():
		l.as, l.named = " as ", strings.ReplaceAll(string(category), "_", " ")
	}
	if category.Published() {
		c.Threat(category)
	}
	since, days, unit := "", "", ""
	if n, _ := c.Count(sdk.FeedDays); n > 0 && n < 100_000 {
		since, days, unit = " for ", strconv.Itoa(n), " days"
		if n == 1 {
			unit = " day"
		}
	}
	c.Signal(l.points, l.code, sdk.Join(l.lead, quote.Of(lists), l.as, l.named, since, days, unit, l.after))
	if n, _ := c.Count(sdk.FeedLists); n > 1 {
		c.Signal(pointsAnother*min(n-1, maxAnother), signalListedSeveral,
			sdk.Join("Named by ", strconv.Itoa(n), " lists"))
	}
	return sdk.Scored
}

// match returns the listing that the facts describe, without its threat. Unless the host says that a list is up to
// date, the listing is not final.
func match(c *sdk.Check) listing {
	switch c.Get(sdk.FeedMatch) {
	case "mail_domain":
		return listing{points: pointsReview, code: signalListedMailDomain, lead: "Mail domain listed by "}
	case "parent":
		return listing{points: pointsReview, code: signalListedParent, lead: "Belongs to a domain listed by "}
	case "page":
		return listing{points: pointsPage, code: signalListedPage, lead: "Has pages listed by "}
	}
	switch {
	case c.Get(sdk.FeedGoodMatch) == "exact":
		return listing{points: pointsReview, code: signalListedDisputed, lead: "Listed by ",
			after: sdk.Join(", but good according to ", quote.Of(c.Get(sdk.FeedGood)))}
	case !c.Is(sdk.FeedFresh):
		return listing{points: pointsReview, code: signalListedExpired, lead: "Listed by ",
			after: ", but the list is out of date"}
	}
	return listing{points: pointsExact, code: signalListedExact, lead: "Listed by "}
}
