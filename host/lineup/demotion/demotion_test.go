package demotion_test

import (
	"fmt"
	"net/netip"
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

// caller returns the caller of an account in a network of its own.
func caller(n int) check.Caller {
	return check.Caller{Account: fmt.Sprint("acct_", n),
		Network: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, byte(n), 0}), 24)}
}

// check records n checks of a caller within a second, with the outcome o after that of another layer.
func (d *day) check(c check.Caller, n int, other, o check.Outcome) {
	for range n {
		d.at = d.at.Add(time.Millisecond)
		d.Remember([]check.Record{{Caller: c, Decision: &check.Decision{
			Type: entity.Domain, Revision: 7, At: d.at, Terms: terms, Layers: []check.Outcome{other, o}}}})
	}
}

// found returns the last finding.
func (d *day) found() (last demotion.Finding, found bool) {
	for {
		select {
		case last = <-d.Found():
			found = true
		default:
			return last, found
		}
	}
}

// each records n checks for each of some accounts.
func each(accounts, n int, other, o check.Outcome) func(d *day) {
	return func(d *day) {
		for i := range accounts {
			d.check(caller(i), n, other, o)
		}
	}
}

// later lets time pass.
func later(by time.Duration) func(d *day) { return func(d *day) { d.at = d.at.Add(by) } }

// oneNetwork is each for accounts in the same network.
func oneNetwork(accounts, n int, other, o check.Outcome) func(d *day) {
	return func(d *day) {
		for i := range accounts {
			c := caller(i)
			c.Network = netip.MustParsePrefix("192.0.2.0/24")
			d.check(c, n, other, o)
		}
	}
}

func TestWatch(t *testing.T) {
	t.Parallel()
	const nothing, alarm, grave = "", "alarm", "grave"
	for name, c := range map[string]struct {
		checks []func(d *day)
		want   string
		reason string // part of it
	}{
		"all is well": {[]func(*day){each(30, 50, established, fine)}, nothing, ""},
		"crashes for 20 accounts": {[]func(*day){each(20, 2, unknown, trapped), later(time.Minute),
			each(20, 2, unknown, trapped)}, grave, "it failed (trap) in 41 of its last 41 calls for 20 of 20 accounts"},
		"burned fuel for 20 accounts": {[]func(*day){each(20, 1, unknown, exhausted), later(time.Minute),
			each(20, 1, unknown, exhausted)}, grave, "it failed (fuel)"},
		"crashes for three accounts, of whoever opened them": {[]func(*day){each(3, 500, unknown, trapped),
			later(time.Minute), each(3, 1, unknown, trapped)}, alarm, "3 of 3 accounts"},
		"crashes for one account of many": {[]func(*day){each(30, 20, unknown, fine),
			func(d *day) { d.check(caller(0), 500, unknown, trapped) }}, nothing, ""},
		"a flood of crashes of one account": {[]func(*day){each(30, 2, unknown, fine),
			func(d *day) { d.check(caller(0), 5000, unknown, trapped) }}, alarm, "1 of 30 accounts"},
		"crashes in one network": {[]func(*day){oneNetwork(40, 2, unknown, trapped), later(time.Minute),
			oneNetwork(40, 2, unknown, trapped)}, alarm, "40 of 40"},
		"crashes of 20 accounts of 60": {[]func(*day){each(60, 1, unknown, fine), each(20, 90, unknown, trapped),
			later(time.Minute), each(20, 1, unknown, trapped)}, alarm, "20 of 60"},
		"crashes of four of five calls": {[]func(*day){each(30, 1, unknown, fine), each(30, 4, unknown, trapped)},
			nothing, ""},
		"too few crashes to tell": {[]func(*day){each(19, 1, unknown, trapped)}, nothing, ""},
		"crashes that are long past": {[]func(*day){each(10, 1, unknown, trapped), later(11 * time.Minute),
			each(10, 1, unknown, trapped)}, nothing, ""},
		"a required layer": {[]func(*day){each(30, 1, unknown, needed), later(time.Minute),
			each(30, 1, unknown, needed)}, alarm, "30 of 30"},

		"established entities are accused": {[]func(*day){each(20, 8, established, accusing), later(11 * time.Minute),
			each(1, 1, established, accusing)}, grave, "it would have 8 of 32"},
		"before most accounts are known":   {[]func(*day){each(30, 32, established, accusing)}, nothing, ""},
		"seven of them":                    {[]func(*day){each(30, 7, established, accusing)}, nothing, ""},
		"for 19 accounts":                  {[]func(*day){each(19, 32, established, accusing)}, nothing, ""},
		"in one network":                   {[]func(*day){oneNetwork(40, 32, established, accusing)}, nothing, ""},
		"unknown entities are accused":     {[]func(*day){each(30, 50, unknown, accusing)}, nothing, ""},
		"entities that look honest":        {[]func(*day){each(30, 50, honestStyle, accusing)}, nothing, ""},
		"hints about established entities": {[]func(*day){each(30, 50, established, hinting)}, nothing, ""},
		"fraud between": {[]func(*day){each(20, 7, established, accusing), each(20, 40, unknown, accusing),
			later(11 * time.Minute), each(20, 1, established, accusing)}, grave, "20 of 20"},
		"accusations of two days": {[]func(*day){each(20, 7, established, accusing), later(25 * time.Hour),
			each(20, 7, established, accusing)}, nothing, ""},
		"accusations that are long past": {[]func(*day){each(20, 7, established, accusing),
			each(20, 32, established, fine), each(20, 7, established, accusing)}, nothing, ""},
		"for fewer than half of a day's accounts": {[]func(*day){each(60, 1, unknown, fine), later(11 * time.Minute),
			each(20, 8, established, accusing)}, nothing, ""},
		"established ones for fewer than half": {[]func(*day){each(60, 1, unknown, fine),
			each(20, 50, established, accusing)}, nothing, ""},
	} {
		d := &day{demotion.NewWatch(), start}
		for _, more := range c.checks {
			more(d)
		}
		f, found := d.found()
		got := nothing
		switch {
		case f.Grave:
			got = grave
		case found:
			got = alarm
		}
		expect.That(t, got == c.want && (!found || f.Layer == "graph" && f.Revision == 7 &&
			strings.Contains(f.Reason, c.reason)), "%s: found %q, %+v, want %q: %s", name, got, f, c.want, c.reason)
	}
}

// A layer that goes on is found again after a while. A lineup that was swapped in begins without counts.
func TestFoundAgain(t *testing.T) {
	t.Parallel()
	d := &day{demotion.NewWatch(), start}
	wantFound := func(when string, want int) {
		t.Helper()
		n := 0
		for len(d.Found()) > 0 {
			<-d.Found()
			n++
		}
		expect.Equal(t, when, n, want)
	}
	d.check(caller(0), 30, unknown, trapped)
	wantFound("at first", 1)
	later(14 * time.Second)(d)
	d.check(caller(0), 1, unknown, trapped)
	wantFound("soon", 0)
	later(time.Second)(d)
	d.check(caller(0), 1, unknown, trapped)
	wantFound("later", 1)
	for range 30 { // nobody receives: it must not block
		later(15 * time.Second)(d)
		d.check(caller(0), 20, unknown, trapped)
	}
	wantFound("without a receiver", 8)
	d.Remember([]check.Record{{Decision: &check.Decision{At: d.at.Add(time.Minute), Terms: new(*terms),
		Layers: []check.Outcome{unknown, trapped}}}})
	wantFound("another lineup", 0)
}
