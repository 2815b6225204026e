package lineup

import (
	"fmt"
	"strings"
	"testing"

	"assay/host/hosttest"
	"assay/host/store/storetest"
	"assay/registry"
	"assay/registry/activation"
	"assay/registry/expect"
)

// A canary scores for its share of the accounts until a host withdraws it, because it changes more verdicts than its
// limit allows. With another limit it stays, and is promoted without being prepared again.
func TestCanary(t *testing.T) {
	t.Parallel()
	f := hosttest.NewFleet(t, 1)
	host := f.Hosts[0]
	strict := hosttest.OutputJSON[registry.LineupRevision](t, f.Dir, f.Database, "lineup", "show").Lineup
	strict.Base, strict.Bands.Review = "", 1
	file := hosttest.WriteJSON(t, strict)
	started := hosttest.OutputJSON[map[string]int64](t, f.Dir, f.Database, "lineup", "canary", file, "--share", "50%",
		"--limit", "60%", "--reason", "a test")
	expect.That(t, started["canary"] == 2 && started["revision"] == 1 && started["share"] == 50 &&
		started["hosts"] == 1, "starting a canary printed %v", started)
	hosttest.Has(t, hosttest.Output(t, f.Dir, f.Database, "lineup", "show"),
		"canary: revision 2 scores for 50% of the accounts, and is withdrawn if it changes more than 60% of ")
	hosttest.Has(t, hosttest.Output(t, f.Dir, f.Database, "lineup", "hosts"), "1, canary 2 (50%)")
	inside, outside := f.KeysAround(t, f.Last(t).Canary.Hash)
	for key, revision := range map[string]int64{inside: 2, outside: 1} {
		a := hosttest.CheckUntilComplete(host, key, hosttest.FleetBody)
		expect.Equal(t, "recorded revision", storetest.Value[int64](t, f.Conn,
			"SELECT revision FROM audit_records WHERE ref = $1", a.Ref), revision)
	}

	for i := range 40 {
		hosttest.CheckUntilComplete(host, inside, fmt.Sprintf(`{"domain":"garden-%d.example.com"}`, i))
	}
	expect.Until(t, "the canary to be withdrawn", func() bool { return f.Last(t).Canary == nil })
	last := f.Last(t)
	expect.That(t, strings.HasPrefix(last.Author, "host ") && strings.HasSuffix(last.Author, ":"+host.Name()) &&
		last.Lineup.Revision == 1 && strings.Contains(last.Reason, "have another verdict (most often domain: "),
		"it was withdrawn by %+v", last)
	expect.Until(t, "the withdrawal to be counted", func() bool {
		return host.Metric(t, `assay_lineup_steps_total{step="withdrawal"}`) == 1
	})
	expect.Until(t, "/readyz to list the withdrawal", func() bool {
		return strings.Contains(hosttest.Get(t, host.Admin+"/readyz", ""),
			"the canary, revision 2, was withdrawn by host ")
	})

	// The operator accepts what the lineup changes.
	hosttest.Output(t, f.Dir, f.Database, "lineup", "canary", file, "--share", "50%", "--limit", "100%")
	const compared = "assay_canary_checks_total"
	before := host.Metric(t, compared)
	for i := range 20 {
		hosttest.CheckUntilComplete(host, inside, fmt.Sprintf(`{"domain":"garden-%d.example.org"}`, i))
	}
	expect.Until(t, "the checks to be compared", func() bool { return host.Metric(t, compared) >= before+20 })
	now := f.Last(t)
	expect.That(t, now.Canary != nil && now.Canary.Limit == 10_000, "a canary without a limit was withdrawn: %+v", now)
	expect.Until(t, "the host to say what the canary does", func() bool {
		hosts := expect.Value(f.Backend.Store.Hosts(t.Context()))(t)
		return strings.Contains(hosts[0].Canary, "have another verdict (most often domain: ")
	})
	text := hosttest.Output(t, f.Dir, f.Database, "lineup", "promote", "--reason", "a test")
	expect.That(t, strings.Contains(text, "Revision 2 is in force on ") && !strings.Contains(text, "loading"),
		"lineup promote printed\n%s", text)
	expect.Equal(t, "the state of the host", fmt.Sprint(f.Last(t).Canary, len(f.Running(t, 2))), "<nil> 1")
	hosttest.WantRefusal(t, "stopping no canary", f.Dir, f.Database, nil, []string{"lineup", "canary", "--stop"},
		"there is no canary")
	hosttest.Output(t, f.Dir, f.Database, "audit", "verify")
}

// Flags that contradict each other are refused.
func TestCanaryFlags(t *testing.T) {
	t.Parallel()
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
		err := c.cmd.Validate()
		expect.That(t, (err == nil) == c.ok, "%s: %v", name, err)
	}
}
