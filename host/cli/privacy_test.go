package cli

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"assay/host/access/apikey"
	"assay/host/hosttest"
	"assay/host/store/postgres/postgrestest"
)

// TestPrivacyOfOperator exports and erases a person's data in all accounts: of a customer, of one that is suspended, and
// of callers without a key.
func TestPrivacyOfOperator(t *testing.T) {
	t.Parallel()
	dir, database := hosttest.DataDir(t), postgrestest.Database(t)
	host := hosttest.StartHost(t, dir, database)
	const body = `{"domain":"jane-roe.example"}`
	for _, plan := range []string{"starter", "pro"} {
		issued := hosttest.OutputJSON[apikey.Issued](t, dir, database, "keys", "create", "--plan", plan)
		if a := hosttest.CheckOnce(host, issued.Secret, body); a.Status != http.StatusOK {
			t.Fatalf("check: %+v", a)
		}
		if plan == "pro" {
			hosttest.Output(t, dir, database, "accounts", "suspend", issued.Account, "--reason", "chargebacks")
			a := hosttest.CheckOnce(host, issued.Secret, body)
			if a.Status != http.StatusForbidden || !strings.Contains(a.Error, "the account is suspended") {
				t.Errorf("a check of a suspended account: %d, %s", a.Status, a.Error)
			}
		}
	}
	if status, text := hosttest.Send(t, host, "", "POST", "/api/check-public", body); status != http.StatusOK {
		t.Fatalf("a check without a key: %d, %s", status, text)
	}
	type document struct {
		Value    string
		Accounts []struct {
			Account string
			Checks  []json.RawMessage
		}
	}
	export := func() document {
		return hosttest.OutputJSON[document](t, dir, database, "privacy", "export", "https://Jane-Roe.example/")
	}
	before := export()
	if len(before.Accounts) != 3 || before.Value != "jane-roe.example" {
		t.Errorf("exported %+v", before)
	}
	for _, a := range before.Accounts {
		if len(a.Checks) != 1 {
			t.Errorf("account %s: %d checks", a.Account, len(a.Checks))
		}
	}
	erase := func() erasedTotal {
		return hosttest.OutputJSON[erasedTotal](t, dir, database, "privacy", "erase", "jane-roe.example")
	}
	if done := erase(); done.Accounts != 3 || done.Checks != 3 || done.Sightings != 3 {
		t.Errorf("erased %+v", done)
	}
	if again := erase(); again != (erasedTotal{}) {
		t.Errorf("erased again %+v", again)
	}
	for _, a := range export().Accounts { // what is left proves the erasure
		if len(a.Checks) > 0 {
			t.Errorf("account %s still has %s", a.Account, a.Checks)
		}
	}
	hosttest.Output(t, dir, database, "audit", "verify")
}
