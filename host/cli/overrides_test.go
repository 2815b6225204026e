package cli

import (
	"encoding/json"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"assay/host/access/apikey"
	"assay/host/customer/override"
	"assay/host/hosttest"
	"assay/host/store/postgres/postgrestest"
	"assay/registry/expect"
)

// TestOverridesAtTheStart checks that a host which has started sees what was set right before, once it is ready.
func TestOverridesAtTheStart(t *testing.T) {
	t.Parallel()
	dir, database := hosttest.DataDir(t), postgrestest.Database(t)
	host := hosttest.StartHost(t, dir, database)
	issued := hosttest.OutputJSON[apikey.Issued](t, dir, database, "keys", "create", "--plan", "pro")
	for action, sig := range map[string]syscall.Signal{"block": syscall.SIGKILL, "allow": syscall.SIGTERM} {
		hosttest.Output(t, dir, database, "overrides", "add", action, "--domain=restart.example", "--reason=a test",
			"--expires=1d")
		host.Stop(t, sig)
		host = hosttest.StartHost(t, dir, database)
		expect.Until(t, "/readyz", func() bool {
			return expect.Value(http.Get(host.Admin+"/readyz"))(t).StatusCode == http.StatusOK
		})
		first := hosttest.CheckOnce(host, issued.Secret, `{"domain":"restart.example"}`)
		expect.That(t, first.Verdict == action && strings.HasPrefix(first.Signals[0], "Assay: "),
			"the first check after a restart: %+v, want %s", first, action)
	}
}

// A customer and the operator set verdicts in advance, which a running host applies, explains and records.
func testOverrides(t *testing.T, host *hosttest.HostProcess, dir, database string) {
	t.Helper()
	issued := hosttest.OutputJSON[apikey.Issued](t, dir, database, "keys", "create", "--plan", "pro")
	send := func(method, path, body string) (status int, text string) {
		t.Helper()
		return hosttest.Send(t, host, issued.Secret, method, path, body)
	}
	// until checks a domain until the host applies the verdict.
	until := func(domain, verdict, first string) {
		t.Helper()
		var last hosttest.Answer
		if !hosttest.Repeat(func() bool {
			last = hosttest.CheckOnce(host, issued.Secret, `{"domain":"`+domain+`"}`)
			return last.Verdict == verdict && len(last.Signals) > 0 && strings.HasPrefix(last.Signals[0], first)
		}) {
			t.Fatalf("%s: %+v, want %s, %q first", domain, last, verdict, first)
		}
	}
	expires := time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
	status, text := send("POST", "/api/overrides", `{"action":"allow","domain":"paypa1-secure-login.xyz",`+
		`"reason":"our own test page","expires_at":"`+expires+`"}`)
	var own override.Listed
	err := json.Unmarshal([]byte(text), &own)
	expect.Must(t, status == 200 && err == nil, "status %d: %s", status, text)
	until("paypa1-secure-login.xyz", "allow", "Assay: Allowed by your override "+own.ID+"; the layers' score is ")
	until("www.paypa1-secure-login.xyz", "block", "")

	all := hosttest.OutputJSON[override.Listed](t, dir, database, "overrides", "add", "block",
		"--registrable=example.org", "--reason=fraud ring", "--expires=30d", "--author=ops")
	until("shop.example.org", "block", "Assay: Blocked by the operator's override "+all.ID+"; the layers' score is ")
	explained := hosttest.OutputJSON[Explanation](t, dir, database, "check", "shop.example.org")
	expect.That(t, explained.Override != nil && explained.Override.ID == all.ID && explained.Verdict == "block" &&
		explained.Score >= 70 && explained.Override.Score < 40, "explained %+v, override %+v", explained,
		explained.Override)

	list := hosttest.OutputJSON[[]override.Listed](t, dir, database, "overrides", "list")
	expect.That(t, len(list) == 2 && list[0].ID == all.ID && list[1].ID == own.ID && list[1].Account == issued.Account,
		"listed %+v", list)
	hosttest.Output(t, dir, database, "overrides", "remove", own.ID)
	until("paypa1-secure-login.xyz", "block", "")
	if status, text := send("DELETE", "/api/overrides?id="+all.ID, ""); status != 404 {
		t.Errorf("a customer removes an override of the operator: status %d: %s", status, text)
	}
}
