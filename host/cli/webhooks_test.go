package cli

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"assay/host/access/apikey"
	"assay/host/customer/webhook"
	"assay/host/hosttest"
	"assay/host/installation"
	"assay/host/store/postgres/postgrestest"
)

// TestWebhooks covers the lifecycle of an endpoint: setting it, delivery, failure, resending, listing, rotation of the
// secret, disabling and removal.
func TestWebhooks(t *testing.T) {
	t.Parallel()
	dir, database := hosttest.DataDir(t), postgrestest.Database(t)
	host := hosttest.StartHost(t, dir, database, hosttest.AllowLoopback)
	issued := hosttest.OutputJSON[apikey.Issued](t, dir, database, "keys", "create", "--plan", "starter")
	var mu sync.Mutex
	status := 200
	url, calls := hosttest.Receive(t, func(hosttest.Call) int { mu.Lock(); defer mu.Unlock(); return status })
	set := hosttest.OutputJSON[map[string]string](t, dir, database, "webhooks", "set", "--account", issued.Account,
		"--url",
		url+"/hook")
	secret := set["secret"]
	if !strings.HasPrefix(secret, "whsec_") || len(set) != 1 {
		t.Errorf("webhooks set printed %v", set)
	}

	a := hosttest.CheckOnce(host, issued.Secret, hosttest.BlockedDomain)
	first := hosttest.Next(t, calls)
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write(first.Body)
	var body struct {
		Event, Timestamp string
		Data             struct {
			Query, Type, Verdict, Ref string
			Score                     int
			Signals                   []string
		}
	}
	if err := json.Unmarshal(first.Body, &body); err != nil || body.Event != a.Event() ||
		body.Data.Verdict != strings.ToUpper(a.Verdict) || body.Data.Ref != a.Ref ||
		body.Data.Score != a.Score || body.Data.Query != "paypa1-secure-login.xyz" ||
		body.Data.Type != "domain" || len(body.Data.Signals) == 0 {
		t.Errorf("event %s, %v", first.Body, err)
	}
	if got, want := first.Header.Get("X-Service-Signature"), "sha256="+
		hex.EncodeToString(mac.Sum(nil)); got != want || first.Header.Get("X-Service-Event") != body.Event {
		t.Errorf("X-Service-Signature %s, want %s; X-Service-Event %s", got, want, first.Header.Get("X-Service-Event"))
	}

	// A test event fails four times. The retries are made due early.
	b := hosttest.OpenStore(t, dir, database)
	mu.Lock()
	status = 503
	mu.Unlock()
	test := hosttest.OutputJSON[map[string]string](t, dir, database, "webhooks", "test", "--account",
		issued.Account)["ref"]
	for attempt := 1; attempt <= 4; attempt++ {
		c := hosttest.Next(t, calls)
		if c.Ref() != test || c.Header.Get("X-Service-Attempt") != fmt.Sprint(attempt) {
			t.Fatalf("attempt %d is %s of %s", attempt, c.Header.Get("X-Service-Attempt"), c.Ref())
		}
		eventuallyDue(t, database)
	}
	failed := func() []loggedEvent {
		return hosttest.OutputJSON[[]loggedEvent](t, dir, database, "webhooks", "list", "--account", issued.Account,
			"--events",
			"--state", "failed")
	}
	hosttest.Eventually(t, "the event fails", func() bool { return len(failed()) == 1 })
	if f := failed()[0]; f.Ref != test || f.Attempts != 4 || len(f.Log) != 4 || f.Log[3].Status != 503 ||
		f.Log[3].ResponseBody != "thanks for "+test || !f.PayloadHeld {
		t.Errorf("failed events: %+v", f)
	}
	mu.Lock()
	status = 204
	mu.Unlock()
	if done := hosttest.OutputJSON[resent](t, dir, database, "webhooks", "resend", "--account", issued.Account,
		"--since",
		"1h"); done.Resent != 1 || done.Gone != 0 {
		t.Errorf("resend: %+v", done)
	}
	if c := hosttest.Next(t, calls); c.Ref() != test || c.Header.Get("X-Service-Attempt") != "5" {
		t.Errorf("after resending, got attempt %s of %s", c.Header.Get("X-Service-Attempt"), c.Ref())
	}
	delivered := func() bool {
		events, err := b.Store.RecentEvents(t.Context(), issued.Account, "delivered", 0, 100)
		return err == nil && len(events) > 0 && events[0].Ref == test
	}
	hosttest.Eventually(t, "the event is delivered", delivered)
	out, err := hosttest.Command(t.Context(), dir, database, "webhooks", "resend", test).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "no longer held") {
		t.Errorf("resending a delivered event: %v, %s", err, out)
	}

	// Delivered events are listed without the checked entity.
	list := hosttest.Get(t, host.URL+"/api/events", issued.Secret)
	if strings.Contains(list, "paypa1") || !strings.Contains(list, `"ref":"`+a.Ref+`"`) ||
		!strings.Contains(list, `"state":"delivered"`) {
		t.Errorf("events: %s", list)
	}

	// After a rotation both secrets sign.
	rotated := hosttest.OutputJSON[map[string]string](t, dir, database, "webhooks", "rotate", "--account",
		issued.Account)["secret"]
	hosttest.Output(t, dir, database, "webhooks", "test", "--account", issued.Account)
	c := hosttest.Next(t, calls)
	for i, s := range []string{rotated, secret} {
		signatures := strings.Fields(c.Header.Get("webhook-signature"))
		if len(signatures) != 2 || signatures[i] != hosttest.StandardSignature(s, c) {
			t.Errorf("signatures %v, want %s at index %d", signatures, hosttest.StandardSignature(s, c), i)
		}
	}
	endpoints := hosttest.OutputJSON[[]webhook.Endpoint](t, dir, database, "webhooks", "list")
	if len(endpoints) != 1 || endpoints[0].URL != url+"/hook" || endpoints[0].OldSecretUntil == nil ||
		endpoints[0].Failed != 0 {
		t.Errorf("endpoints: %+v", endpoints)
	}

	// A disabled endpoint receives test events only. Once it is enabled, the other events can be resent.
	sqlInt(t, database, `WITH disabled AS (
		UPDATE webhook_endpoints SET failing_since = now() - interval '5 days', failed_at = now(), disabled_at = now(),
			disabled_reason = 'failing' RETURNING 1)
		SELECT count(*) FROM disabled`)
	kept := hosttest.CheckOnce(host, issued.Secret, hosttest.BlockedDomain).Ref
	out, err = hosttest.Command(t.Context(), dir, database, "webhooks", "resend", kept).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "enable it first") {
		t.Errorf("resending to a disabled endpoint: %v, %s", err, out)
	}
	test = hosttest.OutputJSON[map[string]string](t, dir, database, "webhooks", "test", "--account",
		issued.Account)["ref"]
	if c := hosttest.Next(t, calls); c.Ref() != test {
		t.Errorf("a disabled endpoint was sent %s", c.Ref())
	}
	endpoints = hosttest.OutputJSON[[]webhook.Endpoint](t, dir, database, "webhooks", "list")
	if e := endpoints[0]; e.State != "disabled" || e.DisabledAt == nil || e.FailingSince == nil ||
		e.DisabledReason == nil || *e.DisabledReason != "failing" {
		t.Errorf("disabled endpoint: %+v", e)
	}
	if out := hosttest.Output(t, dir, database, "webhooks", "list"); !strings.Contains(out, "disabled since 20") {
		t.Errorf("disabled endpoint: %s", out)
	}
	hosttest.Output(t, dir, database, "webhooks", "enable", "--account", issued.Account)
	if e := hosttest.OutputJSON[[]webhook.Endpoint](t, dir, database, "webhooks", "list")[0]; e.State != "enabled" ||
		e.DisabledAt != nil || e.FailingSince != nil {
		t.Errorf("enabled endpoint: %+v", e)
	}
	hosttest.Output(t, dir, database, "webhooks", "resend", kept)
	if c := hosttest.Next(t, calls); c.Ref() != kept || c.Header.Get("X-Service-Attempt") != "1" {
		t.Errorf("after resending, got attempt %s of %s", c.Header.Get("X-Service-Attempt"), c.Ref())
	}
	hosttest.Output(t, dir, database, "webhooks", "remove", "--account", issued.Account)
	if out := hosttest.Output(t, dir, database, "webhooks", "list"); strings.Contains(out, url) {
		t.Errorf("after removing: %s", out)
	}
	if metrics := hosttest.Get(t, host.Admin+"/metrics", ""); !strings.Contains(metrics,
		`assay_webhook_attempts_total{outcome="refused"} 4`) {
		t.Error("the metrics do not count 4 refused attempts")
	}
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
	conn, err := pgx.Connect(t.Context(), database)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	if err := conn.QueryRow(t.Context(), statement).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// TestWebhooksSurviveKills kills hosts while they deliver to a receiver that refuses half of the requests. It verifies
