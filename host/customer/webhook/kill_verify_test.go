package webhook_test

import (
	"slices"

	"assay/host/customer/webhook"
	"assay/registry/expect"
)

// verify reports events whose outcome is wrong.
func (k *killTest) verify() {
	k.Helper()
	k.receiver.mu.Lock()
	defer k.receiver.mu.Unlock()
	expect.That(k, k.receiver.forged <= 0, "%d requests had no signature with a secret that the customer knows",
		k.receiver.forged)
	events := expect.Value(k.store.RecentEvents(k.Context(), k.caller.Account, "", 0, always))(k)
	for _, ref := range k.recorded {
		i := slices.IndexFunc(events, func(e webhook.Event) bool { return e.Ref == ref })
		if i < 0 {
			k.Errorf("%s, %s: the event is lost", ref, k.stages[ref])
			continue
		}
		log := expect.Value(k.store.Attempts(k.Context(), k.caller.Account, ref))(k)
		k.verifyEvent(events[i], log, k.receiver.arrivals[ref])
	}
}

func (k *killTest) verifyEvent(e webhook.Event, log []webhook.Attempt, arrivals int) {
	k.Helper()
	interrupted, refused, accepted := 0, 0, 0
	for _, a := range log {
		switch {
		case a.TookMS == nil:
			interrupted++
		case a.Status >= 200 && a.Status <= 299:
			accepted++
		default:
			refused++
		}
	}
	rounds := k.rounds[e.Ref]
	wrong := ""
	switch {
	case e.Attempts != len(log):
		wrong = "the log is incomplete"
	case e.State == "delivered" && (accepted != 1 || refused >= 4*rounds):
		wrong = "delivered, but not accepted exactly once"
	case e.State == "failed" && (accepted != 0 || refused != 4*rounds):
		wrong = "failed, but not refused four times"
	case arrivals > 4*rounds+k.kills[e.Ref]:
		wrong = "sent more than four times plus once for each kill"
	case arrivals > len(log), interrupted > k.kills[e.Ref]:
		wrong = "sent without an attempt, or interrupted without a kill"
	}
	expect.That(k, wrong == "",
		"%s, %s: %s: %s, sent %d times in %d attempts: %d accepted, %d refused, %d interrupted; %d kills", e.Ref,
		k.stages[e.Ref], wrong, e.State, arrivals, len(log), accepted, refused, interrupted, k.kills[e.Ref])
}
