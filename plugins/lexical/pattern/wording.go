package pattern

import (
	"math/bits"
	"strings"

	"assay/plugins/internal/bait"
	"assay/plugins/internal/suffix"
)

// Theme is a kind of bait. It groups several classes of bait words.
type Theme uint8

// The themes. Of themes with equal odds in a name, the layer names the first.
const (
	Wallet Theme = iota
	Credentials
	Prize
	Game
	Delivery
	Authority
	Payment
	Investment
	Loan
	Support
	Job
	Romance
	Shop
	Cheat
	Software
	Gambling
	Goods
	Pets
	Themes
)

// themeOf maps the bit of a class to its theme.
var themeOf = func() (themes [32]Theme) {
	for _, t := range [...]struct {
		classes bait.Class
		theme   Theme
	}{
		{bait.Crypto | bait.Connect, Wallet},
		{bait.Login | bait.Verify | bait.Secure | bait.Account | bait.Urgent, Credentials},
		{bait.Prize, Prize}, {bait.Gaming, Game}, {bait.Parcel, Delivery},
		{bait.Refund | bait.Fee | bait.Official, Authority}, {bait.Bank | bait.Pay, Payment}, {bait.Invest, Investment},
		{bait.Loan, Loan}, {bait.Support, Support}, {bait.Work, Job}, {bait.Romance, Romance}, {bait.Shop, Shop},
		{bait.Cheat, Cheat}, {bait.Software, Software}, {bait.Gamble, Gambling}, {bait.Goods, Goods}, {bait.Pets, Pets},
	} {
		for c := t.classes; c != 0; c &= c - 1 {
			themes[bits.TrailingZeros32(uint32(c))] = t.theme
		}
	}
	return themes
}()

// MaxWords is how many bait words of one name are read.
const MaxWords = 24

// Word is a bait word of a name.
type Word struct {
	Text  string
	Class bait.Class // without Filler
}

// Serves reports whether the word belongs to theme.
func (w *Word) Serves(theme Theme) bool { return themesOf(w.Class)&(1<<theme) != 0 }

// themesOf returns the themes of class, one bit each.
func themesOf(class bait.Class) (themes uint32) {
	for c := class; c != 0; c &= c - 1 {
		themes |= 1 << themeOf[bits.TrailingZeros32(uint32(c))]
	}
	return themes
}

// Wording holds the bait words of a name.
type Wording struct {
	words   [MaxWords]Word
	n       int
	inName  int        // words in the label next to the suffix
	inLeft  int        // words left of that label
	goods   int        // words of goods that need a licence in the label
	covered bool       // that label consists of bait words, hyphens and digits
	themes  uint32     // themes of the words in that label, one bit each
	left    uint32     // themes of the words left of it
	classes bait.Class // classes of the words in that label
	space   [MaxWords]bait.Match
}

// Words returns the distinct bait words without padding, those of the label next to the suffix first. The slice aliases
// w.
func (w *Wording) Words() []Word { return w.words[:w.n] }

// isHonest reports whether name is an honest name with bait words.
func isHonest(name string) bool {
	switch name { // a guest burns less fuel for this than for a search in a list
	case "backinstockalerts", "captcha-delivery", "checkpoint", "couponcode", "customersupport", "doubleverify",
		"giftcards", "nexusmods", "onlinebanking", "opensecrets", "passport-photo", "paymentsense", "secureserver",
		"securityfocus", "securitytrails", "servicenow", "surveymonkey", "ticketswap", "trackingmore",
		"trustedshops", "verifyme", "walletinvestor":
		return true
	}
	return false
}

func (w *Wording) read(h *suffix.Host) {
	w.n, w.inName, w.inLeft, w.goods, w.covered, w.themes, w.left, w.classes = 0, 0, 0, 0, false, 0, 0, 0
	if isHonest(h.Name) {
		return
	}
	w.covered = w.add(h.Name, false)
	for rest, more := h.Subdomain, h.Subdomain != ""; more; {
		var label string
		label, rest, more = strings.Cut(rest, ".")
		w.add(label, true)
	}
}

// add reads the bait words of one label, without padding and repeated words, and reports whether they cover it.
func (w *Wording) add(label string, left bool) (covered bool) {
	found := bait.FindLoosely(label, w.space[:0])
	for i := range found {
		f := &found[i]
		if !left {
			w.classes |= f.Class
		}
		if class := f.Class &^ bait.Filler; class != 0 && w.keep(label[f.Start:f.End], class) {
			w.count(class, left)
		}
	}
	return covers(label, found)
}

// keep adds a word and reports true, unless the word is there already or there is no room.
func (w *Wording) keep(text string, class bait.Class) bool {
	if w.n == MaxWords {
		return false
	}
	for i := range w.words[:w.n] {
		if w.words[i].Text == text {
			return false
		}
	}
	w.words[w.n] = Word{text, class}
	w.n++
	return true
}

func (w *Wording) count(class bait.Class, left bool) {
	themes := themesOf(class)
	if left {
		w.inLeft++
		w.left |= themes
		return
	}
	w.inName++
	if class&bait.Goods != 0 {
		w.goods++
	}
	w.themes |= themes
}

// covers reports whether label consists of words, hyphens, underscores and digits.
func covers(label string, words []bait.Match) bool {
	at := 0
	for i := range words {
		if !isFiller(label[at:words[i].Start]) {
			return false
		}
		at = words[i].End
	}
	return at > 0 && isFiller(label[at:])
}

// isFiller reports whether s consists of hyphens, underscores and digits.
func isFiller(s string) bool {
	for i := range len(s) {
		if c := s[i]; c != '-' && c != '_' && (c < '0' || c > '9') {
			return false
		}
	}
	return true
}
