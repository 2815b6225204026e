package learn

import (
	"math"
	"runtime"
	"sync"

	"assay/plugins/internal/train"
	"assay/plugins/lexical/ngram"
	"assay/plugins/lexical/pattern"
)

// Row is a domain to train or test on.
type Row struct {
	*train.Domain
	slots []uint32 // of the table of weights
	scale float32  // 1 divided by the square root of their number
	more  int      // points of pattern.Points
}

// ReadRows reads the features of domains. If nine in ten of a source's reports are of one country, such as those of a
// list of .fr names, their suffix says nothing about them, and is left out.
func ReadRows(domains []*train.Domain, words *ngram.Words) []Row {
	rows, reports, ofLabel := make([]Row, len(domains)), map[string]int{}, map[[2]string]int{}
	for _, d := range domains {
		if d.Malicious {
			reports[d.Source]++
			ofLabel[[2]string{d.Source, d.Host.TLD}]++
		}
	}
	national := func(d *train.Domain) bool {
		return d.Malicious && len(d.Host.TLD) == 2 && reports[d.Source] >= 100 && // two letters name a country
			10*ofLabel[[2]string{d.Source, d.Host.TLD}] >= 9*reports[d.Source]
	}
	var wg sync.WaitGroup
	workers := runtime.NumCPU()
	for worker := range workers {
		wg.Go(func() {
			reader, name := &ngram.Reader{Words: words}, new(pattern.Name)
			for i := worker; i < len(domains); i += workers {
				rows[i] = readRow(domains[i], national(domains[i]), reader, name)
			}
		})
	}
	wg.Wait()
	return rows
}

func readRow(d *train.Domain, national bool, reader *ngram.Reader, name *pattern.Name) Row {
	r := Row{Domain: d}
	address := ngram.Of(&d.Host)
	for _, f := range reader.Read(&address) {
		if !national || f.Part != ngram.Suffix {
			r.slots = append(r.slots, ngram.Slot(f.Hash))
		}
	}
	r.scale = float32(1 / math.Sqrt(float64(len(r.slots))))
	name.Read(&d.Host)
	more := name.Points()
	r.more = more.Address + more.Shape + more.Bait
	return r
}

const (
	sourcePower = -0.15 // a row's weight falls with the number of its source's rows to this power
	halfLife    = 2.0   // years in which a report loses half its weight
	undated     = 0.7   // the weight of a report without a date
	prevalence  = 0.3   // the weight of all reported rows, relative to the honest ones
)

// Weigh sets the training weights of the rows at indices. factors multiply the weights of sources.
func Weigh(rows []Row, indices []int32, factors map[string]float64) {
	counts := map[string]int{}
	for _, i := range indices {
		counts[rows[i].Source]++
	}
	good, bad := 0.0, 0.0
	for _, i := range indices {
		r := &rows[i]
		w := math.Pow(float64(counts[r.Source]), sourcePower)
		if f, ok := factors[r.Source]; ok {
			w *= f
		}
		switch {
		case !r.Malicious:
			good += w
		case r.Age >= 0:
			w *= math.Pow(0.5, r.Age/halfLife)
			bad += w
		default:
			w *= undated
			bad += w
		}
		r.Weight = float32(w)
	}
	for _, i := range indices {
		r := &rows[i]
		if r.Malicious {
			r.Weight *= float32(prevalence * float64(len(indices)) / (2 * bad))
		} else {
			r.Weight *= float32(float64(len(indices)) / (2 * good))
		}
	}
}
