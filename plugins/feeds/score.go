package main

import (
	"strconv"
	"strings"

	"assay/plugins/internal/quote"
	"assay/sdk"
)

// The points of each signal. At the layer's default weight, and a bias of -4, 70 points block by themselves and 52 ask
// for a review: an operator who imports a list of bad entities means it, yet what lies under a listed name was not
// listed itself, and lists of pages hold hacked sites of honest owners.
const (
	pointsExact      = 75
	pointsMailDomain = 70
	pointsParent     = 55
	pointsPage       = 25
	pointsAnother    = 12 // for each further list, so that two lists of pages are still no review
	anotherAtMost    = 2
	pointsDisposable = 60  // a throw-away address is no crime
	pointsGood       = -45 // a list of good ones has the same: one of the two is wrong
)

// Score judges what lists say.
func Score(c *sdk.Check) sdk.Outcome {
	lists := c.Get("feed.listed")
	if lists == "" {
		return sdk.Scored
	}
	points, code, what := pointsExact, "feeds:listed:exact", "listed by "
	category := sdk.Threat(c.Get("feed.category"))
	switch c.Get("feed.match") {
	case "mail_domain":
		points, code, what = pointsMailDomain, "feeds:listed:mail_domain", "the domain of the address is listed by "
	case "parent":
		points, code, what = pointsParent, "feeds:listed:parent", "a domain that it lies under is listed by "
	case "page":
		points, code, what = pointsPage, "feeds:listed:page", "pages on this host are listed by "
	}
	text := what + quote.Of(lists)
	if known(category) {
		text += " as " + strings.ReplaceAll(string(category), "_", " ")
		c.Threat(category)
	}
	if days, err := strconv.Atoi(c.Get("feed.days")); err == nil && days > 0 && days < 100_000 {
		text += ", for " + strconv.Itoa(days) + " days"
	}
	if category == sdk.Disposable {
		points = min(points, pointsDisposable)
	}
	c.Signal(points, code, text)
	if n, err := strconv.Atoi(c.Get("feed.lists")); err == nil && n > 1 {
		c.Signal(pointsAnother*min(n-1, anotherAtMost), "feeds:listed:several", strconv.Itoa(n)+" lists hold it")
	}
	if good := c.Get("feed.good"); good != "" && (c.Get("feed.good_match") == "exact" || code != "feeds:listed:exact") {
		c.Signal(pointsGood, "feeds:good:listed", "known as good to "+quote.Of(good)+" all the same")
	}
	return sdk.Scored
}

func known(category sdk.Threat) bool {
	for _, t := range sdk.Threats() {
		if t == category {
			return true
		}
	}
	return false
}
