package lineup

import (
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	"assay/host/check"
	"assay/host/hosttest"
	"assay/host/installation"
	"assay/host/lineup/replay"
	"assay/host/store/postgres/postgrestest"
	"assay/registry"
	"assay/registry/expect"
)

// brokenLayer is a module that crashes in every call.
const brokenLayer = "\x00asm\x01\x00\x00\x00" + // header
	"\x01\x05\x01\x60\x00\x01\x7f" + // type () -> i32
	"\x03\x02\x01\x00" + // one function of it
	"\x05\x04\x01\x01\x01\x01" + // one page of memory
	"\x07\x1b\x02\x06memory\x02\x00\x0eassay_v1_score\x00\x00" + // exports
	"\x0a\x05\x01\x03\x00\x00\x0b" // unreachable

// A layer that fails for 20 accounts in as many networks, and for the reference values, is moved to shadow by the host,
// in a step that `audit verify` accepts and that an operator can undo. /readyz says both. In shadow it does no harm,
// and `lineup shadow` shows it, and what another layer in shadow would have changed.
func TestFailingLayerIsMovedToShadow(t *testing.T) {
	t.Parallel()
	dir, database := hosttest.DataDir(t), postgrestest.Database(t)
	host := hosttest.StartHost(t, dir, database)
	store := hosttest.OpenStore(t, dir, database).Store
	var keys []string
	var clients []*http.Client
	for i := range 20 {
		issued := expect.Value(installation.IssueKey(t.Context(), store, installation.Unlimited(),
			fmt.Sprint("account ", i)))(t)
		keys = append(keys, issued.Secret)
		from := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, byte(1+i), 1)}}
		transport := &http.Transport{DialContext: from.DialContext}
		t.Cleanup(transport.CloseIdleConnections)
		clients = append(clients, &http.Client{Transport: transport})
	}
	// `plugin push` would refuse it.
	flaky := expect.Value(registry.OpenModule(hosttest.Packed(t, "flaky", brokenLayer,
		`"entities":["iban"],"facts":[],"signals":[]`)))(t)
	expect.NoError(t, store.PublishPlugin(t.Context(), flaky, "1.0.0", "", nil))
	l := hosttest.OutputJSON[registry.LineupRevision](t, dir, database, "lineup", "show").Lineup
	l.Bands.Review = 5
	for i := range l.Layers {
		if name, _, _ := l.Layers[i].Ref(); name == "numbering" {
			l.Layers[i].Mode = registry.ModeShadow
		}
	}
	l.Layers = append(l.Layers, registry.LineupLayer{Layer: "flaky@1.0.0", Weight: registry.ForAll(1)})
	set := hosttest.OutputJSON[map[string]int64](t, dir, database, "lineup", "set", hosttest.WriteJSON(t, l),
		"--force", "--reason", "a test")

	body := `{"iban":"AT262011143337761740"}`
	now := func() registry.LineupRevision {
		return expect.Value(store.ActiveLineup(t.Context()))(t)
	}
	expect.Until(t, "the layer to fail", func() bool { return hosttest.CheckOnce(host, keys[0], body).Degraded() })
	expect.Until(t, "the layer to be moved to shadow", func() bool {
		for i, key := range slices.Backward(keys) { // the first has failed already: all agree at the first finding
			hosttest.Post(clients[i], host.URL, key, body)
		}
		return now().Revision != set["revision"]
	})
	moved := now()
	layers := moved.Lineup.Layers
	last := layers[len(layers)-1]
	expect.That(t, last.Mode == registry.ModeShadow && moved.Activation == set["activation"]+1 &&
		strings.HasPrefix(moved.Author, "host ") &&
		strings.Contains(moved.Note, "Layer flaky exceeded its limits: it failed (trap) in "), "in force: %+v", moved)
	expect.Until(t, "the demotion to be counted", func() bool {
		return host.Metric(t, `assay_lineup_steps_total{step="demotion"}`) == 1
	})

	// It fails on, which nobody sees, and what the other layer in shadow finds has no effect.
	expect.Until(t, "the host to follow", func() bool {
		return strings.Contains(hosttest.Get(t, host.Admin+"/metrics", ""),
			fmt.Sprintf("assay_lineup_revision %d\n", moved.Revision))
	})
	expect.Until(t, "/readyz to list the failures and the demotion", func() bool {
		text := hosttest.Get(t, host.Admin+"/readyz", "")
		return strings.Contains(text, "layer flaky was moved to shadow by host ") &&
			strings.Contains(text, "layer flaky fails: it failed (trap) in ")
	})
	for range 20 {
		a := hosttest.CheckOnce(host, keys[0], body)
		expect.Must(t, !a.Degraded() && a.Verdict == string(check.Allow), "afterwards: %+v", a)
	}
	type shadow struct {
		replay.ShadowReport
		Layers []string
	}
	var shown []shadow
	expect.Until(t, "the flip to be reported", func() bool {
		a := hosttest.CheckOnce(host, keys[0], `{"phone":"+972 1511 2345678"}`)
		expect.That(t, a.Verdict == string(check.Allow), "a voice mailbox without numbering: %+v", a)
		shown = hosttest.OutputJSON[[]shadow](t, dir, database, "lineup", "shadow")
		return slices.ContainsFunc(shown[0].Report.Signals, func(s replay.SignalFlips) bool {
			return s.Code == "numbering:type:voicemail" && s.To == check.Review
		})
	})
	r := shown[0]
	expect.That(t, len(shown) == 1 && r.Revision == moved.Revision && len(r.Layers) == 2 &&
		r.Layers[1] == "flaky@1.0.0" && len(r.Report.Failures) != 0 && r.Report.Failures[0].Layer == "flaky",
		"lineup shadow: %+v", shown)
	hosttest.Has(t, hosttest.Output(t, dir, database, "lineup", "shadow"), "allow to review",
		"numbering:type:voicemail of numbering", "has in shadow: ")
	hosttest.Output(t, dir, database, "audit", "verify")

	// The operator removes it.
	l = moved.Lineup
	l.Base, l.Layers = "", l.Layers[:len(l.Layers)-1]
	hosttest.Output(t, dir, database, "lineup", "set", hosttest.WriteJSON(t, l))
}
