package api

import (
	"context"
	"fmt"
	"testing"
	"time"

	"assay/host/check"
	"assay/host/customer/feedback"
	"assay/host/customer/override"
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

const (
	knownOverride   = "ovr_01KF0HBGZ0Q8WJ3V5N7T9R2M4C"
	unknownOverride = "ovr_01KF0HBGZ0Q8WJ3V5N7T9R2M4D"
)

// verdicts knows every override but unknownOverride, and records its calls.
type verdicts struct{ calls }

func listedOverride(w override.Wanted, account string) override.Listed {
	return override.Listed{ID: knownOverride, Account: account, Action: w.Action, Kind: w.Target.Kind,
		Target: w.Target.Masked(), Reason: w.Reason, Author: w.Author, CreatedAt: privacy.Time{Time: atCheck},
		ExpiresAt: privacy.Time{Time: w.ExpiresAt}}
}

func (v *verdicts) AddOverride(_ context.Context, c check.Caller, w override.Wanted) (*override.Listed, error) {
	if err := w.Validate(atCheck); err != nil {
		return nil, fmt.Errorf("adding override: %w", err)
	}
	if w.Reason == "full" {
		return nil, fmt.Errorf("adding override: %w", override.TooManyError{})
	}
	l := listedOverride(w, c.Account)
	return &l, v.add(c.Account, "%s %s %s %q %q %s", w.Action, w.Target.Kind, w.Target.Value, w.Reason, w.Author,
		w.ExpiresAt.UTC().Format(time.DateOnly))
}

func (v *verdicts) Overrides(_ context.Context, account string) ([]override.Listed, error) {
	return []override.Listed{listedOverride(override.Wanted{Action: check.Block,
			Target: override.Target{Kind: override.Domain, Value: "example.com"}, ExpiresAt: atCheck}, account)},
		v.add(account, "list")
}

func (v *verdicts) RemoveOverride(_ context.Context, c check.Caller, id string) error {
	if id == unknownOverride {
		return fmt.Errorf("removing override: %w", override.ErrUnknown)
	}
	return v.add(c.Account, "remove %s", id)
}

func TestOverrides(t *testing.T) {
	t.Parallel()
	kept := &verdicts{}
	start(t, Config{Overrides: kept}).converse(t, &kept.calls, []dialog{
		{"POST /api/overrides", `{"action":"block","number_range":"+49 30 12","reason":"fraud ring","author":"Jo",` +
			`"expires_at":"2026-03-01T01:00:00+01:00"}`, `block number_range +493012 "fraud ring" "Jo" 2026-03-01`,
			`{"id":"` + knownOverride + `","action":"block","kind":"number_range","target":"+493... (6 digits)",` +
				`"reason":"fraud ring","author":"Jo","created_at":"2026-01-15T10:30:00.123Z",` +
				`"expires_at":"2026-03-01T00:00:00.000Z"}`},
		{"POST /api/overrides", `{"action":"allow","phone":"0151 23456789","region":{"country":"DE"},"reason":"a",` +
			`"expires_at":"2026-03-01T00:00:00Z"}`, `allow phone +4915123456789 "a" "" 2026-03-01`, ""},
		{"GET /api/overrides", "", "list", `{"overrides":[{"id":"` + knownOverride + `","action":"block",` +
			`"kind":"domain","target":"e...e.com","reason":"","author":"","created_at":"2026-01-15T10:30:00.123Z",` +
			`"expires_at":"2026-01-15T10:30:00.123Z"}]}`},
		{"DELETE /api/overrides?id=" + knownOverride, "", "remove " + knownOverride,
			`{"id":"` + knownOverride + `","removed":true}`},
	}, "fraud ring", "15123456789")
}
