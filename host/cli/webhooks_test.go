package cli

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"assay/host/access/apikey"
	"assay/host/customer/webhook"
	"assay/host/hosttest"
	"assay/registry/expect"
)

// testWebhooks covers the lifecycle of an endpoint: setting it, delivery, failure, resending, listing, rotation of the
// secret, disabling and removal.
func testWebhooks(t *testing.T, host *hosttest.HostProcess, dir, database string) {
	t.Helper()
	issued := hosttest.OutputJSON[apikey.Issued](t, dir, database, "keys", "create", "--plan", "starter")
	var mu sync.Mutex
	status := 200
	url, calls := hosttest.Receive(t, func(hosttest.Call) int { mu.Lock(); defer mu.Unlock(); return status })
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
	hosttest.Output(t, dir, database, "webhooks", "remove", other)

	a := hosttest.CheckOnce(host, issued.Secret, hosttest.BlockedDomain)
	first := hosttest.Next(t, calls)
	if first.Ref() != a.Ref || first.Header.Get("X-Service-Event") != a.Event() {
		t.Errorf("the event of %s is %s of %s", a.Ref, first.Header.Get("X-Service-Event"), first.Ref())
	}

	// A test event fails four times. The retries are made due early.
	b := hosttest.OpenStore(t, dir, database)
	mu.Lock()
	status = 503
	mu.Unlock()
	test := hosttest.OutputJSON[map[string]string](t, dir, database, "webhooks", "test", issued.Account)["ref"]
	for attempt := 1; attempt <= 4; attempt++ {
		c := hosttest.Next(t, calls)
		if c.Ref() != test || c.Header.Get("X-Service-Attempt") != fmt.Sprint(attempt) {
			t.Fatalf("attempt %d is %s of %s", attempt, c.Header.Get("X-Service-Attempt"), c.Ref())
		}
		eventuallyDue(t, database)
	}
	failed := func() []loggedEvent {
		return hosttest.OutputJSON[[]loggedEvent](t, dir, database, "webhooks", "list", "--account", issued.Account,
			"--events", "--state", "failed")
	}
	hosttest.Eventually(t, "the event fails", func() bool { return len(failed()) == 1 })
	f := failed()[0]
	expect.That(t, f.Ref == test && f.Attempts == 4 && len(f.Log) == 4 && f.Log[3].Status == 503 &&
		f.Log[3].ResponseBody == "thanks for "+test && f.PayloadHeld, "failed events: %+v", f)
	mu.Lock()
	status = 204
	mu.Unlock()
	done := hosttest.OutputJSON[resent](t, dir, database, "webhooks", "resend", "--account", issued.Account, "--since",
		"1h")
	expect.That(t, done.Resent == 1 && done.Gone == 0, "resend: %+v", done)
	if c := hosttest.Next(t, calls); c.Ref() != test || c.Header.Get("X-Service-Attempt") != "5" {
		t.Errorf("after resending, got attempt %s of %s", c.Header.Get("X-Service-Attempt"), c.Ref())
	}
	delivered := func() bool {
		events, err := b.Store.RecentEvents(t.Context(), issued.Account, "delivered", 0, 100)
		return err == nil && len(events) > 0 && events[0].Ref == test
	}
	hosttest.Eventually(t, "the event is delivered", delivered)
	hosttest.WantRefusal(t, "resending a delivered event", dir, database, nil, []string{"webhooks", "resend", test},
		"no longer held")

	// Delivered events are listed without the checked entity.
	list := hosttest.Get(t, host.URL+"/api/events", issued.Secret)
	expect.That(t, !strings.Contains(list, "paypa1") && strings.Contains(list, `"ref":"`+a.Ref+`"`) &&
		strings.Contains(list, `"state":"delivered"`), "events: %s", list)

	rotated := hosttest.OutputJSON[map[string]string](t, dir, database, "webhooks", "rotate", issued.Account)["secret"]
	expect.That(t, strings.HasPrefix(rotated, "whsec_") && rotated != set["secret"], "webhooks rotate printed %q",
		rotated)
	endpoints := hosttest.OutputJSON[[]webhook.Endpoint](t, dir, database, "webhooks", "list")
	expect.That(t, len(endpoints) == 1 && endpoints[0].URL == url+"/hook" && endpoints[0].OldSecretUntil != nil &&
		endpoints[0].Failed == 0, "endpoints: %+v", endpoints)

	// A disabled endpoint receives test events only. Once it is enabled, the other events can be resent.
	sqlInt(t, database, `WITH disabled AS (
		UPDATE webhook_endpoints SET failing_since = now() - interval '5 days', failed_at = now(), disabled_at = now(),
			disabled_reason = 'failing' RETURNING 1)
		SELECT count(*) FROM disabled`)
	kept := hosttest.CheckOnce(host, issued.Secret, hosttest.BlockedDomain).Ref
	hosttest.WantRefusal(t, "resending to a disabled endpoint", dir, database, nil, []string{"webhooks", "resend",
		kept}, "enable it first")
	test = hosttest.OutputJSON[map[string]string](t, dir, database, "webhooks", "test", issued.Account)["ref"]
	if c := hosttest.Next(t, calls); c.Ref() != test {
		t.Errorf("a disabled endpoint was sent %s", c.Ref())
	}
	endpoints = hosttest.OutputJSON[[]webhook.Endpoint](t, dir, database, "webhooks", "list")
	e := endpoints[0]
	expect.That(t, e.State == "disabled" && e.DisabledAt != nil && e.FailingSince != nil && e.DisabledReason != nil &&
		*e.DisabledReason == "failing", "disabled endpoint: %+v", e)
	hosttest.Has(t, hosttest.Output(t, dir, database, "webhooks", "list"), "disabled since 20")
	hosttest.Output(t, dir, database, "webhooks", "enable", issued.Account)
	e = hosttest.OutputJSON[[]webhook.Endpoint](t, dir, database, "webhooks", "list")[0]
	expect.That(t, e.State == "enabled" && e.DisabledAt == nil && e.FailingSince == nil, "enabled endpoint: %+v", e)
	hosttest.Output(t, dir, database, "webhooks", "resend", kept)
	if c := hosttest.Next(t, calls); c.Ref() != kept || c.Header.Get("X-Service-Attempt") != "1" {
		t.Errorf("after resending, got attempt %s of %s", c.Header.Get("X-Service-Attempt"), c.Ref())
	}
	hosttest.Output(t, dir, database, "webhooks", "remove", issued.Account)
	out := hosttest.Output(t, dir, database, "webhooks", "list")
	expect.That(t, !strings.Contains(out, url), "after removing: %s", out)
	hosttest.Has(t, hosttest.Get(t, host.Admin+"/metrics", ""), `assay_webhook_attempts_total{outcome="refused"} 4`)
}

