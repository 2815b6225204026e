// Package admission decides which requests a host accepts and whose turn it is. An overloaded host refuses the excess
// at once, and one customer's flood neither delays another customer's requests nor makes the host refuse them.
package admission

import (
	"errors"
	"strings"
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
// queueing), so an account whose values are slow to judge gets fewer turns. An account's single checks precede its
// batches.
//
// The predicted time of a check is the minimum recording time plus the work ahead of it, divided by the processors, or
// the time to record the checks ahead if that is longer. The work of an account is estimated from the mean of its own
// checks. Each other account counts for at most as much work as this account has. A check is accepted if it would be in
// time even if a newcomer arrived with as much work as the account then has. A single account therefore fills half of
// the time, k flooding accounts fill k/(k+1) of it, and a newcomer always finds room.
//
// An account may have parts, named "ACCOUNT|PART", such as the networks of all callers without a key. They share its
// turns and its room as accounts share the host's, so together they take no more than one account, and are the first to
// be refused.
type Gate struct {
	cfg Config

	mu       sync.Mutex
	free     int           // processors
	cost     time.Duration // moving mean of a check's processor time
	accepted int           // checks in progress
	accounts map[string]*account
	turns    []*account       // accounts with waiting checks
	spare    []*waiter        // work that isn't a check
	begun    [2]time.Duration // time used before the last turn, by its account and by its part
	left     map[string]bill  // of accounts without checks in progress
}

// bill is the processor time of an account.
type bill struct {
	used time.Duration // a newcomer begins with the value at the last turn, so that accounts are comparable
	cost time.Duration // moving mean of its checks
}

// maxLeft limits the number of accounts without checks in progress that a gate remembers.
const maxLeft = 4096

// account is an account with checks in progress.
type account struct {
	bill

	name    string
	levels  []*account // itself, or the whole and itself if it is a part
	counts  [lanes]int // checks in progress, including those of parts
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
	// An idle host always accepts, whatever the last checks cost; otherwise it could never learn that checks have
	// become cheaper.
	if g.accepted == 0 && late <= target || late+g.predict(name, n, least, each) <= target {
		return nil
	}
	if g.accounts[name] != nil && late+g.predict("", 1, least, each) <= g.cfg.Target {
		return ErrShare
	}
	return ErrBusy
}

// predict returns the time until n further checks of an account will be answered, if a newcomer arrives with as much
// work as the account then has in progress. Recording takes least, and each check delays the next. least counts for at
// most half of the target, so that a distant database does not close the gate.
func (g *Gate) predict(name string, n int, least, each time.Duration) time.Duration {
	whole, _, isPart := strings.Cut(name, "|")
	own, cost := n+g.ahead(whole, n), g.bill(name).cost
	work := time.Duration(n)*cost + time.Duration(own-n)*g.bill(whole).cost
	if isPart { // another part may arrive with as much work, too
		part := n + g.ahead(name, n)
		own, work = own+part, work+time.Duration(part)*cost
	}
	ahead, workAhead := 2*own, 2*work // including the newcomer's
	for _, a := range g.accounts {
		if len(a.levels) == 1 && a.name != whole {
			ahead += min(a.total(), own)
			workAhead += min(time.Duration(a.total())*a.cost, work)
		}
	}
	return min(least, g.cfg.Target/2) + max(workAhead/time.Duration(g.cfg.Processors), time.Duration(ahead)*each)
}

// ahead returns the number of an account's checks in progress that precede n further ones.
func (g *Gate) ahead(name string, n int) (checks int) {
	if a := g.accounts[name]; a != nil {
		checks = a.counts[singles]
		if laneOf(n) == batches {
			checks += a.counts[batches]
		}
	}
	return checks
}

// bill returns the time that an account has used so far, and its mean. An idle account does not save up time.
func (g *Gate) bill(name string) bill {
	if a := g.accounts[name]; a != nil {
		return a.bill
	}
	b, known := g.left[name]
	if !known {
		b.cost = g.cost
	}
	b.used = max(b.used, g.begun[strings.Count(name, "|")])
	return b
}

// account returns the account with the given name, and adds it if it has no checks in progress.
func (g *Gate) account(name string) *account {
	a := g.accounts[name]
	if a == nil {
		a = &account{name: name, bill: g.bill(name)}
		if whole, _, isPart := strings.Cut(name, "|"); isPart {
			a.levels = append(a.levels, g.account(whole))
		}
		a.levels = append(a.levels, a)
		g.accounts[name] = a
	}
	return a
}

// turn notes that an account's turn begins.
func (g *Gate) turn(a *account) {
	for i, level := range a.levels {
		g.begun[i] = max(g.begun[i], level.used)
	}
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
	v := &Visit{gate: g, account: g.account(name), lane: laneOf(n), checks: n}
	g.accepted += n
	for _, a := range v.account.levels {
		a.counts[v.lane] += n
	}
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
	for _, a := range v.account.levels {
		a.counts[v.lane] -= v.checks
		if a.total() == 0 {
			v.gate.leave(a)
		}
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
