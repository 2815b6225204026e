package main

import (
	"slices"

	"assay/plugins/internal/brand"
	"assay/plugins/internal/suffix"
	"assay/plugins/internal/wordlist"
	"assay/plugins/lexical/ngram"
	"assay/plugins/lexical/pattern"
	"assay/sdk"
)

var (
	table, tableErr = ngram.OpenReleased()
	words, wordsErr = ngram.ReleasedWords()
)

// The range of the score, as in the manifest. Points are proportional to the log-odds that a name is reported rather
// than honest, 20 for each unit; an uninformative name has 0. They are limited to cautious, unless hardly any honest
// name has as many: the manifest has the proof that such a name may be blocked by its style.
const (
	lowest     = -38
	lowestMail = -20 // of a mail domain: disposable ones are mostly ordinary words, so an ordinary name clears less
	cautious   = 70
	mostShared = 8 // of the name of a shared host: fraud on it says little about its other customers
	highest    = 100
)

// Score scores how the name of a domain, or of the domain of an email address, is written. It abstains for mailbox
// providers, whose names do not describe their users.
func Score(c *sdk.Check) sdk.Outcome {
	if tableErr != nil {
		return c.Fail(tableErr.Error())
	}
	if wordsErr != nil {
		return c.Fail(wordsErr.Error())
	}
	w := desk()
	var ok bool
	if w.host, ok = suffix.Read(c); !ok || c.Has(sdk.EmailProvider) {
		return sdk.Abstained
	}
	if owner := brand.OwnerName(&w.host); owner != "" { // the model would mistake it for a forgery
		c.Signal(lowest, signalNameKnown, sdk.Join("Listed as a site of ", owner))
		return sdk.Scored
	}
	w.host.Name = ngram.Plain(w.host.Name)
	w.scoreName(c, &w.host)
	return sdk.Scored
}

// work holds the data for scoring a name. It is too large for the small stack of a guest.
type work struct {
	host     suffix.Host
	address  ngram.Address
	reader   ngram.Reader
	sums     ngram.Sums
	name     pattern.Name
	segments ngram.Segments
	parts    shares
	texts    pieces
}

// scoreName adds up the points of a name.
func (w *work) scoreName(c *sdk.Check, host *suffix.Host) {
	w.address = ngram.Of(host)
	w.reader.Words = words
	table.Sum(w.reader.Read(&w.address), &w.sums)
	w.name.Read(host)
	w.parts = shares{}
	copy(w.parts[:], w.sums.Parts[:])
	w.parts[byBait] = w.baitShare()
	w.parts[byWording] -= w.parts[byBait]
	more := w.name.Points()
	w.parts[byAddress] = more.Address * ngram.Unit
	w.parts[byShape] += more.Shape * ngram.Unit
	w.parts[byBait] += more.Bait * ngram.Unit
	if w.host.Private {
		w.parts[bySuffix] = min(w.parts[bySuffix], mostShared*ngram.Unit)
	}
	sum := w.sums.Bias
	for _, p := range w.parts {
		sum += p
	}
	points := max((sum+ngram.Unit/2)>>10, lowest)
	if points > 0 && !suffix.IsRisky(w.host.TLD) && namesTrade(w.name.Words()) {
		points = 0
	}
	switch {
	case points < 0 && host.IsTenant():
		points = 0 // the service's good name does not speak for its customers
	case points >= table.Bar:
		points = highest
	case points > cautious:
		points = cautious
	case points < lowestMail && c.Has(sdk.EmailDomain):
		points = lowestMail
	}
	w.explain(c, points)
}

// baitShare returns the part of the points for the characters and words of the name that is about its bait words.
func (w *work) baitShare() int {
	all, bait := int32(0), int32(0)
	for _, b := range w.sums.Bytes {
		all += max(b, 0)
	}
	for i := range w.name.Words() {
		bait += w.weight(&w.name.Words()[i])
	}
	if w.sums.Parts[ngram.Name] <= 0 || all == 0 {
		return 0
	}
	return int(int64(w.sums.Parts[ngram.Name]) * int64(bait) / int64(all))
}

// trade is a line of honest business whose names contain bait words. Both lists are in wordlist form.
type trade struct {
	own    string // name the trade
	beside string // often next to those
}

var trades = [...]trade{
	{"banca banche banco bank banka banken bankieren banking banks banque banques caisse creditunion ebank ebanking " +
		"netbank raiffeisen sparkasse volksbank ",
		"capital casino community credit federal finance financial invest investment loan loans prime "},
	{"coins ", "shop store "},
	{"gifts ", "shop store "},
	{"apotheke apteka farmacia pharmacie pharmacies pharmacy ", "sante "},
}

// namesTrade reports whether all bait words of a name belong to one trade, as in banque-example.fr. Then they are not
// bait: fraud that poses as a bank also has its brand, or other bait words, in the name.
func namesTrade(words []pattern.Word) bool {
	return slices.ContainsFunc(trades[:], func(t trade) bool {
		named := false
		for i := range words {
			own := wordlist.Has(t.own, words[i].Text)
			if !own && !wordlist.Has(t.beside, words[i].Text) {
				return false
			}
			named = named || own
		}
		return named
	})
}

// weight returns the sum of the positive weights of the bytes of a bait word, in the unit of ngram.Sums.Bytes.
func (w *work) weight(word *pattern.Word) (sum int32) {
	for at := max(word.At, 0); word.At >= 0 && at < min(word.At+len(word.Text), len(w.sums.Bytes)); at++ {
		sum += max(w.sums.Bytes[at], 0)
	}
	return sum
}
