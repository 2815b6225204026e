package main

// targetWeight is what a target row counts in training, against the pool's average row.
const targetWeight = 3

// weigh sets the rows' weights so that the pool counts as if it had the target files' mix of sources, and of shared
// hosts among good and bad rows: a source that is large only because its publisher is diligent does not drown the
// others.
func weigh(rows []row) {
	count := func(key func(*row) string) (target, pool map[string]float64, ofTarget, ofPool float64) {
		target, pool = map[string]float64{}, map[string]float64{}
		for i := range rows {
			r := &rows[i]
			switch k, w := key(r), float64(r.weight); {
			case r.lent:
			case r.target:
				target[k] += w
				ofTarget += w
			default:
				pool[k] += w
				ofPool += w
			}
		}
		return target, pool, ofTarget, ofPool
	}
	for i := range rows {
		rows[i].weight = 1
	}
	for _, key := range []func(*row) string{
		func(r *row) string { return r.source + " " + side(r.bad) },
		func(r *row) string { return side(r.bad) + " " + host(r.address.Hosted) },
	} {
		target, pool, ofTarget, ofPool := count(key)
		if ofTarget == 0 || ofPool == 0 {
			break
		}
		for i := range rows {
			if r := &rows[i]; !r.target && !r.lent {
				k := key(r)
				r.weight *= float32(max(target[k], 0.5) / ofTarget / (pool[k] / ofPool))
			}
		}
	}
	for i := range rows {
		switch r := &rows[i]; {
		case r.lent:
			r.weight = lenderWeight
		case r.target:
			r.weight = targetWeight
		}
	}
	house(rows)
}

func side(bad bool) string {
	if bad {
		return "bad"
	}
	return "good"
}

func host(hosted bool) string {
	if hosted {
		return "hosted"
	}
	return "own"
}
