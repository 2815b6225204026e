package webhook

import (
	"sync"
	"time"
)

// Places of this host. An attempt takes a quick place. When it has not ended within slowAfter, it gives that up and
// counts as slow, and its account's further attempts begin in the slow lane, until one of them is quick again. So
// receivers that hang can fill the slow lane, where they wait for each other, and hold a quick place for a moment only.
const (
	quickPlaces = 512
	slowPlaces  = 512
	allPlaces   = 2048 // attempts that became slow may exceed the slow lane, up to this in all
	slowAfter   = time.Second
	slowFor     = time.Minute // a slow account is given another chance after

	perAccount = 16 // under way at once for one account on this host
	perUnknown = 4  // for one that has not answered lately, such as after a start
	perClaim   = 4  // of one account in one claim
)

// places says who may be sent to. It is safe for concurrent use.
type places struct {
	now func() time.Time

	mu       sync.Mutex
	accounts map[string]*account
	running  int
	slow     int // of running
	starved  bool
}

type account struct {
	running   int
	slow      bool
	quick     bool // its last attempt was
	lastEnded time.Time
}

// place is what an attempt holds.
type place struct {
	account *account
	slow    bool
	timer   *time.Timer
}

func newPlaces() *places { return &places{now: time.Now, accounts: map[string]*account{}} }

// lanes says how many attempts may begin: quick ones of no account in closed, and slow ones of those in slow alone.
func (p *places) lanes() (quick int, closed []string, slow int, slowAccounts []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	free := max(0, allPlaces-p.running)
	quick, slow = min(free, quickPlaces-(p.running-p.slow)), min(free, max(0, slowPlaces-p.slow))
	p.starved = quick <= 0
	for id, a := range p.accounts {
		if a.running == 0 && now.Sub(a.lastEnded) > slowFor {
			delete(p.accounts, id)
			continue
		}
		full := a.running > perAccount-perClaim || (!a.quick && !a.slow && a.running > perUnknown-perClaim)
		p.starved = p.starved || full || (a.slow && slow == 0)
		switch {
		case a.slow:
			closed = append(closed, id)
			if !full && slow > 0 {
				slowAccounts = append(slowAccounts, id)
			}
		case full:
			closed = append(closed, id)
		}
	}
	return quick, closed, slow, slowAccounts
}

// take gives an attempt its place; became is called if it turns slow.
func (p *places) take(id string, became func()) *place {
	p.mu.Lock()
	defer p.mu.Unlock()
	a, ok := p.accounts[id]
	if !ok {
		a = &account{}
		p.accounts[id] = a
	}
	a.running++
	p.running++
	held := &place{account: a, slow: a.slow}
	if held.slow {
		p.slow++
	} else {
		held.timer = time.AfterFunc(slowAfter, func() {
			if p.turnSlow(held) {
				became()
			}
		})
	}
	return held
}

func (p *places) turnSlow(held *place) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if held.slow || held.account == nil {
		return false
	}
	held.slow, held.account.slow, held.account.quick = true, true, false
	p.slow++
	return true
}

// leave gives a place back and says whether somebody may be waiting for one.
func (p *places) leave(held *place, took time.Duration) (waited bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if held.timer != nil {
		held.timer.Stop()
	}
	a := held.account
	held.account = nil
	a.running--
	p.running--
	if held.slow {
		p.slow--
	}
	a.quick = took < slowAfter
	a.slow = !a.quick
	a.lastEnded = p.now()
	return p.starved
}

// underWay is how many attempts there are, and how many of them are slow.
func (p *places) underWay() (all, slow int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.running, p.slow
}
