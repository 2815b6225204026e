package store

import (
	"errors"
	"strings"
	"testing"

	"assay/host/check"
	"assay/host/customer/feedback"
	"assay/host/customer/privacy"
	"assay/host/store/postgres/postgrestest"
	"assay/host/store/storetest"
)

// If the reply to a change is lost, the error says that it may have taken effect. If the change was not sent, the error
// says that nothing was stored.
func TestUnknownOutcomes(t *testing.T) {
	t.Parallel()
	url := postgrestest.Database(t)
	p := proxied(t, url)
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
		if err := change.run(ref); !errors.As(err, &refused) || errors.As(err, &doubt) {
			t.Errorf("%s without a database: %v", name, err)
		}
		p.Set(nil, false)
		expect(t, name+" without a database", one[int](t, s, change.done, ref), 0)
		hit := p.Once(storetest.Muted, true, func(m string) bool { return strings.Contains(m, change.function) })
		if err := change.run(ref); !errors.As(err, &doubt) || errors.As(err, &refused) {
			t.Errorf("%s without a reply: %v", name, err)
		}
		receive(t, "the lost reply", hit)
		p.Set(nil, false)
		until(t, name+" to take effect", func() bool { return one[int](t, s, change.done, ref) == 1 })
	}
}
