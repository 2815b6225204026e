package store

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"assay/host/check"
	"assay/host/customer/decision"
	"assay/host/customer/feedback"
	"assay/host/customer/privacy"
	"assay/host/entity"
	"assay/host/store/postgres/postgrestest"
	"assay/host/store/storetest"
)

func settle(state string) decision.Settlement {
	return decision.Settlement{Reviewer: "Ana", State: state, Finding: "the address is ten years old"}
}

// A review is asked for once, taken by a person and settled once. An overturned verdict becomes feedback.
func TestReview(t *testing.T) {
	t.Parallel()
	now := noon
	s, l, caller := newVerified(t, func() time.Time { return now }, LedgerConfig{})
	for _, outcome := range []string{decision.Upheld, decision.Overturned} {
		e, contact := parse(t, entity.Email, outcome+"@example.net"), "support@example.net"
		ref := appendOne(t, l, decided(caller, e, check.Block))
		wantError(t, "before it is asked for", errOf(s.Review(t.Context(), caller, ref)), decision.ErrNoReview)
		wantError(t, "taking none", s.TakeReview(t.Context(), ref, "Ana"), decision.ErrNoReview)
		wantError(t, "settling none", s.SettleReview(t.Context(), ref, settle(outcome)), decision.ErrNoReview)
		want := &privacy.Review{Ref: ref, State: decision.Asked, Reason: "Jane says: <b>no</b>", Value: &e.Value,
			Contact: &contact, AskedAt: privacy.Time{Time: now}}
		noDiff(t, "asked", want, must(s.AskReview(t.Context(), caller, ref,
			decision.Asking{Reason: "Jane says: <b>no</b>", Contact: contact, Entity: &e}))(t))
		asked := now
		now = now.Add(time.Minute)
		again := decision.Asking{Reason: "another reason"}
		noDiff(t, "asked again", want, must(s.AskReview(t.Context(), caller, ref, again))(t))
		noDiff(t, "read", want, must(s.Review(t.Context(), caller, ref))(t))

		wantError(t, "settling what nobody has taken", s.SettleReview(t.Context(), ref, settle(outcome)),
			decision.ErrNotTaken)
		noError(t, s.TakeReview(t.Context(), ref, "Bob"))
		wantError(t, "settling what another has taken", s.SettleReview(t.Context(), ref, settle(outcome)),
			decision.ErrNotTaken)
		noError(t, s.TakeReview(t.Context(), ref, "Ana"))
		open := must(s.OpenReviews(t.Context(), 10))(t)
		waiting, oldest, err := s.ReviewBacklog(t.Context())
		holds(t, err == nil && waiting == 1 && oldest == time.Minute, "%d reviews have waited for %v, %v", waiting,
			oldest, err)
		holds(t, len(open) == 1 && open[0].Reviewer == "Ana" && open[0].Account == caller.Account &&
			open[0].Verdict == "block" && open[0].Reason == want.Reason, "open reviews: %+v", open)
		holds(t, open[0].Enclosed && open[0].Value == nil && open[0].Contact == nil, "listed: %+v", open[0])
		wantError(t, "opened by another", errOf(s.OpenCase(t.Context(), ref, "Bob")), decision.ErrNotTaken)
		opened := must(s.OpenCase(t.Context(), ref, "Ana"))(t)
		noDiff(t, "opened", []*string{&e.Value, &contact}, []*string{opened.Value, opened.Contact})
		noError(t, s.SettleReview(t.Context(), ref, settle(outcome)))
		at := privacy.Time{Time: now}
		noDiff(t, "settled", &privacy.Review{Ref: ref, State: outcome, Reason: want.Reason,
			AskedAt: privacy.Time{Time: asked}, TakenAt: &at, SettledAt: &at, Finding: new(settle(outcome).Finding)},
			must(s.AskReview(t.Context(), caller, ref, decision.Asking{Reason: "once more"}))(t))
		wantError(t, "settling again", s.SettleReview(t.Context(), ref, settle(decision.Upheld)), decision.ErrNotTaken)
		wantError(t, "opening again", errOf(s.OpenCase(t.Context(), ref, "Ana")), decision.ErrNotTaken)
		wantError(t, "taking again", s.TakeReview(t.Context(), ref, "Ana"), decision.ErrNotTaken)
		kept := must(s.Feedback(t.Context(), caller, ref, nil))(t)
		legitimate := kept != nil && kept.Label == feedback.Legitimate
		expect(t, "feedback on a verdict that was "+outcome, legitimate, outcome == decision.Overturned)
		expect(t, "open reviews", len(must(s.OpenReviews(t.Context(), 10))(t)), 0)
	}
	expect(t, "readable reasons", rowsOf(t, s, `reviews
		WHERE position('Jane says'::bytea in sealed_reason) > 0 OR position('ten years'::bytea in sealed_finding) > 0`),
		0)
}

