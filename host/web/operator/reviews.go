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
	// OpenReviews lists the reviews that are not settled: the oldest of each account, then the next of each.
	OpenReviews(ctx context.Context, limit int) ([]decision.Case, error)
	TakeReview(ctx context.Context, ref, reviewer string) error
	// OpenCase returns a review with the value and the contact to the person who has taken it.
	OpenCase(ctx context.Context, ref, reviewer string) (decision.Case, error)
	SettleReview(ctx context.Context, ref string, how decision.Settlement) error
}

const (
	reviewsPath = Path + "/reviews"
	maxListed   = 50       // reviews on the page; the next ones appear as these are settled
	maxReview   = 16 << 10 // bytes of a form
)

// listed is a review on the page, with a person's input about it and the reason why that was not accepted.
type listed struct {
	decision.Case
	Entry       entry
	Max         int                   // length of the finding
	Opened      bool                  // the person sees the value and the contact
	Explanation *decision.Explanation // nil: not opened, or not possible
}

type entry struct{ Field, Error, Reviewer, Finding string }

func (p *page) reviews(w http.ResponseWriter, r *http.Request) {
	if p.admits(w, r) {
		p.showReviews(w, r, http.StatusOK, listed{})
	}
}

// showReviews shows the open reviews, one of them with its details.
func (p *page) showReviews(w http.ResponseWriter, r *http.Request, status int, one listed) {
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
		if c.Ref == one.Ref {
			list[i].Entry, list[i].Opened, list[i].Explanation = one.Entry, one.Opened, one.Explanation
			c.Value, c.Contact = one.Value, one.Contact
		}
		list[i].Case, list[i].Max = c, decision.MaxReason
	}
	p.render(w, status, "reviews", view{"Title": "Reviews", "Cases": list, "Max": maxListed})
}

// changeReview takes a review, opens what the customer sent with it, or settles it.
func (p *page) changeReview(w http.ResponseWriter, r *http.Request) {
	if !p.admits(w, r) {
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxReview)
	ref := r.PathValue("ref")
	entered := entry{Reviewer: r.PostFormValue("reviewer"), Finding: r.PostFormValue("finding")}
	state := r.PostFormValue("state")
	var err error
	switch state {
	case decision.Taken:
		err = p.cfg.Reviews.TakeReview(r.Context(), ref, entered.Reviewer)
	case "open":
		var opened listed
		if opened, err = p.open(r.Context(), ref, entered.Reviewer); err == nil {
			p.cfg.Logger.Info("a reviewer opened what a customer sent", "ref", ref)
			if wantsJSON(r) {
				p.json(w, http.StatusOK, map[string]any{"review": opened.Case, "explanation": opened.Explanation})
			} else {
				p.showReviews(w, r, http.StatusOK, opened)
			}
			return
		}
	default:
		err = p.cfg.Reviews.SettleReview(r.Context(), ref, decision.Settlement{Reviewer: entered.Reviewer, State: state,
			Finding: entered.Finding})
	}
	var invalid *entity.InvalidError
	switch {
	case errors.As(err, &invalid) && wantsJSON(r):
		p.message(w, r, http.StatusBadRequest, "Invalid", invalid.Error())
	case errors.As(err, &invalid):
		entered.Field, entered.Error = invalid.Field, "The "+invalid.Field+" "+invalid.Reason+"."
		one := listed{Entry: entered}
		one.Ref = ref
		p.showReviews(w, r, http.StatusBadRequest, one)
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

// open returns a review with what the customer sent, and with the explanation of the check if that includes the value.
func (p *page) open(ctx context.Context, ref, reviewer string) (one listed, err error) {
	if one.Case, err = p.cfg.Reviews.OpenCase(ctx, ref, reviewer); err != nil || one.Value == nil {
		one.Opened = err == nil
		return one, err
	}
	one.Opened = true
	e, err := entity.Parse(entity.Type(one.Type), *one.Value, "")
	if err == nil {
		one.Explanation, err = p.cfg.Explain(ctx, one.Account, ref, e)
	}
	if err != nil { // the review can be settled without it
		p.cfg.Logger.Warn("a check is not explained to its reviewer", "ref", ref, "error", err)
	}
	return one, nil
}

func (p *page) failReview(w http.ResponseWriter, r *http.Request, err error) {
	p.cfg.Logger.Error("reading or changing reviews failed", "error", err)
	p.message(w, r, http.StatusServiceUnavailable, "Not available", "The reviews cannot be read or changed at the "+
		"moment. The host's log says why.")
}
