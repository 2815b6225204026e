package main

import (
	"strings"
	"unsafe"

	"assay/plugins/internal/quote"
	"assay/plugins/lexical/ngram"
	"assay/plugins/lexical/pattern"
	"assay/sdk"
)

// shares holds odds, or points, by reason.
type shares [reasons]int

// The reasons. The first three are the parts of package ngram, in its order.
const (
	byWording = int(ngram.Name)
	bySuffix  = int(ngram.Suffix)
	byShape   = int(ngram.Shape)
	byBait    = ngram.Parts + iota - 3
	byAddress
	reasons
)

// lures holds the code, the description and the threat of each theme of bait words. The manifest repeats them.
var lures = [pattern.Themes]struct {
	code, text string
	threat     sdk.Threat
}{
	pattern.Wallet:      {signalBaitWallet, "crypto wallet", sdk.InvestmentScam},
	pattern.Credentials: {signalBaitAccount, "account security", sdk.Phishing},
	pattern.Prize:       {signalBaitPrize, "prize", sdk.Scam},
	pattern.Game:        {signalBaitGame, "game item", sdk.Scam},
	pattern.Delivery:    {signalBaitDelivery, "parcel delivery", sdk.Phishing},
	pattern.Authority:   {signalBaitAuthority, "public authority", sdk.Phishing},
	pattern.Payment:     {signalBaitPayment, "payment", sdk.Phishing},
	pattern.Investment:  {signalBaitInvestment, "investment", sdk.InvestmentScam},
	pattern.Loan:        {signalBaitLoan, "quick loan", sdk.Scam},
	pattern.Support:     {signalBaitSupport, "support desk", sdk.Scam},
	pattern.Job:         {signalBaitJob, "job offer", sdk.Scam},
	pattern.Romance:     {signalBaitRomance, "dating", sdk.Scam},
	pattern.Shop:        {signalBaitShop, "cut-price shop", sdk.Scam},
	pattern.Cheat:       {signalBaitCheat, "cheat and crack", sdk.Scam},
	pattern.Software:    {signalBaitSoftware, "software download", sdk.Scam},
	pattern.Gambling:    {signalBaitGambling, "gambling", sdk.Scam},
	pattern.Goods:       {signalBaitGoods, "medicine and weapon", sdk.Scam},
	pattern.Pets:        {signalBaitPets, "pet sale", sdk.Scam},
}

const (
	minPoints    = 3  // of a reason of its own; smaller ones are added to the largest
	threatPoints = 40 // of a name for which the layer names a threat
)

// explain raises a signal for each reason that raised the points, or one signal if the name looks ordinary.
func (w *work) explain(c *sdk.Check, points int) {
	if points <= 0 {
		if points < 0 {
			c.Signal(points, signalNameOrdinary, w.ordinary())
		}
		return
	}
	if len(w.name.Words()) == 0 {
		w.parts[byShape] += w.parts[byBait] // padding alone has no word to name
		w.parts[byBait] = 0
	}
	split := w.parts.points(points)
	if n := split[byWording]; n > 0 {
		w.wording(c, n)
	}
	if n := split[bySuffix]; n > 0 {
		if w.address.Hosted {
			c.Signal(n, signalHostingReported,
				sdk.Join("Names like this are often reported on the shared host “", quote.Of(w.address.Suffix), "”"))
		} else {
			c.Signal(n, signalSuffixReported,
				sdk.Join("Names like this are often reported under “.", quote.Of(w.address.Suffix), "”"))
		}
	}
	if n := split[byShape]; n > 0 {
		w.shape(c, n)
	}
	threat := sdk.Phishing // most reported names without bait words are phishing
	if n := split[byBait]; n > 0 {
		threat = w.bait(c, n)
	}
	if n := split[byAddress]; n > 0 {
		if part := w.name.Posing(); part != "" {
			c.Signal(n, signalShapeAddress, sdk.Join("Contains “", quote.Of(part),
				"”, a part of another web address"))
		} else {
			c.Signal(n, signalShapePunycode, "Begins with “xn-” like an internationalised name, but is none")
		}
	}
	if points >= threatPoints {
		c.Threat(threat)
	}
}

// points splits total among the parts that raised it, in proportion. Parts with fewer than minPoints, and the remainder
// of rounding, go to the largest.
func (s *shares) points(total int) (split shares) {
	raised, largest := 0, 0
	for i, o := range s {
		raised += max(o, 0)
		if o > s[largest] {
			largest = i
		}
	}
	left := total
	for i, o := range s {
		if i == largest || o <= 0 {
			continue
		}
		if share := o * total / raised; share >= minPoints {
			split[i] = share
			left -= share
		}
	}
	split[largest] = left
	return split
}

// pieces is the text of a signal: a sentence with at most three quotations of sdk.MaxQuoteBytes.
type pieces struct {
	text [textRoom]byte
	n    int
}

