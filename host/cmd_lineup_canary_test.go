package main

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"assay/host/auditlog"
	"assay/host/check"
	"assay/host/store/storetest"
	"assay/registry"
	"assay/registry/activation"
)

// keysAround issues keys of accounts until a canary of half of them takes one account and not another.
func (f *testFleet) keysAround(t *testing.T, canary registry.Digest) (inside, outside string) {
	t.Helper()
	l := &check.Lineup{}
	l.Canary = &check.Canary{Lineup: &check.Lineup{}, Percent: 50, Seed: canary[:]}
	for inside == "" || outside == "" {
		issued := storetest.Must(issueKey(t.Context(), f.backend.store, "", unlimited(), "test"))(t)
		if l.For(issued.Account) == l {
			outside = issued.Secret
		} else {
			inside = issued.Secret
		}
	}
	return inside, outside
}

// last returns the activation that was stored last.
func (f *testFleet) last(t *testing.T) activation.Activation {
	t.Helper()
	return storetest.Must(f.backend.lastActivation(t.Context()))(t)
}

// metric returns the sum of a host's metrics with a prefix.
func (h *hostProcess) metric(t *testing.T, prefix string) (sum int) {
	t.Helper()
	response, err := http.Get(h.url + "/metrics")
	storetest.NoError(t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	storetest.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, prefix) {
			sum += storetest.Must(strconv.Atoi(strings.Fields(line)[1]))(t)
		}
	}
	return sum
}

// A canary scores for the same accounts on every host, is promoted without being prepared again, and is withdrawn by a
// host once it changes more verdicts than its limit allows.
func TestCanary(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 2)
	first := outputJSON[registry.LineupRevision](t, f.dir, f.database, "lineup", "show").Lineup
	heavier := variant(first, first.Layers[layerIndex(t, first, "iban")].Weight.For("iban")+0.5)
	if out, err := command(t.Context(), f.dir, f.database, "lineup", "promote").CombinedOutput(); err == nil ||
		!strings.Contains(string(out), "there is no canary") {
		t.Errorf("promoting no canary: %v\n%s", err, out)
	}
	started := outputJSON[map[string]int64](t, f.dir, f.database, "lineup", "canary", writeJSON(t, heavier), "--share",
		"50%", "--reason", "a test")
	if started["canary"] != 2 || started["revision"] != 1 || started["share"] != 50 || started["hosts"] != 2 {
		t.Errorf("starting a canary printed %v", started)
	}
	inside, outside := f.keysAround(t, f.last(t).Canary.Hash)
	scores := map[int]bool{}
	for _, h := range f.hosts {
		own, other := checkUntilComplete(h, inside, fleetBody), checkUntilComplete(h, outside, fleetBody)
		if own.Verdict != "block" || other.Verdict != "block" || own.Score <= other.Score {
			t.Errorf("the canary's account has %+v, the other %+v", own, other)
		}
		scores[own.Score], scores[other.Score] = true, true
		for ref, revision := range map[string]int64{own.Ref: 2, other.Ref: 1} {
			storetest.Expect(t, "recorded revision", storetest.Value[int64](t, f.conn,
				"SELECT revision FROM audit_records WHERE ref = $1", ref), revision)
		}
	}
	storetest.Expect(t, "different scores on two hosts", len(scores), 2)
	if text := output(t, f.dir, f.database, "lineup", "show"); !strings.Contains(text,
		"canary: revision 2 scores for 50% of the accounts, and is withdrawn if it changes more than 1% of the verdicts") {
		t.Errorf("lineup show:\n%s", text)
	}
	if text := output(t, f.dir, f.database, "lineup", "hosts"); strings.Count(text, "1, canary 2 (50%)") != 2 {
		t.Errorf("lineup hosts:\n%s", text)
	}

	text := output(t, f.dir, f.database, "lineup", "promote", "--reason", "a test")
	if !strings.Contains(text, "Revision 2 is in force on 2 hosts.") || strings.Contains(text, "loading") {
		t.Errorf("lineup promote printed\n%s", text)
	}
	if own, other := checkUntilComplete(f.hosts[0], inside, fleetBody),
		checkUntilComplete(f.hosts[1], outside, fleetBody); own.Score != other.Score || !scores[own.Score] {
		t.Errorf("after the promotion, the accounts have %+v and %+v", own, other)
	}
	f.withdrawal(t)
	if reports := outputJSON[[]auditlog.Report](t, f.dir, f.database, "audit", "verify"); !reports[0].OK {
		t.Errorf("audit verify: %+v", reports)
	}
}

