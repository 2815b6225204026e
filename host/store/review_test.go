package store

import (
	"context"
	"errors"
	"testing"
	"time"

	"assay/host/check"
	"assay/host/customer/decision"
	"assay/host/customer/feedback"
	"assay/host/customer/privacy"
	"assay/host/entity"
)

func settle(state string) decision.Settlement {
	return decision.Settlement{Reviewer: "Ana", State: state, Finding: "the address is ten years old"}
}

// A review is asked for once, taken by a person and settled once. An overturned verdict becomes feedback.
func TestReview(t *testing.T) {
	t.Parallel()
	now := noon
	s, l, caller := newLedger(t, func() time.Time { return now }, LedgerConfig{})
	for _, outcome := range []string{decision.Upheld, decision.Overturned} {
		ref := appendOne(t, l, decided(caller, parse(t, entity.Email, outcome+"@example.net"), check.Block))
		_, err := s.Review(t.Context(), caller, ref)
		wantError(t, "before it is asked for", err, decision.ErrNoReview)
		wantError(t, "taking none", s.TakeReview(t.Context(), ref, "Ana"), decision.ErrNoReview)
		want := &privacy.Review{Ref: ref, State: decision.Asked, Reason: "Jane says: <b>no</b>",
			AskedAt: privacy.Time{Time: now}}
		noDiff(t, "asked", want, must(s.AskReview(t.Context(), caller, ref, "Jane says: <b>no</b>"))(t))
		asked := now
		now = now.Add(time.Minute)
		noDiff(t, "asked again", want, must(s.AskReview(t.Context(), caller, ref, "another reason"))(t))
		noDiff(t, "read", want, must(s.Review(t.Context(), caller, ref))(t))

		err = s.SettleReview(t.Context(), ref, settle(outcome))
		wantError(t, "settling what nobody has taken", err, decision.ErrNotTaken)
		noError(t, s.TakeReview(t.Context(), ref, "Bob"))
		err = s.SettleReview(t.Context(), ref, settle(outcome))
		wantError(t, "settling what another has taken", err, decision.ErrNotTaken)
		noError(t, s.TakeReview(t.Context(), ref, "Ana"))
		open := must(s.OpenReviews(t.Context(), 10))(t)
		waiting, oldest, err := s.ReviewBacklog(t.Context())
		if err != nil || waiting != 1 || oldest != time.Minute {
			t.Errorf("%d reviews have waited for %v, %v", waiting, oldest, err)
		}
		if len(open) != 1 || open[0].Reviewer != "Ana" || open[0].Account != caller.Account ||
			open[0].Verdict != "block" || open[0].Reason != want.Reason {
			t.Errorf("open reviews: %+v", open)
		}
		noError(t, s.SettleReview(t.Context(), ref, settle(outcome)))
		finding := settle(outcome).Finding
		at := privacy.Time{Time: now}
		noDiff(t, "settled", &privacy.Review{Ref: ref, State: outcome, Reason: want.Reason,
			AskedAt: privacy.Time{Time: asked}, TakenAt: &at, SettledAt: &at, Finding: &finding},
			must(s.AskReview(t.Context(), caller, ref, "once more"))(t))
		wantError(t, "settling again", s.SettleReview(t.Context(), ref, settle(decision.Upheld)), decision.ErrNotTaken)
		wantError(t, "taking again", s.TakeReview(t.Context(), ref, "Ana"), decision.ErrNotTaken)
		kept := must(s.Feedback(t.Context(), caller, ref, nil))(t)
		legitimate := kept != nil && kept.Label == feedback.Legitimate
		expect(t, "feedback on a verdict that was "+outcome, legitimate, outcome == decision.Overturned)
		expect(t, "open reviews", len(must(s.OpenReviews(t.Context(), 10))(t)), 0)
	}
	expect(t, "readable reasons", one[int](t, s, `SELECT count(*) FROM reviews
		WHERE position('Jane says'::bytea in sealed_reason) > 0 OR position('ten years'::bytea in sealed_finding) > 0`),
		0)
	verifyLedger(t, s)
}

