package outage

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"assay/host/hosttest"
	"assay/host/installation"
	"assay/host/store/postgres/postgrestest"
	"assay/registry"
	"assay/registry/expect"
)

// pickyLayer is a module that crashes for every IBAN: if entity.type has four letters.
const pickyLayer = "\x00asm\x01\x00\x00\x00" + // header
	"\x01\x0d\x02\x60\x04\x7f\x7f\x7f\x7f\x01\x7f\x60\x00\x01\x7f" + // types (i32 i32 i32 i32) -> i32, () -> i32
	"\x02\x0e\x01\x05assay\x04fact\x00\x00" + // import assay.fact
	"\x03\x02\x01\x01" + // one function
	"\x05\x04\x01\x01\x01\x01" + // one page of memory
	"\x07\x1b\x02\x06memory\x02\x00\x0eassay_v1_score\x00\x01" + // exports
	"\x0a\x18\x01\x16\x00" +
	"\x41\x10\x41\x0b\x41\xc0\x00\x41\x10\x10\x00" + // fact("entity.type", buffer)
	"\x41\x04\x46\x04\x40\x00\x0b" + // if it is 4: unreachable
	"\x41\x00\x0b" + // return 0
	"\x0b\x11\x01\x00\x41\x10\x0b\x0bentity.type" // at 16

// One account's values crash a layer all the time. Its own answers say so. Another account's answers are complete, and
// no check is refused for the layer, be it required or not.
func TestOneCustomersFailuresStayTheirs(t *testing.T) {
	t.Parallel()
	dir, database := hosttest.DataDir(t), postgrestest.Database(t)
	host := hosttest.StartHost(t, dir, database)
	store := hosttest.OpenStore(t, dir, database).Store
	var keys []string
	for _, name := range []string{"attacker", "victim"} {
		issued := expect.Value(installation.IssueKey(t.Context(), store, installation.Unlimited(), name))(t)
		keys = append(keys, issued.Secret)
	}
	// `plugin push` would refuse it.
	picky := expect.Value(registry.OpenModule(hosttest.Packed(t, "picky", pickyLayer,
		`"entities":["domain","iban"],"facts":["entity.type"],"signals":[]`)))(t)
	expect.NoError(t, store.PublishPlugin(t.Context(), picky, "1.0.0", "", nil))
	const iban = `{"iban":"DE89370400440532013000"}`
	for _, required := range []bool{false, true} {
		l := hosttest.OutputJSON[registry.LineupRevision](t, dir, database, "lineup", "show").Lineup
		if !required {
			l.Layers = append(l.Layers, registry.LineupLayer{Layer: "picky@1.0.0", Weight: registry.ForAll(0.1)})
		}
		l.Layers[len(l.Layers)-1].Required = required
		hosttest.Output(t, dir, database, "lineup", "set", hosttest.WriteJSON(t, l), "--force", "--reason", "a test")
		expect.Until(t, "the layer to fail", func() bool {
			a := hosttest.CheckOnce(host, keys[0], iban)
			return a.Degraded() && (a.Verdict != "allow" || !required)
		})
		ctx, stop := context.WithCancel(t.Context())
		var attack sync.WaitGroup
		for range 4 {
			attack.Go(func() {
				for ctx.Err() == nil {
					hosttest.PostOnce(http.DefaultClient, host.URL, keys[0], iban)
				}
			})
		}
		for i := range 80 {
			a := hosttest.CheckOnce(host, keys[1], fmt.Sprintf(`{"domain":"blumen-hartmann%d.de"}`, i))
			if a.Status != http.StatusOK || a.Degraded() {
				t.Errorf("required %v, check %d of another account: %+v", required, i, a)
			}
		}
		stop()
		attack.Wait()
	}
	page := hosttest.Get(t, host.Admin+"/metrics", "")
	if strings.Contains(page, `assay_refusals_total{reason="layer"}`) {
		t.Error("checks were refused for a layer")
	}
}
