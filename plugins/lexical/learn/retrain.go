package learn

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"assay/host/entity"
	"assay/host/measure/eval"
	"assay/plugins/internal/train"
	"assay/plugins/lexical/ngram"
	"assay/registry"
)

// Retrained is the released layer after it has learned an installation's names.
type Retrained struct {
	Learned int        // names that were learned
	Share   float64    // of the learned changes that the layer's own cases allow
	Held    []eval.Row // names that were not learned, and chose neither the bias nor the bar
	Wasm    []byte     // the layer, with the manifest's proof if Held suffices for one; otherwise it does not block
}

// Limits on the effect of a row.
const (
	perAccount = 100 // rows that an account reported, of each label
	leastNames = 100 // of each label in each part of the rows
	leastShare = 0.1
)

const (
	review   = 47 // points from which a name's style leads to a review
	cautious = 70 // the maximum points of a name that may not be blocked, as in the layer
	noBar    = 1 << 10
)

// Retrain learns two thirds of the labelled domains of an installation, beginning with the released layer's model.
// Names of a campaign often share their first letters, and stay together. A sixth of the names chooses the bias and the
// bar: no more honest names than before get a review, and at most one in 2,000 may be blocked. A sixth is held out.
//
// Names on shared hosts are left out: reports hold many of them and honest lists few, so that the model would learn the
// host. So are an account's rows after the first hundred of each label, so that no customer outweighs the others.
//
// The layer must not forget what an installation's names do not show. passes reports whether a layer passes its own
// cases, and Retrain keeps as much of the learned changes as these cases allow.
func Retrain(layer registry.Module, version string, rows []eval.Row, passes func(wasm []byte) (bool, error)) (
	*Retrained, error) {
	released, err := Released()
	if err != nil {
		return nil, err
	}
	learned, chosen, held, err := split(rows)
	if err != nil {
		return nil, err
	}
	taught := released.Refit(learned.rows)
	r := &Retrained{Learned: len(learned.rows)}
	for _, i := range held.origin {
		r.Held = append(r.Held, rows[i])
	}
	cases, err := expected(layer)
	if err != nil {
		return nil, err
	}
	for r.Share = 1; r.Share > leastShare; r.Share *= 0.8 {
		m := released.toward(taught, r.Share)
		m.bias -= excess(m.honest(chosen), released.honest(chosen))
		if m.misses(cases) > released.misses(cases) {
			continue // so there is no need to build it
		}
		manifest := layer.Manifest
		manifest.Version = version
		if r.Wasm, err = m.module(layer, manifest, chosen, held); err != nil {
			return nil, err
		}
		if ok, err := passes(r.Wasm); ok || err != nil {
			return r, err
		}
	}
	return nil, errors.New("the layer's own cases fail with what it learned, even with little of it")
}

// wanted is a name of a layer's case, and the points that it must have.
type wanted struct {
	row         Row
	least, most float64
}

// expected returns the points that a layer's cases expect of domains without facts.
func expected(layer registry.Module) (all []wanted, err error) {
	cases, err := layer.Cases()
	if err != nil {
		return nil, err
	}
	words, err := ngram.ReleasedWords()
	if err != nil {
		return nil, err
	}
	for _, c := range cases {
		d, err := train.NewDomain(entity.Domain, c.Value)
		if c.Type == string(entity.Domain) && len(c.Facts) == 0 && err == nil && d != nil {
			d.Host.Name = ngram.Plain(d.Host.Name)
			all = append(all, wanted{ReadRows([]*train.Domain{d}, words)[0], float64(c.Min), float64(c.Max)})
		}
	}
	return all, nil
}

// misses counts the names whose points from a model are not the wanted ones. Above cautious all points are the same,
// because the bar decides whether they block.
func (m *Model) misses(all []wanted) (n int) {
	for i := range all {
		if p := min(m.Points(&all[i].row), cautious); p < min(all[i].least, cautious) || p > all[i].most {
			n++
		}
	}
	return n
}

// module returns the released layer with the model.
func (m *Model) module(layer registry.Module, manifest registry.Manifest, chosen, held part) ([]byte, error) {
	bar := max(int(leastBar(m.honest(chosen))), cautious+1)
	manifest.Blocks = m.prove(held, bar)
	if manifest.Blocks.Validate(manifest) != nil {
		bar, manifest.Blocks, manifest.ScoreRange = noBar, nil, &[2]int{lowest, cautious}
	}
	text, err := json.Marshal(manifest)
	if err != nil {
		return nil, err
	}
	head, pieces := ngram.Released()
	return layer.Derive(text, append(pieces[:], []byte(head)), append(m.Pieces(), m.Head(bar)))
}

