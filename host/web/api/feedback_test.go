package api

import (
	"context"
	"fmt"
	"testing"

	"assay/host/check"
	"assay/host/customer/feedback"
	"assay/host/customer/privacy"
)

// reports knows every check but unknownRef, and records its calls.
type reports struct{ calls }

func (r *reports) call(what, ref string, c check.Caller) error {
	if err := r.add(c.Account, "%s", what); err != nil || ref != unknownRef {
		return err
	}
	return fmt.Errorf("keeping feedback: %w", feedback.ErrUnknownCheck)
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
	kept := &reports{}
	start(t, Config{Feedback: kept}).converse(t, &kept.calls, []dialog{
		{"POST /api/feedback", `{"ref":"` + knownRef + `","label":"fraud","note":"chargeback"}`,
			knownRef + ` fraud "chargeback"`,
			`{"ref":"` + knownRef + `","type":"email","label":"fraud","note":null,"scored":false,` +
				`"timestamp":"2026-01-15T10:30:00.123Z"}`},
		{"POST /api/feedback", `{"ref":"` + knownRef + `","label":"legitimate","phone":"0151 23456789",` +
			`"region":{"country":"DE"}}`, knownRef + ` legitimate "" +4915123456789`, ""},
		{"DELETE /api/feedback?ref=" + knownRef, "", "revoke " + knownRef, `{"ref":"` + knownRef + `","revoked":true}`},
	}, "chargeback", "15123456789")
}
