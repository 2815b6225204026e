package main

import (
	"cmp"
	"hash/fnv"
	"slices"
	"strings"
	"sync"
)

// split is one way to hold rows out: the model learns from train and is measured on test.
type split struct {
	train, test []int32
}

// trial is a kind of splits, measured together.
type trial struct {
	name   string
	splits []split
	pooled bool // the splits' scores are comparable, so that they are measured as one
	even   bool // good and bad rows weigh alike in each split's training
}

// groups is into how many parts rows and sources are cut.
const groups = 4

// trials cuts rows in four ways: rows at random by site, then whole families of bad sources, of good sources, and of
// both, absent from training. Only target rows are tested.
func trials(rows []row) []trial {
	family := families(rows)
	random := trial{name: "rows held out", pooled: true}
	for g := range groups {
		var s split
		for i := range rows {
			if rows[i].target && int(hash(rows[i].site)%groups) == g {
				s.test = append(s.test, int32(i))
			} else {
				s.train = append(s.train, int32(i))
			}
		}
		random.splits = append(random.splits, s)
	}
	all := []trial{random}
	for _, absent := range []struct {
		name      string
		bad, good bool
	}{
		{"bad sources absent", true, false},
		{"good sources absent", false, true},
		{"both absent", true, true},
	} {
		t := trial{name: absent.name}
		for g := range groups {
			var s split
			for i := range rows {
				r := &rows[i]
				concerned := r.bad && absent.bad || !r.bad && absent.good
				away := concerned && family[key(r)] == g
				switch {
				case r.target && (away || !concerned):
					s.test = append(s.test, int32(i))
				case !r.target && !away && !r.lent: // a borrowed word may come from an absent source
					s.train = append(s.train, int32(i))
				}
			}
			t.splits = append(t.splits, s)
		}
		all = append(all, t)
	}
	return all
}

func hash(s string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(s))
	return h.Sum64()
}

// key names the family of a row's source: lists of one publisher copy from each other, and share the name's first word.
func key(r *row) string {
	first, _, _ := strings.Cut(r.source, "_")
	return side(r.bad) + " " + first
}

// families deals the families of each side out to groups, the largest first, back and forth.
func families(rows []row) map[string]int {
	size := map[string]int{}
	for i := range rows {
		if rows[i].target {
			size[key(&rows[i])]++
		}
	}
	names := make([]string, 0, len(size))
	for name := range size {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(cmp.Compare(size[b], size[a]), cmp.Compare(a, b)) })
	group, dealt := map[string]int{}, map[string]int{}
	for _, name := range names {
		s := name[:4] // bad or good
		g := dealt[s] % (2 * groups)
		dealt[s]++
		group[name] = min(g, 2*groups-1-g)
	}
	return group
}

// run learns from each split and returns its sums of weights for the test rows, in order. Splits run at most jobs at a
// time, each on its own.
func (t trial) run(rows []row, jobs int, done func()) [][]float32 {
	sums := make([][]float32, len(t.splits))
	slot := make(chan struct{}, jobs)
	var wg sync.WaitGroup
	var mu sync.Mutex // done is not called concurrently
	for i, s := range t.splits {
		wg.Go(func() {
			slot <- struct{}{}
			defer func() { <-slot }()
			share := sides{1, 1}
			if t.even {
				share = evenly(rows, s.train)
			}
			weights := learn(rows, s.train, share, func(int) {})
			levels, at := quantise(weights, usage(rows, s.train))
			for k := range weights {
				weights[k] = levels[at[k]]
			}
			sums[i] = make([]float32, len(s.test))
			for j, r := range s.test {
				sums[i][j] = sum(weights, rows[r].features)
			}
			mu.Lock()
			defer mu.Unlock()
			done()
		})
	}
	wg.Wait()
	return sums
}
