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
	"assay/host/replay"
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
		issued := storetest.Must(issueKey(t.Context(), f.backend.store, unlimited(), "test"))(t)
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
	response, err := http.Get(h.admin + "/metrics")
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

// A canary scores for its share of the accounts until a host withdraws it, because it changes more verdicts than its
// limit allows. With another limit it stays, and is promoted without being prepared again.
func TestCanary(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1)
	host := f.hosts[0]
	strict := outputJSON[registry.LineupRevision](t, f.dir, f.database, "lineup", "show").Lineup
	strict.Base, strict.Bands.Review = "", 1
	file := writeJSON(t, strict)
	started := outputJSON[map[string]int64](t, f.dir, f.database, "lineup", "canary", file, "--share", "50%",
		"--reason", "a test")
	if started["canary"] != 2 || started["revision"] != 1 || started["share"] != 50 || started["hosts"] != 1 {
		t.Errorf("starting a canary printed %v", started)
	}
	if text := output(t, f.dir, f.database, "lineup", "show"); !strings.Contains(text,
		"canary: revision 2 scores for 50% of the accounts, and is withdrawn if it changes more than 1% of ") {
		t.Errorf("lineup show:\n%s", text)
	}
	if text := output(t, f.dir, f.database, "lineup", "hosts"); !strings.Contains(text, "1, canary 2 (50%)") {
		t.Errorf("lineup hosts:\n%s", text)
	}
	inside, outside := f.keysAround(t, f.last(t).Canary.Hash)
	for key, revision := range map[string]int64{inside: 2, outside: 1} {
		a := checkUntilComplete(host, key, fleetBody)
		storetest.Expect(t, "recorded revision", storetest.Value[int64](t, f.conn,
			"SELECT revision FROM audit_records WHERE ref = $1", a.Ref), revision)
	}

	for i := range 20 {
		checkUntilComplete(host, inside, fmt.Sprintf(`{"domain":"garden-%d.example.com"}`, i))
	}
	storetest.Until(t, "the canary to be withdrawn", func() bool { return f.last(t).Canary == nil })
	last := f.last(t)
	if !strings.HasPrefix(last.Author, "host ") || !strings.HasSuffix(last.Author, ":"+host.name()) ||
		last.Lineup.Revision != 1 || !strings.Contains(last.Reason, "have another verdict (most often domain: ") {
		t.Errorf("it was withdrawn by %+v", last)
	}
	storetest.Until(t, "the withdrawal to be counted", func() bool {
		return host.metric(t, `assay_lineup_steps_total{step="withdrawal"}`) == 1
	})
	storetest.Until(t, "/readyz to list the withdrawal", func() bool {
		return strings.Contains(get(t, host.admin+"/readyz", ""), "the canary, revision 2, was withdrawn by host ")
	})

	// The operator accepts what the lineup changes.
	output(t, f.dir, f.database, "lineup", "canary", file, "--share", "50%", "--limit", "100%")
	const compared = "assay_canary_checks_total"
	before := host.metric(t, compared)
	for i := range 20 {
		checkUntilComplete(host, inside, fmt.Sprintf(`{"domain":"garden-%d.example.org"}`, i))
	}
	storetest.Until(t, "the checks to be compared", func() bool { return host.metric(t, compared) >= before+20 })
	if now := f.last(t); now.Canary == nil || now.Canary.Limit != 10_000 {
		t.Errorf("a canary without a limit was withdrawn: %+v", now)
	}
	storetest.Until(t, "the host to say what the canary does", func() bool {
		hosts := storetest.Must(f.backend.store.Hosts(t.Context()))(t)
		return strings.Contains(hosts[0].Canary, "have another verdict (most often domain: ")
	})
	text := output(t, f.dir, f.database, "lineup", "promote", "--reason", "a test")
	if !strings.Contains(text, "Revision 2 is in force on ") || strings.Contains(text, "loading") {
		t.Errorf("lineup promote printed\n%s", text)
	}
	storetest.Expect(t, "the state of the host", fmt.Sprint(f.last(t).Canary, len(f.running(t, 2))), "<nil> 1")
	if out, err := command(t.Context(), f.dir, f.database, "lineup", "canary", "--stop").CombinedOutput(); err == nil ||
		!strings.Contains(string(out), "there is no canary") {
		t.Errorf("stopping no canary: %v\n%s", err, out)
	}
	if reports := outputJSON[[]auditlog.Report](t, f.dir, f.database, "audit", "verify"); !reports[0].OK {
		t.Errorf("audit verify: %+v", reports)
	}
}

// A candidate that would be withdrawn at once is refused.
func TestCanaryBeyondItsLimit(t *testing.T) {
	t.Parallel()
	report := &replay.Report{Types: []replay.TypeReport{{Type: "domain", Checks: 200, Flips: 1, Refused: 2}}}
	for limit, want := range map[activation.Limit]string{0: "domain: 3 of 200 (1.5%)", 100: "raise --limit", 150: ""} {
		err := canaryWithin(limit)(report)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("limit %v: %v, want %q", limit, err, want)
		}
	}
}

// What a canary becomes without its file.
func TestChangedCanary(t *testing.T) {
	t.Parallel()
	limit := activation.Limit(300)
	own, base := activation.Lineup{Revision: 2}, activation.Lineup{Revision: 1}
	in := activation.Activation{Lineup: base, Canary: &activation.Canary{Lineup: own, Share: 5, Limit: 100}}
	for name, c := range map[string]struct {
		cmd  lineupCanaryCmd
		want activation.Canary
	}{
		"share": {lineupCanaryCmd{Share: 9}, activation.Canary{Lineup: own, Share: 9, Limit: 100}},
		"limit": {lineupCanaryCmd{Limit: &limit}, activation.Canary{Lineup: own, Share: 5, Limit: 300}},
		"both":  {lineupCanaryCmd{Share: 9, Limit: &limit}, activation.Canary{Lineup: own, Share: 9, Limit: 300}},
	} {
		if l, got := c.cmd.changed(in); l != base || *got != c.want {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if l, got := (&lineupCanaryCmd{Stop: true}).changed(in); l != base || got != nil {
		t.Errorf("stopped: %+v", got)
	}
	storetest.Expect(t, "the canary in force", in.Canary.Share, 5)
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
