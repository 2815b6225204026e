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

// The learned weights, written by plugins/internal/train/lexical. MODEL.md says what they were learned from.
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

var table, faultyTable = ngram.Open(head, piece0, piece1, piece2)

// owners tells the domains of brands and well-known sites, which the model mistakes for what is forged from their
// names.
var owners = func() *brand.Index {
	x := new(brand.Index)
	x.Bind()
	return x
}()

// Scores from unclear on are no longer those of an ordinary name, and from built on the name is written as reported
// ones are: MODEL.md gives the share of honest names beyond each.
const (
	unclear = 50
	built   = 65
	steals  = 75 // from here on the layer names a threat
)

// Score judges how the name of a domain, or of an email's mail domain, is written. It has nothing to say of a mailbox
// provider's, which tells nothing of who writes.
func Score(c *sdk.Check) sdk.Outcome {
	if faultyTable != nil {
		return c.Fail(faultyTable.Error())
	}
	host, ok := suffix.Read(c)
	if !ok {
		return sdk.Abstained
	}
	if _, provider := c.Fact("email.provider"); provider {
		return sdk.Abstained
	}
	if owner := owners.Known(&host); owner != "" {
		c.Signal(0, "lexical:name:known", "the domain is that of "+owner)
		return sdk.Scored
	}
	judge(c, &host)
	return sdk.Scored
}

// judge weighs how a name is written. It is apart from Score for its large frame, which an owner's domain can do
// without.
func judge(c *sdk.Check, host *suffix.Host) {
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
	case points < unclear:
		c.Signal(points, "lexical:name:ordinary", "the name is written as those of ordinary sites are")
	case points < built:
		c.Signal(points, "lexical:name:unclear", "the name is written partly as those of reported sites are")
	default:
		explain(c, &address, features, weights[:], share(points, parts))
	}
	if points >= steals {
		c.Threat(sdk.Phishing)
	}
}

// round takes points to the layer's scale, 0 to 100.
func round(points float32) int { return int(min(max(points, 0), 100) + 0.5) }

// share splits points among the parts that raised them, in proportion; a part of less than a tenth gets nothing. What
// rounding leaves goes to the part that raised them most.
func share(points int, parts [ngram.Parts]float32) (shares [ngram.Parts]int) {
	most := 0
	for i := range parts {
		if parts[i] > parts[most] {
			most = i
		}
	}
	var raised float32
	for _, w := range parts {
		if w*10 >= parts[most] {
			raised += max(w, 0)
		}
	}
	left := points
	for i, w := range parts {
		if i != most && w > 0 && w*10 >= parts[most] {
			shares[i] = int(float32(points) * w / raised)
			left -= shares[i]
		}
	}
	shares[most] = left
	return shares
}

// explain raises a signal for each part that has points, and names what in it moved them.
func explain(c *sdk.Check, a *ngram.Address, features []ngram.Feature, weights []float32, shares [ngram.Parts]int) {
	if points := shares[ngram.Name]; points > 0 {
		c.Signal(points, "lexical:wording:reported",
			"the name is worded like those of reported sites"+quoted(telling(a.Name, ngram.Name, features, weights)))
	}
	if points := shares[ngram.Left]; points > 0 {
		c.Signal(points, "lexical:subdomain:reported",
			"what stands left of the name is worded as under reported sites"+
				quoted(telling(a.Left, ngram.Left, features, weights)))
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

// quoted lists spans in quotation marks, after a colon.
func quoted(spans []string) string {
	if len(spans) == 0 {
		return ""
	}
	return ": “" + strings.Join(spans, "”, “") + "”"
}
