package lineup

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"testing"

	"assay/host/hosttest"
	"assay/host/installation"
	"assay/host/lineup/replay"
	"assay/host/store/postgres/postgrestest"
	"assay/registry"
	"assay/registry/expect"
)

// TestFlipsAreShownAndLimited changes a lineup so that the verdicts of recent checks flip. The operator sees it, needs
// --force with a reason, and an erased subject is no longer counted.
func TestFlipsAreShownAndLimited(t *testing.T) {
	t.Parallel()
	dir, database := hosttest.DataDir(t), postgrestest.Database(t)
	host := hosttest.StartHost(t, dir, database)
	issued := expect.Value(installation.IssueKey(t.Context(), hosttest.OpenStore(t, dir, database).Store,
		installation.Unlimited(), "test"))(t)
	for i := range 10 {
		hosttest.CheckUntilComplete(host, issued.Secret, fmt.Sprintf(`{"domain":"garden-%d.example.com"}`, i))
	}
	l := hosttest.OutputJSON[registry.LineupRevision](t, dir, database, "lineup", "show").Lineup
	l.Bands.Review = 1
	file := hosttest.WriteJSON(t, l)

	diff := func() *replay.Report {
		r := hosttest.OutputJSON[prediction](t, dir, database, "lineup", "diff", file)
		expect.That(t, len(r.Changes) == 1 && len(r.Report.References) != 0 && len(r.Report.ReferenceFlips) != 0,
			"lineup diff: %+v", r)
		return r.Report
	}
	if r := diff(); r.Remembered != 10 || r.Flips() != 10 {
		t.Errorf("%d of %d checks flip, want 10 of 10", r.Flips(), r.Remembered)
	}
	for name, flags := range map[string][]string{"no force": nil, "an empty reason": {"--force", "--reason", " "}} {
		hosttest.WantRefusal(t, name, dir, database, nil, append([]string{"lineup", "set", file}, flags...),
			" of 14 reference values (", "ASSAY_FLIP_LIMIT")
	}
	if status, text := hosttest.Send(t, host, issued.Secret, "POST", "/gdpr/erase",
		`{"domain":"garden-3.example.com"}`); status != http.StatusOK {
		t.Fatalf("erasing: %d %s", status, text)
	}
	expect.Until(t, "the erasure to reach the host", func() bool { return diff().Remembered == 9 })
	text := hosttest.Output(t, dir, database, "lineup", "set", file, "--force", "--reason", "a test")
	hosttest.Has(t, text, "domain: 9 of 9 verdicts change (100%)", "in force",
		"  Only 9 checks, fewer than 200: the reference values decide.")
	l.Base, l.Layers[0].Weight = "", maps.Clone(l.Layers[0].Weight)
	l.Layers[0].Weight["domain"] += 0.001
	text = hosttest.Output(t, dir, database, "lineup", "set", hosttest.WriteJSON(t, l)) // although that was forced
	hosttest.Has(t, text, "domain: 0 of 9 verdicts change (0%)")
}

func TestPercent(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{"1%": "1%", "0.5%": "0.5%", "100%": "100%", "0%": "0%", " 2% ": "2%",
		"1": "", "-1%": "", "101%": "", "x%": "", "NaN%": "", "": ""} {
		var p installation.Percent
		err := p.UnmarshalText([]byte(text))
		expect.That(t, (err == nil) == (want != "") && (err != nil || p.String() == want), "%q is %v: %v", text, p, err)
	}
}

// explanation holds fields of the output of `assay check --json`.
type explanation struct {
	Score    int               `json:"score"`
	Revision int64             `json:"lineup_revision"`
	Layers   []json.RawMessage `json:"layers"`
}
