package console

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"

	"assay/host/check"
	"assay/host/customer/decision"
	"assay/host/customer/feedback"
	"assay/host/customer/override"
	"assay/host/entity"
)

// checkFilter is the form above the list of checks, as submitted.
type checkFilter struct{ Verdict, Type, Key, From, Until, Value, After string }

// readFilter reads the form: from the body of a POST, which may have a value, or else from the URL, which must not.
func readFilter(ctx *fiber.Ctx) checkFilter {
	get, value := query, ""
	if ctx.Method() == fiber.MethodPost {
		get, value = field, strings.TrimSpace(field(ctx, "value"))
	}
	return checkFilter{Verdict: get(ctx, "verdict"), Type: get(ctx, "type"), Key: get(ctx, "key"),
		From: get(ctx, "from"), Until: get(ctx, "until"), After: get(ctx, "after"), Value: value}
}

// query returns the search for the form. The error is an *entity.InvalidError.
func (f checkFilter) query() (q decision.Query, err error) {
	q = decision.Query{Verdict: check.Verdict(f.Verdict), Type: entity.Type(f.Type), Key: f.Key, Limit: checksPerPage}
	for _, day := range []struct {
		name, text string
		add        int
		into       *time.Time
	}{{"from", f.From, 0, &q.From}, {"until", f.Until, 1, &q.Until}} { // the last day is included
		if day.text == "" {
			continue
		}
		t, err := time.Parse(time.DateOnly, day.text)
		if err != nil || t.Year() < 1 {
			return q, &entity.InvalidError{Field: day.name, Reason: "must be a day such as 2026-01-31"}
		}
		*day.into = t.AddDate(0, 0, day.add)
	}
	if f.After != "" {
		if q.After, err = decision.ParseCursor(f.After); err != nil {
			return q, err
		}
	}
	if f.Value != "" {
		e, err := entity.Parse(cmp.Or(q.Type, entity.Auto), f.Value, "")
		if err != nil {
			return q, err
		}
		q.Entity = &e
	}
	return q, q.Validate()
}

// checks lists the account's checks.
func (c *Console) checks(ctx *fiber.Ctx, s *session) error {
	filter := readFilter(ctx)
	v := view{"Title": "Checks", "Filter": filter, "Filtered": filter != checkFilter{}, "Types": entity.Types()}
	p := c.panels(ctx)
	v["Keys"] = panel(p, "keys", s.Account, c.cfg.Store.Keys)
	q, err := filter.query()
	if invalid, ok := errors.AsType[*entity.InvalidError](err); ok {
		ctx.Status(fiber.StatusBadRequest)
		field := invalid.Field
		if slices.Contains(entity.Types(), entity.Type(field)) {
			field = "value"
		}
		v["Errors"] = map[string]string{field: describe(invalid)}
		return p.render("checks", s, v)
	}
	p.read("checks", func(work context.Context) error {
		page, err := c.cfg.Store.SearchChecks(work, s.holder(), q)
		if err != nil {
			return err
		}
		v["Checks"] = page.Checks
		if page.Next != nil {
			filter.After = *page.Next
			v["Next"] = filter
		}
		return nil
	})
	return p.render("checks", s, v)
}

// holder is the caller of requests that need only the account.
func (s *session) holder() check.Caller { return check.Caller{Account: s.Account, Plan: s.Plan} }

// checkForm holds what was entered on the page of a check, and why it was not accepted.
type checkForm struct {
	Form, Error                         string // Form is the one that was sent: why, feedback or review
	Invalid                             string // the input that Error is about
	Value, Country, Label, Note, Reason string
	Contact                             string
	Canonical                           string // the value as the check normalised it
	Explanation                         *decision.Explanation
	Today, Then                         []bar
}

// invalid returns the form's input at which an error about one of the API's fields is shown.
func (f checkForm) invalid(field string) string {
	switch {
	case f.Form == "why":
		return "value"
	case f.Form == "feedback":
		return "note"
	case field == "reason", field == "contact":
		return field
	}
	return "enclosed"
}

// bar is a reason with its length on the page.
type bar struct {
	decision.Reason
	Class  string // against or favour
	Length float64
	Max    float64 // the length of the longest bar
}

func bars(s *decision.Scoring) []bar {
	if s == nil {
		return nil
	}
	all := make([]bar, len(s.Reasons))
	for i, r := range s.Reasons { // the heaviest is the first
		all[i] = bar{r, "against", math.Abs(r.Points), math.Abs(s.Reasons[0].Points)}
		if r.Points < 0 {
			all[i].Class = "favour"
		}
	}
	return all
}

func (c *Console) check(ctx *fiber.Ctx, s *session) error { return c.showCheck(ctx, s, checkForm{}) }