// that no event is lost, and that none is sent more than four times plus once for each interrupted attempt.
func TestWebhooksSurviveKills(t *testing.T) {
	t.Parallel()
	const callers = 4
	kills := 4
	if hosttest.RaceDetector {
		kills = 3
	}
	dir, database := hosttest.DataDir(t), postgrestest.Database(t)
	b := hosttest.OpenStore(t, dir, database)
	issued, err := installation.IssueKey(t.Context(), b.Store, installation.Unlimited(), "test")
	if err != nil {
		t.Fatal(err)
	}
	var mu, answering sync.Mutex
	sent, accepted := map[string]int{}, map[string]bool{}
	url, calls := hosttest.Receive(t, func(c hosttest.Call) int {
		answering.Lock()
		defer answering.Unlock()
		mu.Lock()
		defer mu.Unlock()
		sent[c.Ref()]++
		if rand.IntN(2) == 0 {
			return 500
		}
		accepted[c.Ref()] = true
		return 200
	})
	if _, err := b.Store.SetEndpoint(t.Context(), issued.Account, url); err != nil {
		t.Fatal(err)
	}
	blocked := map[string]bool{}
	for range kills {
		host := hosttest.StartHost(t, dir, database, hosttest.AllowLoopback)
		var wg sync.WaitGroup
		for range callers {
			wg.Go(func() {
				for {
					a := hosttest.Post(http.DefaultClient, host.URL, issued.Secret, hosttest.BlockedDomain)
					if a.Status == 0 {
						return
					}
					mu.Lock()
					blocked[a.Ref] = a.Status == 200 && a.Verdict == "block" || blocked[a.Ref]
					mu.Unlock()
				}
			})
		}
		for range 1 + rand.IntN(100) {
			hosttest.Next(t, calls)
		}
		answering.Lock() // so that the kill interrupts attempts
		for len(calls) > 0 {
			<-calls
		}
		hosttest.Next(t, calls)
		host.Stop(t, syscall.SIGKILL)
		answering.Unlock()
		wg.Wait()
		for len(calls) > 0 {
			<-calls
		}
		// No host is running, so leases can be ended, and retries are made due at once.
		sqlInt(t, database, `WITH due AS (
			UPDATE webhook_events
			SET next_attempt_at = now(), leased_until = CASE WHEN leased_until IS NOT NULL THEN now() END
			WHERE state = 'pending' RETURNING 1)
			SELECT count(*) FROM due`)
	}
	hosttest.StartHost(t, dir, database, hosttest.AllowLoopback)
	hosttest.Eventually(t, "every event is settled", func() bool {
		sqlInt(t, database, `WITH due AS (
			UPDATE webhook_events SET next_attempt_at = now()
			WHERE state = 'pending' AND leased_until IS NULL RETURNING 1)
			SELECT count(*) FROM due`)
		return sqlInt(t, database, "SELECT count(*) FROM webhook_events WHERE state = 'pending'") == 0
	})
	mu.Lock()
	defer mu.Unlock()
	interruptions := 0
	for ref, isBlocked := range blocked {
		if !isBlocked {
			continue
		}
		log, err := b.Store.Attempts(t.Context(), issued.Account, ref)
		if err != nil {
			t.Errorf("%s was returned as blocked but has no event: %v", ref, err)
			continue
		}
		interrupted := 0
		for _, a := range log {
			if a.TookMS == nil {
				interrupted++
			}
		}
		interruptions += interrupted
		if ended := len(log) - interrupted; sent[ref] == 0 || sent[ref] > len(log) || ended > 4 ||
			interrupted > kills || (!accepted[ref] && ended != 4) {
			t.Errorf("%s was sent %d times, accepted: %v, in %d attempts, %d of them interrupted", ref, sent[ref],
				accepted[ref], len(log), interrupted)
		}
	}
	t.Logf("%d events, %d attempts interrupted by %d kills", len(blocked), interruptions, kills)
	if interruptions == 0 {
		t.Error("no kill interrupted an attempt")
	}
}

