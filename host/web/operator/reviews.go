package operator

import (
	"context"
	"errors"
	"net/http"

	"assay/host/customer/decision"
	"assay/host/entity"
)

// Reviews stores customers' requests for a human review, which people settle on the page. Errors: decision.ErrNoReview,
// decision.ErrNotTaken and *entity.InvalidError.
type Reviews interface {
	// OpenReviews lists the reviews that are not settled, oldest first.
	OpenReviews(ctx context.Context, limit int) ([]decision.Case, error)
	TakeReview(ctx context.Context, ref, reviewer string) error
	SettleReview(ctx context.Context, ref string, how decision.Settlement) error
}

const (
	reviewsPath = Path + "/reviews"
	maxListed   = 50       // reviews on the page; the next ones appear as these are settled
	maxReview   = 16 << 10 // bytes of a form
)

// listed is a review on the page, with what somebody entered about it and why that was not accepted.
type listed struct {
	decision.Case
	Entry entry
	Max   int // length of the finding
}

type entry struct{ Field, Error, Reviewer, Finding string }

func (p *page) reviews(w http.ResponseWriter, r *http.Request) {
	if p.admits(w, r) {
		p.showReviews(w, r, http.StatusOK, "", entry{})
	}
}

func (p *page) showReviews(w http.ResponseWriter, r *http.Request, status int, ref string, entered entry) {
	cases, err := p.cfg.Reviews.OpenReviews(r.Context(), maxListed)
	if err != nil {
		p.failReview(w, r, err)
		return
	}
	if wantsJSON(r) {
		p.json(w, status, map[string]any{"reviews": cases})
		return
	}
	list := make([]listed, len(cases))
	for i, c := range cases {
		if list[i] = (listed{Case: c, Max: decision.MaxReason}); c.Ref == ref {
			list[i].Entry = entered
		}
	}
	p.render(w, status, "reviews", view{"Title": "Reviews", "Cases": list, "Max": maxListed})
}

// changeReview takes a review or settles it.
func (p *page) changeReview(w http.ResponseWriter, r *http.Request) {
	if !p.admits(w, r) {
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxReview)
	ref := r.PathValue("ref")
	entered := entry{Reviewer: r.PostFormValue("reviewer"), Finding: r.PostFormValue("finding")}
	state := r.PostFormValue("state")
	var err error
	if state == decision.Taken {
		err = p.cfg.Reviews.TakeReview(r.Context(), ref, entered.Reviewer)
	} else {
		err = p.cfg.Reviews.SettleReview(r.Context(), ref, decision.Settlement{Reviewer: entered.Reviewer, State: state,
			Finding: entered.Finding})
	}
	var invalid *entity.InvalidError
	switch {
	case errors.As(err, &invalid) && wantsJSON(r):
		p.message(w, r, http.StatusBadRequest, "Invalid", invalid.Error())
	case errors.As(err, &invalid):
		entered.Field, entered.Error = invalid.Field, "The "+invalid.Field+" "+invalid.Reason+"."
		p.showReviews(w, r, http.StatusBadRequest, ref, entered)
	case errors.Is(err, decision.ErrNoReview):
		p.message(w, r, http.StatusNotFound, "Not found", "There is no such review: its check may have been erased.")
	case errors.Is(err, decision.ErrNotTaken):
		p.message(w, r, http.StatusConflict, "Not changed", "The review is settled, or another person has taken it.")
	case err != nil:
		p.failReview(w, r, err)
	default:
		p.cfg.Logger.Info("a review was changed", "ref", ref, "state", state)
		http.Redirect(w, r, reviewsPath, http.StatusSeeOther)
	}
}

func (p *page) failReview(w http.ResponseWriter, r *http.Request, err error) {
	p.cfg.Logger.Error("reading or changing reviews failed", "error", err)
	p.message(w, r, http.StatusServiceUnavailable, "Not available", "The reviews cannot be read or changed at the "+
		"moment. The host's log says why.")
}