// part is a part of the rows.
type part struct {
	rows   []Row
	origin []int // of each row in the installation's rows
}

// split reads the names of rows and divides them.
func split(all []eval.Row) (learned, chosen, held part, err error) {
	words, err := ngram.ReleasedWords()
	if err != nil {
		return learned, chosen, held, err
	}
	newest, today := "", time.Now().Format(time.DateOnly)
	for i := range all {
		if train.Age(all[i].Date, today) >= 0 { // not mistyped
			newest = max(newest, all[i].Date)
		}
	}
	var parts [3]part
	var domains [3][]*train.Domain
	seen, reported := map[string]bool{}, map[string]int{}
	for i := range all {
		row := &all[i]
		d, err := train.NewDomain(entity.Domain, row.Value)
		if err != nil {
			return learned, chosen, held, fmt.Errorf("reading %s: %w", row.Value, err)
		}
		reporter := row.Account + " " + strconv.FormatBool(row.Malicious)
		if d == nil || d.Hosted || seen[d.Site] || row.Account != "" && reported[reporter] == perAccount {
			continue
		}
		reported[reporter]++
		seen[d.Site] = true
		d.Malicious, d.Source, d.Age = row.Malicious, row.Source, train.Age(row.Date, newest)
		d.Host.Name = ngram.Plain(d.Host.Name)
		at := [...]int{0, 0, 0, 0, 1, 2}[eval.Hash(eval.Letters(d.Host.Name))%6]
		domains[at] = append(domains[at], d)
		parts[at].origin = append(parts[at].origin, i)
	}
	for at := range parts {
		p := &parts[at]
		p.rows = ReadRows(domains[at], words)
		n := 0
		for i := range p.rows {
			if p.rows[i].Malicious {
				n++
			}
		}
		if n < leastNames || len(p.rows)-n < leastNames {
			return learned, chosen, held, fmt.Errorf("a part of the names has %d reported and %d honest ones, and "+
				"needs %d of each: names on shared hosts and repeated ones do not count", n, len(p.rows)-n, leastNames)
		}
	}
	return parts[0], parts[1], parts[2], nil
}

// honest returns the points of the honest names of a part, the most first.
func (m *Model) honest(p part) (points []float64) {
	for i := range p.rows {
		if !p.rows[i].Malicious {
			points = append(points, m.Points(&p.rows[i]))
		}
	}
	slices.SortFunc(points, func(a, b float64) int { return cmp.Compare(b, a) })
	return points
}

// excess returns how many points honest names must lose so that no more of them than before get a review.
func excess(now, before []float64) float64 {
	n := slices.IndexFunc(before, func(p float64) bool { return p < review })
	if n < 0 {
		return 0
	}
	return max(now[n]-review+1, 0)
}

// leastBar returns the points that at most one honest name in 2,000 has.
func leastBar(honest []float64) float64 { return honest[len(honest)/2_000] + 1 }

// prove counts how many honest names of each source reach the bar. Sources with too few names are pooled.
func (m *Model) prove(held part, bar int) *registry.Proof {
	kinds := map[string]*registry.Proven{}
	for i := range held.rows {
		r := &held.rows[i]
		if r.Malicious {
			continue
		}
		k := kinds[r.Source]
		if k == nil {
			k = &registry.Proven{Kind: r.Source}
			kinds[r.Source] = k
		}
		k.Names++
		if m.Points(r) >= float64(bar) {
			k.Reached++
		}
	}
	proof := &registry.Proof{From: cautious + 1}
	others := registry.Proven{Kind: "others"}
	for _, source := range slices.Sorted(maps.Keys(kinds)) {
		if k := kinds[source]; source != "" && k.Names >= registry.LeastNames {
			proof.Honest = append(proof.Honest, *k)
		} else {
			others.Names, others.Reached = others.Names+k.Names, others.Reached+k.Reached
		}
	}
	if others.Names >= registry.LeastNames || others.Reached > 0 {
		proof.Honest = append(proof.Honest, others)
	}
	return proof
}
