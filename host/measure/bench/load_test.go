package bench

import (
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"assay/registry/expect"
)

func TestRequestsRotateAccounts(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	seen := map[string]int{}
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		seen[r.Header.Get("Authorization")]++
	}))
	t.Cleanup(server.Close)
	target := Target{URL: server.URL, Key: "a", Others: []string{"b", "c"}, Bodies: [][]byte{[]byte("{}")}}
	expect.Value(Offer(t.Context(), target, 300, 100*time.Millisecond))(t)
	mu.Lock()
	defer mu.Unlock()
	for _, key := range []string{"a", "b", "c"} {
		if seen["Bearer "+key] != 10 {
			t.Errorf("requests by key: %v, want 10 each", seen)
			break
		}
	}
}

// A host that stalls is offered requests all the same, and none fails for want of a connection.
func TestOffersAreMadeWhileAHostStalls(t *testing.T) {
	t.Parallel()
	const rate, stalled = 20, 30
	var arrived atomic.Int64
	goOn := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if arrived.Add(1) == stalled {
			close(goOn)
		}
		select {
		case <-goOn:
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	target := Target{URL: server.URL, Bodies: [][]byte{[]byte("{}")}}
	f := expect.Value(Offer(t.Context(), target, rate, 2*time.Second))(t)
	expect.That(t, f.Answered == 2*rate && f.Failed <= 0, "%d answered, %d failed (%v); want all of %d answered",
		f.Answered, f.Failed, f.Failure, 2*rate)
}
