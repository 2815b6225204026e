// Package admission decides which requests a host accepts and whose turn it is. An overloaded host refuses the excess
// at once, and one customer's flood neither delays nor refuses another customer's requests.
package admission

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// The reasons for a refusal. Their texts are for clients.
var (
	ErrBusy  = errors.New("too many requests are in progress; nothing was counted, try again")
	ErrShare = errors.New("this account or address has too many requests in progress; nothing was counted, try again")
)

// Config configures a Gate.
type Config struct {
	Processors  int           // checks that are judged concurrently
	Target      time.Duration // the longest predicted time at which a check is accepted
	BatchTarget time.Duration // the same for a batch
	// Recording returns the minimum time to record a check, the delay that each check adds to the next, and how late
	// recording is at the moment, for example because the database does not respond. It may be nil.
	Recording func() (least, each, late time.Duration)
	Now       func() time.Time // nil: time.Now
}

// Gate accepts checks as long as they can be answered in time, and judges one at a time on each processor.
//
// Accounts share the processors' time: the next turn is that of the account that has used the least (start-time fair
// queueing), so whoever sends values that are slow to judge pays with turns. An account's single checks precede its
// batches.
//
// The predicted time of a check is the minimum recording time plus the work ahead of it, divided by the processors, or
// the time to record the checks ahead if that is longer. The work of an account's checks follows from the mean of its
// own. Each other account counts with at most as much work as this account has. A check is accepted if it would be in
// time even if a newcomer arrived with as much work as the account then has. A single account therefore fills half of
// the time, k flooding accounts fill k/(k+1) of it, and a newcomer always finds room.
type Gate struct {
	cfg Config

	mu       sync.Mutex
	free     int           // processors
	cost     time.Duration // moving mean of a check's processor time
	accepted int           // checks in progress
	accounts map[string]*account
	turns    []*account      // accounts with waiting checks
	spare    []*waiter       // work that isn't a check
	begun    time.Duration   // what the account that had the last turn had used before
	left     map[string]bill // of accounts without checks in progress
}

// bill is the processor time of an account.
type bill struct {
	used time.Duration // on the scale of all accounts: a newcomer begins with what the last turn began with
	cost time.Duration // moving mean of its checks
}

// maxLeft bounds the memory of accounts without checks in progress.
const maxLeft = 4096

// account is an account with checks in progress.
type account struct {
	bill

	name    string
	counts  [lanes]int // checks in progress
	waiting [lanes][]*waiter
}

// The lanes of an account. The first precedes the second.
const (
	singles = iota
	batches
	lanes
)

func (a *account) total() int { return a.counts[singles] + a.counts[batches] }

// next removes and returns the next waiting check, or nil.
func (a *account) next() *waiter {
	for lane, waiting := range a.waiting {
		if len(waiting) > 0 {
			a.waiting[lane] = waiting[1:]
			return waiting[0]
		}
	}
	return nil
}

func (a *account) waits() bool { return len(a.waiting[singles])+len(a.waiting[batches]) > 0 }

// waiter is a check that waits for its turn.
type waiter struct {
	turn  chan struct{} // closed when its turn has come
	since time.Time     // when its turn came
}

const (
	initialCost = time.Millisecond // assumed until checks have been judged
	longest     = 16               // a check counts as at most this many times the mean
	costWeight  = 64               // each check moves the means by this fraction of the difference
)

// NewGate returns a gate.
func NewGate(cfg Config) *Gate {
	if cfg.Recording == nil {
		cfg.Recording = func() (least, each, late time.Duration) { return 0, 0, 0 }
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Gate{cfg: cfg, free: cfg.Processors, cost: initialCost, accounts: map[string]*account{},
		left: map[string]bill{}}
}

// Admits returns nil if Enter would accept n checks of an account now, else ErrBusy or ErrShare. An account without
// checks in progress, such as "", is a newcomer.
func (g *Gate) Admits(name string, n int) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.admits(name, n)
}

