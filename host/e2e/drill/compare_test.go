package drill

import (
	"net/http"
	"strings"
	"testing"

	"assay/host/auditlog"
	"assay/host/e2e/chaos"
	"assay/host/hosttest"
	"assay/host/installation"
	"assay/host/store/storetest"
	"assay/registry/expect"
)

// awaitRest waits until the hosts of a database have delivered all events and done what else is left.
func awaitRest(t testing.TB, url string) {
	t.Helper()
	conn := storetest.Session(t, url)
	last, same := "", 0
	expect.Until(t, "the hosts to come to rest", func() bool {
		now := storetest.Value[string](t, conn, `SELECT concat_ws(' ', (SELECT sum(seq) FROM audit_heads),
			(SELECT count(*) FROM graph_contributions),
			(SELECT count(*) FROM webhook_events WHERE state = 'pending'))`)
		if same++; now != last {
			last, same = now, 0
		}
		return same > 500 && strings.HasSuffix(now, " 0 0") // a second or more
	})
}

// compare returns the database after a drill, and reports where it differs from what the clients saw. `audit verify`
// must find nothing.
func compare(t *testing.T, h *chaos.History, b *installation.Backend, dir, url string) (*chaos.State, []string) {
	t.Helper()
	state := expect.Value(chaos.Read(t.Context(), url))(t)
	differences := chaos.Check(h, state, chaos.Keys{Pseudonym: b.Keys.Pseudonym, Graph: b.Keys.Graph,
		Erased: b.Keys.Erased})
	for _, d := range differences[:min(50, len(differences))] {
		t.Error(d)
	}
	for _, report := range hosttest.OutputJSON[[]auditlog.Report](t, dir, url, "audit", "verify") {
		expect.That(t, report.OK, "audit verify: %+v", report)
	}
	expect.That(t, h.Count(http.StatusOK) != 0, "no check was answered")
	return state, differences
}
