package check_test

import (
	"encoding/json"
	"testing"
	"time"

	"assay/host/check"
	"assay/host/entity"
	"assay/registry/expect"
)

func TestEventMatchesTheContract(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 2, 3, 4, 5, 60_000_000, time.UTC)
	signals := []check.Signal{
		{Points: 60, Code: "domain:brand:paypal", Text: "It imitates PayPal"},
		{Points: 5, Code: "domain:tld:risky", Text: "Its ending is often abused"},
	}
	type testCase struct {
		decision check.Decision
		event    string
		body     string
	}
	expect.Each(t, map[string]testCase{
		"block": {
			check.Decision{Fused: check.Fused{Score: 94, Verdict: check.Block, Threat: "phishing", Signals: signals},
				Ref: "chk_1", Type: entity.Domain, Query: "paypa1.com", At: at, Revision: 3},
			"check.blocked",
			`{"event":"check.blocked","timestamp":"2026-01-02T03:04:05.060Z",` +
				`"data":{"query":"paypa1.com","type":"domain","verdict":"BLOCK","score":94,` +
				`"signals":["domain:brand:paypal","domain:tld:risky"],"ref":"chk_1"}}`,
		},
		"review without signals": {
			check.Decision{Fused: check.Fused{Score: 40, Verdict: check.Review}, Ref: "chk_2", Type: entity.IBAN,
				Query: "DE89 3704", At: at.Truncate(time.Second)},
			"check.review",
			`{"event":"check.review","timestamp":"2026-01-02T03:04:05.000Z",` +
				`"data":{"query":"DE89 3704","type":"iban","verdict":"REVIEW","score":40,"signals":[],"ref":"chk_2"}}`,
		},
		"allow": {check.Decision{Fused: check.Fused{Score: 39, Verdict: check.Allow}, Ref: "chk_3", Type: entity.Domain,
			At: at}, "", ""},
	}, func(t *testing.T, c testCase) {
		event, body, err := c.decision.Event()
		expect.NoError(t, err)
		same(t, c.event, event)
		same(t, c.body, string(body))
	})
}

func TestEventEchoesTheQuery(t *testing.T) {
	t.Parallel()
	for _, query := range []string{`"quoted"`, "пример.рф", "<script>", "a\u2028b", `back\slash`} {
		d := check.Decision{Fused: check.Fused{Verdict: check.Block}, Query: query}
		_, body, err := d.Event()
		expect.NoError(t, err)
		var got struct{ Data struct{ Query string } }
		err = json.Unmarshal(body, &got)
		expect.That(t, err == nil && got.Data.Query == query, "%q is encoded as %q, %v", query, got.Data.Query, err)
	}
}
