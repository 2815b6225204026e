package main

import (
	_ "embed"

	"assay/plugins/internal/brand"
	"assay/plugins/internal/suffix"
	"assay/plugins/lexical/ngram"
	"assay/plugins/lexical/pattern"
	"assay/sdk"
)

// The learned weights, written by plugins/internal/train/lexical, as is odds.go.
var (
	//go:embed weights.head
	head string
	//go:embed weights-0.bin
	piece0 []byte
	//go:embed weights-1.bin
	piece1 []byte
	//go:embed words.bin
	vocabulary []byte
)

var (
	table, tableErr = ngram.Open(head, piece0, piece1)
	words, wordsErr = ngram.OpenWords(vocabulary, ngram.WordBits)
)

// The range of the score, as in the manifest. Points are proportional to the log-odds that a name is reported rather
// than honest, 20 for each unit; a name that tells nothing has 0.
const (
	lowest     = -45
	lowestMail = -20 // of a mail domain: disposable ones are mostly ordinary words, so an ordinary name clears less
	highest    = 83
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
	w.scoreName(c, &w.host)
	return sdk.Scored
}

// work holds what scoring a name needs. It is too large for the small stack of a guest.
type work struct {
	host    suffix.Host
	address ngram.Address
	reader  ngram.Reader
	sums    ngram.Sums
	name    pattern.Name
	parts   shares
	texts   pieces
}

// scoreName adds up the points of a name.
func (w *work) scoreName(c *sdk.Check, host *suffix.Host) {
	w.address = ngram.Of(host)
	w.reader.Words = words
	table.Sum(w.reader.Read(&w.address), &w.sums)
	w.name.Read(host)
	w.parts = shares{}
	copy(w.parts[:], w.sums.Parts[:])
	for _, f := range w.name.Features(&rarity) {
		w.parts[partOf[f.Part]] += int(odds[f.ID]) * ngram.Unit
	}
	sum := int(odds[pattern.Bias]) * ngram.Unit
	for _, p := range w.parts {
		sum += p
	}
	points := min(max((sum+ngram.Unit/2)>>10, lowest), highest)
	if points < lowestMail && c.Has(sdk.EmailDomain) {
		points = lowestMail
	}
	w.explain(c, points)
}