// eventuallyDue waits until an attempt has failed, and makes the retry due at once.
func eventuallyDue(t *testing.T, database string) {
	t.Helper()
	hosttest.Eventually(t, "the attempt is over", func() bool {
		n := sqlInt(t, database, `WITH due AS (
			UPDATE webhook_events SET next_attempt_at = now()
			WHERE state = 'pending' AND leased_until IS NULL RETURNING 1)
			SELECT (SELECT count(*) FROM due) + (SELECT count(*) FROM webhook_events WHERE state = 'failed')`)
		return n > 0
	})
}

// sqlInt runs a statement that returns one integer.
func sqlInt(t *testing.T, database, statement string) (n int) {
	t.Helper()
	conn := expect.Value(pgx.Connect(t.Context(), database))(t)
	defer conn.Close(context.WithoutCancel(t.Context()))
	expect.NoError(t, conn.QueryRow(t.Context(), statement).Scan(&n))
	return n
}

func TestSince(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 31, 8, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Time{
		"2h":                        now.Add(-2 * time.Hour),
		"0s":                        now,
		"2026-01-30T10:00:00+02:00": now.AddDate(0, 0, -1),
	} {
		got, err := since(text, now)
		expect.That(t, err == nil && got.Equal(want), "%s: %v, %v, want %v", text, got, err, want)
	}
}
