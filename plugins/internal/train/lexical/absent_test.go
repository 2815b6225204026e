package main

import (
	"bytes"
	"math"
	"strings"
	"testing"
)

// A model must know all families but the one it is tested on, and every target row is tested once.
func TestNewcomersLeaveOneFamilyOut(t *testing.T) {
	t.Parallel()
	rows := made(t, 400)
	for i := range rows {
		rows[i].source += "_" + rows[i].site[:1] // lists of one family
	}
	rows = append(rows, row{lent: true})
	weigh(rows)
	nc := newcomers(rows)
	if len(nc.splits) != 10 || !nc.even || nc.pooled {
		t.Fatalf("%d splits, even %t, pooled %t; want one for each of five lists and five reports", len(nc.splits),
			nc.even, nc.pooled)
	}
	tested := map[int32]bool{}
	for _, s := range nc.splits {
		away := key(&rows[s.test[0]])
		known := map[string]bool{}
		for _, i := range s.train {
			if key(&rows[i]) == away || rows[i].lent {
				t.Fatalf("%s: learns from %+v", away, rows[i])
			}
			known[key(&rows[i])] = true
		}
		if len(known) != 9 {
			t.Errorf("%s: learns from %d other families, want 9", away, len(known))
		}
		for _, i := range s.test {
			if key(&rows[i]) != away || !rows[i].target || tested[i] {
				t.Fatalf("%s: tests %+v, tested before: %t", away, rows[i], tested[i])
			}
			tested[i] = true
		}
	}
	if len(tested) != 200 {
		t.Errorf("%d rows tested, want all 200 of the target", len(tested))
	}
}

func TestEvenly(t *testing.T) {
	t.Parallel()
	rows := []row{{weight: 1}, {weight: 2}, {bad: true, weight: 9}, {bad: true, weight: 1000}}
	share := evenly(rows, []int32{0, 1, 2})
	good, bad := 3*share.good, 9*share.bad
	if math.Abs(float64(good-bad)) > 1e-5 || math.Abs(float64(good+bad-12)) > 1e-5 {
		t.Errorf("good rows weigh %v and bad ones %v, want 6 each", good, bad)
	}
}

// A training whose sides are kept even must not learn that one of them is rare.
func TestRunKeepsSidesEven(t *testing.T) {
	t.Parallel()
	rows := made(t, 40)
	for i := range rows {
		// nothing tells the sides apart; a few, so that each has a weight that four bits keep
		rows[i].features = rows[0].features[:3]
		rows[i].weight = 1
		if rows[i].bad {
			rows[i].weight = 9
		}
	}
	whole := split{test: []int32{0}}
	for range 25 {
		for i := range rows {
			whole.train = append(whole.train, int32(i))
		}
	}
	for even, limit := range map[bool]float64{false: 9, true: 0.7} {
		sums := trial{splits: []split{whole}, even: even}.run(rows, 1, func() {})
		if got := math.Abs(float64(sums[0][0])); got > limit || !even && got < 1.5 {
			t.Errorf("even %t: a name of either side has log-odds of %.2f", even, got)
		}
	}
}

// Bad rows of absent families stand against good rows held out, and the reverse; the mark is that of rows held out.
func TestDetailNewcomers(t *testing.T) {
	t.Parallel()
	rows := []row{{bad: true, source: "reports"}, {source: "list"}, {source: "hosts"}, {source: "untested"}}
	rows[0].address.Suffix, rows[1].address.Suffix = "com", "com"
	held := map[*row]float64{&rows[0]: 3, &rows[1]: 1, &rows[2]: 0}
	absent := map[*row]float64{&rows[0]: 0.5, &rows[1]: 2, &rows[2]: 4}
	var out bytes.Buffer
	detailNewcomers(&out, rows, held, absent)
	got := strings.Join(strings.Fields(out.String()), " ")
	for _, want := range []string{
		"one bad family absent 3 0.5000 0.000 .com alone 2 0.0000 0.000",
		"one good family absent 3 0.5000 0.000 .com alone 2 1.0000 1.000",
		"the row's own absent 3 0.0000 0.000 .com alone 2 0.0000 0.000",
		"bad reports 1 0.000", "good hosts 1 1.000", "good list 1 0.000",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the report lacks %q:\n%s", want, out.String())
		}
	}
}
