package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"assay/host/access/admission"
	"assay/host/check"
	"assay/host/customer/decision"
	"assay/host/customer/feedback"
	"assay/host/customer/override"
	"assay/host/customer/privacy"
	"assay/host/entity"
	"assay/registry/expect"
)

// decisions knows every check but unknownRef, of which only knownRef has a review, and records its calls.
type decisions struct{ calls }

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
	return page, d.add(c.Account, "search %s %s %s %d-%d %s %s %d", q.Verdict, q.Type, q.Key, q.From.Unix(),
		q.Until.Unix(), valueOf(q.Entity), q.After.Ref, q.Limit)
}

func (d *decisions) CountChecks(_ context.Context, c check.Caller, from, until time.Time) ([]decision.Count, error) {
	return []decision.Count{{Date: "2026-01-15", Key: "key_1", Type: "email", Verdict: "block", Checks: 1},
		{Date: "2026-01-15", Key: "key_1", Type: "email", Verdict: "allow", Checks: 7}}, d.add(c.Account, "count")
}

func (d *decisions) MonthlyUsage(_ context.Context, c check.Caller, month time.Time) (*decision.Usage, error) {
	return &decision.Usage{Month: month.Format(decision.MonthFormat), Quota: 1500, Used: 8, Forecast: new(44),
		Counts: []decision.Count{}}, d.add(c.Account, "usage %d", month.Unix())
}

func (d *decisions) RecordedCheck(_ context.Context, c check.Caller, ref string, e *entity.Entity) (*decision.Details,
	error) {
	return &decision.Details{Check: recordedCheck, Record: decision.Record{Number: 7, Intact: true,
		Checkpoint: &decision.Checkpoint{Number: 9, SignedAt: privacy.Time{Time: atCheck}}},
		Webhook: &decision.Delivery{Event: "check.blocked", State: "failed", Attempts: 4}, Review: reviewOf(ref),
		Feedback: &privacy.Feedback{Label: "fraud", Timestamp: privacy.Time{Time: atCheck}},
	}, d.about(c.Account, ref, "show %s", ref)
}

func (d *decisions) Explain(_ context.Context, c check.Caller, ref string, e entity.Entity) (*decision.Explanation,
	error) {
	today := &decision.Scoring{Revision: 13, Score: 40, Verdict: "review", Start: -60, Total: -5.8, Unknown: []string{},
		Reasons: []decision.Reason{{Text: "x", Code: "a:b:c", Layer: "email", Points: 54.2, Today: true}}}
	return &decision.Explanation{Check: recordedCheck, Text: []string{"because"}, Today: today,
		FactsOfToday: []string{"DNS"}}, d.about(c.Account, ref, "explain %s %s", ref, e.Value)
}

func reviewOf(ref string) *privacy.Review {
	return &privacy.Review{Ref: ref, State: decision.Asked, Reason: "why?", AskedAt: privacy.Time{Time: atCheck}}
}

func (d *decisions) AskReview(_ context.Context, c check.Caller, ref string, a decision.Asking) (*privacy.Review,
	error) {
	return reviewOf(ref), d.about(c.Account, ref, "ask %s %s%s%s", ref, a.Reason, a.Contact, valueOf(a.Entity))
}

func (d *decisions) Review(_ context.Context, c check.Caller, ref string) (*privacy.Review, error) {
	if err := d.about(c.Account, ref, "review %s", ref); err != nil {
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
	const review = `{"ref":"` + knownRef + `","state":"asked","reason":"why?","value":null,"contact":null,` +
		`"asked_at":` + at + `,"taken_at":null,"settled_at":null,"finding":null}`
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
		{"POST /gdpr/review", `{"ref":"` + knownRef + `","reason":"no","contact":" or ask ",` + jane + `}`,
			"ask " + knownRef + " no or ask jane@example.com", review},
		{"GET /gdpr/review?ref=" + knownRef, "", "review " + knownRef, review},
		{"GET /api/usage", "", "usage 1767225600",
			`{"month":"2026-01","quota":1500,"used":8,"forecast":44,"counts":[]}`},
		{"GET /api/usage?month=2026-02", "", "usage 1769904000", ""},
	}, "jane", "4915")
}

func TestExportChecks(t *testing.T) {
	t.Parallel()
	s := start(t, Config{Decisions: &decisions{}, Downloads: admission.NewShares(1)})
	for range 3 { // each gives its slot back
		r := s.ask(t, goodKey, "GET /api/checks/export?format=json&verdict=block&from=2026-01-01T00:00:00Z", "")
		var document struct {
			Checks []decision.Check
			Total  int
		}
		err := json.Unmarshal([]byte(r.body), &document)
		expect.Must(t, err == nil && document.Total == 2 && len(document.Checks) == 2 &&
			document.Checks[1] == recordedCheck, "%d, %v: %s", r.status, err, r.body)
		// One of the eight that are counted is a block.
		expect.That(t, r.header.Get("X-Total-Count") == "1" &&
			r.header.Get("Content-Disposition") == `attachment; filename="checks.json"`, "headers %v", r.header)
	}
	r := s.ask(t, goodKey, "GET /api/checks/export?format=csv", "")
	lines := strings.Split(r.body, "\r\n")
	expect.That(t, len(lines) == 4 && lines[1] == knownRef+",2026-01-15T10:30:00.123Z,email,78,block,key_1,12,false" &&
		r.header.Get("X-Total-Count") == "8", "%d %q, %v", r.status, r.body, r.header)
	r = s.ask(t, goodKey, "HEAD /api/checks/export?format=csv", "")
	expect.That(t, r.status == 200 && r.body == "", "HEAD: %d %q", r.status, r.body)
	s.ask(t, failKey, "GET /api/checks/export?format=csv", "").is(t, "a first page that cannot be read", 500)
}

