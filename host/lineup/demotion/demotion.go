// Package demotion finds layers that are at fault for nearly everybody, so that the host can report them and move them
// to shadow.
package demotion

import (
	"fmt"
	"math/bits"
	"net/netip"
	"sync"
	"time"

	"assay/host/check"
)

// Watch counts, in memory, the layers' outcomes in recorded checks, and finds the layers that are at fault whatever
// their input:
//
//   - A layer fails if nearly all of its calls of the last ten minutes burned their fuel, crashed or broke the
//     interface.
//   - A layer contradicts others if, of the last 32 calls for an account about entities that a clearing layer vouches
//     for, 8 found enough to reach review alone. Calls for other entities do not count: they may all be fraud.
//
// Customers choose what they check and can open accounts, so a finding is grave only if it holds for half of all
// counted accounts and for 20 of them in as many networks: fewer could be one customer's doing. Contradictions are not
// grave in the first ten minutes, when few accounts are known. Neither time nor load counts: a call that the host could
// not complete is not recorded.
//
// The counts apply to one lineup. Those of failures restart every ten minutes, the others each day.
type Watch struct {
	found chan Finding

	mu      sync.Mutex
	lineups map[*check.Terms]*calls // by their terms for one type
}

// Finding is a layer that has exceeded its limits.
type Finding struct {
	Revision int64 // of the lineup
	Layer    string
	Reason   string // in a sentence
	Fails    bool   // whether it fails, rather than contradict others
	Grave    bool   // whether enough accounts agree to move it to shadow
}

// The limits that a layer can exceed.
const (
	window    = 10 * time.Minute // of the counts of failures
	minCalls  = 20               // in a window; fewer prove nothing
	nearlyAll = 0.9              // of the calls
	// contradictions is the number of the last 32 calls at which a layer contradicts others for an account.
	contradictions = 8
	// minNetworks is the number of accounts, each in another network, that must agree.
	minNetworks = 20
)

const (
	// vouches is the highest score with which a clearing layer vouches for an entity. Domains that are ten years old,
	// popular or on a good list get it.
	vouches = -40
	// maxAccounts and maxLineups bound the memory. A lineup and its canary have an entry for each of four types.
	maxAccounts = 4096
	maxLineups  = 16
	restart     = 24 * time.Hour
	repeat      = 15 * time.Second // until a layer that is still beyond its limits is reported again
)

// NewWatch returns a watch without counts.
func NewWatch() *Watch {
	return &Watch{found: make(chan Finding, 8), lineups: map[*check.Terms]*calls{}}
}

// Found returns the channel of layers that have exceeded their limits. A layer that stays beyond them is sent again.
func (w *Watch) Found() <-chan Finding { return w.found }

// calls are the calls of the layers of a lineup for one type.
type calls struct {
	began    time.Time
	window   time.Time // when the counts of failures began
	accounts map[string]*account
	layers   []layer // in the order of the terms
}

// account has the calls for an account, by layer.
type account struct {
	network netip.Prefix
	layers  []recent
}

// recent are calls of a layer for an account.
type recent struct {
	calls, failed int
	// contradicted are the last 32 calls about entities that are vouched for, the newest in the lowest bit. A bit is
	// set if the layer would have the entity reviewed.
	contradicted uint32
}

func (r *recent) contradicts() bool { return bits.OnesCount32(r.contradicted) >= contradictions }

func (r *recent) fails() bool { return r.failed > 0 && float64(r.failed) >= nearlyAll*float64(r.calls) }

// layer is the state of a layer of a lineup.
type layer struct {
	calls, failed int
	contradicted  int       // accounts for which it contradicts others
	found         time.Time // reported last
}

// Remember implements check.Memory.
func (w *Watch) Remember(records []check.Record) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range records {
		r := &records[i]
		w.of(r.Decision).add(w, r.Caller, r.Decision)
	}
}

