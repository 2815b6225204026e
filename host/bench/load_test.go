package bench

import (
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"
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
	if _, err := Offer(t.Context(), target, 300, 100*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	for _, key := range []string{"a", "b", "c"} {
		if seen["Bearer "+key] != 10 {
			t.Errorf("requests by key: %v, want 10 each", seen)
			break
		}
	}
}
