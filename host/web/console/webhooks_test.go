package console

import (
	"strings"
	"testing"
	"time"

	"assay/host/customer/webhook"
	"assay/host/store/storetest"
	"assay/registry/expect"
)

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

// TestDeliveries checks that the page of an event shows what was sent and answered, and that a test event has the
// verdict that was chosen.
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
	for _, text := range []string{`"query": "test.example"`, `"verdict": "BLOCK"`, `"score": 70`, "answered 500",
		"Host: hooks.example.com", "Server: lighttpd", "out of order"} {
		v.is(200, text)
	}
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
	expect.That(t, !strings.Contains(words(v.at.root), warning), "the page warns after a single failed attempt")
	s.pass(2 * warnAfter)
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
	if p := v.alone().post("/dashboard/webhooks/resend", "csrf", v.at.token(), "since", "2026-01-31"); p.status != 409 {
		t.Errorf("resending to a disabled webhook: status %d", p.status)
	}
	v.press("Send a test event").is(200, "A test event is on its way.")
	v.press("Enable").is(200, "The webhook is enabled.")
	expect.That(t, !strings.Contains(words(v.at.root), warning) && !strings.Contains(words(v.at.root), "is disabled"),
		"the page still warns about the enabled webhook")
	v.lacks("failed and can be resent")

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
	expect.Equal(t, "messages more sent", s.server.Received(), 0)
	v.get("/dashboard/webhooks")
	v.press("Remove")
	p := v.alone().post("/dashboard/webhooks/enable", "csrf", v.at.token())
	expect.That(t, p.status == 409, "enabling a removed webhook: status %d", p.status)
}
