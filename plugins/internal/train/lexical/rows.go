package main

import (
	"math"
	"runtime"
	"sync"

	"assay/plugins/internal/train"
	"assay/plugins/lexical/ngram"
	"assay/plugins/lexical/pattern"
)

// row is a domain to train or test on.
type row struct {
	*train.Domain
	slots []uint32 // of the table of weights
	scale float32  // 1 by the square root of their number
	more  int      // points of pattern.Points
}

// readRows reads the features of domains.
func readRows(domains []*train.Domain, words *ngram.Words) []row {
	rows := make([]row, len(domains))
	var wg sync.WaitGroup
	workers := runtime.NumCPU()
	for worker := range workers {
		wg.Go(func() {
			reader, name := &ngram.Reader{Words: words}, new(pattern.Name)
			for i := worker; i < len(domains); i += workers {
				rows[i] = readRow(domains[i], reader, name)
			}
		})
	}
	wg.Wait()
	return rows
}

func readRow(d *train.Domain, reader *ngram.Reader, name *pattern.Name) row {
	r := row{Domain: d}
	address := ngram.Of(&d.Host)
	for _, f := range reader.Read(&address) {
		r.slots = append(r.slots, ngram.Slot(f.Hash))
	}
	r.scale = float32(1 / math.Sqrt(float64(len(r.slots))))
	name.Read(&d.Host)
	more := name.Points()
	r.more = more.Address + more.Shape + more.Bait
	return r
}
