package main

import (
	"strconv"
	"strings"

	"assay/plugins/internal/quote"
	"assay/sdk"
)

// The points of each signal. They add up to the layer's score, 0 to 100; the lineup's weight and bias decide which
// scores reach review or block (TestVerdicts). One list asks for a review, and two lists that agree block. A name under
// a listed one was not listed itself, and lists of pages include hacked sites of honest owners, so these count less.
const (
	pointsExact      = 75
	pointsMailDomain = 70
	pointsParent     = 55
	pointsPage       = 25
	pointsAnother    = 12  // for each further list
	maxAnother       = 2   // further lists that count
	pointsDisposable = 60  // at most, for an entity listed as disposable
	pointsGood       = -45 // it is also on a list of good entities, so one of the two is wrong
)

// Score scores an entity by the lists that contain it, from the feed.* facts.
func Score(c *sdk.Check) sdk.Outcome {
	lists := c.Get("feed.listed")
	if lists == "" {
		return sdk.Scored
	}
	points, code, lead := pointsExact, "feeds:listed:exact", "listed by "
	category := sdk.Threat(c.Get("feed.category"))
	switch c.Get("feed.match") {
	case "mail_domain":
		points, code, lead = pointsMailDomain, "feeds:listed:mail_domain", "the domain of the address is listed by "
	case "parent":
		points, code, lead = pointsParent, "feeds:listed:parent", "a domain that it lies under is listed by "
	case "page":
		points, code, lead = pointsPage, "feeds:listed:page", "pages on this host are listed by "
	}
	as, named := "", ""
	if category.Published() {
		as, named = " as ", strings.ReplaceAll(string(category), "_", " ")
		c.Threat(category)
	}
	since, days, unit := "", "", ""
	if n, _ := c.Count("feed.days"); n > 0 && n < 100_000 {
		since, days, unit = ", for ", strconv.Itoa(n), " days"
	}
	if category == sdk.Disposable {
		points = min(points, pointsDisposable)
	}
	c.Signal(points, code, sdk.Join(lead, quote.Of(lists), as, named, since, days, unit))
	if n, _ := c.Count("feed.lists"); n > 1 {
		c.Signal(pointsAnother*min(n-1, maxAnother), "feeds:listed:several",
			sdk.Join(strconv.Itoa(n), " lists hold it"))
	}
	if good := c.Get("feed.good"); good != "" && (c.Get("feed.good_match") == "exact" || code != "feeds:listed:exact") {
		c.Signal(pointsGood, "feeds:good:listed", sdk.Join("known as good to ", quote.Of(good), " all the same"))
	}
	return sdk.Scored
}
