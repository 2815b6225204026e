package pattern

import (
	"math/bits"
	"strings"

	"assay/plugins/internal/bait"
	"assay/plugins/internal/suffix"
)

// Theme is a kind of bait. It groups several classes of bait words.
type Theme uint8

// The themes. If themes have equal weights in a name, the layer names the first.
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

// MaxWords is the maximum number of bait words that are read from one name.
const MaxWords = 24

// Word is a bait word of a name.
type Word struct {
	Text  string
	Class bait.Class // without Filler
	At    int        // of its first byte in the label next to the suffix; -1 if it is left of that label
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
	words  [MaxWords]Word
	n      int
	inLeft int // words left of the label next to the suffix
	goods  int // words of goods that need a licence in that label
	space  [MaxWords]bait.Match
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
	w.n, w.inLeft, w.goods = 0, 0, 0
	if isHonest(h.Name) {
		return
	}
	w.add(h.Name, false)
	for rest, more := h.Subdomain, h.Subdomain != ""; more; {
		var label string
		label, rest, more = strings.Cut(rest, ".")
		w.add(label, true)
	}
}

// add reads the bait words of one label, without padding and repeated words.
func (w *Wording) add(label string, left bool) {
	for _, f := range bait.FindLoosely(label, w.space[:0]) {
		class := f.Class &^ bait.Filler
		if class == 0 || !w.keep(Word{label[f.Start:f.End], class, f.Start}) {
			continue
		}
		switch {
		case left:
			w.inLeft++
			w.words[w.n-1].At = -1
		case class&bait.Goods != 0:
			w.goods++
		}
	}
}

// keep adds a word and reports true, unless the word is there already or there is no room.
func (w *Wording) keep(word Word) bool {
	if w.n == MaxWords {
		return false
	}
	for i := range w.words[:w.n] {
		if w.words[i].Text == word.Text {
			return false
		}
	}
	w.words[w.n] = word
	w.n++
	return true
}
