package cli

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"assay/host/access/apikey"
	"assay/host/access/signin"
	"assay/host/customer/override"
	"assay/host/customer/webhook"
	"assay/host/hosttest"
	"assay/host/store/postgres/postgrestest"
	"assay/host/store/storetest"
	"assay/host/web/console"
	"assay/registry/expect"
)

// TestAccountsCommands creates an account with its code, prints a link that signs in, and signs everybody out.
func TestAccountsCommands(t *testing.T) {
	t.Parallel()
	dir, database := hosttest.DataDir(t), postgrestest.Database(t)
	s := hosttest.OpenStore(t, dir, database).Store
	issued := hosttest.OutputJSON[struct {
		Account string
		Code    string `json:"sign_in_code"`
	}](t, dir, database, "keys", "create")
	signsIn := func(token string, err error) {
		t.Helper()
		session, _, _ := s.Session(t.Context(), token, "")
		expect.That(t, err == nil && session.Account == issued.Account, "signs in to %q, %v", session.Account, err)
	}
	signsIn(s.SignInByCode(t.Context(), issued.Code, signin.Origin{}))
	text := hosttest.Output(t, dir, database, "keys", "create", "--account", issued.Account)
	expect.That(t, !strings.Contains(text, "code "), "a further key comes with a code:\n%s", text)
	text = hosttest.Output(t, dir, database, "accounts", "sign-in-link", issued.Account,
		"--public-url=https://assay.example/")
	link, _, _ := strings.Cut(text, "\n")
	token, ok := strings.CutPrefix(link, "https://assay.example"+console.LinkPath)
	expect.That(t, ok, "the link is %q", link)
	signsIn(s.UseLink(t.Context(), token, signin.Origin{}))
	text = hosttest.Output(t, dir, database, "accounts", "quota", issued.Account, "--checks", "2000")
	usage, err := s.Usage(t.Context(), issued.Account)
	expect.That(t, err == nil && usage.Plan.Quota == 2000, "%sthe usage is %+v, %v", text, usage, err)
	for command, state := range map[string]apikey.State{"suspend": apikey.Suspended, "resume": apikey.Valid} {
		hosttest.Output(t, dir, database, "accounts", command, issued.Account, "--reason", "chargebacks")
		keys, err := s.Keys(t.Context(), issued.Account)
		expect.That(t, err == nil && keys[0].State == state, "after %s: the keys are %+v, %v", command, keys, err)
	}
	hosttest.Fails(t, dir, database, 2, []string{"accounts", "suspend", issued.Account, "--reason", "fine\u202e"},
		"direction of text")
	hosttest.Output(t, dir, database, "accounts", "sign-out", issued.Account)
	expect.Error(t, "after sign-out, the code fails with", expect.ErrorOf(s.SignInByCode(t.Context(), issued.Code,
		signin.Origin{})), signin.ErrUnknown)
	for _, command := range []string{"accounts sign-in-link", "accounts sign-out", "accounts quota --checks 1",
		"accounts suspend --reason x", "accounts resume --reason x", "keys list --account", "webhooks list --account",
		"overrides list --account", "graph forget --account"} {
		hosttest.Fails(t, dir, database, 1, append(strings.Fields(command), "acct_nobody"), "there is no such account")
	}
}

// A key with limits is created and rotated on the command line. Its replacement has the same limits and a new lifetime.
func TestKeysWithLimits(t *testing.T) {
	t.Parallel()
	dir, database := hosttest.DataDir(t), postgrestest.Database(t)
	hosttest.OpenStore(t, dir, database)
	old := hosttest.OutputJSON[apikey.Issued](t, dir, database, "keys", "create", "--scope=privacy,check", "--test",
		"--allow=192.0.2.7,2001:db8::/32", "--expires=90d")
	next := hosttest.OutputJSON[apikey.Issued](t, dir, database, "keys", "rotate", old.ID, "--overlap=2h")
	expect.That(t, strings.HasPrefix(old.Secret, "assay_test_") && strings.HasPrefix(next.Secret, "assay_test_") &&
		next.Account == old.Account && next.Plan == "free", "issued %+v and %+v", old, next)
	keys := hosttest.OutputJSON[[]apikey.Key](t, dir, database, "keys", "list")
	slices.SortFunc(keys, func(a, b apikey.Key) int { return strings.Compare(a.ID, b.ID) })
	for i, want := range []struct {
		id   string
		ends time.Duration
	}{{old.ID, 2 * time.Hour}, {next.ID, 90 * 24 * time.Hour}} {
		k := keys[i]
		expect.That(t, k.ID == want.id && apikey.JoinScopes(k.Scopes) == "check and privacy" && k.Test &&
			len(k.Networks) == 2 && k.ExpiresAt != nil && time.Until(*k.ExpiresAt).Round(time.Hour) == want.ends,
			"key %d is %+v, want %s with the limits, for %v", i, k, want.id, want.ends)
	}
	table := hosttest.Output(t, dir, database, "keys", "list")
	hosttest.Has(t, table, "LAST USED", "EXPIRES\n", "check privacy", "192.0.2.7/32 2001:db8::/32")
}

