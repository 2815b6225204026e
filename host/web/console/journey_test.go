package console

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"assay/host/check"
	"assay/host/customer/decision"
	"assay/host/customer/webhook"
	"assay/host/entity"
	"assay/host/store/storetest"
	"assay/registry/expect"
)

// testWithoutJavaScript follows a customer through all pages by links and forms alone.
func testWithoutJavaScript(t *testing.T, s *site) {
	v := s.visit(t)
	v.get("/").is(200, "Prices")
	v.press("Check", "domain", "example.com").is(200, "Reference chk_")
	v.press("Check", "domain", "no domain").is(400, "The domain contains a space.")
	v.follow("Docs").is(200, "Act on the verdict")
	v.follow("Sign in")
	v.press("Sign in", "code", "nonsense").is(400, "A character is wrong, missing or too many.")
	v.follow("Prices")
	v.press("Subscribe to Starter").is(200, "Pay with card")
	card := []string{"number", "4000000000000002", "expiry", "12/40", "cvc", "123", "name", "Jane Doe"}
	v.press("Subscribe", card...).is(402, "Your card was declined.")
	card[1] = "4111111111111111"
	v.press("Subscribe", card...).is(402, "Real cards are not accepted.")
	v.lacks(card[1])
	card[1] = "4242 4242 4242 4242"
	v.press("Subscribe", card...).is(200, "This is your API key.")
	lost := v.at.text("code")
	v.get(donePath).is(410, "Your key was already shown")
	v.press("Issue another key").is(200, "This is your API key.")
	key, code := v.at.text("key"), v.at.text("code")
	v.follow("Go to the dashboard").is(200, "0 of 150 checks")
	v.press("Check", "value", "DE89370400440532013000", "type", "auto").is(200, "Reference chk_")
	v.follow("Checks").is(200, "No checks yet.")

	v.follow("Keys")
	v.press("Create key", "name", "staging").is(200, "This is the new key.")
	v.press("Rotate").is(200, "works until")
	expect.Equal(t, "the page does not offer to revoke three keys", strings.Count(v.at.body, "/revoke"), 3)
	v.press("Revoke").is(200, "The key is revoked.")

	v.follow("Webhooks")
	const refused = "https://user:password@example.com/"
	v.press("Save", "url", refused).is(400, "Webhook URL:")
	expect.That(t, strings.Contains(v.at.body, `value="`+refused+`"`), "the field lacks the URL: %s", v.at.body)
	v.press("Save", "url", "http://10.0.0.1/").is(400, "Webhook URL:")
	v.press("Save", "url", "https://hooks.example.com/a").is(200, "This is the secret that signs events.")
	first := v.at.text("secret")
	v.press("Save", "url", "https://hooks.example.com/b").is(200, "Its secret stays the same.")
	v.press("Rotate secret")
	again := v.at.text("secret")
	expect.That(t, again != first && strings.HasPrefix(again, "whsec_"), "rotated to %q", again)
	v.press("Send a test event").is(200, "A test event is on its way.")
	v.follow("Attempts").is(200, "No attempts yet.")
	v.follow("All events")
	v.press("Resend", "since", "soon").is(400, "The day must be a date")
	v.press("Resend", "since", "0000-01-01").is(400, "The day must be a date")
	v.press("Resend", "since", "2026-01-31").is(200, "on their way again")
	v.press("Remove").is(200, "The webhook is removed.")

	v.follow("Plan")
	v.follow("Change to Pro")
	v.press("Pay €80 and change to Pro").is(200, "You are on Pro: 0 of 1,500")
	v.press("Cancel subscription").is(200, "ends on")
	v.press("Keep Pro").is(200, "The change is made.")
	v.press("Sign out").is(200, "Prices")
	v.get("/dashboard").is(200, "It was shown next to your API key.")
	v.press("Sign in", "code", lost).is(401, "There is no such sign-in code.")
	v.press("Sign in", "code", key).is(401, "an API key, which does not sign in")
	v.press("Sign in", "code", " "+strings.ToLower(code)+"\n").is(200, "This month")

	v.follow("Account").is(200, "Unknown browser (this browser)")
	v.press("Replace the code").is(200, "This is your new sign-in code.")
	newer := v.at.text("code")
	v.press("Sign out")
	v.follow("Sign in")
	v.press("Sign in", "code", code).is(401, "Was it replaced by a newer one?")
	v.press("Sign in", "code", newer).is(200, "This month")
}

