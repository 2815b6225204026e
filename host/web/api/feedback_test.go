package api

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"assay/host/check"
	"assay/host/customer/feedback"
	"assay/host/customer/privacy"
	"assay/host/store/storetest"
)

// reports knows every check but unknownRef, and records its calls.
type reports struct {
	mu   sync.Mutex
	seen []string
}

func (r *reports) call(what, ref string, c check.Caller) error {
	r.mu.Lock()
	r.seen = append(r.seen, what)
	r.mu.Unlock()
	switch {
	case c.Account == failKey:
		return errors.New(secret)
	case ref == unknownRef:
		return fmt.Errorf("keeping feedback: %w", feedback.ErrUnknownCheck)
	}
	return nil
}

func (r *reports) Give(_ context.Context, c check.Caller, given feedback.Report) (*feedback.Kept, error) {
	value := ""
	if given.Entity != nil {
		value = given.Entity.Value
	}
	if err := r.call(fmt.Sprintf("%s %s %q %s", given.Ref, given.Label, given.Note, value), given.Ref, c); err != nil {
		return nil, err
	}
	return &feedback.Kept{Ref: given.Ref, Type: "email", Label: given.Label, Scored: given.Entity != nil,
		Timestamp: privacy.Time{Time: atCheck}}, nil
}

func (r *reports) Revoke(_ context.Context, c check.Caller, ref string) error {
	if err := privacy.ValidateRef("ref", ref); err != nil {
		return err
	}
	return r.call("revoke "+ref, ref, c)
}

func TestFeedback(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ request, body, call, answer string }{
		{"POST /api/feedback", `{"ref":"` + knownRef + `","label":"fraud","note":"chargeback"}`,
			knownRef + ` fraud "chargeback" `,
			`{"ref":"` + knownRef + `","type":"email","label":"fraud","note":null,"scored":false,` +
				`"timestamp":"2026-01-15T10:30:00.123Z"}`},
		{"POST /api/feedback", `{"ref":"` + knownRef + `","label":"legitimate","phone":"0151 23456789",` +
			`"region":{"country":"DE"}}`, knownRef + ` legitimate "" +4915123456789`, ""},
		{"DELETE /api/feedback?ref=" + knownRef, "", "revoke " + knownRef,
			`{"ref":"` + knownRef + `","revoked":true}`},
	} {
		t.Run(test.request+" "+test.body, func(t *testing.T) {
			t.Parallel()
			kept := &reports{}
			s := start(t, Config{Feedback: kept})
			method, path, _ := strings.Cut(test.request, " ")
			r := s.send(t, method, path, test.body, "Authorization", "Bearer "+goodKey)
			r.wellBehaved(t)
			if r.status != 200 || test.answer != "" && r.body != test.answer {
				t.Errorf("status %d: %s", r.status, r.body)
			}
			storetest.NoDiff(t, "calls", []string{test.call}, kept.seen)
			if log := s.log.text(); strings.Contains(log, "chargeback") || strings.Contains(log, "15123456789") {
				t.Errorf("the log contains the report: %s", log)
			}
		})
	}
}

func TestInvalidFeedback(t *testing.T) {
	t.Parallel()
	kept := &reports{}
	s := start(t, Config{Feedback: kept})
	valid := `{"ref":"` + knownRef + `","label":"fraud"`
	for body, want := range map[string]string{
		`{"label":"fraud"}`:          "ref: must be the reference of a check, chk_ and 26 characters",
		`{"ref":"` + knownRef + `"}`: `label: must be "fraud" or "legitimate"`,
		valid + `,"label":"fraud"}`:  "a name occurs twice in one object, near byte 55",
		valid + `,"note":7}`:         "note: must be a string, not a number",
		valid + `,"note":"\u0000"}`:  "note: contains control characters",
		valid + `,"domain":"a b"}`:   "domain: contains a space",
		valid + `,"domain":"a.com","email":"b@a.com"}`: "at most one of domain, email, phone or iban can be given: " +
			"the one that was scored",
	} {
		r := s.send(t, "POST", feedbackPath, body, "Authorization", "Bearer "+goodKey)
		if r.status != 400 || !strings.Contains(r.body, strings.ReplaceAll(want, `"`, `\"`)) {
			t.Errorf("%s: status %d: %s, want %s", body, r.status, r.body, want)
		}
	}
	if len(kept.seen) > 0 {
		t.Errorf("kept %v", kept.seen)
	}
}
