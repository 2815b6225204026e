package feature

import (
	"math/bits"
	"strings"

	"assay/plugins/internal/bait"
	"assay/plugins/internal/suffix"
	"assay/plugins/internal/wordlist"
)

// Theme is a kind of bait: several classes of words serve it.
type Theme uint8

// Themes, in the order in which the first of those that weigh most speaks for a name.
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

// themeOf gives the theme of a class by the class's bit.
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

// MostWords bounds the lure words that are read of one name.
const MostWords = 24

// Word is a lure word of a name.
type Word struct {
	Text  string
	Class bait.Class // without Filler
	place uint16
}

// Serves says whether the word baits with theme.
func (w *Word) Serves(theme Theme) bool { return themesOf(w.Class)&(1<<theme) != 0 }

// Odds is what the word adds by itself, in the table's unit.
func (w *Word) Odds(table []int8) int {
	sum := int(table[WordAt+int(w.place)])
	for c := w.Class; c != 0; c &= c - 1 {
		sum += int(table[classAt+bits.TrailingZeros32(uint32(c))])
	}
	return sum
}

func themesOf(class bait.Class) (themes uint32) {
	for c := class; c != 0; c &= c - 1 {
		themes |= 1 << themeOf[bits.TrailingZeros32(uint32(c))]
	}
	return themes
}

// Wording is the lure words of a name.
type Wording struct {
	words   [MostWords]Word
	n       int
	inName  int    // of these, in the label next to the suffix
	inLeft  int    // left of it
	covered bool   // that label is nothing but lure words, hyphens and digits
	themes  uint32 // of the words in that label, by bit
	left    uint32 // of those left of it
	classes bait.Class
}

// Words returns the distinct lure words that are more than padding, those of the label next to the suffix first. The
// slice is w's own.
func (w *Wording) Words() []Word { return w.words[:w.n] }

// honest are names in good standing that hold words that bait.
const honest = "backinstockalerts captcha-delivery checkpoint couponcode customersupport doubleverify giftcards nexusmods " +
	"onlinebanking opensecrets passport-photo paymentsense secureserver securityfocus securitytrails servicenow " +
	"surveymonkey ticketswap trackingmore trustedshops verifyme walletinvestor "

func (w *Wording) read(h *suffix.Host) {
	if wordlist.Has(honest, h.Name) {
		return
	}
	w.covered = w.add(h.Name, false)
	for rest, more := h.Subdomain, h.Subdomain != ""; more; {
		var label string
		label, rest, more = strings.Cut(rest, ".")
		w.add(label, true)
	}
}

// add reads the lure words of one label. Words that only pad a name do not count, nor does a word the second time.
func (w *Wording) add(label string, left bool) (covered bool) {
	var space [MostWords]bait.Found
	at := 0
	covered = true
	for _, f := range bait.Loosely(label, space[:0]) {
		covered = covered && idle(label[at:f.Start])
		at = f.End
		if !left {
			w.classes |= f.Class
		}
		text, class := label[f.Start:f.End], f.Class&^bait.Filler
		if class == 0 || w.n == MostWords || w.holds(text) {
			continue
		}
		w.words[w.n] = Word{text, class, f.Word}
		w.n++
		themes := themesOf(class)
		if left {
			w.inLeft++
			w.left |= themes
		} else {
			w.inName++
			w.themes |= themes
		}
	}
	return covered && at > 0 && idle(label[at:])
}

func (w *Wording) holds(text string) bool {
	for i := range w.n {
		if w.words[i].Text == text {
			return true
		}
	}
	return false
}

// idle says whether s holds nothing but hyphens and digits.
func idle(s string) bool {
	for i := range len(s) {
		if c := s[i]; c != '-' && c != '_' && (c < '0' || c > '9') {
			return false
		}
	}
	return true
}