// fail claims the next event of a host's queue and has its first attempt fail, which it returns.
func (s *site) fail(t *testing.T, change func(*webhook.Outcome)) webhook.Delivery {
	t.Helper()
	outbox := expect.Value(s.store.NewOutbox())(t)
	defer outbox.Close()
	claimed := expect.Value(outbox.Claim(t.Context(), webhook.ClaimOptions{MaxEvents: 1, MaxPerAccount: 1}))(t)
	expect.Equal(t, "claimed events", len(claimed), 1)
	o := webhook.Outcome{Ref: claimed[0].Ref, Attempt: 1, EndedAt: time.Now(), Status: 500,
		Request: webhook.Request{Body: string(claimed[0].Body)}}
	change(&o)
	_, _, err := outbox.Finish(t.Context(), o)
	expect.NoError(t, err)
	return claimed[0]
}

// TestDeliveries checks that the page of an event shows what was sent and answered.
func TestDeliveries(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	v, _ := s.customer(t, "pro")
	v.follow("Webhooks")
	v.press("Save", "url", "https://hooks.example.com/a")
	v.press("Send a test event", "verdict", "allow").is(400, "The verdict of a test event is review or block.")
	v.press("Send a test event", "verdict", "block").is(200, "A test event is on its way.")
	claimed := s.fail(t, func(o *webhook.Outcome) {
		o.ResponseBody, o.ResponseHeader = []byte("out of order"), "HTTP/1.1 500 Oops\nServer: lighttpd\n"
		o.Request.Header = "POST /a HTTP/1.1\nHost: hooks.example.com\n"
	})
	expect.Equal(t, "the event", claimed.Event, "check.blocked")
	v.get("/dashboard/webhooks")
	v.follow("Attempts")
	v.is(200, `"query": "test.example"`, `"verdict": "BLOCK"`, `"score": 70`, "answered 500", "Host: hooks.example.com",
		"Server: lighttpd", "out of order")
	other, _ := s.customer(t, "pro")
	other.get(v.at.url.Path).is(404, "")
}

// TestFailingWebhook checks that the page warns about a failing webhook, explains why one is disabled, and enables it,
// that the owner is told by mail and on every page, and is offered to resend what failed.
func TestFailingWebhook(t *testing.T) {
	t.Parallel()
	s := serveMail(t)
	v, _ := s.customer(t, "pro")
	s.own(t, v, "jane@example.org")
	v.follow("Webhooks")
	v.press("Save", "url", "https://hooks.example.com/a")
	v.press("Send a test event")
	account := s.fail(t, func(*webhook.Outcome) {}).AccountID
	const warning = "Every attempt since"
	v.get("/dashboard/webhooks")
	v.lacks(warning) // after a single failed attempt
	s.clock.Add(2 * warnAfter)
	v.get("/dashboard/webhooks").is(200, warning)
	since := expect.Value(s.store.Endpoints(t.Context(), account))(t)[0].FailingSince
	v.is(200, "the webhook is disabled on "+since.UTC().Add(webhook.DisableAfter).Format("2 January 2006"))

	conn := storetest.Session(t, s.database)
	storetest.Exec(t, conn,
		"UPDATE webhook_endpoints SET disabled_at = now(), disabled_reason = 'failing', notice = 'disabled'")
	expect.NoError(t, s.TellOwners(t.Context()))
	expect.Equal(t, "link", s.paths(t, "jane@example.org", "Your webhook was disabled")[0], webhooksPath)
	v.get("/dashboard/keys").is(200, "The webhook has been disabled since")
	v.follow("Enable it").is(200, "Nothing is sent.")
	v.get("/dashboard/webhooks").is(200, "This webhook has been disabled since")
	v.alone().post("/dashboard/webhooks/resend", "csrf", v.at.token(), "since", "2026-01-31").is(409)
	v.press("Send a test event").is(200, "A test event is on its way.")
	v.press("Enable").is(200, "The webhook is enabled.")
	v.lacks(warning, "is disabled", "failed and can be resent")

	storetest.Exec(t, conn, "UPDATE webhook_events SET state = 'failed', next_attempt_at = NULL, settled_at = now()")
	for range 2 { // the second time there is nothing to resend
		storetest.Exec(t, conn, "UPDATE webhook_endpoints SET notice = 'recovered'")
		expect.NoError(t, s.TellOwners(t.Context()))
		if v.get("/dashboard"); strings.Contains(words(v.at.root), "2 events failed and can be resent") {
			s.paths(t, "jane@example.org", "Your webhook answers again")
			v.press("Resend all").is(200, "The failed events are on their way again")
			v.lacks("failed and can be resent")
		}
	}
	v.submit("/dashboard/webhooks", "Remove")
	v.alone().post("/dashboard/webhooks/enable", "csrf", v.at.token()).is(409) // it was removed
	v.submit("/dashboard/webhooks", "Save", "url", "https://hooks.example.com/a")
	storetest.Exec(t, conn, // a third notice within an hour waits
		"UPDATE webhook_endpoints SET disabled_at = now(), disabled_reason = 'failing', notice = 'disabled'")
	expect.NoError(t, s.TellOwners(t.Context()))
	expect.Equal(t, "messages more sent", s.server.Received(), 0)
	s.clock.Add(mailWindow)
	expect.NoError(t, s.TellOwners(t.Context()))
	s.paths(t, "jane@example.org", "Your webhook was disabled")
}

