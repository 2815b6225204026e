package outage

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"assay/host/hosttest"
	"assay/host/installation"
	"assay/host/store/postgres/postgrestest"
	"assay/registry"
	"assay/registry/expect"
)

// The values of one account, of its batches, or of anybody without a key make four layers fail all the time: they trap,
// loop, take memory and forge signals. The answers about these values say so. Another account's answers are those of a
// quiet host, and no check is refused for a layer, be they required or not.
func TestOneCustomersFailuresStayTheirs(t *testing.T) {
	t.Parallel()
	dir, database := hosttest.DataDir(t), postgrestest.Database(t)
	cmd := hosttest.Command(context.WithoutCancel(t.Context()), dir, database)
	cmd.Env = append(cmd.Env, "ASSAY_TRUSTED_PROXIES=127.0.0.1")
	host := hosttest.RunHost(t, cmd)
	store := hosttest.OpenStore(t, dir, database).Store
	layers := hosttest.PublishFailingLayers(t, store)
	issue := func(name string) string {
		return expect.Value(installation.IssueKey(t.Context(), store, installation.Unlimited(), name))(t).Secret
	}
	attacker := issue("attacker")
	failing := func(i int) string { return fmt.Sprintf(hosttest.FailingValue, i) }
	var failed atomic.Int64
	send := func(path, body string, i int) {
		status, text := hosttest.SendOnce(t, host, attacker, http.MethodPost, path, body, "X-Forwarded-For",
			fmt.Sprintf("198.51.%d.%d", i%200, i/200%200))
		if status == http.StatusOK && hosttest.DegradedText(text) {
			failed.Add(1)
		}
	}
	attack := func(i int) {
		send("/api/check", failing(i), i)
		send("/api/check/batch", `{"checks":[`+failing(i)+`,`+failing(-i)+`]}`, i)
		send("/api/check-public", failing(i), i)
	}
	for _, required := range []bool{false, true} {
		l := hosttest.OutputJSON[registry.LineupRevision](t, dir, database, "lineup", "show").Lineup
		if !required {
			l.Layers = append(l.Layers, layers...)
		}
		for i := range layers {
			l.Layers[len(l.Layers)-1-i].Required = required
		}
		hosttest.Output(t, dir, database, "lineup", "set", hosttest.WriteJSON(t, l), "--force", "--reason", "a test")
		expect.Until(t, "the layers to fail", func() bool {
			a := hosttest.CheckOnce(host, attacker, failing(0))
			return strings.Count(strings.Join(a.Signals, "\n"), "layer failed") == len(layers) &&
				(a.Verdict != "allow" || !required)
		})
		ask := func(account string, check func(i int, a hosttest.Answer)) {
			key := issue(account)
			for i := range 20 {
				a := hosttest.CheckOnce(host, key, fmt.Sprintf(`{"domain":"blumen-hartmann%d.de"}`, i))
				a.Ref = ""
				check(i, a)
			}
		}
		var quiet [20]hosttest.Answer
		ask("quiet", func(i int, a hosttest.Answer) { quiet[i] = a })
		failed.Store(0)
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		for worker := range 2 {
			running.Go(func() {
				for i := worker; ctx.Err() == nil; i += 2 {
					attack(i)
				}
			})
		}
		ask("victim", func(i int, a hosttest.Answer) {
			expect.That(t, a.Status == http.StatusOK && !a.Degraded(), "required %v: %+v", required, a)
			expect.NoDiff(t, fmt.Sprint("required ", required, ", check ", i), quiet[i], a)
		})
		expect.Until(t, "answers about failures", func() bool { return failed.Load() >= 10 })
		stop()
		running.Wait()
	}
	page := hosttest.Get(t, host.Admin+"/metrics", "")
	expect.That(t, !strings.Contains(page, `assay_refusals_total{reason="layer"}`), "checks were refused for a layer")
}
