package operator_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"assay/host/customer/decision"
	"assay/host/customer/privacy"
	"assay/host/store/storetest"
	"assay/host/web/operator"
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

func (r *reviews) TakeReview(_ context.Context, of, reviewer string) error {
	if of != ref {
		return decision.ErrNoReview
	}
	if err := decision.ValidateReviewer(reviewer); err != nil {
		return err
	}
	r.calls = append(r.calls, "take "+reviewer)
	r.State, r.Reviewer = decision.Taken, reviewer
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
	h := newPage(t, nil, func(cfg *operator.Config) { cfg.Reviews = kept })
	const list, one = "/operator/reviews", "/operator/reviews/" + ref
	for _, method := range []string{"GET " + list, "POST " + one} {
		m, path, _ := strings.Cut(method, " ")
		body := ""
		if m == "POST" {
			body = reviewForm("taken", "Eve", "")
		}
		r, text := ask(t, h, m, path, body)
		want(t, method+" without a session", r, http.StatusOK, text, `name="token"`)
		if strings.Contains(text, "acct_1") || kept.calls != nil {
			t.Errorf("%s without a session: %v\n%s", method, kept.calls, text)
		}
	}
	cookie := signIn(t, h)
	r, text := ask(t, h, "GET", list, "", "Cookie", cookie)
	want(t, "the list", r, http.StatusOK, text, ref, "email with verdict block, 91 of 100", "acct_1",
		"&lt;script&gt;alert(1)", "Take the review")
	if strings.Contains(text, "<script>") || strings.Contains(text, "Uphold") {
		t.Errorf("the list runs scripts, or offers to settle what nobody has taken:\n%s", text)
	}
	r, text = ask(t, h, "POST", one, reviewForm("taken", "Ana", ""), "Cookie", cookie, "Sec-Fetch-Site", "cross-site")
	want(t, "from another site", r, http.StatusForbidden, text)
	r, text = ask(t, h, "POST", one, reviewForm("taken", " ", ""), "Cookie", cookie)
	want(t, "without a name", r, http.StatusBadRequest, text, "The reviewer is required.", `aria-invalid="true"`)
	r, text = ask(t, h, "POST", one, reviewForm("taken", "Ana", ""), "Cookie", cookie)
	want(t, "taking", r, http.StatusSeeOther, text)
	r, text = ask(t, h, "POST", one, reviewForm("upheld", "Bob", "x"), "Cookie", cookie)
	want(t, "settling what another has taken", r, http.StatusConflict, text, "another person has taken it")
	r, text = ask(t, h, "POST", one, reviewForm("overturned", "Ana", strings.Repeat("<&", 1001)), "Cookie", cookie)
	want(t, "a long finding", r, http.StatusBadRequest, text, "The finding is longer than 2000 bytes.", "&lt;&amp;",
		`aria-describedby="error-0"`, "Taken by <b><bdi>Ana")
	r, text = ask(t, h, "POST", one, reviewForm("allowed", "Ana", "x"), "Cookie", cookie)
	want(t, "an unknown state", r, http.StatusBadRequest, text, "must be upheld or overturned")
	r, text = ask(t, h, "POST", one, reviewForm("overturned", "Ana", "an old customer"), "Cookie", cookie)
	want(t, "settling", r, http.StatusSeeOther, text)
	r, text = ask(t, h, "GET", list, "", "Cookie", cookie)
	want(t, "the list afterwards", r, http.StatusOK, text, "No review is open.")
	storetest.NoDiff(t, "difference", []string{"take Ana", "overturned an old customer"}, kept.calls)
	r, text = ask(t, h, "POST", "/operator/reviews/chk_x", reviewForm("taken", "Ana", ""), "Cookie", cookie)
	want(t, "an unknown one", r, http.StatusNotFound, text)
	kept.err = errors.New("the database is away")
	r, text = ask(t, h, "GET", list, "", "Cookie", cookie)
	want(t, "without a database", r, http.StatusServiceUnavailable, text)
	if strings.Contains(text, "the database is away") {
		t.Errorf("the page shows the cause:\n%s", text)
	}
	kept.err, kept.State = nil, decision.Taken
	r, text = ask(t, h, "GET", list, "", "Authorization", "Bearer "+token, "Accept", "application/json")
	want(t, "JSON", r, http.StatusOK, text, `"ref": "`+ref+`"`, `"reviewer": "Ana"`)
}
