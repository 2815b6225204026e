package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/gofiber/fiber/v2"

	"assay/host/check"
	"assay/host/entity"
)

const batchPath = "/api/check/batch"

// checkBatch serves POST /api/check/batch. An invalid request gets an error in its place.
func (s *Server) checkBatch(c *fiber.Ctx) error {
	return paced(s.admitted(c, s.cfg.Timeout, func(work context.Context, caller check.Caller) error {
		return s.shared(s.batches, caller, func() error { return s.answerBatch(work, c, caller) })
	}))
}

func (s *Server) answerBatch(work context.Context, c *fiber.Ctx, caller check.Caller) error {
	items, err := read(c.Request(), decodeBatch)
	if err != nil {
		return err
	}
	_, err = s.answerOnce(work, c.Context(), caller, renderBatch, func(once *check.Once) ([]check.Answer, error) {
		return s.cfg.Checker.CheckBatch(work, caller, items, once)
	})
	return err
}

// renderBatch returns the body that answers a batch: a result or a failure for each request, in order.
func renderBatch(answers []check.Answer) []byte {
	results := make([]any, len(answers))
	for i, a := range answers {
		if a.Err != nil {
			_, results[i] = answerTo(a.Err)
			continue
		}
		results[i] = newResult(a.Decision)
	}
	return encode(map[string]any{"results": results})
}

// decodeBatch reads a batch, each of its requests as strictly as a single one. An invalid request sets the error of its
// item. An invalid batch returns an invalidBody or an *entity.InvalidError.
func decodeBatch(body []byte) ([]check.Item, error) {
	b, problems, err := unmarshal[struct {
		Checks  []jsontext.Value `json:"checks"`
		Unknown unknown          `json:",embed"`
	}](body, "checks")
	if err = cmp.Or(err, problems.first()); err != nil {
		return nil, err
	}
	switch n := len(b.Checks); {
	case n == 0:
		return nil, invalidBody(fmt.Sprintf("checks is required: an array of 1 to %d requests", check.MaxBatch))
	case n > check.MaxBatch:
		return nil, invalidBody(fmt.Sprintf("checks contains more than %d requests", check.MaxBatch))
	}
	for _, name := range []string{"region", "receipt"} {
		if value, ok := b.Unknown[name]; ok && value.Kind() != 'n' {
			return nil, &entity.InvalidError{Field: name, Reason: "belongs in each request of checks"}
		}
	}
	items := make([]check.Item, len(b.Checks))
	for i, request := range b.Checks {
		q, err := decode(request)
		if err == nil && len(q.fields) == 0 {
			err = q.noField()
		}
		if invalid, ok := errors.AsType[invalidBody](err); ok {
			err = invalidBody(strings.Replace(invalid.Error(), "the body", "the request", 1))
		}
		items[i] = check.Item{Fields: q.fields, Country: q.country, Err: err, Warnings: q.warnings}
	}
	return items, nil
}