// A settled review does not replace what the customer reported, and its owner is told once.
func TestSettledReviewKeepsFeedback(t *testing.T) {
	t.Parallel()
	s, l, caller := newVerified(t, nil, LedgerConfig{})
	ref := appendOne(t, l, decided(caller, parse(t, entity.Email, "jane@example.net"), check.Block))
	must(s.AskReview(t.Context(), caller, ref, decision.Asking{Reason: "Jane says no"}))(t)
	must(s.KeepFeedback(t.Context(), caller, feedback.Report{Ref: ref, Label: feedback.Fraud}, nil))(t)
	noError(t, s.TakeReview(t.Context(), ref, "Ana"))
	noError(t, s.EndReviewNotice(t.Context(), ref))
	expect(t, "settled reviews", len(must(s.ReviewNotices(t.Context()))(t)), 0)
	noError(t, s.SettleReview(t.Context(), ref, settle(decision.Overturned)))
	expect(t, "the customer's feedback", must(s.Feedback(t.Context(), caller, ref, nil))(t).Label, feedback.Fraud)
	untold := must(s.ReviewNotices(t.Context()))(t)
	holds(t, len(untold) == 1 && untold[0].Ref == ref && untold[0].AccountID == caller.Account, "settled: %+v", untold)
	noError(t, s.EndReviewNotice(t.Context(), ref))
	expect(t, "settled reviews whose owner was told", len(must(s.ReviewNotices(t.Context()))(t)), 0)
}

// An account with many reviews does not hide those of others.
func TestAccountsTakeTurnsInReviews(t *testing.T) {
	t.Parallel()
	s, l, many := newLedger(t, nil, LedgerConfig{})
	one := newCaller(t, s, plan(t, "pro", 10))
	for _, caller := range []check.Caller{many, many, many, one} {
		ref := appendOne(t, l, decided(caller, parse(t, entity.Email, "jane@example.net"), check.Block))
		must(s.AskReview(t.Context(), caller, ref, decision.Asking{Reason: "x"}))(t)
	}
	open := must(s.OpenReviews(t.Context(), 2))(t)
	holds(t, open[0].Account == many.Account && open[1].Account == one.Account, "listed: %+v", open)
}

func TestReviewsAndFeedbackOnOwnChecksOnly(t *testing.T) {
	t.Parallel()
	s, l, mine := newLedger(t, nil, LedgerConfig{})
	theirs := newCaller(t, s, plan(t, "pro", 10))
	e, other := parse(t, entity.Email, "jane@example.net"), parse(t, entity.Domain, "example.net")
	ref := appendOne(t, l, decided(mine, e, check.Review))
	harmless := appendOne(t, l, decided(mine, e, check.Allow))
	fraud := func(ref string) feedback.Report { return feedback.Report{Ref: ref, Label: feedback.Fraud} }
	plainly := decision.Asking{Reason: "x"}
	for name, test := range map[string]struct {
		caller check.Caller
		ref    string
	}{"another account's check": {theirs, ref}, "no check": {mine, check.NewRef()}} {
		for what, err := range map[string]error{
			"asking for a review":   errOf(s.AskReview(t.Context(), test.caller, test.ref, plainly)),
			"reading a review":      errOf(s.Review(t.Context(), test.caller, test.ref)),
			"giving feedback":       errOf(s.KeepFeedback(t.Context(), test.caller, fraud(test.ref), nil)),
			"reading feedback":      errOf(s.Feedback(t.Context(), test.caller, test.ref, &e)),
			"revoking feedback":     s.RevokeFeedback(t.Context(), test.caller, test.ref),
			"reading what is known": errOf(s.RecordedCheck(t.Context(), test.caller, test.ref, nil)),
		} {
			wantError(t, what+": "+name, err, feedback.ErrUnknownCheck)
		}
	}
	var invalid *entity.InvalidError
	for field, err := range map[string]error{
		"domain": errOf(s.Feedback(t.Context(), mine, ref, &other)),
		"email": errOf(s.AskReview(t.Context(), mine, appendOne(t, l, decided(mine, other, check.Block)),
			decision.Asking{Reason: "x", Entity: &e})),
		"contact":  errOf(s.AskReview(t.Context(), mine, ref, decision.Asking{Reason: "x", Contact: "a\x00"})),
		"ref":      errOf(s.AskReview(t.Context(), mine, harmless, decision.Asking{Reason: "x"})),
		"reason":   errOf(s.AskReview(t.Context(), mine, ref, decision.Asking{Reason: ""})),
		"reviewer": s.TakeReview(t.Context(), ref, " "),
		"state":    s.SettleReview(t.Context(), ref, settle(decision.Asked)),
		"finding":  s.SettleReview(t.Context(), ref, decision.Settlement{Reviewer: "Ana", State: decision.Upheld}),
	} {
		holds(t, errors.As(err, &invalid) && invalid.Field == field, "%s: %v", field, err)
	}
	noError(t, s.RevokeKey(t.Context(), mine.Key))
	wantError(t, "with a revoked key", errOf(s.KeepFeedback(t.Context(), mine, fraud(ref), nil)), check.ErrUnauthorized)
	expect(t, "reviews and feedback", one[int](t, s,
		"SELECT (SELECT count(*) FROM reviews) + (SELECT count(*) FROM feedback)"), 0)
}

