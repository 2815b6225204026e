package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"assay/host/access/apikey"
	"assay/host/customer/feedback"
	"assay/host/customer/privacy"
	"assay/host/hosttest"
	"assay/host/store/postgres/postgrestest"
	"assay/registry/expect"
)

func TestMain(m *testing.M) {
	if os.Getenv(AsCommands) != "" {
		if err := RunCommands(context.Background(), os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(hosttest.Main(m))
}

// TestCommandsOnAHost runs commands next to a host, one after the other.
func TestCommandsOnAHost(t *testing.T) {
	t.Parallel()
	dir, database := hosttest.DataDir(t), postgrestest.Database(t)
	host := hosttest.StartHost(t, dir, database, hosttest.AllowLoopback)
	for name, test := range map[string]func(t *testing.T, host *hosttest.HostProcess, dir, database string){
		"graph": testGraphForget, "privacy": testPrivacyOfOperator, "feedback": testFeedbackOfACustomer,
		"overrides": testOverrides, "webhooks": testWebhooks,
	} {
		t.Run(name, func(t *testing.T) { test(t, host, dir, database) })
	}
	hosttest.Output(t, dir, database, "audit", "verify")
}

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

// A customer checks a domain, reports it with its value, and the operator sees the signals' tallies.
func testFeedbackOfACustomer(t *testing.T, host *hosttest.HostProcess, dir, database string) {
	t.Helper()
	issued := hosttest.OutputJSON[apikey.Issued](t, dir, database, "keys", "create", "--plan", "starter")
	checked := hosttest.CheckUntilComplete(host, issued.Secret, `{"domain":"paypa1-secure-login.xyz"}`)
	report := func(body string) (status int, kept feedback.Kept) {
		t.Helper()
		status, text := hosttest.Send(t, host, issued.Secret, "POST", "/api/feedback", body)
		if status == http.StatusOK {
			expect.NoError(t, json.Unmarshal([]byte(text), &kept))
		}
		return status, kept
	}
	if status, _ := report(`{"ref":"` + checked.Ref + `","label":"fraud","domain":"example.org"}`); status != 400 {
		t.Errorf("feedback with another value: status %d, want 400", status)
	}
	status, kept := report(`{"ref":"` + checked.Ref + `","label":"fraud","domain":"PAYPA1-secure-login.xyz"}`)
	expect.That(t, status == 200 && kept.Scored && kept.Label == feedback.Fraud, "feedback: status %d, %+v", status,
		kept)
	lines := hosttest.OutputJSON[[]signalLine](t, dir, database, "feedback", "signals")
	expect.Must(t, len(lines) != 0, "no signal was counted")
	for _, l := range lines {
		expect.That(t, l.Fraud == 1 && l.Legitimate == 0 && l.Precision == 1, "%+v, want one label, of fraud", l)
	}
	hosttest.Has(t, hosttest.Output(t, dir, database, "feedback", "signals"), lines[0].Signal)
	shown := hosttest.OutputJSON[shownLayer](t, dir, database, "layers", "show", "domain")
	at := slices.IndexFunc(shown.Signals, func(s shownSignal) bool { return s.Code == "domain:brand:lookalike" })
	expect.That(t, shown.Labels == 1 && at >= 0 && shown.Signals[at].HitRate == 1 && shown.Signals[at].Precision == 1,
		"%+v", shown)
	hosttest.Has(t, hosttest.Output(t, dir, database, "layers", "show", "domain"), "domain:brand:lookalike", "100%")
	// Weights are fitted to feedback like to labelled values.
	rows := hosttest.WriteFile(t, "rows.jsonl", []byte(hosttest.Labelled))
	hosttest.Has(t, hosttest.Output(t, dir, database, "lineup", "fit", rows, "--feedback"), "to 17 rows")
}

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

// TestStopDuringTheStart checks that a host which is stopped while it starts, here while it waits for its database,
// ends as one that was stopped later: with 0 and without an error.
func TestStopDuringTheStart(t *testing.T) {
	t.Parallel()
	database := expect.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer database.Close()
	cmd := hosttest.Command(t.Context(), hosttest.DataDir(t), "postgres://a@"+database.Addr().String()+"/a", "serve")
	var said strings.Builder
	cmd.Stderr = &said
	expect.NoError(t, cmd.Start())
	expect.Value(database.Accept())(t) // and never answers
	expect.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	err := cmd.Wait()
	expect.That(t, err == nil && !strings.Contains(said.String(), "assay:"), "the host ended with %v: %s", err, &said)
}

func TestBenchEnv(t *testing.T) {
	t.Parallel()
	got := benchEnv([]string{"PATH=/bin", "ASSAY_WITNESS=x", "ASSAY_STRIPE_KEY=x", "ASSAY_SMTP_URL=x", "ASSAY_CHAINS=2",
		"ASSAY_CHECKPOINT_KEY=x", "ASSAY_DATABASE_CONNECTIONS=3", "ASSAY_DATABASE_URL=x", "GOGC=50"})
	want := []string{"PATH=/bin", "ASSAY_CHAINS=2", "ASSAY_DATABASE_CONNECTIONS=3", "GOGC=50", "ASSAY_CONFIG=",
		"ASSAY_DRAIN=0s", "ASSAY_DNS=off", "ASSAY_RDAP_URL=off"}
	expect.That(t, slices.Equal(got, want), "got %q, want %q", got, want)
}