// uncounted is a store that cannot count checks when told to.
type uncounted struct {
	Store

	now *atomic.Bool
}

func (u uncounted) CountDays(ctx context.Context, c check.Caller, from, until time.Time) ([]decision.Count, error) {
	if u.now.Load() {
		return nil, errors.New("the secret reason")
	}
	return u.Store.CountDays(ctx, c, from, until)
}

// TestFailedPanels checks that a page shows its other panels if one cannot be read, because the database lacks a column
// that it needs, and fails as a whole in an outage.
func TestFailedPanels(t *testing.T) {
	t.Parallel()
	var outage, miscounts atomic.Bool
	s := serve(t, func(c *Config) {
		c.Store = uncounted{c.Store, &miscounts}
		c.Outage = func(error) bool { return outage.Load() }
	})
	v, key := s.customer(t, "starter")
	s.record(t, key, entity.Email, "jane.doe@example.com", check.Allow)
	without := func(what, page, others string) {
		t.Helper()
		path := "/dashboard" + page
		v.get(path).is(200, others)
		expect.That(t, strings.Count(v.at.body, " could not be loaded. The rest") == 1 &&
			strings.Contains(v.at.body, `<a href="`+path+`">Try again</a>`), "%s without %s: %s", path, what,
			words(v.at.root))
		v.lacks("secret reason", "does not exist")
	}
	miscounts.Store(true)
	without("counts", "", "Recent checks")
	miscounts.Store(false)
	db := storetest.Session(t, s.database)
	for _, test := range []struct{ page, table, column, others string }{
		{"", "key_uses", "used_at", "Recent checks"},
		{"", "audit_records", "revision", "Checks by verdict"},
		{"/checks", "audit_records", "revision", "Find checks"},
		{"/checks", "key_uses", "used_at", "chk_"},
		{"/usage", "quota_usage", "quota", "Month (UTC)"},
		{"/keys", "key_uses", "used_at", "New key"},
		{"/webhooks", "webhook_events", "settled_at", "Webhook URL"},
		{"/overrides", "overrides", "sealed_reason", "Set a verdict in advance"},
		{"/privacy", "subject_requests", "since", "Find a subject"},
		{"/plan", "billing_subscriptions", "changed_at", "You are on Starter"},
		{"/plan", "billing_refunds", "found_at", "You are on Starter"},
		{"/account", "sign_in_codes", "issued_at", "Signed-in browsers"},
	} {
		rename := "ALTER TABLE " + test.table + " RENAME COLUMN "
		storetest.Exec(t, db, rename+test.column+" TO gone")
		without(test.table+"."+test.column, test.page, test.others)
		if test.table == "billing_subscriptions" {
			v.lacks("Subscribe to") // the account may have a plan
		}
		storetest.Exec(t, db, rename+"gone TO "+test.column)
	}
	storetest.Exec(t, db, "ALTER TABLE key_uses RENAME COLUMN used_at TO gone")
	v.get("/dashboard/usage").is(200, "total key_") // only their names are missing
	outage.Store(true)
	v.get("/dashboard").is(503, "The database is not available")
}

// testDownloadsAreLimited checks that downloads take slots, one account all free keys of a network, and give them back.
func testDownloadsAreLimited(t *testing.T, s *site) {
	v, _ := s.customer(t, "free")
	v.header.Set("X-Test-Client", "192.0.2.1/32")
	for range 3 {
		v.get("/dashboard/checks/export?format=csv").is(200, "ref,timestamp")
	}
	release := expect.Value(s.cfg.Downloads.Take("network 192.0.2.0/24"))(t)
	v.get("/dashboard/checks/export?format=csv").is(503, "Too many downloads")
	release()
	v.get("/dashboard/checks/export?format=csv").is(200, "ref,timestamp")
}
