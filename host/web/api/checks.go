package api

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/gofiber/fiber/v2"

	"assay/host/check"
	"assay/host/customer/decision"
	"assay/host/customer/privacy"
	"assay/host/entity"
)

const (
	searchPath   = "/api/checks/search"
	checksPrefix = "/api/checks/"
	checkRefPath = checksPrefix + "{ref}"
)

// Decisions reads an account's recorded checks and requests human reviews of them. Errors: check.ErrUnauthorized,
// feedback.ErrUnknownCheck, decision.ErrNoReview and *entity.InvalidError.
type Decisions interface {
	decision.Source
	decision.Records
	// MonthlyUsage returns the account's usage in the month that begins at the given instant.
	MonthlyUsage(ctx context.Context, c check.Caller, month time.Time) (*decision.Usage, error)
	// AskReview returns the review of a check, after requesting one if there is none.
	AskReview(ctx context.Context, c check.Caller, ref string, asking decision.Asking) (*privacy.Review, error)
	Review(ctx context.Context, c check.Caller, ref string) (*privacy.Review, error)
}

// searchChecks serves POST /api/checks/search. It is a POST because a value must not be part of a URL.
func (s *Server) searchChecks(c *fiber.Ctx) error {
	query := func() (decision.Query, error) { return read(c.Request(), decodeQuery) }
	return s.keyed(c, inSlot(s, c, query, s.cfg.Decisions.SearchChecks))
}

// showCheck serves GET /api/checks/{ref}.
func (s *Server) showCheck(c *fiber.Ctx) error {
	if s.knownPath(c.Context()) != checkRefPath { // the path of another endpoint, with another method
		return errMethod
	}
	ref := func() (string, error) {
		ref := strings.TrimPrefix(string(c.Context().URI().PathOriginal()), checksPrefix)
		return ref, privacy.ValidateRef("ref", ref)
	}
	find := func(work context.Context, caller check.Caller, ref string) (*decision.Details, error) {
		return s.cfg.Decisions.RecordedCheck(work, caller, ref, nil)
	}
	return s.keyed(c, inSlot(s, c, ref, find))
}

// selection has the fields that searches and exports share.
type selection struct {
	Verdict string `json:"verdict"`
	Type    string `json:"type"`
	Key     string `json:"key"`
	From    string `json:"from"`
	Until   string `json:"until"`
}

// query returns the query for a selection. The error is an *entity.InvalidError.
func (s selection) query() (q decision.Query, err error) {
	q = decision.Query{Verdict: check.Verdict(s.Verdict), Type: entity.Type(s.Type), Key: s.Key}
	if q.From, err = timeOf(s.From, "from"); err == nil {
		q.Until, err = timeOf(s.Until, "until")
	}
	return q, err
}

// decodeQuery reads a search. Errors are of type invalidBody or *entity.InvalidError.
func decodeQuery(body []byte) (q decision.Query, err error) {
	var b struct {
		values
		selection

		After string         `json:"after"`
		Limit jsontext.Value `json:"limit"`
	}
	if err := decodeObject(body, &b, strict); err != nil {
		return q, err
	}
	if q, err = b.query(); err != nil {
		return q, err
	}
	q.Limit = decision.DefaultPage
	if b.Limit != nil && b.Limit.Kind() != 'n' {
		q.Limit, _ = strconv.Atoi(string(b.Limit)) // 0, which is invalid, for anything but a whole number
	}
	if b.After != "" {
		if q.After, err = decision.ParseCursor(b.After); err != nil {
			return q, err
		}
	}
	if q.Entity, err = b.entity(); err != nil {
		return q, err
	}
	return q, q.Validate()
}

// timeOf returns the time that a field names, or the zero time if the field is empty.
func timeOf(text, field string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	t, err := time.Parse(time.RFC3339, text)
	if t = t.UTC(); err != nil || t.Year() < 1 || t.Year() > 9999 { // the database compares only years 1 to 9999
		return t, &entity.InvalidError{Field: field, Reason: "must be a time such as 2026-01-15T10:30:00Z"}
	}
	return t, nil
}
