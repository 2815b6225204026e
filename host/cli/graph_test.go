package cli

import (
	"net/http"
	"strings"
	"testing"

	"assay/host/access/apikey"
	"assay/host/hosttest"
	"assay/registry/expect"
)

// testGraphForget deletes an account's contributions from the reputation graph, and then a value.
func testGraphForget(t *testing.T, host *hosttest.HostProcess, dir, database string) {
	t.Helper()
	var issued [2]apikey.Issued
	for i := range issued {
		issued[i] = hosttest.OutputJSON[apikey.Issued](t, dir, database, "keys", "create", "--plan", "starter")
		for _, domain := range []string{"one.example", "two.example"} {
			a := hosttest.CheckOnce(host, issued[i].Secret, `{"domain":"`+domain+`"}`)
			expect.Must(t, a.Status == http.StatusOK, "check: %+v", a)
		}
	}
	seen := func(account string) int {
		return sqlInt(t, database, "SELECT count(*) FROM graph_sightings WHERE account_id = '"+account+"'")
	}
	deleted := hosttest.OutputJSON[forgetResult](t, dir, database, "graph", "forget", "--account", issued[0].Account)
	if n := seen(issued[0].Account); deleted.Sightings != 2 || n != 0 {
		t.Errorf("forgetting an account deleted %+v and left %d sightings, want 2 and 0", deleted, n)
	}
	out := hosttest.Output(t, dir, database, "graph", "forget", "https://ONE.example/")
	if n := seen(issued[1].Account); !strings.Contains(out, "1 sightings and 0 links") || n != 1 {
		t.Errorf("forgetting a value printed %q and left %d sightings, want 1", out, n)
	}
	for what, args := range map[string][]string{
		"give a value, --account, or both": {},
		"domain":                           {"--type", "domain", "no domain"},
	} {
		hosttest.WantRefusal(t, "graph forget", dir, database, nil, append([]string{"graph", "forget"}, args...), what)
	}
}
