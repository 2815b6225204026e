package main

import (
	"cmp"
	"maps"
	"slices"
)

// Lists of honest sites name hardly one under a shared host, and reports name many: without more, every site under
// vercel.app or weebly.com would be suspect for its host alone.
const (
	honestShare = 0.5 // what good rows under a shared host weigh at least, as a share of what the bad ones do
	mostTenants = 400 // made-up rows under one host
)

// settle appends good rows under every shared host that bad pool rows are under: the names of good pool rows, as their
// owners' sites might be called there. They are never tested, and none is the site of another row.
func settle(rows []row) []row {
	hosts := map[string]*row{} // a bad row under each
	bad := map[string]int{}
	known := make(map[string]bool, len(rows))
	var names []*row
	for i := range rows {
		r := &rows[i]
		known[r.site] = true
		switch {
		case r.target || r.lent:
		case r.bad && r.address.Hosted:
			hosts[r.address.Suffix] = r
			bad[r.address.Suffix]++
		case !r.bad && !r.address.Hosted && r.address.Left == "":
			names = append(names, r)
		}
	}
	if len(names) == 0 {
		return rows
	}
	slices.SortFunc(names, func(a, b *row) int {
		return cmp.Or(cmp.Compare(hash(a.site), hash(b.site)), cmp.Compare(a.site, b.site))
	})
	next := 0
	for _, suffix := range slices.Sorted(maps.Keys(hosts)) {
		at := hosts[suffix].address
		for range min(bad[suffix], mostTenants) {
			r := row{lent: true, address: at}
			r.address.Name, r.address.Left = names[next%len(names)].address.Name, ""
			next++
			if r.site = r.address.Name + "." + suffix; known[r.site] {
				continue
			}
			r.read()
			rows = append(rows, r)
		}
	}
	return rows
}

// house weighs the rows that settle made, so that the good rows under a host come to honestShare of the bad ones.
func house(rows []row) {
	type tally struct{ bad, good, made float64 }
	hosts := map[string]*tally{}
	each := func(do func(*row, *tally)) {
		for i := range rows {
			r := &rows[i]
			if !r.address.Hosted {
				continue
			}
			if hosts[r.address.Suffix] == nil {
				hosts[r.address.Suffix] = &tally{}
			}
			do(r, hosts[r.address.Suffix])
		}
	}
	each(func(r *row, t *tally) {
		switch {
		case r.lent:
			t.made++
		case r.bad:
			t.bad += float64(r.weight)
		default:
			t.good += float64(r.weight)
		}
	})
	each(func(r *row, t *tally) {
		if r.lent {
			r.weight = float32(max(honestShare*t.bad-t.good, 0) / t.made)
		}
	})
}