const textRoom = 512 // a power of two, so that an index needs no check

func (p *pieces) add(text string) { p.n += copy(p.text[p.n&(textRoom-1):], text) }

// quote appends text in quotation marks, unless quote.Of adds them because of odd characters.
func (p *pieces) quote(text string) {
	quoted := quote.Of(text)
	if strings.HasPrefix(quoted, "“") {
		p.add(quoted)
		return
	}
	p.add("“")
	p.add(quoted)
	p.add("”")
}

// end returns the text, which the next one overwrites.
func (p *pieces) end() string {
	n := p.n
	p.n = 0
	return unsafe.String(&p.text[0], n)
}

// ordinary returns the text for a name that looks honest.
func (w *work) ordinary() string {
	if w.parts[byWording] < 0 {
		for i := range w.sums.Bytes {
			w.sums.Bytes[i] = -w.sums.Bytes[i]
		}
		w.texts.add("Spelled like names of long-established sites: ")
		if w.texts.strongest(w.address.Name, w.sums.Bytes[:], 1) {
			return w.texts.end()
		}
		w.texts.n = 0
	}
	if w.parts[bySuffix] < w.parts[byShape] {
		return sdk.Join("Names like this under “.", quote.Of(w.address.Suffix), "” are rarely reported")
	}
	w.texts.add("Name shape typical of long-established sites (")
	return w.measures()
}

// Letters look random if there are manyLetters of them and their mean cost is rareCost or more.
const (
	manyLetters = 7
	rareCost    = 61
)

// wording raises the signal for the runs of letters.
func (w *work) wording(c *sdk.Check, points int) {
	if len(w.name.Letters) >= manyLetters && words.Cost(w.name.Letters, &w.segments) >= rareCost {
		c.Signal(points, signalShapeRandom,
			sdk.Join("“", quote.Of(w.name.Letters), "” has letters in an order that words rarely have"))
		return
	}
	text := "Spelled like reported names"
	w.texts.add(text)
	w.texts.add(": ")
	if w.texts.strongest(w.address.Name, w.sums.Bytes[:], maxSpans) {
		text = w.texts.end()
	}
	w.texts.n = 0
	c.Signal(points, signalWordingReported, text)
}

// shape raises the signal for the structure of the name.
func (w *work) shape(c *sdk.Check, points int) {
	if w.name.Hex() {
		c.Signal(points, signalShapeHex, sdk.Join("“", quote.Of(w.name.Host.Name), "” is a hexadecimal number"))
		return
	}
	w.texts.add("Name shape typical of reported names (")
	c.Signal(points, signalShapeReported, w.measures())
}

// measures ends a text with the structure of the name.
func (w *work) measures() string {
	n := &w.name
	w.texts.add("length ")
	w.texts.decimal(n.Length)
	w.texts.count(n.Hyphens, " hyphens")
	w.texts.count(n.Digits, " digits")
	w.texts.add(")")
	return w.texts.end()
}

// count adds n and a noun in the plural, whose s it drops if n is 1, or nothing if n is 0.
func (p *pieces) count(n int, noun string) {
	if n == 0 {
		return
	}
	p.add(", ")
	p.decimal(n)
	if n == 1 {
		noun = noun[:len(noun)-1]
	}
	p.add(noun)
}

// decimal adds n, from 0 to 999, in decimal digits.
func (p *pieces) decimal(n int) {
	for unit := 100; unit > 0; unit /= 10 {
		if n >= unit || unit == 1 {
			p.text[p.n&(textRoom-1)] = byte('0' + n/unit%10)
			p.n++
		}
	}
}

// maxQuoted is the maximum number of bait words that a text lists.
const maxQuoted = 3

// theme returns the theme of the bait words with the largest weights.
func (w *work) theme() (best pattern.Theme) {
	var sums [pattern.Themes]int32
	for i := range w.name.Words() {
		word := &w.name.Words()[i]
		weight := w.weight(word) + 1
		for t := range pattern.Themes {
			if word.Serves(t) {
				if sums[t] += weight; sums[t] > sums[best] {
					best = t
				}
			}
		}
	}
	return best
}

// bait raises the signal for bait words, by the theme with the largest weights, and returns the theme's threat.
func (w *work) bait(c *sdk.Check, points int) sdk.Threat {
	theme := w.theme()
	w.texts.add("Contains ")
	w.texts.add(lures[theme].text)
	w.texts.add(" bait words: ")
	words, n := w.name.Words(), 0
	for own := range 2 { // words of the theme, or else all
		if n > 0 {
			break
		}
		for i := range words {
			if words[i].Serves(theme) == (own == 0) && n < maxQuoted {
				if n > 0 {
					w.texts.add(", ")
				}
				w.texts.quote(words[i].Text)
				n++
			}
		}
	}
	c.Signal(points, lures[theme].code, w.texts.end())
	return lures[theme].threat
}