// Invalid command lines are rejected before a database is opened.
func TestInvalidWebhookCommands(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"set --account a --url ftp://receiver.example":                      "url: must begin with https://",
		"set --account a --url https://user@receiver.example":               "url: must not contain a user",
		"set --account a --url https://0x7f.1/":                             "url: the host is neither a name nor",
		"set --url https://receiver.example":                                "--account",
		"enable":                                                            "--account",
		"list --events":                                                     "--events needs --account",
		"list --account a --state failed":                                   "--state needs --events",
		"list --account a --events --state lost":                            "--state",
		"list --account a --events --limit 0":                               "--limit must be from 1 to 1000",
		"resend":                                                            "expected references, or --account",
		"resend chk_1 --account a --since 1h":                               "expected references, or --account",
		"resend --account a":                                                "expected references, or --account",
		"resend --account a --since yesterday":                              `since: "yesterday" is neither`,
		"resend --account a --since=-1h":                                    "is neither",
		"list --webhook-allow 10.0.0.0/33":                                  `"10.0.0.0/33" is neither`,
		"set --account a --url https://receiver.example/ --webhook-allow x": `ASSAY_WEBHOOK_ALLOW: "x" is neither`,
	} {
		out, err := hosttest.Command(t.Context(), t.TempDir(), "postgres://127.0.0.1:1/none",
			append([]string{"webhooks"}, strings.Fields(line)...)...).CombinedOutput()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != 2 || !strings.Contains(string(out), want) {
			t.Errorf("webhooks %s: %v, %s\nwant %q", line, err, out, want)
		}
	}
}