func TestReviewAndFeedbackAreExportedErasedAndPruned(t *testing.T) {
	t.Parallel()
	now := day(2021, time.January, 5)
	s, l, caller := newLedger(t, func() time.Time { return now }, LedgerConfig{})
	contested := func(value string) string {
		ref := appendOne(t, l, at(decided(caller, parse(t, entity.Domain, value), check.Block), now))
		must(s.AskReview(t.Context(), caller, ref, decision.Asking{Reason: "x"}))(t)
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
	expect(t, "checks with reviews", one[string](t, s, "SELECT string_agg(ref, ' ') FROM reviews"), kept)
	expect(t, "checks with feedback", one[string](t, s, "SELECT string_agg(ref, ' ') FROM feedback"), kept)
	wantError(t, "a review of an erased check", errOf(s.AskReview(t.Context(), caller, erased,
		decision.Asking{Reason: "x"})), feedback.ErrUnknownCheck)
	wantError(t, "feedback on an erased check", errOf(s.KeepFeedback(t.Context(), caller,
		feedback.Report{Ref: erased, Label: feedback.Fraud}, nil)), feedback.ErrUnknownCheck)
}

// Reviews, feedback and erasures of one subject at once leave nothing about an erased check, and never deadlock.
func TestReviewsAndFeedbackDuringErasures(t *testing.T) {
	t.Parallel()
	s, l, caller := newVerified(t, nil, LedgerConfig{})
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
				err = errOf(s.AskReview(ctx, caller, ref, decision.Asking{Reason: "x"}))
				if err == nil {
					err = s.TakeReview(ctx, ref, "Ana")
				}
				if err == nil {
					err = s.SettleReview(ctx, ref, settle(decision.Overturned))
				}
			}
			return except(err, feedback.ErrUnknownCheck, decision.ErrNoReview, decision.ErrNotTaken)
		})
		noError(t, errors.Join(errs...))
		expect(t, "reviews left", rowsOf(t, s, "reviews"), 0)
		expect(t, "feedback left", rowsOf(t, s, "feedback"), 0)
	}
}

var layersOfShop = []feedback.Layer{{Name: "lexical", Version: "1.0.0", Score: -12, Signals: []string{"lexical:a:b"}}}

func keep(t *testing.T, s *Store, c check.Caller, r feedback.Report, layers []feedback.Layer) *feedback.Kept {
	t.Helper()
	return must(s.KeepFeedback(t.Context(), c, r, layers))(t)
}

func TestFeedbackIsKeptOncePerCheck(t *testing.T) {
	t.Parallel()
	s, l, caller := newLedger(t, func() time.Time { return noon }, LedgerConfig{})
	r := allowed(t, caller)
	ref := appendOne(t, l, r)
	at := privacy.Time{Time: noon}
	expect(t, "before any", must(s.Feedback(t.Context(), caller, ref, &r.Entity))(t), nil)
	keep(t, s, caller, feedback.Report{Ref: ref, Label: feedback.Fraud, Note: "charged back"}, layersOfShop)
	note := "charged back"
	noDiff(t, "kept", &feedback.Kept{Ref: ref, Type: "domain", Label: feedback.Fraud, Note: &note, Scored: true,
		Timestamp: at}, must(s.Feedback(t.Context(), caller, ref, nil))(t))
	again := keep(t, s, caller, feedback.Report{Ref: ref, Label: feedback.Legitimate}, nil)
	noDiff(t, "kept after another report", &feedback.Kept{Ref: ref, Type: "domain", Label: feedback.Legitimate,
		Scored: true, Timestamp: at}, again)
	noDiff(t, "labelled", []feedback.Labelled{{Type: entity.Domain, Label: feedback.Legitimate, Layers: layersOfShop}},
		must(s.Labelled(t.Context()))(t))
	exported := export(t, s, caller, privacy.Selector{Ref: ref})
	noDiff(t, "exported", &privacy.Feedback{Label: "legitimate", Timestamp: at}, exported.Checks[0].Feedback)
	noError(t, s.RevokeFeedback(t.Context(), caller, ref))
	noError(t, s.RevokeFeedback(t.Context(), caller, ref))
	expect(t, "after it was revoked", must(s.Feedback(t.Context(), caller, ref, nil))(t), nil)
	expect(t, "rows", rowsOf(t, s, "feedback"), 0)
}

