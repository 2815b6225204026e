//go:build drill

package load

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"assay/host/hosttest"
	"assay/host/installation"
	"assay/host/measure/bench"
	"assay/host/store/postgres/postgrestest"
	"assay/registry"
	"assay/registry/expect"
)

// failingHost is a host whose lineup has layers that fail for some values.
type failingHost struct {
	*hosttest.HostProcess
	customer bench.Target
	attacker string
}

func startFailingHost(t *testing.T, failing int) failingHost {
	t.Helper()
	dir, database := hosttest.DataDir(t), postgrestest.Database(t)
	host := hosttest.RunHost(t, hosttest.Command(context.WithoutCancel(t.Context()), dir, database))
	s := hosttest.OpenStore(t, dir, database).Store
	issue := func(name string) string {
		return expect.Value(installation.IssueKey(t.Context(), s, installation.Unlimited(), name))(t).Secret
	}
	layers := hosttest.PublishFailingLayers(t, s)[:failing]
	key := issue("customer")
	l := hosttest.OutputJSON[registry.LineupRevision](t, dir, database, "lineup", "show").Lineup
	if l.Layers = append(l.Layers, layers...); failing > 0 {
		hosttest.Output(t, dir, database, "lineup", "set", hosttest.WriteJSON(t, l), "--force", "--reason", "a test")
	}
	expect.Until(t, "the layers to fail", func() bool {
		return hosttest.CheckOnce(host, key, fmt.Sprintf(hosttest.FailingValue, 0)).Degraded() == (failing > 0)
	})
	return failingHost{host, bench.Target{URL: host.URL + "/api/check", Key: key, Bodies: bench.Bodies(4096)},
		issue("attacker")}
}

// TestFailuresLeaveOthersAlone measures a customer's p99 while another account sends values for which four layers fail,
// as fast as the host answers, and while another host of this machine gets the same values.
func TestFailuresLeaveOthersAlone(t *testing.T) {
	here, elsewhere := startFailingHost(t, 4), startFailingHost(t, 4)
	var n, answered atomic.Int64
	flood := func(attacked failingHost) func(context.Context) {
		return func(ctx context.Context) {
			var workers sync.WaitGroup
			for range 8 {
				workers.Go(func() {
					client := &fasthttp.Client{ReadTimeout: 10 * time.Second}
					for ctx.Err() == nil {
						if attacked.attack(client, int(n.Add(1))) == fasthttp.StatusOK {
							answered.Add(1)
						}
					}
				})
			}
			workers.Wait()
		}
	}
	wantUndisturbed(t, here.customer, flood(elsewhere), flood(here))
	t.Logf("%d answers to %d requests of the flood", answered.Load(), n.Load())
}

// attack makes a check that layers fail for, and returns the status.
func (h failingHost) attack(client *fasthttp.Client, n int) int {
	request, response := fasthttp.AcquireRequest(), fasthttp.AcquireResponse()
	defer fasthttp.ReleaseRequest(request)
	defer fasthttp.ReleaseResponse(response)
	request.SetRequestURI(h.URL + "/api/check")
	request.Header.SetMethod(fasthttp.MethodPost)
	request.Header.SetContentType("application/json")
	request.Header.Set("Authorization", "Bearer "+h.attacker)
	request.SetBodyString(fmt.Sprintf(hosttest.FailingValue, n))
	if client.Do(request, response) != nil {
		return 0
	}
	return response.StatusCode()
}

// TestTrappingLayerCostsLittle: an optional layer that traps on all values may cost at most 10% of the throughput.
func TestTrappingLayerCostsLittle(t *testing.T) {
	const rounds, each = 9, 4 * time.Second
	hosts := []failingHost{startFailingHost(t, 0), startFailingHost(t, 1)}
	var best [2]float64
	for range rounds {
		for i, host := range hosts {
			host.customer.Bodies = nil
			for n := range 4096 {
				host.customer.Bodies = append(host.customer.Bodies, fmt.Appendf(nil, hosttest.FailingValue, n))
			}
			f := expect.Value(bench.Saturate(t.Context(), host.customer, 8, each))(t)
			t.Logf("layers that trap %d: %.0f checks a second", i, f.PerSecond)
			best[i] = max(best[i], f.PerSecond)
		}
	}
	expect.That(t, best[1] >= best[0]*9/10, "with a layer that traps %.0f checks a second, else %.0f", best[1], best[0])
}
