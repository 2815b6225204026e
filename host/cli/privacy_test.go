package cli

import (
	"net/http"
	"strings"
	"testing"

	"assay/host/access/apikey"
	"assay/host/customer/privacy"
	"assay/host/hosttest"
	"assay/registry/expect"
)

// testPrivacyOfOperator exports and erases a person's data in all accounts: of a customer, of one that is suspended,
// and of callers without a key.
func testPrivacyOfOperator(t *testing.T, host *hosttest.HostProcess, dir, database string) {
	t.Helper()
	const body = `{"domain":"jane-roe.example"}`
	for _, plan := range []string{"starter", "pro"} {
		issued := hosttest.OutputJSON[apikey.Issued](t, dir, database, "keys", "create", "--plan", plan)
		a := hosttest.CheckOnce(host, issued.Secret, body)
		expect.Must(t, a.Status == http.StatusOK, "check: %+v", a)
		if plan == "pro" {
			hosttest.Output(t, dir, database, "accounts", "suspend", issued.Account, "--reason", "chargebacks")
			a := hosttest.CheckOnce(host, issued.Secret, body)
			expect.That(t, a.Status == http.StatusForbidden && strings.Contains(a.Error, "the account is suspended"),
				"a check of a suspended account: %d, %s", a.Status, a.Error)
		}
	}
	status, text := hosttest.Send(t, host, "", "POST", "/api/check-public", body)
	expect.Must(t, status == http.StatusOK, "a check without a key: %d, %s", status, text)
	type document struct {
		Value    string
		Accounts map[string]struct {
			Checks   []privacy.Check
			Graph    *privacy.Sightings
			Erasures []privacy.Erasure
			Erased   int
		}
	}
	run := func(command, value string) document {
		return hosttest.OutputJSON[document](t, dir, database, "privacy", command, value)
	}
	before := run("export", "https://Jane-Roe.example/")
	expect.That(t, len(before.Accounts) == 3 && before.Value == "jane-roe.example", "exported %+v", before)
	for account, a := range before.Accounts {
		expect.Equal(t, "checks of "+account, len(a.Checks), 1)
	}
	for account, a := range run("erase", "jane-roe.example").Accounts {
		expect.Equal(t, "erased checks of "+account, a.Erased, 1)
	}
	again := run("erase", "jane-roe.example")
	expect.Equal(t, "accounts that erased it before", len(again.Accounts), 3)
	for account, a := range run("export", "jane-roe.example").Accounts { // what is left proves the erasure
		expect.That(t, again.Accounts[account].Erased == 0 && len(a.Checks) == 0 && a.Graph == nil &&
			len(a.Erasures) == 1, "account %s still has %+v", account, a)
	}
	expect.Equal(t, "accounts with data about another", len(run("erase", "john.example").Accounts), 0)
}
