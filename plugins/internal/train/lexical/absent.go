package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
)

// newcomers leaves out one family of sources at a time, bad or good: its target rows are tested by a model that learned
// from all other families, their target rows too. That is what a new list meets in service, where all known ones stay.
// The sides stay even in training, or a model that lost much of one side would stand apart from the others.
func newcomers(rows []row) trial {
	tested := map[string]bool{}
	for i := range rows {
		if rows[i].target {
			tested[key(&rows[i])] = true
		}
	}
	t := trial{name: "one family absent", even: true}
	for _, family := range slices.Sorted(maps.Keys(tested)) {
		var s split
		for i := range rows {
			r := &rows[i]
			switch away := key(r) == family; {
			case away && r.target:
				s.test = append(s.test, int32(i))
			case !away && !r.lent: // a borrowed word may come from the absent source
				s.train = append(s.train, int32(i))
			}
		}
		t.splits = append(t.splits, s)
	}
	return t
}

// detailNewcomers prints how well rows are told apart when the families of the bad ones, of the good ones and of both
// are absent: held has the sums of weights of rows held out by site alone, absent those of the models that never saw
// the row's family. Shares are beyond one mark, which 1% of the good rows held out reach: in service a mark is set by
// known sources.
func detailNewcomers(out io.Writer, rows []row, held, absent map[*row]float64) {
	var known, bad, good, both []scored
	for i := range rows {
		r := &rows[i]
		if _, tested := held[r]; !tested {
			continue
		}
		h, a := scored{held[r], r}, scored{absent[r], r}
		known, both = append(known, h), append(both, a)
		if r.bad {
			bad, good = append(bad, a), append(good, h)
		} else {
			bad, good = append(bad, h), append(good, a)
		}
	}
	for _, part := range []struct {
		name string
		all  []scored
	}{
		{"one bad family absent", bad}, {"one good family absent", good}, {"the row's own absent", both},
	} {
		q := judge(part.all)
		fmt.Fprintf(out, "%-22s %8d %8.4f  %.3f\n", part.name, len(part.all), q.auc, q.recall)
		some := slices.DeleteFunc(slices.Clone(part.all), func(s scored) bool { return s.row.address.Suffix != "com" })
		q = judge(some)
		fmt.Fprintf(out, "%-22s %8d %8.4f  %.3f\n", "  .com alone", len(some), q.auc, q.recall)
	}
	mark := judge(known).above
	table(out, "share above the mark of rows held out, by source", both, mark, bySource)
	fmt.Fprintln(out)
}
