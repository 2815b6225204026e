package cli

import (
	"encoding/json"
	"net/http"
	"slices"
	"testing"

	"assay/host/access/apikey"
	"assay/host/customer/feedback"
	"assay/host/hosttest"
	"assay/registry/expect"
)

// A customer checks a domain, reports it with its value, and the operator sees the signals' tallies.
func testFeedbackOfACustomer(t *testing.T, host *hosttest.HostProcess, dir, database string) {
	t.Helper()
	issued := hosttest.OutputJSON[apikey.Issued](t, dir, database, "keys", "create", "--plan", "starter")
	checked := hosttest.CheckUntilComplete(host, issued.Secret, `{"domain":"paypa1-secure-login.xyz"}`)
	report := func(body string) (status int, kept feedback.Kept) {
		t.Helper()
		status, text := hosttest.Send(t, host, issued.Secret, "POST", "/api/feedback", body)
		if status == http.StatusOK {
			expect.NoError(t, json.Unmarshal([]byte(text), &kept))
		}
		return status, kept
	}
	if status, _ := report(`{"ref":"` + checked.Ref + `","label":"fraud","domain":"example.org"}`); status != 400 {
		t.Errorf("feedback with another value: status %d, want 400", status)
	}
	status, kept := report(`{"ref":"` + checked.Ref + `","label":"fraud","domain":"PAYPA1-secure-login.xyz"}`)
	expect.That(t, status == 200 && kept.Scored && kept.Label == feedback.Fraud, "feedback: status %d, %+v", status,
		kept)
	lines := hosttest.OutputJSON[[]signalLine](t, dir, database, "feedback", "signals")
	expect.Must(t, len(lines) != 0, "no signal was counted")
	for _, l := range lines {
		expect.That(t, l.Fraud == 1 && l.Legitimate == 0 && l.Precision == 1, "%+v, want one label, of fraud", l)
	}
	hosttest.Has(t, hosttest.Output(t, dir, database, "feedback", "signals"), lines[0].Signal)
	shown := hosttest.OutputJSON[shownLayer](t, dir, database, "layers", "show", "domain")
	at := slices.IndexFunc(shown.Signals, func(s shownSignal) bool { return s.Code == "domain:brand:lookalike" })
	expect.That(t, shown.Labels == 1 && at >= 0 && shown.Signals[at].HitRate == 1 && shown.Signals[at].Precision == 1,
		"%+v", shown)
	hosttest.Has(t, hosttest.Output(t, dir, database, "layers", "show", "domain"), "domain:brand:lookalike", "100%")
	// Weights are fitted to feedback like to labelled values.
	rows := hosttest.WriteFile(t, "rows.jsonl", []byte(hosttest.Labelled))
	hosttest.Has(t, hosttest.Output(t, dir, database, "lineup", "fit", rows, "--feedback"), "to 17 rows")
}