// brokenPages are decisions whose second page cannot be read.
type brokenPages struct{ *decisions }

func (b brokenPages) SearchChecks(ctx context.Context, c check.Caller, q decision.Query) (*decision.Page, error) {
	if q.After != (decision.Cursor{}) {
		return nil, errors.New(secret)
	}
	return b.decisions.SearchChecks(ctx, c, q)
}

// TestBrokenExport checks that a client sees that an export broke off, and that its slot is free again.
func TestBrokenExport(t *testing.T) {
	t.Parallel()
	s := start(t, Config{Decisions: brokenPages{&decisions{}}, Downloads: admission.NewShares(1)})
	for range 2 {
		request := expect.Value(http.NewRequestWithContext(t.Context(), http.MethodGet,
			"http://"+s.addr+"/api/checks/export?format=csv", http.NoBody))(t)
		request.Header.Set("Authorization", "Bearer "+goodKey)
		response, err := http.DefaultClient.Do(request)
		expect.Must(t, err == nil && response.StatusCode == http.StatusOK, "%v, %v", response, err)
		text, err := io.ReadAll(response.Body)
		response.Body.Close()
		expect.That(t, err != nil && !strings.Contains(string(text), secret), "a broken export ends as a whole one: %q",
			text)
	}
}

// receipts issues receipts of every check but unknownRef. They have proofs unless the check is largeRef.
type receipts struct{}

func (receipts) Receipt(_ context.Context, c check.Caller, ref string, prove bool) (json.RawMessage, bool, error) {
	const start = `{"format":"assay-receipt-1","record":{"nonce":"00","kind":"check","ref":"`
	switch {
	case c.Account == failKey:
		return nil, false, errors.New(secret)
	case ref == unknownRef:
		return nil, false, feedback.ErrUnknownCheck
	case prove && ref != largeRef:
		const end = `"},"promise":"p","proof":{"index":6,"hashes":"","checkpoint":"c"}}`
		return json.RawMessage(start + ref + end), true, nil
	}
	return json.RawMessage(start + ref + `"},"promise":"p","proof":null}`), false, nil
}

// A result has its receipt on request, and the rest of the result stays the same.
func TestReceiptInResult(t *testing.T) {
	t.Parallel()
	s := start(t, Config{})
	plain := s.check(t, `{"domain":"example.com","receipt":false}`)
	expect.That(t, plain.status == 200 && !strings.Contains(plain.body, "receipt"), "%d %s", plain.status, plain.body)
	with := s.check(t, `{"domain":"example.com","receipt":true}`)
	var result struct {
		Ref     string
		Receipt struct{ Record struct{ Ref string } }
	}
	same, _, _ := strings.Cut(plain.body, `"ref"`)
	expect.NoError(t, json.Unmarshal([]byte(with.body), &result))
	expect.Equal(t, "reference in the receipt", result.Receipt.Record.Ref, result.Ref)
	with.is(t, "with a receipt", 200, same+`"ref":"chk_`, `","receipt":{`)
	s.check(t, `{"domain":"example.com","receipt":1}`).is(t, "a number", 400,
		"receipt: must be true or false, not a number")
	for ref, wait := range map[string]string{knownRef: "", largeRef: proofWait} { // it says when there may be a proof
		r := s.ask(t, goodKey, "GET "+receiptsPrefix+ref, "")
		expect.That(t, r.status == 200 && r.header.Get("Retry-After") == wait, "%s: %d %v", ref, r.status, r.header)
	}
	without := start(t, Config{Receipts: receiptFunc(func() (json.RawMessage, bool, error) {
		return nil, false, errors.New(secret)
	})})
	without.check(t, `{"domain":"example.com","receipt":true}`).
		is(t, "a check whose receipt cannot be read", 200, `,"receipt":null}`)
}

type receiptFunc func() (json.RawMessage, bool, error)

func (f receiptFunc) Receipt(context.Context, check.Caller, string, bool) (json.RawMessage, bool, error) {
	return f()
}

// reports knows every check but unknownRef, and records its calls.
type reports struct{ calls }

