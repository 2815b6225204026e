package main

import (
	"strconv"

	"assay/plugins/internal/quote"
	"assay/plugins/patterns/feature"
	"assay/sdk"
)

// themes holds the signal code, the description and the threat of each theme of bait words.
var themes = [feature.Themes]struct {
	code   string
	text   string
	threat sdk.Threat
}{
	feature.Wallet:      {"patterns:lure:wallet", "crypto wallets and tokens", sdk.Phishing},
	feature.Credentials: {"patterns:lure:credentials", "signing in and confirming an account", sdk.Phishing},
	feature.Prize:       {"patterns:lure:prize", "gifts and prizes", sdk.Scam},
	feature.Game:        {"patterns:lure:game", "goods and events in games and chat rooms", sdk.Scam},
	feature.Delivery:    {"patterns:lure:delivery", "deliveries", sdk.Phishing},
	feature.Authority:   {"patterns:lure:authority", "public bodies, refunds and fees", sdk.Phishing},
	feature.Payment:     {"patterns:lure:payment", "banking and payments", sdk.Phishing},
	feature.Investment:  {"patterns:lure:investment", "trading and returns", sdk.InvestmentScam},
	feature.Loan:        {"patterns:lure:loan", "quick credit", sdk.Scam},
	feature.Support:     {"patterns:lure:support", "help desks", sdk.Scam},
	feature.Job:         {"patterns:lure:job", "jobs and applications", sdk.Scam},
	feature.Romance:     {"patterns:lure:romance", "dating", sdk.Scam},
	feature.Shop:        {"patterns:lure:shop", "cut-price shopping", sdk.Scam},
	feature.Cheat:       {"patterns:lure:cheat", "cheats and cracks", sdk.Scam},
	feature.Software:    {"patterns:lure:software", "downloads and drivers", sdk.Scam},
	feature.Gambling:    {"patterns:lure:gambling", "games of chance", sdk.Scam},
	feature.Goods:       {"patterns:lure:goods", "goods that need a licence", sdk.Scam},
	feature.Pets:        {"patterns:lure:pets", "animals for sale", sdk.Scam},
}

// explain raises a signal for each part with points, and names the threat.
func explain(c *sdk.Check, n *feature.Name, raised, points *shares) {
	signs := weakSigns(n, raised, points)
	if signs == "" {
		points.fold()
	}
	threat := sdk.Threat("")
	if points[feature.Words] > 0 {
		bait := baitOf(n)
		t := &themes[bait.theme]
		text := "joins words that bait with " + t.text + ": " + bait.list
		if bait.n == 1 {
			text = "holds a word that baits with " + t.text + ": " + bait.list
		}
		c.Signal(points[feature.Words], t.code, text)
		if points[feature.Words] >= wordThreatPoints {
			threat = t.threat
		}
	}
	built := 0
	add := func(part feature.Part, code, text string) {
		c.Signal(points[part], code, text)
		built += points[part]
	}
	if points[feature.Address] > 0 {
		add(feature.Address, "patterns:structure:address_inside", addressText(n))
	}
	if points[feature.Hyphens] > 0 {
		add(feature.Hyphens, "patterns:structure:hyphens", strconv.Itoa(n.Hyphens)+" hyphens in one label")
	}
	if points[feature.Long] > 0 {
		add(feature.Long, "patterns:structure:long_label", "one label of "+strconv.Itoa(n.Length)+" characters")
	}
	if points[feature.Digits] > 0 {
		text := strconv.Itoa(n.Digits) + " digits in the name"
		if n.Digits == n.Run {
			text = "a run of " + text
		}
		add(feature.Digits, "patterns:structure:digits", text)
	}
	if points[feature.Deep] > 0 {
		add(feature.Deep, "patterns:structure:deep", strconv.Itoa(n.Labels)+" labels left of the registered name")
	}
	if points[feature.Random] > 0 {
		add(feature.Random, "patterns:structure:random", quote.Of(n.Host.Name)+" reads as drawn at random")
	}
	if points[feature.Hex] > 0 {
		add(feature.Hex, "patterns:structure:hex", quote.Of(n.Host.Name)+" reads as a hexadecimal number")
	}
	if points[feature.Punycode] > 0 {
		add(feature.Punycode, "patterns:structure:punycode",
			"a label begins like an internationalised one (xn--) and is none")
	}
	switch {
	case points[weak] > 0 && signs != "":
		c.Signal(points[weak], "patterns:shape:weak", "small signs that reported names show more often: "+signs)
	case points[weak] > 0:
		c.Signal(points[weak], "patterns:shape:weak",
			"nothing stands out, but names built like this are reported about as often as not")
	}
	if threat == "" && built >= buildThreat {
		threat = sdk.Spam
	}
	if threat != "" {
		c.Threat(threat)
	}
}