func TestKeysCreateRefusesLimits(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		cmd  keysCreateCmd
		want string
	}{
		"no name":        {keysCreateCmd{Name: " "}, "--name: the name must have 1 to 60 visible characters"},
		"a hidden name":  {keysCreateCmd{Name: "a\x1b[2Jb"}, "--name: the name must have 1 to 60"},
		"a long name":    {keysCreateCmd{Name: strings.Repeat("ä", 61)}, "--name: the name must have 1 to 60"},
		"a scope":        {keysCreateCmd{Scope: []string{"check", "admin"}}, `--scope: unknown scope "admin"`},
		"a network":      {keysCreateCmd{Allow: []string{"192.0.2.1/24"}}, "--allow: "},
		"a time":         {keysCreateCmd{Expires: "soon"}, "--expires: "},
		"the past":       {keysCreateCmd{Expires: "2020-01-31T08:00:00Z"}, "is not in the future"},
		"no time at all": {keysCreateCmd{Expires: "0s"}, "is not in the future"},
	} {
		c.cmd.Name = cmp.Or(c.cmd.Name, "plain")
		expect.ErrorText(t, name, c.cmd.Validate(), c.want)
	}
	expect.ErrorText(t, "an override that ended", (&overridesAddCmd{Action: "block", Range: "+49151234", Reason: "x",
		Expires: "0s"}).Validate(), "--expires: must be in the future")
	expect.ErrorText(t, "a range of letters", (&overridesAddCmd{Action: "block", Range: "x", Reason: "x",
		Expires: "1d"}).Validate(), "--range: ")
	expect.ErrorText(t, "a negative overlap", (&keysRotateCmd{Overlap: -time.Second}).Validate(), "--overlap: ")
	named := &keysCreateCmd{Name: " " + strings.Repeat("ä", 60)}
	expect.Equal(t, "a name", expect.Value(named.wanted(time.Now()))(t).Name, strings.Repeat("ä", 60))
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
	status, text = send("DELETE", "/api/overrides?id="+all.ID, "")
	expect.That(t, status == 404, "a customer removes an override of the operator: status %d: %s", status, text)
}