func (r *reports) Give(_ context.Context, c check.Caller, given feedback.Report) (*feedback.Kept, error) {
	if err := r.about(c.Account, given.Ref, "%s %s %q %s", given.Ref, given.Label, given.Note,
		valueOf(given.Entity)); err != nil {
		return nil, err
	}
	return &feedback.Kept{Ref: given.Ref, Type: "email", Label: given.Label, Scored: given.Entity != nil,
		Timestamp: privacy.Time{Time: atCheck}}, nil
}

func (r *reports) Revoke(_ context.Context, c check.Caller, ref string) error {
	if err := privacy.ValidateRef("ref", ref); err != nil {
		return err
	}
	return r.about(c.Account, ref, "revoke %s", ref)
}

func TestFeedback(t *testing.T) {
	t.Parallel()
	kept := &reports{}
	start(t, Config{Feedback: kept}).converse(t, &kept.calls, []dialog{
		{"POST /api/feedback", `{"ref":"` + knownRef + `","label":"fraud","note":"chargeback"}`,
			knownRef + ` fraud "chargeback"`,
			`{"ref":"` + knownRef + `","type":"email","label":"fraud","note":null,"scored":false,` +
				`"timestamp":"2026-01-15T10:30:00.123Z"}`},
		{"POST /api/feedback", `{"ref":"` + knownRef + `","label":"legitimate","phone":"0151 23456789",` +
			`"region":{"country":"DE"}}`, knownRef + ` legitimate "" +4915123456789`, ""},
		{"DELETE /api/feedback?ref=" + knownRef, "", "revoke " + knownRef, `{"ref":"` + knownRef + `","revoked":true}`},
	}, "chargeback", "15123456789")
}

const (
	knownOverride   = "ovr_01KF0HBGZ0Q8WJ3V5N7T9R2M4C"
	unknownOverride = "ovr_01KF0HBGZ0Q8WJ3V5N7T9R2M4D"
)

// verdicts knows every override but unknownOverride, and records its calls.
type verdicts struct{ calls }

func listedOverride(w override.Wanted, account string) override.Listed {
	return override.Listed{ID: knownOverride, Account: account, Action: w.Action, Kind: w.Target.Kind,
		Target: w.Target.Masked(), Reason: w.Reason, Author: w.Author, CreatedAt: privacy.Time{Time: atCheck},
		ExpiresAt: privacy.Time{Time: w.ExpiresAt}}
}

func (v *verdicts) AddOverride(_ context.Context, c check.Caller, w override.Wanted) (*override.Listed, error) {
	if err := w.Validate(atCheck); err != nil {
		return nil, fmt.Errorf("adding override: %w", err)
	}
	if w.Reason == "full" {
		return nil, fmt.Errorf("adding override: %w", override.TooManyError{})
	}
	l := listedOverride(w, c.Account)
	return &l, v.add(c.Account, "%s %s %s %q %q %s", w.Action, w.Target.Kind, w.Target.Value, w.Reason, w.Author,
		w.ExpiresAt.UTC().Format(time.DateOnly))
}

func (v *verdicts) Overrides(_ context.Context, account string) ([]override.Listed, error) {
	return []override.Listed{listedOverride(override.Wanted{Action: check.Block,
			Target: override.Target{Kind: override.Domain, Value: "example.com"}, ExpiresAt: atCheck}, account)},
		v.add(account, "list")
}

func (v *verdicts) RemoveOverride(_ context.Context, c check.Caller, id string) error {
	if id == unknownOverride {
		return fmt.Errorf("removing override: %w", override.ErrUnknown)
	}
	return v.add(c.Account, "remove %s", id)
}

func TestOverrides(t *testing.T) {
	t.Parallel()
	kept := &verdicts{}
	start(t, Config{Overrides: kept}).converse(t, &kept.calls, []dialog{
		{"POST /api/overrides", `{"action":"block","number_range":"+49 30 12","reason":"fraud ring","author":"Jo",` +
			`"expires_at":"2026-03-01T01:00:00+01:00"}`, `block number_range +493012 "fraud ring" "Jo" 2026-03-01`,
			`{"id":"` + knownOverride + `","action":"block","kind":"number_range","target":"+493... (6 digits)",` +
				`"reason":"fraud ring","author":"Jo","created_at":"2026-01-15T10:30:00.123Z",` +
				`"expires_at":"2026-03-01T00:00:00.000Z"}`},
		{"POST /api/overrides", `{"action":"allow","phone":"0151 23456789","region":{"country":"DE"},"reason":"a",` +
			`"expires_at":"2026-03-01T00:00:00Z"}`, `allow phone +4915123456789 "a" "" 2026-03-01`, ""},
		{"GET /api/overrides", "", "list", `{"overrides":[{"id":"` + knownOverride + `","action":"block",` +
			`"kind":"domain","target":"e...e.com","reason":"","author":"","created_at":"2026-01-15T10:30:00.123Z",` +
			`"expires_at":"2026-01-15T10:30:00.123Z"}]}`},
		{"DELETE /api/overrides?id=" + knownOverride, "", "remove " + knownOverride,
			`{"id":"` + knownOverride + `","removed":true}`},
	}, "fraud ring", "15123456789")
}