func (g *Gate) admits(name string, n int) error {
	least, each, late := g.cfg.Recording()
	target := g.cfg.Target
	if n > 1 {
		target = g.cfg.BatchTarget
	}
	// An idle host always accepts, whatever the last checks cost; otherwise it could never learn that they have become
	// cheaper.
	if g.accepted == 0 && late <= target || late+g.predict(name, n, least, each) <= target {
		return nil
	}
	if g.accounts[name] != nil && late+g.predict("", 1, least, each) <= g.cfg.Target {
		return ErrShare
	}
	return ErrBusy
}

// predict returns the time until n further checks of an account will be answered, if a newcomer arrives with as much
// work as the account then has in progress. Recording takes least, and each check delays the next. At most half of the
// target counts as least, so that a distant database does not close the gate.
func (g *Gate) predict(name string, n int, least, each time.Duration) time.Duration {
	own := n
	if a := g.accounts[name]; a != nil {
		own += a.counts[singles]
		if laneOf(n) == batches {
			own += a.counts[batches]
		}
	}
	work := time.Duration(own) * g.bill(name).cost
	ahead, workAhead := 2*own, 2*work // including the newcomer's
	for _, a := range g.accounts {
		if a.name != name {
			ahead += min(a.total(), own)
			workAhead += min(time.Duration(a.total())*a.cost, work)
		}
	}
	return min(least, g.cfg.Target/2) + max(workAhead/time.Duration(g.cfg.Processors), time.Duration(ahead)*each)
}

// bill returns what an account has used so far, and its mean. One that has been idle saves up nothing.
func (g *Gate) bill(name string) bill {
	if a := g.accounts[name]; a != nil {
		return a.bill
	}
	b, known := g.left[name]
	if !known {
		b.cost = g.cost
	}
	b.used = max(b.used, g.begun)
	return b
}

func laneOf(n int) int {
	if n > 1 {
		return batches
	}
	return singles
}

// Idle reports whether no check is in progress.
func (g *Gate) Idle() bool { return g.InProgress() == 0 }

// InProgress returns the number of checks in progress.
func (g *Gate) InProgress() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.accepted
}

// Wait returns the predicted time until a newcomer's check would be answered.
func (g *Gate) Wait() time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	least, each, late := g.cfg.Recording()
	return late + g.predict("", 1, least, each)
}

// Visit is a number of checks that a gate has accepted. A nil Visit judges at once.
type Visit struct {
	gate    *Gate
	account *account
	lane    int
	checks  int
}

// Enter accepts n checks of an account, all or none. It returns ErrBusy or ErrShare if it cannot. The caller must close
// the visit. A nil gate accepts everything.
func (g *Gate) Enter(name string, n int) (*Visit, error) {
	if g == nil {
		return nil, nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.admits(name, n); err != nil {
		return nil, err
	}
	a := g.accounts[name]
	if a == nil {
		a = &account{name: name, bill: g.bill(name)}
		g.accounts[name] = a
	}
	v := &Visit{gate: g, account: a, lane: laneOf(n), checks: n}
	g.accepted += n
	a.counts[v.lane] += n
	return v, nil
}

// Close ends a visit, whose checks have been answered.
func (v *Visit) Close() {
	if v == nil {
		return
	}
	v.gate.mu.Lock()
	defer v.gate.mu.Unlock()
	v.gate.accepted -= v.checks
	v.account.counts[v.lane] -= v.checks
	if v.account.total() == 0 {
		v.gate.leave(v.account)
	}
}

// leave forgets an account without checks in progress, except for its bill.
func (g *Gate) leave(a *account) {
	delete(g.accounts, a.name)
	if len(g.left) >= maxLeft {
		clear(g.left)
	}
	g.left[a.name] = a.bill
}

// Judge calls f when one of the visit's checks has its turn. It returns the context's error, without calling f, if ctx
// ends first. It must not be called after Close.
func (v *Visit) Judge(ctx context.Context, f func()) error {
	if v == nil {
		f()
		return nil
	}
	g := v.gate
	since, err := g.acquire(ctx, v)
	if err != nil {
		return err
	}
	defer func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.release(v.account, since)
	}()
	f()
	return nil
}

