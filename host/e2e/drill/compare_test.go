package drill

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"assay/host/auditlog"
	"assay/host/check"
	"assay/host/e2e/chaos"
	"assay/host/hosttest"
	"assay/host/installation"
	"assay/host/store/storetest"
	"assay/registry/expect"
)

// newClient returns a client with an account of its own.
func newClient(t testing.TB, b *installation.Backend, plan check.Plan) *chaos.Client {
	t.Helper()
	issued := expect.Value(installation.IssueKey(t.Context(), b.Store, plan, "drill"))(t)
	client := &chaos.Client{Account: issued.Account, Batches: plan.Batch}
	client.SetKey(issued.ID, issued.Secret)
	return client
}

// receiveEvents gives clients' accounts a webhook endpoint whose deliveries the history records.
func receiveEvents(t testing.TB, b *installation.Backend, h *chaos.History, clients ...*chaos.Client) {
	t.Helper()
	secrets := map[string]string{}
	receiver := httptest.NewServer(h.Receiver(func(account string) string { return secrets[account] }))
	t.Cleanup(receiver.Close)
	for _, c := range clients {
		secrets[c.Account] = expect.Value(b.Store.SetEndpoint(t.Context(), c.Account, receiver.URL+"/"+c.Account))(t)
	}
}

// answers returns when hosts answered the calls, in order. One host does not count.
func answers(calls []*chaos.Call, except int) (ends []time.Time) {
	for _, c := range calls {
		if c.Status == http.StatusOK && c.Host != except {
			ends = append(ends, c.Ended)
		}
	}
	slices.SortFunc(ends, time.Time.Compare)
	return ends
}

// startLoad sends checks until the function that it returns has been called, which waits for the last answers.
func startLoad(t testing.TB, load *chaos.Load, workers int, pause time.Duration) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { load.Run(ctx, workers, pause) })
	return func() { cancel(); running.Wait() }
}

// awaitRest waits until the hosts of a database have delivered all events and done what else is left.
func awaitRest(t testing.TB, url string) {
	t.Helper()
	conn := storetest.Session(t, url)
	last, same := "", 0
	expect.Until(t, "the hosts to come to rest", func() bool {
		now := storetest.Value[string](t, conn, `SELECT concat_ws(' ', (SELECT sum(seq) FROM audit_heads),
			(SELECT count(*) FROM graph_contributions),
			(SELECT count(*) FROM webhook_events WHERE state = 'pending')) FROM pg_sleep(0.05)`)
		if same++; now != last {
			last, same = now, 0
		}
		return same > 20 && strings.HasSuffix(now, " 0 0") // a second or more
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
