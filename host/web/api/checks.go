package api

import (
	"context"
	"strconv"
	"strings"
	"time"

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
	decision.Searcher
	decision.Counter
	decision.Records
	// MonthlyUsage returns the account's usage in the month that begins at the given instant.
	MonthlyUsage(ctx context.Context, c check.Caller, month time.Time) (*decision.Usage, error)
	// AskReview returns the review of a check, after requesting one if there is none.
	AskReview(ctx context.Context, c check.Caller, ref string, asking decision.Asking) (*privacy.Review, error)
	Review(ctx context.Context, c check.Caller, ref string) (*privacy.Review, error)
}

// searchChecks serves POST /api/checks/search. It is a POST because a value must not be part of a URL.
func (s *Server) searchChecks(c *fiber.Ctx) error {
	return s.keyed(c, func(work context.Context, caller check.Caller) error {
		q, err := read(c.Request(), decodeQuery)
		if err != nil {
			return err
		}
		return s.shared(s.events, caller, func() error {
			page, err := s.cfg.Decisions.SearchChecks(work, caller, q)
			return s.reply(c, page, err)
		})
	})
}

// showCheck serves GET /api/checks/{ref}.
func (s *Server) showCheck(c *fiber.Ctx) error {
	if s.knownPath(c.Context()) != checkRefPath { // that of another endpoint, with another method
		return errMethod
	}
	return s.keyed(c, func(work context.Context, caller check.Caller) error {
		ref := strings.TrimPrefix(string(c.Context().URI().PathOriginal()), checksPrefix)
		if err := privacy.ValidateRef("ref", ref); err != nil {
			return err
		}
		return s.shared(s.events, caller, func() error {
			found, err := s.cfg.Decisions.RecordedCheck(work, caller, ref, nil)
			return s.reply(c, found, err)
		})
	})
}

// decodeQuery reads a search as strictly as a check request. Errors are of type invalidBody or *entity.InvalidError.
func decodeQuery(body []byte) (q decision.Query, err error) {
	members, err := decodeObject(body, "")
	if err != nil {
		return q, err
	}
	if q, err = readSelection(members.text); err != nil {
		return q, err
	}
	after, err := members.text("after")
	if err != nil {
		return q, err
	}
	q.Limit = decision.DefaultPage
	if limit := members["limit"]; limit != nil {
		q.Limit, _ = strconv.Atoi(string(limit)) // 0, which is invalid, for everything but a whole number
	}
	if after != "" {
		if q.After, err = decision.ParseCursor(after); err != nil {
			return q, err
		}
	}
	if q.Entity, err = members.value(); err != nil {
		return q, err
	}
	return q, q.Validate()
}

// readSelection reads the fields of a query that searches and exports have in common.
func readSelection(text func(name string) (string, error)) (q decision.Query, err error) {
	texts, err := textsOf(text, "verdict", "type", "key", "from", "until")
	if err != nil {
		return q, err
	}
	q = decision.Query{Verdict: check.Verdict(texts[0]), Type: entity.Type(texts[1]), Key: texts[2]}
	if q.From, err = timeOf(texts[3], "from"); err == nil {
		q.Until, err = timeOf(texts[4], "until")
	}
	return q, err
}

// timeOf returns the time that a field names, or the zero time if the field is empty.
func timeOf(text, field string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil || t.Year() < 1 || t.Year() > 9999 {
		return t, &entity.InvalidError{Field: field, Reason: "must be a time such as 2026-01-15T10:30:00Z"}
	}
	return t.UTC(), nil
}

// value returns the entity that a body names by its value, or nil if it names none.
func (members object) value() (*entity.Entity, error) {
	country, err := members.country()
	if err != nil {
		return nil, err
	}
	var found *entity.Entity
	for _, t := range entity.Types() {
		value := members[string(t)]
		if value == nil {
			continue
		}
		if found != nil {
			return nil, invalidBody("at most one of domain, email, phone or iban can be given: the one that was scored")
		}
		text, err := textOf(value, string(t))
		if err != nil {
			return nil, err
		}
		e, err := entity.Parse(t, text, country)
		if err != nil {
			return nil, err
		}
		found = &e
	}
	return found, nil
}