func TestSince(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 31, 8, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Time{
		"2h":                        now.Add(-2 * time.Hour),
		"0s":                        now,
		"2026-01-30T10:00:00+02:00": now.AddDate(0, 0, -1),
	} {
		if got, err := since(text, now); err != nil || !got.Equal(want) {
			t.Errorf("%s: %v, %v, want %v", text, got, err, want)
		}
	}
}

// A private address is accepted with a warning, because the hosts that call it may allow it.
func TestPrivateEndpointPrintsWarning(t *testing.T) {
	t.Parallel()
	dir, database := hosttest.DataDir(t), postgrestest.Database(t)
	hosttest.OpenStore(t, dir, database)
	issued := hosttest.OutputJSON[apikey.Issued](t, dir, database, "keys", "create", "--plan", "pro")
	for url, warned := range map[string]bool{"http://10.0.0.1/": true, "https://receiver.example/": false} {
		cmd := hosttest.Command(t.Context(), dir, database, "webhooks", "set", "--account", issued.Account, "--url",
			url)
		var stderr strings.Builder
		cmd.Stderr = &stderr
		if out, err := cmd.Output(); err != nil || !strings.HasPrefix(string(out), "secret  whsec_") ||
			strings.Contains(stderr.String(), "ASSAY_WEBHOOK_ALLOW") != warned {
			t.Errorf("%s: %v, %s, %s", url, err, out, stderr.String())
		}
	}
}
