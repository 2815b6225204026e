package operator_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"assay/host/customer/decision"
	"assay/host/customer/privacy"
	"assay/host/entity"
	"assay/host/web/operator"
	"assay/registry/expect"
)

// reviews are one review that is open until it is settled.
type reviews struct {
	decision.Case
	calls []string
	err   error
}

const ref = "chk_01KF0HBGZ0Q8WJ3V5N7T9R2M4C"

func (r *reviews) OpenReviews(context.Context, int) ([]decision.Case, error) {
	if r.State == decision.Upheld || r.State == decision.Overturned {
		return nil, r.err
	}
	return []decision.Case{r.Case}, r.err
}

func (r *reviews) OpenCase(_ context.Context, of, reviewer string) (decision.Case, error) {
	if reviewer != r.Reviewer {
		return decision.Case{}, decision.ErrNotTaken
	}
	opened, value, contact := r.Case, "jane@example.net", "<b>support@example.net"
	opened.Value, opened.Contact = &value, &contact
	return opened, nil
}

// explain explains the value of reviews.
func explain(_ context.Context, account, of string, e entity.Entity) (*decision.Explanation, error) {
	if account != "acct_1" || of != ref || e.Value != "jane@example.net" {
		return nil, errors.New("another check")
	}
	return &decision.Explanation{Text: []string{"The name <i>imitates</i> a bank."}}, nil
}

func (r *reviews) TakeReview(_ context.Context, of, reviewer string) error {
	if of != ref {
		return decision.ErrNoReview
	}
	if err := decision.ValidateReviewer(reviewer); err != nil {
		return err
	}
	r.calls = append(r.calls, "take "+reviewer)
	r.State, r.Reviewer, r.TakenAt = decision.Taken, reviewer, &r.AskedAt
	return nil
}

func (r *reviews) SettleReview(_ context.Context, of string, how decision.Settlement) error {
	if err := how.Validate(); err != nil {
		return err
	}
	if how.Reviewer != r.Reviewer {
		return decision.ErrNotTaken
	}
	r.calls = append(r.calls, fmt.Sprint(how.State, " ", how.Finding))
	r.State = how.State
	return nil
}

func reviewForm(state, reviewer, finding string) string {
	return url.Values{"state": {state}, "reviewer": {reviewer}, "finding": {finding}}.Encode()
}

// A person takes a review and settles it; what a customer wrote is text on the page, and never logged.
func TestReviews(t *testing.T) {
	t.Parallel()
	kept := &reviews{Case: decision.Case{Review: privacy.Review{Ref: ref, State: decision.Asked,
		Reason: "<script>alert(1)</script>", AskedAt: privacy.Time{Time: now}}, Account: "acct_1", Type: "email",
		Score: 91, Verdict: "block", Timestamp: now.Format(time.RFC3339), Revision: 12}}
	kept.Enclosed = true
	h := newPage(t, nil, func(cfg *operator.Config) { cfg.Reviews, cfg.Explain = kept, explain })
	const list, one = "/operator/reviews", "/operator/reviews/" + ref
	for _, method := range []string{"GET " + list, "POST " + one} {
		m, path, _ := strings.Cut(method, " ")
		body := ""
		if m == "POST" {
			body = reviewForm("taken", "Eve", "")
		}
		r := ask(t, h, m, path, body).is(t, method+" without a session", 200, `name="token"`)
		expect.That(t, !strings.Contains(r.text, "acct_1") && kept.calls == nil, "%s without a session: %v\n%s", method,
			kept.calls, r.text)
	}
	cookie := signIn(t, h)
	r := ask(t, h, "GET", list, "", "Cookie", cookie).
		is(t, "the list", 200, ref, "email with verdict block, 91 of 100", "acct_1",
			"&lt;script&gt;alert(1)", "Take the review", "Asked for on <time")
	expect.That(t, !strings.Contains(r.text, "<script>") && !strings.Contains(r.text, "Uphold"),
		"the list runs scripts, or offers to settle what nobody has taken:\n%s", r.text)
	ask(t, h, "POST", one, reviewForm("taken", "Ana", ""), "Cookie", cookie, "Sec-Fetch-Site", "cross-site").
		is(t, "from another site", 403)
	ask(t, h, "POST", one, reviewForm("taken", " ", ""), "Cookie", cookie).
		is(t, "without a name", 400, "The reviewer is required.", `aria-invalid="true"`)
	ask(t, h, "POST", one, reviewForm("taken", "Ana", ""), "Cookie", cookie).is(t, "taking", 303)
	r = ask(t, h, "GET", list, "", "Cookie", cookie).is(t, "the list of a taken review", 200, "Show what the customer")
	expect.That(t, !strings.Contains(r.text, "jane@"), "the list shows the value:\n%s", r.text)
	ask(t, h, "POST", one, reviewForm("open", "Bob", ""), "Cookie", cookie).is(t, "opening another's", 409)
	ask(t, h, "POST", one, reviewForm("open", "Ana", ""), "Cookie", cookie).is(t, "opening", 200, "jane@example.net",
		"&lt;b&gt;support@example.net", "The name &lt;i&gt;imitates&lt;/i&gt; a bank.", "Uphold the verdict")
	ask(t, h, "POST", one, reviewForm("upheld", "Bob", "x"), "Cookie", cookie).
		is(t, "settling what another has taken", 409, "another person has taken it")
	ask(t, h, "POST", one, reviewForm("overturned", "Ana", strings.Repeat("<&", 1001)), "Cookie", cookie).
		is(t, "a long finding", 400, "The finding is longer than 2000 bytes.", "&lt;&amp;",
			`aria-describedby="error-0"`, "Taken by <b><bdi>Ana</bdi></b> on <time")
	ask(t, h, "POST", one, reviewForm("allowed", "Ana", "x"), "Cookie", cookie).
		is(t, "an unknown state", 400, "must be upheld or overturned")
	ask(t, h, "POST", one, reviewForm("overturned", "Ana", "an old customer"), "Cookie", cookie).is(t, "settling", 303)
	ask(t, h, "GET", list, "", "Cookie", cookie).is(t, "the list afterwards", 200, "No review is open.")
	expect.NoDiff(t, "difference", []string{"take Ana", "overturned an old customer"}, kept.calls)
	ask(t, h, "POST", "/operator/reviews/chk_x", reviewForm("taken", "Ana", ""), "Cookie", cookie).
		is(t, "an unknown one", 404)
	kept.err = errors.New("the database is away")
	r = ask(t, h, "GET", list, "", "Cookie", cookie).is(t, "without a database", 503)
	expect.That(t, !strings.Contains(r.text, "the database is away"), "the page shows the cause:\n%s", r.text)
	kept.err, kept.State = nil, decision.Taken
	ask(t, h, "GET", list, "", "Authorization", "Bearer "+token, "Accept", "application/json").
		is(t, "JSON", 200, `"ref": "`+ref+`"`, `"reviewer": "Ana"`)
}