// testWebhooks covers the lifecycle of an endpoint, from setting to removing it.
func testWebhooks(t *testing.T, host *hosttest.HostProcess, dir, database string) {
	t.Helper()
	issued := hosttest.OutputJSON[apikey.Issued](t, dir, database, "keys", "create", "--plan", "starter")
	var status atomic.Int64
	status.Store(200)
	url, calls := hosttest.Receive(t, func(hosttest.Call) int { return int(status.Load()) })
	set := hosttest.OutputJSON[map[string]string](t, dir, database, "webhooks", "set", issued.Account, "--url",
		url+"/hook")
	expect.That(t, strings.HasPrefix(set["secret"], "whsec_") && len(set) == 1, "webhooks set printed %v", set)
	other := hosttest.OutputJSON[apikey.Issued](t, dir, database, "keys", "create", "--plan", "pro").Account
	for url, warned := range map[string]bool{"http://10.0.0.1/": true, "https://receiver.example/": false} {
		out, err := hosttest.Command(t.Context(), dir, database, "webhooks", "set", other, "--url",
			url).CombinedOutput() // the hosts that call a private address may allow it
		expect.That(t, err == nil && strings.Contains(string(out), "ASSAY_WEBHOOK_ALLOW") == warned, "%s: %v, %s", url,
			err, out)
	}
	hosttest.Has(t, hosttest.Output(t, dir, database, "webhooks", "set", other, "--url", "https://moved.example/"),
		"stays the same")
	hosttest.Has(t, hosttest.Output(t, dir, database, "webhooks", "rotate", other), "It signs X-Service-Signature from")
	hosttest.Output(t, dir, database, "webhooks", "remove", other)

	wantCall := func(ref, header, want string) {
		t.Helper()
		c := hosttest.Next(t, calls)
		got := c.Header.Get("X-Service-" + header)
		expect.Must(t, c.Ref() == ref && got == want, "%s %s of %s, want %s of %s", header, got, c.Ref(), want, ref)
	}
	a := hosttest.CheckOnce(host, issued.Secret, hosttest.BlockedDomain)
	wantCall(a.Ref, "Event", a.Event())

	// A test event fails four times. The retries are made due early.
	b, conn := hosttest.OpenStore(t, dir, database), storetest.Session(t, database)
	status.Store(503)
	test := hosttest.OutputJSON[map[string]string](t, dir, database, "webhooks", "test", issued.Account)["ref"]
	for attempt := 1; attempt <= 4; attempt++ {
		wantCall(test, "Attempt", fmt.Sprint(attempt))
		// Once the attempt has failed, its retry is due at once.
		expect.Until(t, "the attempt to end", func() bool {
			return storetest.Value[int](t, conn, `WITH due AS (
				UPDATE webhook_events SET next_attempt_at = now()
				WHERE state = 'pending' AND leased_until IS NULL RETURNING 1)
				SELECT (SELECT count(*) FROM due) + (SELECT count(*) FROM webhook_events WHERE state = 'failed')`) > 0
		})
	}
	failed := func() []loggedEvent {
		return hosttest.OutputJSON[[]loggedEvent](t, dir, database, "webhooks", "list", "--account", issued.Account,
			"--events", "--state", "failed")
	}
	expect.Until(t, "the event to fail", func() bool { return len(failed()) == 1 })
	f := failed()[0]
	expect.That(t, f.Ref == test && f.Attempts == 4 && len(f.Log) == 4 && f.Log[3].Status == 503 &&
		f.Log[3].ResponseBody == "thanks for "+test && f.PayloadHeld, "failed events: %+v", f)
	status.Store(204)
	done := hosttest.OutputJSON[resent](t, dir, database, "webhooks", "resend", "--account", issued.Account, "--since",
		"1h")
	expect.That(t, done.Resent == 1 && done.Gone == 0, "resend: %+v", done)
	wantCall(test, "Attempt", "5")
	delivered := func() bool {
		events, err := b.Store.RecentEvents(t.Context(), issued.Account, "delivered", 0, 100)
		return err == nil && len(events) > 0 && events[0].Ref == test
	}
	expect.Until(t, "the event to be delivered", delivered)
	hosttest.WantRefusal(t, "resending a delivered event", dir, database, nil, []string{"webhooks", "resend", test},
		"no longer held")

	rotated := hosttest.OutputJSON[map[string]string](t, dir, database, "webhooks", "rotate", issued.Account)["secret"]
	expect.That(t, strings.HasPrefix(rotated, "whsec_") && rotated != set["secret"], "webhooks rotate printed %q",
		rotated)
	endpoints := hosttest.OutputJSON[[]webhook.Endpoint](t, dir, database, "webhooks", "list")
	expect.That(t, len(endpoints) == 1 && endpoints[0].URL == url+"/hook" && endpoints[0].OldSecretUntil != nil &&
		endpoints[0].Failed == 0, "endpoints: %+v", endpoints)

	// Once an endpoint is enabled again, events can be resent.
	storetest.Exec(t, conn, `UPDATE webhook_endpoints SET failing_since = now() - interval '5 days', failed_at = now(),
		disabled_at = now(), disabled_reason = 'failing'`)
	kept := hosttest.CheckOnce(host, issued.Secret, hosttest.BlockedDomain).Ref
	hosttest.WantRefusal(t, "resending to a disabled endpoint", dir, database, nil, []string{"webhooks", "resend",
		kept}, "enable it first")
	e := hosttest.OutputJSON[[]webhook.Endpoint](t, dir, database, "webhooks", "list")[0]
	expect.That(t, e.State == "disabled" && e.DisabledAt != nil && e.FailingSince != nil && e.DisabledReason != nil &&
		*e.DisabledReason == "failing", "disabled endpoint: %+v", e)
	hosttest.Has(t, hosttest.Output(t, dir, database, "webhooks", "list"), "disabled since 20")
	hosttest.Output(t, dir, database, "webhooks", "enable", issued.Account)
	e = hosttest.OutputJSON[[]webhook.Endpoint](t, dir, database, "webhooks", "list")[0]
	expect.That(t, e.State == "enabled" && e.DisabledAt == nil && e.FailingSince == nil, "enabled endpoint: %+v", e)
	hosttest.WantRefusal(t, "resending others too", dir, database, nil, []string{"webhooks", "resend", "chk_a", kept,
		"chk_b"}, "resending chk_a: ", "resending chk_b: ", "1 resent")
	wantCall(kept, "Attempt", "1")
	hosttest.Output(t, dir, database, "webhooks", "remove", issued.Account)
	expect.That(t, !strings.Contains(hosttest.Output(t, dir, database, "webhooks", "list"), url), "it was not removed")
	hosttest.Has(t, hosttest.Get(t, host.Admin+"/metrics", ""), `assay_webhook_attempts_total{outcome="refused"} 4`)
}

func TestSince(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 31, 8, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Time{
		"2h": now.Add(-2 * time.Hour), "0s": now, "2026-01-30T10:00:00+02:00": now.AddDate(0, 0, -1),
	} {
		got, err := since(text, now)
		expect.That(t, err == nil && got.Equal(want), "%s: %v, %v, want %v", text, got, err, want)
	}
}
