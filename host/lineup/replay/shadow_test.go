package replay_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"assay/host/check"
	"assay/host/entity"
	"assay/host/lineup/replay"
	"assay/registry/expect"
)

// tally adds checks to a tally: after each, a shadow layer raises the score from 20 to 50 if flips is set.
func tally(t *replay.Tally, revision int64, checks int, flips bool) {
	for i := range checks {
		live := &check.Decision{Type: entity.Domain, Revision: revision, At: start.Add(time.Duration(i) * time.Minute),
			Fused:  check.Fused{Score: 20, Verdict: check.Allow},
			Layers: []check.Outcome{{Layer: "domain", Weight: 5, Score: 20, Contribution: 1}}}
		shadow, outcome := live.Fused, check.Outcome{Layer: "mailbox", Failure: check.Trap}
		if flips {
			shadow = check.Fused{Score: 50, Verdict: check.Review}
			outcome = check.Outcome{Layer: "mailbox", Weight: 4, Score: 35, Contribution: 1.4, Signals: []check.Signal{
				{Points: 5, Code: "mailbox:shape:odd"}, {Points: 15, Code: "mailbox:name:random"},
				{Points: 15, Code: "mailbox:name:random"}}}
		}
		t.ShadowRan(live, shadow, []check.Outcome{outcome})
	}
}

func TestShadowReport(t *testing.T) {
	t.Parallel()
	var a, b replay.Tally
	tally(&a, 7, 3, true)
	tally(&a, 7, 100, false)
	tally(&b, 7, 2, true)
	b.ShadowLeftOut(&check.Decision{Revision: 7})
	tally(&b, 8, 5, true) // the canary
	merged := func(revision int64) *replay.ShadowReport {
		var stored []json.RawMessage
		for _, tally := range []*replay.Tally{&a, &b} {
			text := expect.Value(tally.JSON())(t)
			stored = append(stored, text)
		}
		return expect.Value(replay.MergeShadows(revision, stored...))(t)
	}
	r := merged(7)
	expect.That(t, r.LeftOut == 1 && len(r.Report.Types) == 1 && r.Report.Types[0].Checks == 105 &&
		r.Report.Flips() == 5, "revision 7: %+v", r)
	want := []replay.SignalFlips{{Type: entity.Domain, From: check.Allow, To: check.Review, Layer: "mailbox",
		Code: "mailbox:name:random", Flips: 5}}
	expect.NoDiff(t, "signals", want, r.Report.Signals)
	emitted := []replay.EmittedSignals{{Layer: "mailbox", Checks: 5, // in the others, it failed
		Signals: map[string]int{"mailbox:shape:odd": 5, "mailbox:name:random": 5}}}
	expect.NoDiff(t, "emitted", emitted, r.Emitted)
	var text strings.Builder
	expect.NoError(t, r.WriteText(&text))
	file := filepath.Join("testdata", "shadow.txt")
	if *update {
		expect.NoError(t, os.WriteFile(file, []byte(text.String()), 0o644))
	}
	golden := expect.Value(os.ReadFile(file))(t)
	expect.NoDiff(t, "result", string(golden), text.String())
	if r := merged(8); r.LeftOut != 0 || r.Report.Flips() != 5 {
		t.Errorf("revision 8: %+v", r)
	}

	// A third lineup displaces the one that was not added to for the longest time.
	tally(&b, 7, 1, true)
	tally(&b, 9, 1, true)
	got := []int{merged(7).Report.Flips(), merged(8).Report.Flips(), merged(9).Report.Flips()}
	expect.That(t, cmp.Equal(got, []int{6, 0, 1}), "flips of revisions 7 to 9: %v", got)
	expect.Failure(t, expect.ErrorOf(replay.MergeShadows(7, json.RawMessage("{"))), "a damaged report was merged")
	expect.Equal(t, "an empty tally", string(expect.Value(new(replay.Tally).JSON())(t)), "")
}
