package store

import (
	"errors"
	"testing"
	"time"

	"assay/host/check"
	"assay/host/customer/feedback"
	"assay/host/customer/privacy"
	"assay/host/entity"
)

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
	before := must(s.Feedback(t.Context(), caller, ref, &r.Entity))(t)
	if before != nil {
		t.Errorf("before any: %+v", before)
	}
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
	if left := must(s.Feedback(t.Context(), caller, ref, nil))(t); left != nil {
		t.Errorf("after it was revoked: %+v", left)
	}
	expect(t, "rows", one[int](t, s, "SELECT count(*) FROM feedback"), 0)
}

func TestFeedbackOnOwnChecksOnly(t *testing.T) {
	t.Parallel()
	s, l, mine := newLedger(t, nil, LedgerConfig{})
	theirs := newCaller(t, s, plan(t, "pro", 10))
	r := allowed(t, mine)
	ref := appendOne(t, l, r)
	other := parse(t, entity.Domain, "example.net")
	var invalid *entity.InvalidError
	if _, err := s.Feedback(t.Context(), mine, ref, &other); !errors.As(err, &invalid) || invalid.Field != "domain" {
		t.Errorf("another value: %v, want an *entity.InvalidError of the domain", err)
	}
	for name, test := range map[string]struct {
		caller check.Caller
		ref    string
	}{
		"another account's check": {theirs, ref},
		"no check":                {mine, check.NewRef()},
	} {
		_, read := s.Feedback(t.Context(), test.caller, test.ref, &r.Entity)
		_, kept := s.KeepFeedback(t.Context(), test.caller, feedback.Report{Ref: test.ref, Label: feedback.Fraud}, nil)
		revoked := s.RevokeFeedback(t.Context(), test.caller, test.ref)
		for _, err := range []error{read, kept, revoked} {
			wantError(t, name, err, feedback.ErrUnknownCheck)
		}
	}
	noError(t, s.RevokeKey(t.Context(), mine.Key))
	_, err := s.KeepFeedback(t.Context(), mine, feedback.Report{Ref: ref, Label: feedback.Fraud}, nil)
	wantError(t, "with a revoked key", err, check.ErrUnauthorized)
	expect(t, "rows", one[int](t, s, "SELECT count(*) FROM feedback"), 0)
}

// A label is one vote of its customer, however many checks and reports there are. It replaces the share of the
// customer's checks that were blocked, and the latest report decides.
func TestFeedbackIsOneVote(t *testing.T) {
	t.Parallel()
	g := newGraphTest(t, 3)
	e := g.domain("shop.example")
	var refs []string
	for range 5 {
		refs = append(refs, appendOne(t, g.l, at(decided(g.customers[0], e, check.Allow), noon)))
	}
	g.check(1, e, check.Allow)
	g.check(2, e, check.Block)
	expectShare := func(when string, want float64) {
		t.Helper()
		if got := g.aggregate(e).BlockedShare; !near(got, want) {
			t.Errorf("%s: blocked share %.2f, want %.2f", when, got, want)
		}
	}
	expectShare("before", 1.0/3)
	expect(t, "share of reports before", g.aggregate(e).Reported, 0)
	for i, ref := range refs {
		g.advance(time.Second)
		keep(t, g.s, g.customers[0], feedback.Report{Ref: ref, Label: feedback.Fraud}, nil)
		expectShare("after a report of fraud", 2.0/3)
		if got := g.aggregate(e).Reported; !near(got, 1.0/3) {
			t.Errorf("after a report of fraud: reported share %.2f, want 1/3", got)
		}
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
