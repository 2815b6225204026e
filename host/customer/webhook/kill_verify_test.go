package webhook_test

import (
	"fmt"
	"slices"
	"time"

	"assay/host/customer/webhook"
	"assay/registry/expect"
)

// schedule holds the retry delays of contract sections 3 and 8.
var schedule = []time.Duration{time.Second, 4 * time.Second, 16 * time.Second}

// verify reports events whose outcome is wrong, and returns counts.
func (k *killTest) verify() tally {
	k.Helper()
	sum := tally{kills: k.receiver.host}
	k.receiver.mu.Lock()
	defer k.receiver.mu.Unlock()
	if k.receiver.forged > 0 {
		k.Errorf("%d requests had no signature with a secret that the customer knows", k.receiver.forged)
	}
	events := expect.Value(k.store.RecentEvents(k.Context(), k.caller.Account, "", 0, always))(k)
	for _, ref := range k.recorded {
		i := slices.IndexFunc(events, func(e webhook.Event) bool { return e.Ref == ref })
		if i < 0 {
			k.Errorf("%s, %s: the event is lost", ref, k.stages[ref])
			continue
		}
		log := expect.Value(k.store.Attempts(k.Context(), k.caller.Account, ref))(k)
		sum.events++
		k.verifyEvent(&sum, events[i], log, k.receiver.arrivals[ref])
	}
	return sum
}

func (k *killTest) verifyEvent(sum *tally, e webhook.Event, log []webhook.Attempt, arrivals []arrival) {
	k.Helper()
	interrupted, refused, accepted := 0, 0, 0
	for i, a := range log {
		switch {
		case a.TookMS == nil:
			interrupted++
		case a.Status >= 200 && a.Status <= 299:
			accepted++
		default:
			refused++
		}
		if i+1 < len(log) && !k.early[e.Ref][a.Number+1] {
			k.verifyDelay(sum, e.Ref, a, log[i+1], refused, arrivals)
		}
	}
	sum.interrupted += interrupted
	sum.requests = max(sum.requests, len(arrivals)-4*(k.rounds[e.Ref]-1))
	rounds := k.rounds[e.Ref]
	wrong := ""
	switch {
	case e.Attempts != len(log):
		wrong = "the log is incomplete"
	case e.State == "delivered" && (accepted != 1 || refused >= 4*rounds):
		wrong = "delivered, but not accepted exactly once"
	case e.State == "failed" && (accepted != 0 || refused != 4*rounds):
		wrong = "failed, but not refused four times"
	case len(arrivals) > 4*rounds+k.kills[e.Ref]:
		wrong = "sent more than four times plus once for each kill"
	case len(arrivals) > len(log), interrupted > k.kills[e.Ref]:
		wrong = "sent without an attempt, or interrupted without a kill"
	}
	if wrong != "" {
		k.Errorf("%s, %s: %s: %s, sent %d times in %d attempts: %d accepted, %d refused, %d interrupted; %d kills",
			e.Ref, k.stages[e.Ref], wrong, e.State, len(arrivals),
			len(log), accepted, refused, interrupted, k.kills[e.Ref])
	}
}

// verifyDelay reports a retry that began early. If one host made both attempts, it adds the lateness to sum.
func (k *killTest) verifyDelay(sum *tally, ref string, before, after webhook.Attempt, refused int, arrivals []arrival) {
	k.Helper()
	const tolerance = 2 * time.Millisecond // the log has a resolution of 1 ms
	if before.TookMS == nil {
		if pause := after.StartedAt.Sub(before.StartedAt); pause < webhook.AttemptLease-tolerance {
			k.Errorf("%s, %s: attempt %d began %v after an interrupted one, within its lease", ref,
				k.stages[ref], after.Number, pause)
		}
		return
	}
	if refused%4 == 0 {
		return // resent
	}
	wait := schedule[refused%4-1]
	ended := before.StartedAt.Add(time.Duration(*before.TookMS) * time.Millisecond)
	if pause := after.StartedAt.Sub(ended); pause < wait-tolerance {
		k.Errorf("%s, %s: attempt %d began %v after a refused one, want %v", ref, k.stages[ref], after.Number, pause,
			wait)
	}
	at := func(number int) *arrival {
		i := slices.IndexFunc(arrivals, func(a arrival) bool { return a.attempt == number })
		if i < 0 {
			return nil
		}
		return &arrivals[i]
	}
	if first, second := at(before.Number), at(after.Number); first != nil && second != nil && first.status != 0 {
		pause := second.at.Sub(first.respondedAt)
		if pause < wait-10*time.Millisecond { // the clock may be adjusted meanwhile
			k.Errorf("%s, %s: attempt %d arrived %v after a refused one, want %v", ref, k.stages[ref], after.Number,
				pause, wait)
		}
		if first.host == second.host {
			sum.late = append(sum.late, pause-wait)
		}
	}
}

// tally counts what happened to the events.
type tally struct {
	events, kills, interrupted int
	requests                   int             // maximum for one event, without the first round of a resent event
	late                       []time.Duration // of retries
}

func (s *tally) add(other tally) {
	s.events += other.events
	s.kills += other.kills
	s.interrupted += other.interrupted
	s.requests = max(s.requests, other.requests)
	s.late = append(s.late, other.late...)
}

func (s *tally) String() string {
	text := fmt.Sprintf("%d events, %d kills, %d attempts interrupted, at most %d requests for one event", s.events,
		s.kills, s.interrupted, s.requests)
	if len(s.late) == 0 {
		return text
	}
	slices.Sort(s.late)
	n := len(s.late)
	return text + fmt.Sprintf("; %d retries were late by %v at p50, %v at p99, at most %v", n, s.late[n/2],
		s.late[n*99/100], s.late[n-1])
}