// of returns the calls of a decision's lineup.
func (w *Watch) of(d *check.Decision) *calls {
	c := w.lineups[d.Terms]
	if c == nil && len(w.lineups) >= maxLineups {
		clear(w.lineups) // most of them are of lineups that were replaced
	}
	if c == nil || len(c.accounts) >= maxAccounts || d.At.Sub(c.began) > restart {
		c = &calls{began: d.At, window: d.At, accounts: map[string]*account{}, layers: make([]layer, len(d.Layers))}
		w.lineups[d.Terms] = c
	}
	if d.At.Sub(c.window) > window {
		c.forgetFailures(d.At)
	}
	return c
}

// forgetFailures begins a new window.
func (c *calls) forgetFailures(now time.Time) {
	c.window = now
	for i := range c.layers {
		c.layers[i].calls, c.layers[i].failed = 0, 0
	}
	for _, a := range c.accounts {
		for i := range a.layers {
			a.layers[i].calls, a.layers[i].failed = 0, 0
		}
	}
}

// add counts the calls of a check.
func (c *calls) add(w *Watch, caller check.Caller, d *check.Decision) {
	a := c.accounts[caller.Account]
	if a == nil {
		a = &account{layers: make([]recent, len(c.layers))}
		c.accounts[caller.Account] = a
	}
	a.network = caller.Network
	established := vouchedFor(d.Layers)
	for i := range d.Layers {
		o, l, r := &d.Layers[i], &c.layers[i], &a.layers[i]
		l.calls++
		r.calls++
		if o.Failure != "" {
			l.failed++
			r.failed++
			if l.calls >= minCalls && float64(l.failed) >= nearlyAll*float64(l.calls) {
				c.report(w, d, i, (*recent).fails,
					fmt.Sprintf("it failed (%s) in %d of its last %d calls", o.Failure, l.failed, l.calls))
			}
			continue
		}
		if established && c.contradict(l, r, reachesReview(d, i)) {
			c.report(w, d, i, (*recent).contradicts, fmt.Sprintf(
				"it would have %d of 32 entities reviewed that a clearing layer vouches for", contradictions))
		}
	}
}

// contradict counts a call about an entity that is vouched for. It reports whether the call contradicts, and the layer
// contradicts for enough accounts for a finding.
func (c *calls) contradict(l *layer, r *recent, against bool) bool {
	before := r.contradicts()
	r.contradicted <<= 1
	if against {
		r.contradicted |= 1
	}
	switch after := r.contradicts(); {
	case after && !before:
		l.contradicted++
	case before && !after:
		l.contradicted--
	}
	return against && l.contradicted >= minNetworks
}

// report sends a finding, unless it was sent recently or the channel is full. holds reports whether the finding applies
// to an account's calls.
func (c *calls) report(w *Watch, d *check.Decision, i int, holds func(*recent) bool, what string) {
	found := &c.layers[i].found
	if d.At.Sub(*found) < repeat {
		return
	}
	*found = d.At
	o := &d.Layers[i]
	fails := o.Failure != ""
	accounts, all, networks := 0, 0, map[netip.Prefix]bool{}
	for _, a := range c.accounts {
		if a.layers[i].calls > 0 || !fails { // contradictions are those of a day
			all++
		}
		if holds(&a.layers[i]) {
			accounts++
			networks[a.network] = true
		}
	}
	f := Finding{Revision: d.Revision, Layer: o.Layer, Fails: fails,
		Reason: fmt.Sprintf("%s for %d of %d accounts", what, accounts, all),
		Grave: !o.Required && len(networks) >= minNetworks && 2*accounts >= all &&
			(fails || d.At.Sub(c.began) >= window)} // at first, few accounts are known
	if !f.Grave && !f.Fails {
		return
	}
	select {
	case w.found <- f:
	default:
	}
}

// vouchedFor reports whether a clearing layer, which never accuses, vouches for the entity.
func vouchedFor(outcomes []check.Outcome) bool {
	for i := range outcomes {
		if outcomes[i].Score <= vouches && outcomes[i].Range[1] == 0 {
			return true
		}
	}
	return false
}

// reachesReview reports whether a layer alone would have the entity reviewed.
func reachesReview(d *check.Decision, i int) bool {
	return d.Layers[i].Score > 0 && check.Fuse(d.Terms.Bias, d.Terms.Bands, d.Layers[i:i+1]).Verdict != check.Allow
}
