//go:build drill

package load

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"assay/host/check"
	"assay/host/cli"
	"assay/host/hosttest"
	"assay/host/installation"
	"assay/host/measure/bench"
	"assay/host/store/postgres/postgrestest"
	"assay/registry"
	"assay/registry/expect"
)

// wantUndisturbed measures a customer's p99 while a flood goes to this host. It may exceed by 20% what it is while the
// flood goes elsewhere on this machine. The quietest round of each counts.
func wantUndisturbed(t *testing.T, customer bench.Target, elsewhere, here func(ctx context.Context)) {
	t.Helper()
	const rate, rounds, each = 100, 9, 5 * time.Second
	var at [2][]time.Duration // p99 of each round, with the flood elsewhere and here
	for range rounds {
		for i, flood := range []func(context.Context){elsewhere, here} {
			ctx, stop := context.WithCancel(t.Context())
			var running sync.WaitGroup
			running.Go(func() { flood(ctx) })
			f, err := bench.Offer(t.Context(), customer, rate, each)
			stop()
			running.Wait()
			expect.Must(t, err == nil && f.Failed+f.Errors == 0, "the customer's checks: %+v, %v", f, err)
			if f.Refused == 0 { // else the machine was too busy
				at[i] = append(at[i], f.P99)
			}
		}
	}
	slices.Sort(at[0])
	slices.Sort(at[1])
	t.Logf("p99 with the flood elsewhere %v, here %v", at[0], at[1])
	expect.That(t, len(at[0]) != 0 && len(at[1]) != 0 && at[1][0] <= at[0][0]*6/5,
		"the flood raised the p99 from %v to %v", at[0], at[1])
}

// TestFloodsLeaveOthersAlone measures a customer's p99 while one key, or one /24, sends 1,000 requests a second.
func TestFloodsLeaveOthersAlone(t *testing.T) {
	const flooding = 1000
	dir, database := hosttest.DataDir(t), postgrestest.Database(t)
	cmd := hosttest.Command(context.WithoutCancel(t.Context()), dir, database)
	cmd.Env = append(cmd.Env, "ASSAY_RATES=pro=1200", "ASSAY_TRUSTED_PROXIES=127.0.0.1")
	host := hosttest.RunHost(t, cmd)
	b := hosttest.OpenStore(t, dir, database)
	pro, _ := check.PlanNamed("pro")
	customer := expect.Value(installation.IssueKey(t.Context(), b.Store, installation.Unlimited(), "customer"))(t)
	flooder := expect.Value(installation.IssueKey(t.Context(), b.Store, pro, "flooder"))(t)
	target := bench.Target{URL: host.URL + "/api/check", Keys: []string{customer.Secret}, Bodies: bench.Bodies(4096)}
	elsewhere := expect.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer func(stop func() error) { expect.NoError(t, stop()) }(bench.Echo(elsewhere, []byte(cli.EchoAnswer)))

	for name, prepare := range map[string]func(r *fasthttp.Request, n int){
		"one key": func(r *fasthttp.Request, _ int) {
			r.Header.Set("Authorization", "Bearer "+flooder.Secret)
			r.SetRequestURI("/api/check")
		},
		"one /24": func(r *fasthttp.Request, n int) {
			r.Header.Set("X-Forwarded-For", fmt.Sprintf("198.51.100.%d", n%256))
			r.SetRequestURI("/api/check-public")
		},
	} {
		t.Run(name, func(t *testing.T) {
			statuses := map[int]int{}
			wantUndisturbed(t, target, func(ctx context.Context) {
				flood(ctx, elsewhere.Addr().String(), flooding, prepare)
			}, func(ctx context.Context) {
				for status, n := range flood(ctx, host.URL[len("http://"):], flooding, prepare) {
					statuses[status] += n
				}
			})
			expect.That(t, statuses[http.StatusServiceUnavailable] >= statuses[http.StatusOK],
				"the flood got %v, want mostly 503", statuses)
		})
	}
}

// flood sends requests at a rate until ctx ends, and returns the number of answers by status.
func flood(ctx context.Context, address string, rate int, prepare func(*fasthttp.Request, int)) map[int]int {
	const workers = 20
	client := &fasthttp.HostClient{Addr: address, MaxConns: workers, ReadTimeout: 10 * time.Second}
	var mu sync.Mutex
	statuses := map[int]int{}
	var running sync.WaitGroup
	for w := range workers {
		running.Go(func() {
			ticker := time.NewTicker(workers * time.Second / time.Duration(rate))
			defer ticker.Stop()
			for n := w; ; n += workers {
				select {
				case <-ctx.Done():
					return
				case <-ticker.C:
				}
				request, response := fasthttp.AcquireRequest(), fasthttp.AcquireResponse()
				request.Header.SetMethod(fasthttp.MethodPost)
				request.Header.SetContentType("application/json")
				request.SetBodyString(`{"domain":"example.com"}`)
				prepare(request, n)
				request.SetHost(address)
				status := 0 // no answer
				if client.Do(request, response) == nil {
					status = response.StatusCode()
				}
				fasthttp.ReleaseRequest(request)
				fasthttp.ReleaseResponse(response)
				mu.Lock()
				statuses[status]++
				mu.Unlock()
			}
		})
	}
	running.Wait()
	return statuses
}

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
	layers := hosttest.PublishFailingLayers(t, dir, s)[:failing]
	key := issue("customer")
	l := hosttest.OutputJSON[registry.LineupRevision](t, dir, database, "lineup", "show").Lineup
	if l.Layers = append(l.Layers, layers...); failing > 0 {
		hosttest.Output(t, dir, database, "lineup", "set", hosttest.WriteJSON(t, l), "--force", "--reason", "a test")
	}
	expect.Until(t, "the layers to fail", func() bool {
		return hosttest.CheckOnce(host, key, fmt.Sprintf(hosttest.FailingValue, 0)).Degraded() == (failing > 0)
	})
	return failingHost{host,
		bench.Target{URL: host.URL + "/api/check", Keys: []string{key}, Bodies: bench.Bodies(4096)},
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
