package api

import (
	"context"
	"fmt"
	"testing"
	"time"

	"assay/host/check"
	"assay/host/customer/decision"
	"assay/host/customer/feedback"
	"assay/host/customer/privacy"
	"assay/host/entity"
)

// decisions knows every check but unknownRef, of which only knownRef has a review, and records its calls.
type decisions struct{ calls }

func (d *decisions) call(c check.Caller, ref, format string, args ...any) error {
	if err := d.add(c.Account, format, args...); err != nil || ref != unknownRef {
		return err
	}
	return fmt.Errorf("reading: %w", feedback.ErrUnknownCheck)
}

func valueOf(e *entity.Entity) string {
	if e == nil {
		return ""
	}
	return e.Value
}

var recordedCheck = decision.Check{Ref: knownRef, Timestamp: stamp(atCheck), Type: "email", Score: 78,
	Verdict: "block", Key: "key_1", Revision: 12}

func (d *decisions) SearchChecks(_ context.Context, c check.Caller, q decision.Query) (*decision.Page, error) {
	next := decision.Cursor{At: atCheck, Ref: knownRef}.String()
	page := &decision.Page{Checks: []decision.Check{recordedCheck}, Next: &next}
	if q.Limit == decision.MaxSearched && q.After != (decision.Cursor{}) { // the second page of an export is the last
		page.Next = nil
	}
	return page, d.call(c, "", "search %s %s %s %d-%d %s %s %d", q.Verdict, q.Type, q.Key, q.From.Unix(),
		q.Until.Unix(), valueOf(q.Entity), q.After.Ref, q.Limit)
}

func (d *decisions) CountChecks(_ context.Context, c check.Caller, from, until time.Time) ([]decision.Count, error) {
	return []decision.Count{{Date: "2026-01-15", Key: "key_1", Type: "email", Verdict: "block", Checks: 1},
		{Date: "2026-01-15", Key: "key_1", Type: "email", Verdict: "allow", Checks: 7}}, d.call(c, "", "count")
}

func (d *decisions) MonthlyUsage(_ context.Context, c check.Caller, month time.Time) (*decision.Usage, error) {
	forecast := 44
	return &decision.Usage{Month: month.Format(decision.MonthFormat), Quota: 1500, Used: 8, Forecast: &forecast,
		Counts: []decision.Count{}}, d.call(c, "", "usage %d", month.Unix())
}

func (d *decisions) RecordedCheck(_ context.Context, c check.Caller, ref string, e *entity.Entity) (
	*decision.Details, error,
) {
	return &decision.Details{Check: recordedCheck, Record: decision.Record{Number: 7, Intact: true,
		Checkpoint: &decision.Checkpoint{Number: 9, SignedAt: privacy.Time{Time: atCheck}}},
		Webhook: &decision.Delivery{Event: "check.blocked", State: "failed", Attempts: 4}, Review: reviewOf(ref),
		Feedback: &privacy.Feedback{Label: "fraud", Timestamp: privacy.Time{Time: atCheck}},
	}, d.call(c, ref, "show %s", ref)
}

func (d *decisions) Explain(_ context.Context, c check.Caller, ref string, e entity.Entity) (
	*decision.Explanation, error,
) {
	today := &decision.Scoring{Revision: 13, Score: 40, Verdict: "review", Start: -60, Total: -5.8, Unknown: []string{},
		Reasons: []decision.Reason{{Text: "x", Code: "a:b:c", Layer: "email", Points: 54.2, Today: true}}}
	return &decision.Explanation{Check: recordedCheck, Text: []string{"because"}, Today: today,
		FactsOfToday: []string{"DNS"}}, d.call(c, ref, "explain %s %s", ref, e.Value)
}

func reviewOf(ref string) *privacy.Review {
	return &privacy.Review{Ref: ref, State: decision.Asked, Reason: "why?", AskedAt: privacy.Time{Time: atCheck}}
}

func (d *decisions) AskReview(_ context.Context, c check.Caller, ref, reason string) (*privacy.Review, error) {
	return reviewOf(ref), d.call(c, ref, "ask %s %s", ref, reason)
}

func (d *decisions) Review(_ context.Context, c check.Caller, ref string) (*privacy.Review, error) {
	if err := d.call(c, ref, "review %s", ref); err != nil {
		return nil, err
	}
	if ref != knownRef {
		return nil, decision.ErrNoReview
	}
	return reviewOf(ref), nil
}

func TestDecisions(t *testing.T) {
	t.Parallel()
	const at, jane = `"2026-01-15T10:30:00.123Z"`, `"email":"Jane@Example.com"`
	const recorded = `"ref":"` + knownRef + `","timestamp":` + at + `,"type":"email","score":78,"verdict":"block",` +
		`"key":"key_1","revision":12,"overridden":false`
	const review = `{"ref":"` + knownRef + `","state":"asked","reason":"why?","asked_at":` + at +
		`,"taken_at":null,"settled_at":null,"finding":null}`
	const cursor = "2026-01-15T10:30:00.123Z_" + knownRef
	d := &decisions{}
	start(t, Config{Decisions: d, Explainer: d}).converse(t, &d.calls, []dialog{
		{"POST /api/checks/search", `{}`, "search    -62135596800--62135596800   50",
			`{"checks":[{` + recorded + `}],"next":"` + cursor + `"}`},
		{"POST /api/checks/search", `{"verdict":"block","type":"email","key":"key_1","from":"2026-01-01T00:00:00Z",` +
			`"until":"2026-02-01T01:00:00+01:00","limit":7,"after":"` + cursor + `",` + jane + `}`,
			"search block email key_1 1767225600-1769904000 jane@example.com " + knownRef + " 7", ""},
		{"GET /api/checks/" + knownRef, "", "show " + knownRef, `{` + recorded +
			`,"record":{"chain":0,"number":7,"intact":true,"checkpoint":{"number":9,"signed_at":` + at + `}},` +
			`"webhook":{"event":"check.blocked","state":"failed","attempts":4},"feedback":` +
			`{"label":"fraud","note":null,"timestamp":` + at + `},"review":` + review + `}`},
		{"POST /gdpr/explain", `{"ref":"` + knownRef + `",` + jane + `}`, "explain " + knownRef + " jane@example.com",
			`{` + recorded + `,"text":["because"],"decided_by":null,"today":{"revision":13,"score":40,` +
				`"verdict":"review","start":-60,"total":-5.8,"reasons":[{"text":"x","code":"a:b:c","layer":"email",` +
				`"points":54.2,"facts_of_today":true}],"unknown":[]},"facts_of_today":["DNS"]}`},
		{"POST /gdpr/explain", `{"ref":"` + knownRef + `","phone":"0151 23456789","region":{"country":"DE"}}`,
			"explain " + knownRef + " +4915123456789", ""},
		{"POST /gdpr/review", `{"ref":"` + knownRef + `","reason":"jane's address"}`,
			"ask " + knownRef + " jane's address", review},
		{"GET /gdpr/review?ref=" + knownRef, "", "review " + knownRef, review},
	}, "jane", "4915")
}
