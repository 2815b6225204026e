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

// stall leaves the next request of an event without a response.
func (r *receiver) stall(ref string) (stalled <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stallRef, r.stalled = ref, make(chan struct{})
	return r.stalled
}

// refuse refuses the next requests of an event.
func (r *receiver) refuse(ref string, times int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refusals[ref] = times
}

// remaining returns how many of the next requests of an event are to be refused.
func (r *receiver) remaining(ref string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.refusals[ref]
}

// addSecret adds a secret that signatures are verified with.
func (r *receiver) addSecret(secret string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.secrets = append(r.secrets, secret)
}