func TestReviewOnOwnContestedChecksOnly(t *testing.T) {
	t.Parallel()
	s, l, mine := newLedger(t, nil, LedgerConfig{})
	theirs := newCaller(t, s, plan(t, "pro", 10))
	e := parse(t, entity.Email, "jane@example.net")
	ref := appendOne(t, l, decided(mine, e, check.Review))
	harmless := appendOne(t, l, decided(mine, e, check.Allow))
	for name, test := range map[string]struct {
		caller check.Caller
		ref    string
	}{"another account's check": {theirs, ref}, "no check": {mine, check.NewRef()}} {
		wantError(t, name, errOf(s.AskReview(t.Context(), test.caller, test.ref, "x")), feedback.ErrUnknownCheck)
		wantError(t, name, errOf(s.Review(t.Context(), test.caller, test.ref)), feedback.ErrUnknownCheck)
	}
	var invalid *entity.InvalidError
	for field, err := range map[string]error{
		"ref":      errOf(s.AskReview(t.Context(), mine, harmless, "x")),
		"reason":   errOf(s.AskReview(t.Context(), mine, ref, "")),
		"reviewer": s.TakeReview(t.Context(), ref, " "),
		"state":    s.SettleReview(t.Context(), ref, settle(decision.Asked)),
		"finding":  s.SettleReview(t.Context(), ref, decision.Settlement{Reviewer: "Ana", State: decision.Upheld}),
	} {
		if !errors.As(err, &invalid) || invalid.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
	expect(t, "reviews", one[int](t, s, "SELECT count(*) FROM reviews"), 0)
}

func TestReviewAndFeedbackAreExportedErasedAndPruned(t *testing.T) {
	t.Parallel()
	now := day(2021, time.January, 5)
	s, l, caller := newLedger(t, func() time.Time { return now }, LedgerConfig{})
	contested := func(value string) string {
		ref := appendOne(t, l, at(decided(caller, parse(t, entity.Domain, value), check.Block), now))
		must(s.AskReview(t.Context(), caller, ref, "x"))(t)
		keep(t, s, caller, feedback.Report{Ref: ref, Label: feedback.Fraud, Note: "Jane"}, layersOfShop)
		return ref
	}
	contested("old.example")
	now = day(2022, time.March, 10)
	kept, erased := contested("kept.example"), contested("erased.example")
	exported := export(t, s, caller, privacy.Selector{Ref: kept})
	noDiff(t, "exported", must(s.Review(t.Context(), caller, kept))(t), exported.Checks[0].Review)
	prune(t, s)
	erase(t, s, caller, privacy.Selector{Ref: erased})
	for _, table := range []string{"reviews", "feedback"} {
		expect(t, "checks with "+table, one[string](t, s, "SELECT string_agg(ref, ' ') FROM "+table), kept)
	}
	wantError(t, "a review of an erased check", errOf(s.AskReview(t.Context(), caller, erased, "x")),
		feedback.ErrUnknownCheck)
	wantError(t, "feedback on an erased check", errOf(s.KeepFeedback(t.Context(), caller,
		feedback.Report{Ref: erased, Label: feedback.Fraud}, nil)), feedback.ErrUnknownCheck)
}

// Requests for reviews, their outcomes, feedback and erasures of one subject at once leave nothing about an erased
// check, and never deadlock.
func TestReviewsAndFeedbackDuringErasures(t *testing.T) {
	t.Parallel()
	s, l, caller := newLedger(t, nil, LedgerConfig{})
	e := parse(t, entity.Domain, "example.org")
	for range 20 {
		ref := appendOne(t, l, decided(caller, e, check.Block))
		errs := concurrently(6, func(i int) error {
			ctx := context.Background()
			var err error
			switch {
			case i == 0:
				return errOf(s.Erase(ctx, caller, about(e)))
			case i < 3:
				err = errOf(s.KeepFeedback(ctx, caller, feedback.Report{Ref: ref, Label: feedback.Fraud}, layersOfShop))
			default:
				err = errOf(s.AskReview(ctx, caller, ref, "x"))
				if err == nil {
					err = s.TakeReview(ctx, ref, "Ana")
				}
				if err == nil {
					err = s.SettleReview(ctx, ref, settle(decision.Overturned))
				}
			}
			for _, ended := range []error{feedback.ErrUnknownCheck, decision.ErrNoReview, decision.ErrNotTaken} {
				if errors.Is(err, ended) {
					return nil
				}
			}
			return err
		})
		noError(t, errors.Join(errs...))
		expect(t, "reviews left", one[int](t, s, "SELECT count(*) FROM reviews"), 0)
		expect(t, "feedback left", one[int](t, s, "SELECT count(*) FROM feedback"), 0)
	}
	verifyLedger(t, s)
}
