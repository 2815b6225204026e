package webhook

import (
	"sync"
	"time"
)

// Limits of the two lanes. An attempt begins in the fast lane. If it runs for longer than slowAfter, it moves to the
// slow lane, and so does its account: further attempts to it begin in the slow lane until one of them is fast again.
// Receivers that hang can fill the slow lane, where they only delay each other, but hold a fast slot only briefly.
const (
	fastSlots = 512
	slowSlots = 512
	maxSlots  = 2048 // in total: attempts that become slow may exceed slowSlots
	slowAfter = time.Second
	slowFor   = time.Minute // after this long without an attempt, a slow account is forgotten and starts fast again

	maxPerAccount        = 16 // concurrent attempts to one account from this host
	maxPerUnknownAccount = 4  // the same while the account has no recent fast attempt, as after a start
	maxPerClaim          = 4  // events of one account in one claim
)

// lanes tracks the attempts in flight and decides which accounts may have more. It is safe for concurrent use.
type lanes struct {
	now func() time.Time

	mu       sync.Mutex
	accounts map[string]*account
	running  int
	slow     int  // of running
	starved  bool // the last call of available turned attempts away
}

type account struct {
	running   int
	slow      bool // its last attempt was slow, or one in flight is
	fast      bool // its last attempt was fast
	lastEnded time.Time
}

// slot is held by an attempt in flight.
type slot struct {
	account *account
	slow    bool
	timer   *time.Timer
}

func newLanes() *lanes { return &lanes{now: time.Now, accounts: map[string]*account{}} }

// available returns how many attempts may begin in each lane: fast ones to any account not in closed, and slow ones to
// slowAccounts only.
func (l *lanes) available() (fast int, closed []string, slow int, slowAccounts []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	free := max(0, maxSlots-l.running)
	fast, slow = min(free, fastSlots-(l.running-l.slow)), min(free, max(0, slowSlots-l.slow))
	l.starved = fast <= 0
	for id, a := range l.accounts {
		if a.running == 0 && now.Sub(a.lastEnded) > slowFor {
			delete(l.accounts, id)
			continue
		}
		full := a.running > maxPerAccount-maxPerClaim ||
			(!a.fast && !a.slow && a.running > maxPerUnknownAccount-maxPerClaim)
		l.starved = l.starved || full || (a.slow && slow == 0)
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
	return fast, closed, slow, slowAccounts
}

// acquire takes a slot for an attempt. It calls becameSlow if the attempt moves to the slow lane.
func (l *lanes) acquire(accountID string, becameSlow func()) *slot {
	l.mu.Lock()
	defer l.mu.Unlock()
	a, ok := l.accounts[accountID]
	if !ok {
		a = &account{}
		l.accounts[accountID] = a
	}
	a.running++
	l.running++
	s := &slot{account: a, slow: a.slow}
	if s.slow {
		l.slow++
	} else {
		s.timer = time.AfterFunc(slowAfter, func() {
			if l.markSlow(s) {
				becameSlow()
			}
		})
	}
	return s
}

func (l *lanes) markSlow(s *slot) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s.slow || s.account == nil {
		return false
	}
	s.slow, s.account.slow, s.account.fast = true, true, false
	l.slow++
	return true
}

// release returns a slot and reports whether attempts may be waiting for one.
func (l *lanes) release(s *slot, took time.Duration) (waiting bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s.timer != nil {
		s.timer.Stop()
	}
	a := s.account
	s.account = nil
	a.running--
	l.running--
	if s.slow {
		l.slow--
	}
	a.fast = took < slowAfter
	a.slow = !a.fast
	a.lastEnded = l.now()
	return l.starved
}

// inFlight returns how many attempts are running, and how many of them are slow.
func (l *lanes) inFlight() (all, slow int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.running, l.slow
}
