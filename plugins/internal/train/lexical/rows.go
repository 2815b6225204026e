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
	slots    []uint32 // of the table of weights
	scale    float32  // 1 by the square root of their number
	patterns []uint16
}

// readRows reads the features of domains.
func readRows(domains []*train.Domain, words *ngram.Words, rarity *pattern.Rarity) []row {
	rows := make([]row, len(domains))
	var wg sync.WaitGroup
	workers := runtime.NumCPU()
	for worker := range workers {
		wg.Go(func() {
			reader, name := &ngram.Reader{Words: words}, new(pattern.Name)
			for i := worker; i < len(domains); i += workers {
				rows[i] = readRow(domains[i], reader, name, rarity)
			}
		})
	}
	wg.Wait()
	return rows
}

func readRow(d *train.Domain, reader *ngram.Reader, name *pattern.Name, rarity *pattern.Rarity) row {
	r := row{Domain: d}
	address := ngram.Of(&d.Host)
	for _, f := range reader.Read(&address) {
		r.slots = append(r.slots, ngram.Slot(f.Hash))
	}
	r.scale = float32(1 / math.Sqrt(float64(len(r.slots))))
	name.Read(&d.Host)
	for _, f := range name.Features(rarity) {
		r.patterns = append(r.patterns, f.ID)
	}
	return r
}

// pseudocount is added to the count of each pair of letters.
const pseudocount = 0.5

// rarityOf returns the rarity of pairs of letters in the longest runs of letters of the honest names to train on.
func rarityOf(domains []*train.Domain) *pattern.Rarity {
	var counts [pattern.RarityRows][pattern.RarityColumns]float64
	name := new(pattern.Name)
	for _, d := range domains {
		if d.Malicious || d.TestOnly {
			continue
		}
		name.Read(&d.Host)
		previous := 0
		for _, c := range name.Letters {
			counts[previous][c-'a']++
			previous = int(c-'a') + 1
		}
		if previous > 0 {
			counts[previous][pattern.RarityColumns-1]++
		}
	}
	table := make([]byte, 0, pattern.RarityRows*pattern.RarityColumns)
	for _, row := range counts {
		total := 0.0
		for _, n := range row {
			total += n + pseudocount
		}
		for _, n := range row {
			bits := math.Round(-4 * math.Log2((n+pseudocount)/total))
			table = append(table, pattern.RarityZero+byte(min(max(bits, 0), 57)))
		}
	}
	rarity := pattern.Rarity(table)
	return &rarity
}