func (c *Console) showCheck(ctx *fiber.Ctx, s *session, form checkForm) error {
	found, err := c.cfg.Store.RecordedCheck(work(ctx), s.holder(), ctx.Params("ref"), nil)
	if err != nil {
		return err
	}
	keys, err := c.cfg.Store.Keys(work(ctx), s.Account)
	c.warn("the page of a check shows the id of its key", err)
	now := c.cfg.Now().UTC()
	return c.render(ctx, "check", s, view{"Title": "Check", "Check": found, "KeyName": keyName(keys, found.Key),
		"Form": form, "Errors": map[string]string{form.Invalid: form.Error}, "MaxNote": feedback.MaxNote,
		"MaxReason": decision.MaxReason, "MaxContact": decision.MaxContact, "FirstDay": now,
		"PresetDay": now.AddDate(0, 0, 90),
		"LastDay":   now.Add(override.MaxAge - 24*time.Hour)})
}

// receipt sends the receipt of a check as a file.
func (c *Console) receipt(ctx *fiber.Ctx, s *session) error {
	receipt, _, err := c.cfg.Receipts.Receipt(work(ctx), s.holder(), ctx.Params("ref"), true)
	if err != nil {
		return err
	}
	ctx.Attachment("receipt.json") // also sets the content type
	return ctx.Send(append(receipt, '\n'))
}

// refuse shows the page of a check with the reason why a form on it was not accepted. It returns unexpected errors.
func (c *Console) refuse(ctx *fiber.Ctx, s *session, form checkForm, err error) error {
	if invalid, ok := errors.AsType[*entity.InvalidError](err); ok {
		form.Invalid = invalid.Field
	}
	form.Invalid = form.invalid(form.Invalid)
	if form.Error, err = refused(ctx, err); err != nil {
		return err
	}
	return c.showCheck(ctx, s, form)
}

// explain shows why a check scored as it did. The value is only in this request's body.
func (c *Console) explain(ctx *fiber.Ctx, s *session) error {
	form := checkForm{Form: "why", Value: strings.TrimSpace(field(ctx, "value")), Country: field(ctx, "country")}
	ref := ctx.Params("ref")
	e, err := c.checked(ctx, s, ref, form)
	if err == nil {
		form.Explanation, err = c.cfg.Explainer.Explain(work(ctx), s.holder(), ref, e)
	}
	if err != nil {
		return c.refuse(ctx, s, form, err)
	}
	form.Canonical = e.Value
	form.Today, form.Then = bars(form.Explanation.Today), bars(form.Explanation.DecidedBy)
	return c.showCheck(ctx, s, form)
}

// checked returns the value of a form as an entity of the check's type.
func (c *Console) checked(ctx *fiber.Ctx, s *session, ref string, form checkForm) (entity.Entity, error) {
	found, err := c.cfg.Store.RecordedCheck(work(ctx), s.holder(), ref, nil)
	if err != nil {
		return entity.Entity{}, err
	}
	return entity.Parse(entity.Type(found.Type), form.Value, form.Country)
}

// reportCheck saves feedback on a check. It needs a key, as the API does: a suspended account has no vote.
func (c *Console) reportCheck(ctx *fiber.Ctx, s *session) error {
	if s.key == "" {
		return check.ErrUnauthorized
	}
	form := checkForm{Form: "feedback", Label: field(ctx, "label"), Note: field(ctx, "note")}
	report := feedback.Report{Ref: ctx.Params("ref"), Label: feedback.Label(form.Label), Note: form.Note}
	if _, err := c.cfg.Feedback.Give(work(ctx), s.caller(), report); err != nil {
		return c.refuse(ctx, s, form, err)
	}
	return c.note(ctx, s, "/dashboard/checks/"+report.Ref,
		"The feedback is saved. It is your account's vote on the value.")
}

// askReview asks for a person's review of a check.
func (c *Console) askReview(ctx *fiber.Ctx, s *session) error {
	form := checkForm{Form: "review", Reason: field(ctx, "reason"), Contact: strings.TrimSpace(field(ctx, "contact")),
		Value: strings.TrimSpace(field(ctx, "value")), Country: field(ctx, "country")}
	ref, asking := ctx.Params("ref"), decision.Asking{Reason: form.Reason, Contact: form.Contact}
	if form.Value != "" {
		e, err := c.checked(ctx, s, ref, form)
		if err != nil {
			return c.refuse(ctx, s, form, err)
		}
		asking.Entity = &e
	}
	if _, err := c.cfg.Store.AskReview(work(ctx), s.holder(), ref, asking); err != nil {
		return c.refuse(ctx, s, form, err)
	}
	return c.note(ctx, s, "/dashboard/checks/"+ctx.Params("ref"),
		"The review has been requested. Its outcome will appear on this page.")
}
