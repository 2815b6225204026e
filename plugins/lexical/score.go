package main

import (
	_ "embed"
	"strings"

	"assay/plugins/internal/brand"
	"assay/plugins/internal/quote"
	"assay/plugins/internal/suffix"
	"assay/plugins/lexical/ngram"
	"assay/sdk"
)

// The learned weights, written by plugins/internal/train/lexical.
var (
	//go:embed weights.head
	head string
	//go:embed weights-0.bin
	piece0 string
	//go:embed weights-1.bin
	piece1 string
	//go:embed weights-2.bin
	piece2 string
)

var table, tableErr = ngram.Open(head, piece0, piece1, piece2)

// The scores, 0 to 100, at which the signals change. The points of a name are proportional to the model's log-odds that
// it is reported, with 50 for even odds. An ordinary name has points too, which the bias of the lineup offsets. Only a
// name near the top of the scale reaches review by itself, and none is blocked (TestVerdicts).
const (
	unclearPoints  = 50 // below it, the name is ordinary
	reportedPoints = 65 // from here on, the name is written like reported ones
	threatPoints   = 75 // from here on, the layer names a threat
)

// Score scores how the name of a domain, or of the domain of an email address, is written. It abstains for mailbox
// providers, whose names do not describe their users.
func Score(c *sdk.Check) sdk.Outcome {
	if tableErr != nil {
		return c.Fail(tableErr.Error())
	}
	host, ok := suffix.Read(c)
	if !ok {
		return sdk.Abstained
	}
	if _, provider := c.Fact("email.provider"); provider {
		return sdk.Abstained
	}
	if owner := brand.OwnerName(&host); owner != "" { // the model would mistake it for a forgery
		c.Signal(0, "lexical:name:known", "the domain is that of "+owner)
		return sdk.Scored
	}
	scoreName(c, &host)
	return sdk.Scored
}

// scoreName adds up the weights of a name's features. It is not part of Score, so that domains of owners do not pay for
// its large stack frame.
func scoreName(c *sdk.Check, host *suffix.Host) {
	address := ngram.Of(host)
	var space [ngram.MaxFeatures]ngram.Feature
	features := address.Features(space[:0])
	var weights [ngram.MaxFeatures]float32
	var parts [ngram.Parts]float32
	var sum float32
	for i := range features {
		w := table.Weight(features[i].Hash)
		weights[i] = w
		parts[features[i].Part] += w
		sum += w
	}
	points := round(table.Points(sum))
	switch {
	case points < unclearPoints:
		c.Signal(points, "lexical:name:ordinary", "the name is written as those of ordinary sites are")
	case points < reportedPoints:
		c.Signal(points, "lexical:name:unclear", "the name is written partly as those of reported sites are")
	default:
		explain(c, &address, features, weights[:], split(points, parts))
	}
	if points >= threatPoints {
		c.Threat(sdk.Phishing)
	}
}

// round rounds points to a whole number from 0 to 100.
func round(points float32) int { return int(min(max(points, 0), 100) + 0.5) }

// split divides points among the parts that raised them, in proportion to their weights. A part with less than a tenth
// of the largest weight gets nothing. The part with the largest weight gets the remainder of rounding.
func split(points int, parts [ngram.Parts]float32) (shares [ngram.Parts]int) {
	largest := 0
	for i := range parts {
		if parts[i] > parts[largest] {
			largest = i
		}
	}
	var raised float32
	for _, w := range parts {
		if w*10 >= parts[largest] {
			raised += max(w, 0)
		}
	}
	left := points
	for i, w := range parts {
		if i != largest && w > 0 && w*10 >= parts[largest] {
			shares[i] = int(float32(points) * w / raised)
			left -= shares[i]
		}
	}
	shares[largest] = left
	return shares
}

// explain raises a signal for each part with points, and quotes the runs of characters that raised the score most.
func explain(c *sdk.Check, a *ngram.Address, features []ngram.Feature, weights []float32, shares [ngram.Parts]int) {
	if points := shares[ngram.Name]; points > 0 {
		c.Signal(points, "lexical:wording:reported",
			"the name is worded like those of reported sites"+
				quotedList(strongest(a.Name, ngram.Name, features, weights)))
	}
	if points := shares[ngram.Left]; points > 0 {
		c.Signal(points, "lexical:subdomain:reported",
			"what stands left of the name is worded as under reported sites"+
				quotedList(strongest(a.Left, ngram.Left, features, weights)))
	}
	if points := shares[ngram.Suffix]; points > 0 {
		code, text := "lexical:suffix:reported", "names built and worded like this are often reported under ."
		if a.Hosted {
			code, text = "lexical:hosting:reported", "sites named like this are often reported on the shared host "
		}
		c.Signal(points, code, text+quote.Of(a.Suffix))
	}
	if points := shares[ngram.Build]; points > 0 {
		c.Signal(points, "lexical:build:reported",
			"its length and its mix of letters, digits and hyphens are those of reported sites")
	}
}

// quotedList returns ": " and the spans in quotation marks, or "" if there are none.
func quotedList(spans []string) string {
	if len(spans) == 0 {
		return ""
	}
	return ": “" + strings.Join(spans, "”, “") + "”"
}
