package drill

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"assay/host/auditlog"
	"assay/host/hosttest"
	"assay/host/installation"
	"assay/host/store/postgres/postgrestest"
	"assay/sdk/client"
)

var killCount = flag.Int("kills", 2, "how many hosts TestKillUnderLoad kills")

// TestKillUnderLoad kills hosts while they answer checks. Clients send what was not answered again, to the next host
// and with the same Idempotency-Key: each request is answered, recorded and counted exactly once.
func TestKillUnderLoad(t *testing.T) {
	t.Parallel()
	const callers = 16
	dir, database := hosttest.DataDir(t), postgrestest.Database(t)
	b := hosttest.OpenStore(t, dir, database)
	issued, err := installation.IssueKey(t.Context(), b.Store, installation.Unlimited(), "test")
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	answered := map[string]bool{}
	next := make([]int, callers) // the number of each caller's request
	for round := range *killCount + 1 {
		host := hosttest.StartHost(t, dir, database)
		var wg sync.WaitGroup
		var count atomic.Int32
		enough := make(chan struct{})
		goal := 1 + rand.Int32N(400)
		assay := client.New(host.URL, issued.Secret)
		assay.Attempts, assay.HTTP.Transport = 1, &http.Transport{MaxIdleConnsPerHost: callers}
		assay.AttemptTimeout, assay.Timeout = time.Minute, time.Minute // a busy host is not a killed one
		for c := range callers {
			wg.Go(func() {
				for !t.Failed() {
					var refused *client.Error
					value := client.Request{Email: fmt.Sprintf("caller%d.%d@example.com", c, next[c])}
					result, err := assay.Check(t.Context(), value, client.IdempotencyKey(value.Email))
					switch {
					case err == nil:
					case errors.As(err, &refused) && refused.Status >= http.StatusInternalServerError:
						continue // busy, or its outcome is unknown
					case errors.As(err, &refused):
						t.Errorf("under load: %v", err)
						return
					default: // the host is killed
						return
					}
					mu.Lock()
					answered[result.Ref] = true
					mu.Unlock()
					next[c]++
					if round == *killCount { // only what the killed hosts left
						return
					}
					if count.Add(1) == goal {
						close(enough)
					}
				}
			})
		}
		ended := make(chan struct{})
		go func() {
			wg.Wait()
			close(ended)
		}()
		select {
		case <-enough:
			host.Stop(t, syscall.SIGKILL)
			<-ended
		case <-ended: // all is answered, or a request failed
		}
	}
	reports := hosttest.OutputJSON[[]auditlog.Report](t, dir, database, "audit", "verify")
	if len(reports) != 2 || !reports[0].OK || !reports[1].OK {
		t.Fatalf("audit verify: %+v", reports)
	}
	requests := 0
	for _, n := range next {
		requests += n
	}
	recorded, used := hosttest.RecordedRefs(t, database)
	for ref, times := range recorded {
		if !answered[ref] || times != 1 {
			t.Errorf("%s is recorded %d times; answered: %v", ref, times, answered[ref])
		}
	}
	if used != requests || len(recorded) != requests || len(answered) != requests {
		t.Errorf("%d requests, %d answers, %d recorded, %d counted", requests, len(answered), len(recorded), used)
	}
}