// withdrawal has a canary withdrawn by a host, and keeps another one.
func (f *testFleet) withdrawal(t *testing.T) {
	t.Helper()
	strict := outputJSON[registry.LineupRevision](t, f.dir, f.database, "lineup", "show").Lineup
	strict.Base, strict.Bands.Review = "", 1 // nothing that was checked so far changes
	file := writeJSON(t, strict)
	output(t, f.dir, f.database, "lineup", "canary", file, "--share", "50%")
	inside, _ := f.keysAround(t, f.last(t).Canary.Hash)
	for i := range 20 {
		checkUntilComplete(f.hosts[1], inside, fmt.Sprintf(`{"domain":"garden-%d.example.com"}`, i))
	}
	storetest.Until(t, "the canary to be withdrawn", func() bool { return f.last(t).Canary == nil })
	last := f.last(t)
	if !strings.HasPrefix(last.Author, "host ") || !strings.HasSuffix(last.Author, ":"+f.hosts[1].name()) ||
		last.Lineup.Revision != 2 || !strings.Contains(last.Reason, "have another verdict (most often domain: ") {
		t.Errorf("it was withdrawn by %+v", last)
	}
	for i, want := range []int{0, 1} {
		storetest.Expect(t, "withdrawals of a host", f.hosts[i].metric(t, `assay_lineup_steps_total{step="withdrawal"}`),
			want)
	}

	// Now it is known what the lineup changes. The operator may accept that.
	if out, err := command(t.Context(), f.dir, f.database, "lineup", "canary", file, "--share", "50%").
		CombinedOutput(); err == nil || !strings.Contains(string(out), "raise --limit") {
		t.Errorf("a canary beyond its limit: %v\n%s", err, out)
	}
	output(t, f.dir, f.database, "lineup", "canary", file, "--share", "40%", "--limit", "100%")
	text := output(t, f.dir, f.database, "lineup", "canary", "--share", "50%")
	if !strings.Contains(text, "Canary revision 3 for 50% of the accounts is in force on 2 hosts.") {
		t.Errorf("changing the share printed\n%s", text)
	}
	const compared = "assay_canary_checks_total"
	before := f.hosts[1].metric(t, compared)
	for i := range 20 {
		checkOnce(f.hosts[1], inside, fmt.Sprintf(`{"domain":"garden-%d.example.org"}`, i))
	}
	storetest.Until(t, "the checks to be compared", func() bool { return f.hosts[1].metric(t, compared) == before+20 })
	if now := f.last(t); now.Canary == nil || now.Canary.Limit != 10_000 {
		t.Errorf("a canary without a limit was withdrawn: %+v", now)
	}
	output(t, f.dir, f.database, "lineup", "canary", "--stop")
	storetest.Expect(t, "canary", f.last(t).Canary, nil)
}

func layerIndex(t *testing.T, l registry.LineupDocument, name string) int {
	t.Helper()
	for i := range l.Layers {
		if own, _, _ := l.Layers[i].Ref(); own == name {
			return i
		}
	}
	t.Fatalf("there is no layer %s", name)
	return 0
}

// The share is in whole percent, and flags that contradict each other are refused.
func TestCanaryFlags(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]wholePercent{"5%": 5, " 50% ": 50, "1%": 1, "0%": 0, "51%": 0, "5": 0, "0.5%": 0,
		"": 0, "-1%": 0} {
		var p wholePercent
		if err := p.UnmarshalText([]byte(text)); (err == nil) != (want != 0) || err == nil && p != want {
			t.Errorf("%q is %v: %v", text, p, err)
		}
	}
	limit := new(activation.Limit)
	for name, c := range map[string]struct {
		cmd lineupCanaryCmd
		ok  bool
	}{
		"file and share":     {lineupCanaryCmd{File: "f", Share: 5}, true},
		"all":                {lineupCanaryCmd{File: "f", Share: 5, Limit: limit}, true},
		"stop":               {lineupCanaryCmd{Stop: true}, true},
		"another share":      {lineupCanaryCmd{Share: 5}, true},
		"another limit":      {lineupCanaryCmd{Limit: limit}, true},
		"nothing":            {lineupCanaryCmd{}, false},
		"file without share": {lineupCanaryCmd{File: "f"}, false},
		"stop with a file":   {lineupCanaryCmd{Stop: true, File: "f"}, false},
		"stop with a share":  {lineupCanaryCmd{Stop: true, Share: 5}, false},
		"stop with a limit":  {lineupCanaryCmd{Stop: true, Limit: limit}, false},
	} {
		if err := c.cmd.Validate(); (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}
