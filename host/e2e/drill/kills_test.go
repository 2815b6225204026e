package drill

import (
	"cmp"
	"math/rand/v2"
	"net/http"
	"sync/atomic"
	"syscall"
	"testing"

	"assay/host/e2e/chaos"
	"assay/host/hosttest"
	"assay/host/installation"
	"assay/host/store/postgres/postgrestest"
	"assay/registry/expect"
)

// TestKillUnderLoad kills hosts while they answer checks. Clients send what was not answered again, to the next host
// and with the same Idempotency-Key: each request is answered, recorded and counted exactly once.
func TestKillUnderLoad(t *testing.T) {
	t.Parallel()
	dir, database := hosttest.DataDir(t), postgrestest.Database(t)
	b := hosttest.OpenStore(t, dir, database)
	client := newClient(t, b, installation.Unlimited())
	var url atomic.Value
	start := func() *hosttest.HostProcess {
		host := hosttest.StartHost(t, dir, database)
		url.Store(host.URL)
		return host
	}
	host := start()
	history := &chaos.History{}
	load := chaos.NewLoad(history, []*chaos.Client{client}, 1, func(int) string { return url.Load().(string) })
	load.Repeat = true
	workers, answers := 4, 50
	if *drillTimes > 0 {
		workers, answers = 16, 400
	}
	stop := startLoad(t, load, workers, 0)
	for range cmp.Or(*drillTimes, 2) {
		enough := history.Count(http.StatusOK) + 1 + rand.IntN(answers)
		expect.Until(t, "answers", func() bool { return history.Count(http.StatusOK) >= enough })
		host.Stop(t, syscall.SIGKILL)
		host = start()
	}
	stop() // what the killed hosts left is answered
	if answered, all := history.Count(http.StatusOK), len(history.Calls); answered != all {
		t.Errorf("%d of %d requests were answered", answered, all)
	}
	awaitRest(t, database)
	host.Stop(t, syscall.SIGTERM)
	compare(t, history, b, dir, database)
}
