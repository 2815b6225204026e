package main

import (
	"net/http"
	"strings"
	"testing"

	"assay/host/apikey"
	"assay/host/postgres/postgrestest"
)

// TestGraphForget takes a bad actor out of the reputation graph, and then a value.
func TestGraphForget(t *testing.T) {
	t.Parallel()
	dir, database := dataDir(t), postgrestest.Database(t)
	host := startHost(t, dir, database)
	var issued [2]apikey.Issued
	for i := range issued {
		issued[i] = outputJSON[apikey.Issued](t, dir, database, "keys", "create", "--plan", "starter")
		for _, domain := range []string{"one.example", "two.example"} {
			if a := once(host, issued[i].Secret, `{"domain":"`+domain+`"}`); a.Status != http.StatusOK {
				t.Fatalf("a check got %+v", a)
			}
		}
	}
	seen := func(account string) int {
		return sqlInt(t, database, "SELECT count(*) FROM graph_sightings WHERE account_id = '"+account+"'")
	}
	if gone := outputJSON[forgotten](t, dir, database, "graph", "forget", "--account",
		issued[0].Account); gone.Sightings != 2 || seen(issued[0].Account) != 0 {
		t.Errorf("of an account %+v went, %d are left", gone, seen(issued[0].Account))
	}
	if out := output(t, dir, database, "graph", "forget", "https://ONE.example/"); !strings.Contains(out,
		"1 sightings and 0 links") || seen(issued[1].Account) != 1 {
		t.Errorf("forgetting a value printed %q, %d are left", out, seen(issued[1].Account))
	}
	for what, args := range map[string][]string{
		"give a value, --account, or both": {},
		"domain":                           {"--type", "domain", "no domain"},
	} {
		out, err := command(t.Context(), dir, database,
			append([]string{"graph", "forget"}, args...)...).CombinedOutput()
		if err == nil || !strings.Contains(string(out), what) {
			t.Errorf("graph forget %v: %v, %s", args, err, out)
		}
	}
}
