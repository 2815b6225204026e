// Package demotion finds layers that exceed their limits for several accounts, so that the host can move them to
// shadow.
package demotion

import (
	"fmt"
	"math/bits"
	"sync"
	"time"

	"assay/host/check"
)

// Watch counts, in memory, the layers' outcomes in recorded checks. A layer exceeds its limits for an account if, of
// the last 32 calls for it,
//
//   - 3 failed: they burned their fuel, crashed or broke the interface; or
//   - 8 found enough to reach review alone, although a clearing layer vouches for the entity. Of calls for other
//     entities this says nothing: they may all be fraud.
//
// It has exceeded its limits if that is so for three accounts and for half of all. Customers choose what they check and
// can open accounts, so less could be one customer's doing. Neither time nor load counts: a call that the host could
// not complete is not recorded, and a suspended layer is not called.
//
// Required layers are not counted. The counts apply to one lineup, and restart each day.
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
}

// The limits that a layer can exceed for an account.
const (
	failing = iota
	contradicted
	kinds
)

// allowed is the number of the last 32 calls at which a layer exceeds a limit.
var allowed = [kinds]int{failing: 3, contradicted: 8}

const (
	minAccounts = 3
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

// Found returns the channel of layers that have exceeded their limits. A layer that still does is reported again.
func (w *Watch) Found() <-chan Finding { return w.found }

// calls are the calls of the layers of a lineup for one type.
type calls struct {
	began    time.Time
	accounts map[string][]recent // by layer, in the order of the terms
	layers   []layer
}

// recent are the last 32 calls of a layer for an account, the newest in the lowest bit. A bit is set if the call counts
// against the layer.
type recent [kinds]uint32

// layer is the state of a layer of a lineup.
type layer struct {
	beyond [kinds]int // accounts for which it is beyond a limit
	found  time.Time
}

// Remember implements check.Memory.
func (w *Watch) Remember(records []check.Record) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range records {
		r := &records[i]
		w.of(r.Decision).add(w, r.Caller.Account, r.Decision)
	}
}

// of returns the calls of a decision's lineup.
func (w *Watch) of(d *check.Decision) *calls {
	c := w.lineups[d.Terms]
	if c == nil && len(w.lineups) >= maxLineups {
		clear(w.lineups) // most of them are of lineups that were replaced
	}
	if c == nil || len(c.accounts) >= maxAccounts || d.At.Sub(c.began) > restart {
		c = &calls{began: d.At, accounts: map[string][]recent{}, layers: make([]layer, len(d.Layers))}
		w.lineups[d.Terms] = c
	}
	return c
}

// add counts the calls of a check.
func (c *calls) add(w *Watch, account string, d *check.Decision) {
	last := c.accounts[account]
	if last == nil {
		last = make([]recent, len(c.layers))
		c.accounts[account] = last
	}
	established := vouchedFor(d.Layers)
	for i := range d.Layers {
		o := &d.Layers[i]
		if o.Required || o.Failure == check.Suspended {
			continue
		}
		if c.count(last, i, failing, o.Failure != "") {
			c.report(w, d, i, fmt.Sprintf("it failed (%s) in %d of its last 32 calls", o.Failure, allowed[failing]),
				c.layers[i].beyond[failing])
		}
		if established && o.Failure == "" && c.count(last, i, contradicted, reachesReview(d, i)) {
			c.report(w, d, i, fmt.Sprintf("it would have %d of 32 entities reviewed that a clearing layer vouches for",
				allowed[contradicted]), c.layers[i].beyond[contradicted])
		}
	}
}

// count adds a call of a layer. It reports whether the call counts against the layer, and the layer is now beyond its
// limits.
func (c *calls) count(last []recent, i, kind int, against bool) bool {
	bit := uint32(0)
	if against {
		bit = 1
	}
	calls := &last[i][kind]
	if *calls == 0 && !against {
		return false // the usual case
	}
	before := bits.OnesCount32(*calls) >= allowed[kind]
	*calls = *calls<<1 | bit
	after := bits.OnesCount32(*calls) >= allowed[kind]
	beyond := &c.layers[i].beyond[kind]
	switch {
	case after && !before:
		*beyond++
	case before && !after:
		*beyond--
	}
	return against && *beyond >= minAccounts && 2**beyond >= len(c.accounts)
}

// report sends a finding, unless it was sent lately or nobody has received the last ones.
func (c *calls) report(w *Watch, d *check.Decision, i int, what string, accounts int) {
	if found := &c.layers[i].found; d.At.Sub(*found) >= repeat {
		*found = d.At
		select {
		case w.found <- Finding{d.Revision, d.Layers[i].Layer,
			fmt.Sprintf("%s for %d of %d accounts", what, accounts, len(c.accounts))}:
		default:
		}
	}
}

// vouchedFor reports whether a clearing layer, which never accuses, speaks for the entity.
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
