package demotion_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"assay/host/check"
	"assay/host/entity"
	"assay/host/lineup/demotion"
	"assay/registry/expect"
)

var (
	start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	terms = &check.Terms{Bias: -2, Bands: check.Bands{Review: 40, Block: 70}}
	full  = check.Range{0, 100}
)

// The outcomes of a layer, and of the clearing layer before it.
var (
	fine        = check.Outcome{Layer: "graph", Weight: 4, Range: full}
	accusing    = check.Outcome{Layer: "graph", Weight: 4, Range: full, Score: 60, Contribution: 2.4}
	hinting     = check.Outcome{Layer: "graph", Weight: 4, Range: full, Score: 20, Contribution: 0.8}
	trapped     = check.Outcome{Layer: "graph", Weight: 4, Range: full, Failure: check.Trap}
	exhausted   = check.Outcome{Layer: "graph", Weight: 4, Range: full, Failure: check.Exhausted}
	suspended   = check.Outcome{Layer: "graph", Weight: 4, Range: full, Failure: check.Suspended}
	needed      = check.Outcome{Layer: "graph", Weight: 4, Range: full, Failure: check.Trap, Required: true}
	established = check.Outcome{Layer: "standing", Range: check.Range{-100, 0}, Score: -45}
	unknown     = check.Outcome{Layer: "standing", Range: check.Range{-100, 0}, Score: -39}
	honestStyle = check.Outcome{Layer: "lexical", Range: check.Range{-80, 100}, Score: -80}
)

// day is a day of checks.
type day struct {
	*demotion.Watch
	at time.Time
}

// check records n checks of an account, with the outcome o after that of another layer.
func (d *day) check(account string, n int, other, o check.Outcome) {
	for range n {
		d.at = d.at.Add(time.Second)
		d.Remember([]check.Record{{Caller: check.Caller{Account: account}, Decision: &check.Decision{
			Type: entity.Domain, Revision: 7, At: d.at, Terms: terms, Layers: []check.Outcome{other, o}}}})
	}
}

func TestWatch(t *testing.T) {
	t.Parallel()
	// each records n checks for each of some accounts.
	each := func(accounts, n int, other, o check.Outcome) func(d *day) {
		return func(d *day) {
			for i := range accounts {
				d.check(fmt.Sprint("acct_", i), n, other, o)
			}
		}
	}
	for name, c := range map[string]struct {
		checks []func(d *day)
		want   string // part of the reason; empty: nothing is found
	}{
		"all is well":                    {[]func(*day){each(9, 50, established, fine)}, ""},
		"crashes for three accounts":     {[]func(*day){each(3, 3, unknown, trapped)}, "it failed (trap)"},
		"burned fuel for three accounts": {[]func(*day){each(3, 3, unknown, exhausted)}, "3 of 3 accounts"},
		"crashes for two accounts":       {[]func(*day){each(2, 50, unknown, trapped)}, ""},
		"two crashes for each of many":   {[]func(*day){each(50, 2, unknown, trapped)}, ""},
		"crashes for fewer than half":    {[]func(*day){each(7, 1, unknown, fine), each(3, 9, unknown, trapped)}, ""},
		"crashes for half of the accounts": {[]func(*day){each(6, 1, unknown, fine), each(3, 9, unknown, trapped)},
			"3 of 6"},
		"crashes that are long past": {[]func(*day){each(3, 2, unknown, trapped), each(3, 32, unknown, fine),
			each(3, 2, unknown, trapped)}, ""},
		"crashes for one account after another": {[]func(*day){func(d *day) {
			for i := range 9 {
				d.check(fmt.Sprint("acct_", i%4), 3, unknown, trapped)
				d.check(fmt.Sprint("acct_", i%4), 32, unknown, fine)
			}
		}}, ""},
		"crashes now and then": {[]func(*day){each(3, 1, unknown, trapped), each(3, 10, unknown, fine),
			each(3, 1, unknown, trapped), each(3, 10, unknown, fine), each(3, 1, unknown, trapped)}, "it failed"},
		"crashes of two days": {[]func(*day){each(3, 2, unknown, trapped),
			func(d *day) { d.at = d.at.Add(25 * time.Hour) }, each(3, 2, unknown, trapped)}, ""},
		"a required layer": {[]func(*day){each(9, 50, unknown, needed)}, ""},
		// One account can suspend a layer, and then all get checks without it.
		"a suspended layer": {[]func(*day){each(1, 5, unknown, trapped), each(9, 50, unknown, suspended)}, ""},

		"established entities are accused": {[]func(*day){each(3, 8, established, accusing)}, "it would have 8 of 32"},
		"seven of them":                    {[]func(*day){each(9, 7, established, accusing)}, ""},
		"unknown entities are accused":     {[]func(*day){each(9, 50, unknown, accusing)}, ""},
		"entities that look honest":        {[]func(*day){each(9, 50, honestStyle, accusing)}, ""},
		"hints about established entities": {[]func(*day){each(9, 50, established, hinting)}, ""},
		"fraud between": {[]func(*day){each(3, 7, established, accusing), each(3, 40, unknown, accusing),
			each(3, 1, established, accusing)}, "3 of 3"},
		"established ones for fewer than half": {[]func(*day){each(7, 1, unknown, fine),
			each(3, 50, established, accusing)}, ""},
	} {
		d := &day{demotion.NewWatch(), start}
		for _, more := range c.checks {
			more(d)
		}
		select {
		case f := <-d.Found():
			if c.want == "" || f.Layer != "graph" || f.Revision != 7 || !strings.Contains(f.Reason, c.want) {
				t.Errorf("%s: found %+v, want %q", name, f, c.want)
			}
		default:
			if c.want != "" {
				t.Errorf("%s: nothing was found", name)
			}
		}
	}
}

// A layer that goes on is found again after a while, as its step may have failed. A lineup that was swapped in begins
// without counts.
func TestFoundAgain(t *testing.T) {
	t.Parallel()
	d := &day{demotion.NewWatch(), start}
	found := func() (n int) {
		for {
			select {
			case <-d.Found():
				n++
			default:
				return n
			}
		}
	}
	for i := range 3 {
		d.check(fmt.Sprint(i), 3, unknown, trapped)
	}
	d.check("0", 10, unknown, trapped)
	expect.Equal(t, "found", found(), 1)
	d.check("0", 10, unknown, trapped)
	expect.Equal(t, "found", found(), 1)
	d.check("0", 1000, unknown, trapped) // nobody receives: it must not block
	expect.Equal(t, "found", found(), 8)
	swapped := *terms
	d.at = d.at.Add(time.Second)
	d.Remember([]check.Record{{Caller: check.Caller{Account: "0"}, Decision: &check.Decision{At: d.at.Add(time.Minute),
		Terms: &swapped, Layers: []check.Outcome{unknown, trapped}}}})
	expect.Equal(t, "found", found(), 0)
}
