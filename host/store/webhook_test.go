package store

import (
	"errors"
	"strings"
	"testing"

	"assay/host/check"
	"assay/host/customer/webhook"
	"assay/host/entity"
)

func TestEventsNeedAnEndpoint(t *testing.T) {
	t.Parallel()
	s := newStore(t, nil)
	l := ledgerOn(t, s, LedgerConfig{})
	with := func(planName string) check.Caller {
		t.Helper()
		caller := newCaller(t, s, plan(t, planName, 100))
		_, err := s.SetEndpoint(t.Context(), caller.Account, "https://receiver.example/hook")
		if caller.Plan.Webhooks && err != nil {
			t.Fatal(err)
		}
		if !caller.Plan.Webhooks && !errors.Is(err, webhook.ErrPlanWithoutWebhooks) {
			t.Errorf("endpoint on the %s plan: %v, want ErrPlanWithoutWebhooks", planName, err)
		}
		return caller
	}
	starter, free, noEndpoint := with("starter"), with("free"), newCaller(t, s, plan(t, "pro", 100))
	// A downgraded account may still have an endpoint.
	downgraded := with("pro")
	downgraded.Plan = plan(t, "free", 100)
	revoked := with("starter")
	for name, test := range map[string]struct {
		caller  check.Caller
		verdict check.Verdict
		want    string
	}{
		"block":                 {starter, check.Block, "check.blocked"},
		"review":                {starter, check.Review, "check.review"},
		"allow":                 {starter, check.Allow, ""},
		"without an endpoint":   {noEndpoint, check.Block, ""},
		"plan without webhooks": {free, check.Block, ""},
		"downgraded plan":       {downgraded, check.Block, ""},
		"without a key":         {s.PublicCaller(), check.Block, ""},
	} {
		r := decided(test.caller, parse(t, entity.Domain, "example.org"), test.verdict)
		wantError(t, name, l.Append(t.Context(), r), nil)
		var events []string
		err := s.db.NewRaw(`SELECT event FROM webhook_events WHERE ref = ? AND account_id = ? AND state = 'pending'
			AND attempts = 0 AND next_attempt_at <= now()`,
			r.Decision.Ref, test.caller.Account).Scan(t.Context(), &events)
		if err != nil || strings.Join(events, " ") != test.want {
			t.Errorf("%s: events %v, %v, want %q", name, events, err, test.want)
		}
	}
	// A rejected check creates no event.
	noError(t, s.RevokeKey(t.Context(), revoked.Key))
	rejected := decided(revoked, parse(t, entity.Domain, "example.org"), check.Block)
	wantError(t, "append with a revoked key", l.Append(t.Context(), rejected), check.ErrUnauthorized)
	expect(t, "events in total", one[int](t, s, "SELECT count(*) FROM webhook_events"), 2)
	verifyLedger(t, s)
}

// The sealed payload is exactly the body that is sent (contract section 2.3), and cannot be read from the database
// alone.
func TestEventPayloadIsSealed(t *testing.T) {
	t.Parallel()
	s, l, caller := newLedger(t, nil, LedgerConfig{})
	must(s.SetEndpoint(t.Context(), caller.Account, "https://receiver.example/hook"))(t)
	r := decided(caller, parse(t, entity.Domain, "paypa1-login.example"), check.Block)
	r.Decision.Ref, r.Decision.Query = "chk_01ARZ3NDEKTSV4RRFFQ69G5FAV", "PayPa1-Login.example"
	r.Decision.Signals = []check.Signal{{Points: 60, Code: "domain:brand:lookalike", Text: "Looks like a brand"},
		{Points: 31, Code: "domain:age:new", Text: "New"}}
	noError(t, l.Append(t.Context(), r))
	sealed := one[[]byte](t, s, "SELECT sealed_payload FROM webhook_events")
	if strings.Contains(strings.ToLower(string(sealed)), "paypa1") {
		t.Error("the payload is stored in plain text")
	}
	body := must(testRing.Open(sealed, "event "+r.Decision.Ref))(t)
	want := `{"event":"check.blocked","timestamp":"2031-05-20T12:00:00.000Z",` +
		`"data":{"query":"PayPa1-Login.example","type":"domain","verdict":"BLOCK","score":91,` +
		`"signals":["domain:brand:lookalike","domain:age:new"],"ref":"chk_01ARZ3NDEKTSV4RRFFQ69G5FAV"}}`
	noDiff(t, "body", want, string(body))
}