// A label is one vote of its customer, however many checks and reports there are. It replaces the share of the
// customer's checks that were blocked, and the latest report decides.
func TestFeedbackIsOneVote(t *testing.T) {
	t.Parallel()
	g := newGraphTest(t, 3)
	e := g.domain("shop.example")
	refs := listOf(5, func(int) string { return appendOne(t, g.l, decided(g.customers[0], e, check.Allow)) })
	g.check(1, e, check.Allow)
	g.check(2, e, check.Block)
	expectShare := func(when string, want float64) {
		t.Helper()
		got := g.aggregate(e).BlockedShare
		holds(t, near(got, want), "%s: blocked share %.2f, want %.2f", when, got, want)
	}
	expectShare("before", 1.0/3)
	expect(t, "share of reports before", g.aggregate(e).Reported, 0)
	for i, ref := range refs {
		g.clock.Add(time.Second)
		keep(t, g.s, g.customers[0], feedback.Report{Ref: ref, Label: feedback.Fraud}, nil)
		expectShare("after a report of fraud", 2.0/3)
		got := g.aggregate(e).Reported
		holds(t, near(got, 1.0/3), "after a report of fraud: reported share %.2f, want 1/3", got)
		if i == 0 {
			keep(t, g.s, g.customers[0], feedback.Report{Ref: ref, Label: feedback.Legitimate}, nil)
			expectShare("after it was changed", 1.0/3)
		}
	}
	for i, ref := range refs[1:] {
		noError(t, g.s.RevokeFeedback(t.Context(), g.customers[0], ref))
		want := 2.0 / 3
		if i == len(refs)-2 {
			want = 1.0 / 3 // the changed report is left
		}
		expectShare("after revoking", want)
	}
	noError(t, g.s.RevokeFeedback(t.Context(), g.customers[0], refs[0]))
	expectShare("after revoking all", 1.0/3)
	g.check(0, e, check.Block)
	expectShare("after a block", (1+1.0/6)/3)
}

// If the reply to a change is lost, the error says that it may have happened; if it was not sent, that it did not.
func TestUnknownOutcomes(t *testing.T) {
	t.Parallel()
	p := proxied(t, postgrestest.Database(t))
	s := open(t, p.URL, nil)
	l := ledgerOn(t, s, LedgerConfig{})
	var caller check.Caller
	for name, change := range map[string]struct {
		function string
		run      func(ref string) error
		done     string // counts what it changed
	}{
		"feedback": {"give_feedback", func(ref string) error {
			return errOf(s.KeepFeedback(t.Context(), caller, feedback.Report{Ref: ref, Label: feedback.Fraud}, nil))
		}, "SELECT count(*) FROM feedback WHERE ref = ?"},
		"export": {"audit_export", func(ref string) error {
			return errOf(s.Export(t.Context(), caller, privacy.Selector{Ref: ref}, privacy.Page{Limit: 1}))
		}, `SELECT count(*) FROM audit_records AS e JOIN audit_records AS c USING (chain, pseudonym)
			WHERE e.kind = 'export' AND c.ref = ?`},
		"erasure": {"audit_erase", func(ref string) error {
			return errOf(s.Erase(t.Context(), caller, privacy.Selector{Ref: ref}))
		}, "SELECT 1 - count(*) FROM audit_records WHERE ref = ?"},
	} {
		caller = newCaller(t, s, plan(t, "pro", 100))
		ref := appendOne(t, l, allowed(t, caller))
		var refused *check.UnavailableError
		var doubt *check.DoubtError
		p.Set(nil, true)
		err := change.run(ref)
		holds(t, errors.As(err, &refused) && !errors.As(err, &doubt), "%s without a database: %v", name, err)
		p.Set(nil, false)
		expect(t, name+" without a database", one[int](t, s, change.done, ref), 0)
		hit := p.Once(storetest.Muted, true, func(m string) bool { return strings.Contains(m, change.function) })
		err = change.run(ref)
		holds(t, errors.As(err, &doubt) && !errors.As(err, &refused), "%s without a reply: %v", name, err)
		receive(t, "the lost reply", hit)
		p.Set(nil, false)
		until(t, name+" to take effect", func() bool { return one[int](t, s, change.done, ref) == 1 })
	}
}
