package console

import (
	"context"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html/atom"

	"assay/host/check"
	"assay/host/customer/decision"
	"assay/host/entity"
	"assay/host/store"
	"assay/registry/expect"
)

// explained explains every check alike, to those who know the value.
type explained struct{ *store.Store }

func (x explained) Explain(ctx context.Context, c check.Caller, ref string, e entity.Entity) (
	*decision.Explanation, error,
) {
	found, err := x.RecordedCheck(ctx, c, ref, &e)
	if err != nil {
		return nil, err
	}
	return &decision.Explanation{Check: found.Check, Text: []string{"Because <i>of</i> this."},
		DecidedBy: &decision.Scoring{Revision: 12, Score: 91, Verdict: "block", Start: -40, Total: 33.4,
			Reasons: []decision.Reason{{Text: "Imitates <b>PayPal</b>", Layer: "brands", Points: 80},
				{Text: "Registered since 2009", Layer: "age", Points: -6.6, Today: true}},
			Unknown: []string{"Scored without DNS: no answer in time"}},
		Today: &decision.Scoring{Revision: 13, Score: 20, Verdict: "allow", Start: -20, Total: -20}}, nil
}

// testCheckPage finds a check, has it explained, and reports, overrides and contests it, without JavaScript and without
// the value in any URL.
func testCheckPage(t *testing.T, s *site) {
	v, key := s.customer(t, "free")
	const jane = "jane.roe@example.net"
	ref := s.record(t, key, entity.Email, jane, check.Block)
	harmless := s.record(t, key, entity.Domain, "example.org", check.Allow)
	v.get("/dashboard")
	v.follow(ref).is(200, "of 100 block email,")
	v.is(200, "its content matches its hash Checkpoint no published checkpoint covers this record yet")
	v.is(200, "Webhook no event")
	v.press("Explain", "value", "john.roe@example.net").is(400, "The email is not the value of this check.")
	v.press("Explain", "value", "@").is(400, "The email ")
	v.press("Explain", "value", " Jane.Roe@example.net ")
	v.is(200, "Because <i>of</i> this. Under the lineup that decided, revision 12")
	v.is(200, "Baseline, before any finding −40.0 Imitates <b>PayPal</b> brands +80.0 Registered since 2009 age, with "+
		"today's facts −6.6 Total: a score of 91, block +33.4 What was not known Scored without DNS: no answer in "+
		"time Under today's lineup, revision 13")
	expect.That(t, !strings.Contains(v.at.body, "<b>PayPal") && !strings.Contains(v.at.url.String(), "jane"),
		"the page runs markup, or the value is in its URL")
	lengths := map[string]string{}
	for n := range v.at.root.Descendants() {
		if n.DataAtom == atom.Progress && attribute(n, "aria-hidden") != "" {
			lengths[attribute(n, "class")] = attribute(n, "value") + " of " + attribute(n, "max")
		}
	}
	expect.That(t, lengths["against"] == "80 of 80" && lengths["favour"] == "6.6 of 80" && len(lengths) == 2, "bars %v",
		lengths)
	day := s.clock.Load().UTC().AddDate(0, 0, 30).Format(time.DateOnly)
	v.press("Save", "action", "allow", "reason", "refunded", "until", day)
	v.is(200, "allow j...@example.net Email address", "refunded")

	v.get("/dashboard/checks/" + ref)
	v.press("Report", "label", "fraud", "note", strings.Repeat("x", 501)).is(400, "The note is longer than 500 bytes.")
	v.press("Report", "label", "legitimate", "note", "an <b>old</b> customer")
	v.is(200, "The feedback is saved.", "You reported this value as legitimate on", "Note: an <b>old</b> customer")
	v.press("Ask for a review", "reason", " ").is(400, "The reason is required.")
	v.press("Ask for a review", "reason", "x", "value", "john.roe@example.net").is(400, "The email is not the value of")
	v.press("Ask for a review", "reason", "x", "contact", strings.Repeat("x", 201)).is(400, "The contact is longer than")
	v.press("Ask for a review", "reason", "She says: <b>no</b>", "value", jane, "contact", "<b>Jane")
	v.is(200, "The review has been requested.", "asked Requested on", "She says: <b>no</b>", "Sent for the reviewer: "+jane,
		"Contact: <b>Jane")
	v.lacks("Ask for a review")
	const reviewer = "Ana of the reviewers"
	how := decision.Settlement{Reviewer: reviewer, State: decision.Upheld, Finding: "The account is a mule's."}
	expect.NoError(t, s.store.TakeReview(t.Context(), ref, reviewer))
	expect.NoError(t, s.store.SettleReview(t.Context(), ref, how))
	v.get("/dashboard/checks/"+ref).is(200, "Upheld on", "The reviewer's finding The account is a mule's.")
	v.lacks(reviewer)
	v.get("/dashboard/checks/"+harmless).is(200, "Only review and block verdicts can be contested.")

	other, _ := s.customer(t, "pro")
	token := other.at.token()
	for _, request := range []func() page{
		func() page { return other.get("/dashboard/checks/" + ref) },
		func() page { return other.post("/dashboard/checks/"+ref+"/explain", "csrf", token, "value", jane) },
		func() page { return other.post("/dashboard/checks/"+ref+"/feedback", "csrf", token, "label", "fraud") },
		func() page { return other.post("/dashboard/checks/"+ref+"/review", "csrf", token, "reason", "x") },
	} {
		if p := request(); p.status != 404 || strings.Contains(p.body, ref) {
			t.Errorf("%s of another account: %d\n%s", p.url, p.status, words(p.root))
		}
	}
}

// TestChecksPage filters the list and turns its pages, by a value with forms only.
func TestChecksPage(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	v, key := s.customer(t, "free")
	var refs []string
	for i := range checksPerPage + 2 {
		verdict := check.Allow
		if i < 2 {
			verdict = check.Block
		}
		refs = append(refs, s.record(t, key, entity.Email, "jane@example.net", verdict))
		s.pass(time.Millisecond)
	}
	other := s.record(t, key, entity.Domain, "example.org", check.Review)
	has := func(what string, want ...string) {
		t.Helper()
		for _, ref := range append(refs, other) {
			shown, wanted := strings.Contains(v.at.body, ref), false
			for _, w := range want {
				wanted = wanted || w == ref
			}
			expect.That(t, shown == wanted, "%s: check %s is shown: %v, want %v", what, ref, shown, wanted)
		}
	}
	newest := append(append([]string{}, refs[3:]...), other)
	v.get("/dashboard/checks")
	has("the first page", newest...)
	v.follow("Older")
	has("the second page", refs[:3]...)
	v.follow("All checks, newest first")
	v.press("Find", "verdict", "block")
	has("blocked checks", refs[:2]...)
	v.press("Find", "verdict", "", "value", "Jane@example.net")
	has("the first page of a value", refs[2:]...)
	v.press("Older")
	has("the second page of a value", refs[:2]...)
	expect.That(t, v.at.url.RawQuery == "", "the value is in the URL %s", v.at.url)
	v.press("Find", "value", "", "type", "domain")
	has("domains", other)
	today := s.clock.Load().UTC().Format(time.DateOnly)
	v.press("Find", "value", "", "type", "domain", "from", today, "until", today)
	has("domains of today", other)
	v.press("Find", "type", "", "value", "", "from", "2020-01-01", "until", "2020-01-02").is(200, "No check matches.")
	v.press("Find", "value", "a b@@c", "type", "email").is(400, "The email ")
	v.press("Find", "value", "", "type", "", "from", "soon").is(400, "The first day must be a day such as 2026-01-31.")
}