// addressText describes the part of another address that the name imitates.
func addressText(n *feature.Name) string {
	switch part, where := n.Posing(); where {
	case feature.AtStart:
		return "the name begins with " + part + ", as if a country's address ended there"
	case feature.ToTheLeft:
		return "a subdomain holds " + part + ", as if an address were spelt inside it"
	default:
		return "the name holds " + part + ", as if an address were spelt inside it"
	}
}

// maxQuoted is how many bait words a text lists.
const maxQuoted = 6

// baitWords summarises the bait words of a name.
type baitWords struct {
	theme  feature.Theme
	n      int    // number of words
	list   string // the first of them, at most maxQuoted
	raises bool   // at least one of them raises the odds by itself
}

// baitOf returns the theme with the highest sum of word odds, with its words and all others that raise the odds.
func baitOf(n *feature.Name) baitWords {
	words := n.Words()
	var b baitWords
	highest := 0
	for t := range feature.Themes {
		sum := 0
		for i := range words {
			if words[i].Serves(t) {
				sum += max(words[i].Odds(odds[:]), 1)
			}
		}
		if sum > highest {
			highest, b.theme = sum, t
		}
	}
	for i := range words {
		raises := words[i].Odds(odds[:]) > 0
		if !raises && !words[i].Serves(b.theme) {
			continue
		}
		b.raises = b.raises || raises
		if b.n++; b.n > maxQuoted {
			continue
		}
		if b.list != "" {
			b.list += ", "
		}
		b.list += words[i].Text
	}
	b.list = quote.Of(b.list)
	return b
}

const (
	minSignOdds = 3  // the fewest tenths of log-odds for which a weak sign is named
	longName    = 20 // the fewest characters of a name whose length is named
)

// weakSigns lists the weak signs that raised the odds and have no signal of their own, or returns "".
func weakSigns(n *feature.Name, odds, points *shares) string {
	list := ""
	add := func(text string) {
		if list != "" {
			list += ", "
		}
		list += text
	}
	// adds reports whether parts without a signal of their own raised the odds enough to be named.
	adds := func(parts ...feature.Part) bool {
		sum := 0
		for _, p := range parts {
			if points[p] == 0 || p == weak {
				sum += odds[p]
			}
		}
		return sum >= minSignOdds
	}
	if adds(feature.Suffix) {
		if n.Host.Private {
			add("a site on shared hosting")
		} else {
			add("the suffix ." + n.Host.TLD)
		}
	}
	if adds(feature.Left) {
		add("labels left of the registered name")
	}
	if adds(feature.Words) {
		if b := baitOf(n); b.raises {
			add("wording such as " + b.list)
		}
	}
	if adds(feature.Letters, feature.Random) {
		if n.Mixed() {
			add("accents or letters of another script")
		}
		if n.Unusual(&rarity) {
			add("letters that seldom stand side by side")
		}
	}
	if adds(feature.Mix, feature.Digits, feature.Hyphens) {
		switch {
		case n.Digits > 0 && n.Hyphens > 0:
			add("digits and hyphens")
		case n.Digits > 0:
			add("digits")
		case n.Hyphens > 0:
			add("a hyphen")
		}
	}
	if n.Length >= longName && adds(feature.Length, feature.Long) {
		add("a name of " + strconv.Itoa(n.Length) + " characters")
	}
	return list
}
