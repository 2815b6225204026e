package main

import (
	"strings"

	"assay/plugins/excerpt"
	"assay/plugins/lure"
	"assay/sdk"
)

// theme is a kind of bait: several classes of words serve it.
type theme struct {
	classes lure.Class
	code    string
	text    string
	threat  sdk.Threat
}

// themes in the order in which the first that fits best speaks for a name.
var themes = [...]theme{
	{lure.Crypto | lure.Connect, "patterns:lure:wallet", "crypto wallets and tokens", sdk.Phishing},
	{lure.Login | lure.Verify | lure.Secure | lure.Account | lure.Urgent, "patterns:lure:credentials",
		"signing in and confirming an account", sdk.Phishing},
	{lure.Prize | lure.Gaming, "patterns:lure:prize", "gifts, prizes and events", sdk.Scam},
	{lure.Parcel, "patterns:lure:delivery", "deliveries", sdk.Phishing},
	{lure.Refund | lure.Fee | lure.Official, "patterns:lure:authority", "public bodies, refunds and fees", sdk.Phishing},
	{lure.Bank | lure.Pay, "patterns:lure:payment", "banking and payments", sdk.Phishing},
	{lure.Invest, "patterns:lure:investment", "trading and returns", sdk.InvestmentScam},
	{lure.Support, "patterns:lure:support", "help desks", sdk.Scam},
	{lure.Work, "patterns:lure:job", "jobs and applications", sdk.Scam},
	{lure.Romance, "patterns:lure:romance", "dating", sdk.Scam},
	{lure.Shop, "patterns:lure:shop", "cut-price shopping", sdk.Scam},
	{lure.Cheat, "patterns:lure:cheat", "cheats and cracks", sdk.Scam},
}

// weight is what one word of a class is worth in company, from how much oftener names in reports hold it.
func weight(class lure.Class) int {
	best := 0
	for _, w := range [...]struct {
		class lure.Class
		worth int
	}{
		{lure.Verify, 20}, {lure.Crypto, 18}, {lure.Urgent | lure.Gaming | lure.Prize | lure.Login, 15},
		{lure.Account | lure.Refund, 13}, {lure.Official | lure.Connect, 11}, {lure.Pay | lure.Bank | lure.Fee, 10},
		{lure.Invest | lure.Parcel, 9}, {lure.Support | lure.Secure, 8}, {lure.Work, 5}, {lure.Shop | lure.Cheat, 4},
		{lure.Romance, 3},
	} {
		if class&w.class != 0 {
			best = max(best, w.worth)
		}
	}
	return best
}

// most bounds the lure words that are read of one name.
const most = 24

// wording is what the lure words of a name amount to.
type wording struct {
	found   [most]string
	classes [most]lure.Class
	n       int // distinct words that bait
	inName  int // of these, in the label next to the suffix
	covered bool
}

// add reads the lure words of one label. Words that only pad a name do not count, nor does a word the second time.
func (w *wording) add(label string) (covered bool) {
	var space [most]lure.Found
	at, covered := 0, true
	for _, f := range lure.In(label, space[:0]) {
		covered = covered && idle(label[at:f.Start])
		at = f.End
		if f.Class&^lure.Filler == 0 || w.holds(label[f.Start:f.End]) || w.n == most {
			continue
		}
		w.found[w.n], w.classes[w.n] = label[f.Start:f.End], f.Class
		w.n++
	}
	return covered && at > 0 && idle(label[at:])
}

func (w *wording) holds(word string) bool {
	for _, have := range w.found[:w.n] {
		if have == word {
			return true
		}
	}
	return false
}

// idle says whether s holds nothing but hyphens and digits.
func idle(s string) bool { return strings.Trim(s, "-_0123456789") == "" }

// points weighs the words together. One word says nothing, save where the name is that word and padding on shared hosting
// or in full; two are common in honest names of some trades; three or more are rare outside reports.
func (w *wording) points(hosted bool) int {
	sum := 0
	for i := range w.n {
		sum += weight(w.classes[i])
	}
	switch {
	case w.n == 0:
		return 0
	case w.n == 1 && hosted:
		return sum * 3 / 2
	case w.n == 1 && w.covered && sum >= 15:
		return sum / 2
	case w.n == 1:
		return 0
	}
	points := sum * 3 / 2
	if w.n > 2 {
		points += 10 * (w.n - 2)
	}
	if w.covered {
		points += 8
	}
	if hosted {
		points += 15
	}
	if w.inName == 0 {
		points = points * 2 / 3
	}
	return min(points, 95)
}

// theme returns the theme that most of the words' weight serves.
func (w *wording) theme() *theme {
	best, found := 0, &themes[0]
	for i := range themes {
		sum := 0
		for j := range w.n {
			if w.classes[j]&themes[i].classes != 0 {
				sum += weight(w.classes[j] & themes[i].classes)
			}
		}
		if sum > best {
			best, found = sum, &themes[i]
		}
	}
	return found
}

// list names the first words for a sentence.
func (w *wording) list() string {
	return excerpt.Of(strings.Join(w.found[:min(w.n, 6)], ", "))
}
