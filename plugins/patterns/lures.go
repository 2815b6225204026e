package main

import (
	"strings"

	"assay/plugins/excerpt"
	"assay/plugins/lure"
	"assay/plugins/suffix"
	"assay/plugins/wordlist"
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
	switch {
	case class&lure.Verify != 0:
		return 20
	case class&lure.Crypto != 0:
		return 18
	case class&(lure.Urgent|lure.Gaming|lure.Prize|lure.Login) != 0:
		return 15
	case class&(lure.Account|lure.Refund) != 0:
		return 13
	case class&(lure.Official|lure.Connect) != 0:
		return 11
	case class&(lure.Pay|lure.Bank|lure.Fee) != 0:
		return 10
	case class&(lure.Invest|lure.Parcel) != 0:
		return 9
	case class&(lure.Support|lure.Secure) != 0:
		return 8
	case class&lure.Work != 0:
		return 5
	case class&(lure.Shop|lure.Cheat) != 0:
		return 4
	case class&lure.Romance != 0:
		return 3
	}
	return 0
}

// most bounds the lure words that are read of one name.
const most = 24

// wording is what the lure words of a name amount to.
type wording struct {
	found   [most]string
	classes [most]lure.Class
	name    string // the label next to the suffix
	n       int    // distinct words that bait
	inName  int    // of these, in the label next to the suffix
	covered bool

	nameClasses lure.Class // of all words in that label
	leftClasses lure.Class // of all words left of it
}

// add reads the lure words of one label. Words that only pad a name do not count, nor does a word the second time.
func (w *wording) add(label string) (classes lure.Class, covered bool) {
	var space [most]lure.Found
	at := 0
	covered = true
	for _, f := range lure.In(label, space[:0]) {
		classes |= f.Class
		covered = covered && idle(label[at:f.Start])
		at = f.End
		if f.Class&^lure.Filler == 0 || w.holds(label[f.Start:f.End]) || w.n == most {
			continue
		}
		w.found[w.n], w.classes[w.n] = label[f.Start:f.End], f.Class
		w.n++
	}
	return classes, covered && at > 0 && idle(label[at:])
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
func idle(s string) bool {
	for i := range len(s) {
		if c := s[i]; c != '-' && c != '_' && !isFigure(c) {
			return false
		}
	}
	return true
}

// honest are names in good standing that hold words that bait.
const honest = "backinstockalerts captcha-delivery checkpoint couponcode customersupport doubleverify giftcards nexusmods " +
	"onlinebanking opensecrets passport-photo paymentsense secureserver securityfocus securitytrails servicenow " +
	"surveymonkey ticketswap trackingmore trustedshops verifyme walletinvestor "

// points weighs the words together. One word says nothing, save where the name is that word and padding on shared hosting
// or in full; two are common in honest names of some trades; three or more are rare outside reports.
func (w *wording) points(h *suffix.Host) int {
	hosted := h.Hosted()
	sum := 0
	for i := range w.n {
		sum += weight(w.classes[i])
	}
	switch {
	case w.n == 0, wordlist.Has(honest, w.name):
		return 0
	case w.n == 1 && hosted:
		return sum * 3 / 4
	case w.n == 1 && w.covered && sum >= 15:
		return sum / 4
	case w.n == 1:
		return 0
	}
	points := sum * 3 / 4
	if w.n > 2 {
		points += 5 * (w.n - 2)
	}
	if w.covered {
		points += 4
	}
	if hosted {
		points += 8
	}
	if w.inName == 0 || w.n == 2 && !h.Private && suffix.Odds(h.TLD) <= -12 {
		points = points * 2 / 3
	}
	return min(points, 60)
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
