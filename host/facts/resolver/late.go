package resolver

import (
	"net"
	"syscall"
	"time"
)

// lateness is how long this host may delay a query or a timer. After a longer delay, this host was too busy, and the
// server does not count as silent.
const lateness = 5 * time.Millisecond

// recordSent returns a function that records that an attempt's packet was sent through a socket. due is when a retry
// should be sent, or zero.
func (f *flight) recordSent(now func() time.Time, due time.Time) func(net.Conn) {
	packets := 0
	return func(conn net.Conn) {
		at := now()
		f.sent.CompareAndSwap(nil, &at)
		if packets++; packets > 1 {
			f.followed.Store(true)
		} else if !due.IsZero() && at.Sub(due) > lateness {
			f.delayed.Store(&at)
		}
		if socket, ok := conn.(syscall.Conn); ok {
			if raw, err := socket.SyscallConn(); err == nil {
				f.mu.Lock()
				defer f.mu.Unlock()
				f.sockets = append(f.sockets, raw)
			}
		}
	}
}

// unread reports whether a response has arrived that this host has not read yet.
func (f *flight) unread() (found bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, socket := range f.sockets {
		_ = socket.Control(func(fd uintptr) { // an error means that the socket is closed
			n, _, err := syscall.Recvfrom(int(fd), make([]byte, 1), syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
			found = found || err == nil && n > 0
		})
	}
	return found
}

// late reports whether this host delayed a query that a caller has waited for since began: it was sent late, the wait
// ended late or, if a packet followed a response, this host may have read that response late.
func (r *Resolver) late(f *flight, began time.Time, patience time.Duration) bool {
	sent, stalled := f.sent.Load(), r.stalled.Load()
	return sent == nil || sent.Sub(began) > lateness || r.cfg.Now().Sub(began) > patience+lateness ||
		f.followed.Load() && (stalled != nil && stalled.After(began) || r.isStalled())
}

// retriedLate reports whether this host sent the retry late, after began.
func (f *flight) retriedLate(began time.Time) bool {
	at := f.delayed.Load()
	return at != nil && at.After(began)
}

// isStalled reports whether watchStalls has not run for too long.
func (r *Resolver) isStalled() bool {
	at := r.ticked.Load()
	return at != nil && time.Since(*at) > 2*lateness
}

// woke records that this host was late if a tick took too long.
func (r *Resolver) woke(took time.Duration) {
	if took > 2*lateness {
		r.stalled.Store(new(r.cfg.Now()))
	}
}

// watchStalls records when this host was late, as long as queries are in progress.
func (r *Resolver) watchStalls() {
	tick := time.NewTicker(lateness)
	defer tick.Stop()
	defer r.ticked.Store(nil)
	for watched := true; watched; {
		before := time.Now()
		r.ticked.Store(&before)
		<-tick.C
		r.woke(time.Since(before))
		r.mu.Lock()
		watched = len(r.flights) > 0
		r.watched = watched
		r.mu.Unlock()
	}
}
