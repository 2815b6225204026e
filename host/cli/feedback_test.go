package cli

import (
	"bytes"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"assay/host/access/apikey"
	"assay/host/customer/feedback"
	"assay/host/hosttest"
	"assay/host/store/postgres/postgrestest"
)

// A customer checks a domain, reports it with its value, and the operator sees the signals' tallies.
func TestFeedbackOfACustomer(t *testing.T) {
	t.Parallel()
	dir, database := hosttest.DataDir(t), postgrestest.Database(t)
	host := hosttest.StartHost(t, dir, database)
	issued := hosttest.OutputJSON[apikey.Issued](t, dir, database, "keys", "create", "--plan", "starter")
	checked := hosttest.CheckUntilComplete(host, issued.Secret, `{"domain":"paypa1-secure-login.xyz"}`)
	send := func(body string) (status int, kept feedback.Kept) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, host.URL+"/api/feedback",
			strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+issued.Secret)
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		var answer bytes.Buffer
		if _, err := answer.ReadFrom(res.Body); err != nil {
			t.Fatal(err)
		}
		if res.StatusCode == http.StatusOK {
			if err := json.Unmarshal(answer.Bytes(), &kept); err != nil {
				t.Fatal(err)
			}
		}
		return res.StatusCode, kept
	}
	report := func(body string) (status int, kept feedback.Kept) {
		t.Helper()
		hosttest.UntilAccepted(func() int { status, kept = send(body); return status })
		return status, kept
	}
	if status, _ := report(`{"ref":"` + checked.Ref + `","label":"fraud","domain":"example.org"}`); status != 400 {
		t.Errorf("feedback with another value: status %d, want 400", status)
	}
	status, kept := report(`{"ref":"` + checked.Ref + `","label":"fraud","domain":"PAYPA1-secure-login.xyz"}`)
	if status != 200 || !kept.Scored || kept.Label != feedback.Fraud {
		t.Errorf("feedback: status %d, %+v", status, kept)
	}
	lines := hosttest.OutputJSON[[]signalLine](t, dir, database, "feedback", "signals")
	if len(lines) == 0 {
		t.Fatal("no signal was counted")
	}
	for _, l := range lines {
		if l.Fraud != 1 || l.Legitimate != 0 || l.Precision != 1 {
			t.Errorf("%+v, want one label, of fraud", l)
		}
	}
	if out := hosttest.Output(t, dir, database, "feedback", "signals"); !strings.Contains(out, lines[0].Signal) {
		t.Errorf("no %s in the table:\n%s", lines[0].Signal, out)
	}
	shown := hosttest.OutputJSON[shownLayer](t, dir, database, "layers", "show", "domain")
	at := slices.IndexFunc(shown.Signals, func(s shownSignal) bool { return s.Code == "domain:brand:lookalike" })
	if shown.Labels != 1 || at < 0 || shown.Signals[at].HitRate != 1 || shown.Signals[at].Precision != 1 {
		t.Errorf("%+v", shown)
	}
	hosttest.Has(t, hosttest.Output(t, dir, database, "layers", "show", "domain"), "domain:brand:lookalike", "100%")
	// Weights are fitted to feedback like to labelled values.
	rows := hosttest.WriteFile(t, "rows.jsonl", []byte(hosttest.Labelled))
	if out := hosttest.Output(t, dir, database, "lineup", "fit", rows, "--feedback"); !strings.Contains(out,
		"to 17 rows") {
		t.Errorf("the feedback is not fitted to:\n%s", out)
	}
}