// Spare calls f when a processor is free and no check is waiting. f must be short, because a check that arrives
// meanwhile may have to wait. It returns the context's error, without calling f, if ctx ends first. A nil gate calls f
// at once.
func (g *Gate) Spare(ctx context.Context, f func()) error {
	if g == nil {
		f()
		return nil
	}
	g.mu.Lock()
	if err := ctx.Err(); err != nil {
		g.mu.Unlock()
		return err
	}
	if g.free > 0 {
		g.free--
		g.mu.Unlock()
	} else {
		w := &waiter{turn: make(chan struct{})}
		g.spare = append(g.spare, w)
		g.mu.Unlock()
		select {
		case <-w.turn:
		case <-ctx.Done():
			g.mu.Lock()
			defer g.mu.Unlock()
			if i := slices.Index(g.spare, w); i >= 0 {
				g.spare = slices.Delete(g.spare, i, i+1)
			} else { // its turn has come meanwhile
				g.hand()
			}
			return ctx.Err()
		}
	}
	defer func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.hand() // says nothing about the cost of checks
	}()
	f()
	return nil
}

// acquire waits for a processor and returns when the check got it.
func (g *Gate) acquire(ctx context.Context, v *Visit) (since time.Time, err error) {
	g.mu.Lock()
	if err := ctx.Err(); err != nil {
		g.mu.Unlock()
		return since, err
	}
	if g.free > 0 {
		g.free--
		g.begun = max(g.begun, v.account.used)
		g.mu.Unlock()
		return g.cfg.Now(), nil
	}
	w := &waiter{turn: make(chan struct{})}
	if !v.account.waits() {
		g.turns = append(g.turns, v.account)
	}
	v.account.waiting[v.lane] = append(v.account.waiting[v.lane], w)
	g.mu.Unlock()
	select {
	case <-w.turn:
		return w.since, nil
	case <-ctx.Done():
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if !v.account.remove(v.lane, w) { // its turn has come meanwhile
		g.hand()
		return since, ctx.Err()
	}
	if !v.account.waits() {
		i := slices.Index(g.turns, v.account)
		g.turns = slices.Delete(g.turns, i, i+1)
	}
	return since, ctx.Err()
}

// release takes the processor from an account's check that got it at the given time.
func (g *Gate) release(a *account, since time.Time) {
	// If the whole process was stopped for long, the check says little about the next ones.
	took := min(g.cfg.Now().Sub(since), g.cfg.Target)
	a.used += took
	a.cost += (min(took, longest*a.cost) - a.cost) / costWeight
	g.cost += (min(took, longest*g.cost) - g.cost) / costWeight
	g.hand()
}

// hand gives a processor to the next check, else to spare work, or frees it. The time until the check runs counts as
// its own, so that the cost includes everything else that the processors do.
func (g *Gate) hand() {
	if len(g.turns) == 0 && len(g.spare) > 0 {
		w := g.spare[0]
		g.spare = slices.Delete(g.spare, 0, 1)
		close(w.turn)
		return
	}
	if len(g.turns) == 0 {
		g.free++
		return
	}
	i := 0
	for j, a := range g.turns {
		if a.used < g.turns[i].used {
			i = j
		}
	}
	a := g.turns[i]
	g.turns = slices.Delete(g.turns, i, i+1)
	g.begun = max(g.begun, a.used)
	w := a.next()
	if a.waits() {
		g.turns = append(g.turns, a)
	}
	w.since = g.cfg.Now()
	close(w.turn)
}

// remove removes a waiting check and reports whether it was there.
func (a *account) remove(lane int, w *waiter) bool {
	i := slices.Index(a.waiting[lane], w)
	if i < 0 {
		return false
	}
	a.waiting[lane] = slices.Delete(a.waiting[lane], i, i+1)
	return true
}
