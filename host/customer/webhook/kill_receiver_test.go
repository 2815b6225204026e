package webhook_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"assay/host/customer/webhook"
	"assay/registry/expect"
)

// receiver is a webhook receiver that records all requests.
type receiver struct {
	*httptest.Server

	mu       sync.Mutex
	arrivals map[string]int // requests by event
	refusals map[string]int // by event, how many of its next requests get status 500
	secrets  []string       // known to the customer
	forged   int            // requests without a valid signature
	stallRef string         // the next request of this event gets no response
	stalled  chan struct{}  // closed when that request has arrived
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{arrivals: map[string]int{}, refusals: map[string]int{}}
	r.Server = httptest.NewServer(http.HandlerFunc(r.serve))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) serve(w http.ResponseWriter, request *http.Request) {
	body, err := io.ReadAll(request.Body)
	if err != nil {
		return // the host was killed while it sent the body
	}
	ref := request.Header.Get("webhook-id")
	r.mu.Lock()
	signed := slices.ContainsFunc(r.secrets, func(secret string) bool {
		return slices.Contains(strings.Fields(request.Header.Get("webhook-signature")),
			webhook.StandardSignature(secret, ref, request.Header.Get("webhook-timestamp"), body))
	})
	if !signed {
		r.forged++
	}
	r.arrivals[ref]++
	stall := ref == r.stallRef
	if stall {
		r.stallRef = ""
		close(r.stalled)
	}
	r.mu.Unlock()
	if stall {
		<-request.Context().Done() // until the host is killed
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	status := http.StatusOK
	if r.refusals[ref] > 0 {
		r.refusals[ref]--
		status = http.StatusInternalServerError
	}
	w.WriteHeader(status)
}

// with changes a receiver.
func (r *receiver) with(change func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change()
}

// stall leaves the next request of an event without a response.
func (r *receiver) stall(ref string) (stalled <-chan struct{}) {
	r.with(func() { r.stallRef, r.stalled = ref, make(chan struct{}) })
	return r.stalled
}

// refuse refuses the next requests of an event, so many at least and at most.
func (r *receiver) refuse(ref string, least, most int) {
	r.with(func() { r.refusals[ref] = min(max(r.refusals[ref], least), most) })
}

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
