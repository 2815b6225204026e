package api

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"

	"assay/host/check"
)

const batchPath = "/api/check/batch"

// batchResult is the body of a successful batch: an entry for each request, in their order.
type batchResult struct {
	Results []any `json:"results"` // of result or failure
}

// checkBatch serves POST /api/check/batch: up to check.MaxBatch requests in one call, on plans that include it. One
// that is invalid gets an error in its place; the others count one check each, all or none.
func (s *Server) checkBatch(c *fiber.Ctx) error {
	return s.bounded(s.batches, func(work context.Context) error {
		caller, err := s.authenticate(work, &c.Request().Header)
		if err != nil {
			return err
		}
		current(c.Context()).account = strings.Clone(caller.Account)
		if err := vetContent(&c.Request().Header); err != nil {
			return err
		}
		items, err := decodeBatch(c.Request().Body())
		if err != nil {
			return err
		}
		answers, err := s.cfg.Checker.CheckBatch(work, caller, items)
		if err != nil {
			return err
		}
		body := batchResult{Results: make([]any, len(answers))}
		for i, a := range answers {
			if a.Err != nil {
				_, body.Results[i] = answerTo(a.Err)
				continue
			}
			body.Results[i] = newResult(a.Decision)
		}
		s.answer(c.Context(), fasthttp.StatusOK, body)
		return nil
	})
}

// decodeBatch reads a batch's body, each request of it as strictly as a single one. What is wrong with one request is
// its own item's error; what is wrong with the document as a whole is an invalidBody or *entity.InvalidError.
func decodeBatch(body []byte) (items []check.Item, err error) {
	d := newDecoder(body)
	given := false
	err = d.object(
		func(found string) error { return invalidBody("the body must be a JSON object, not " + found) },
		func(name string) error {
			if name != "checks" {
				return d.skip()
			}
			given = true
			items, err = d.items()
			return err
		})
	if err != nil {
		return nil, err
	}
	if err := d.end(); err != nil {
		return nil, err
	}
	switch n := len(items); {
	case !given || n == 0:
		return nil, invalidBody(fmt.Sprintf("checks is required: an array of 1 to %d requests", check.MaxBatch))
	case n > check.MaxBatch:
		return nil, invalidBody(fmt.Sprintf("checks holds more than %d requests", check.MaxBatch))
	}
	return items, nil
}

// items reads the array of requests. Beyond the first that is too many it reads none.
func (d *decoder) items() (items []check.Item, err error) {
	token, err := d.next()
	if err != nil {
		return nil, err
	}
	if token.Kind() != '[' {
		return nil, invalidBody("checks must be an array, not " + kindName(token.Kind()))
	}
	for d.PeekKind() != ']' {
		if len(items) > check.MaxBatch {
			return nil, invalidBody(fmt.Sprintf("checks holds more than %d requests", check.MaxBatch))
		}
		value, err := d.ReadValue()
		if err != nil {
			return nil, d.syntaxError(err)
		}
		q, err := decode(value)
		if err == nil && len(q.fields) == 0 {
			err = check.NoFieldError{}
		}
		var whole invalidBody
		if errors.As(err, &whole) {
			err = invalidBody(strings.Replace(whole.Error(), "the body", "the request", 1))
		}
		items = append(items, check.Item{Fields: q.fields, Country: q.country, Err: err})
	}
	_, err = d.next()
	return items, err
}
