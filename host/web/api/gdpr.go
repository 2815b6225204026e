package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"

	"assay/host/check"
	"assay/host/customer/privacy"
	"assay/host/entity"
)

// The privacy endpoints (contract section 4.3). Requests by value use POST, because proxies log URLs.
const (
	exportPath  = "/gdpr/export"
	erasePath   = "/gdpr/erase"
	subjectPath = "/gdpr/subject"

	requestsPrefix = "/gdpr/requests/"
	requestData    = "/export"
)

// maxExported is the maximum number of checks in one response.
const maxExported = privacy.AtOnce

// Privacy exports and erases a subject's data. It returns check.ErrUnauthorized, privacy.ErrUnknownSubject and
// *entity.InvalidError; other errors are internal.
type Privacy interface {
	// Export returns the data that the caller's account holds about a subject, as of one moment.
	Export(ctx context.Context, caller check.Caller, whose privacy.Selector, page privacy.Page) (*privacy.Export, error)
	// Erase permanently erases that data. It succeeds even if there is no data about an entity. If erasing would take
	// long, it erases nothing and returns a privacy.LargeError.
	Erase(ctx context.Context, caller check.Caller, whose privacy.Selector) (*privacy.ErasureResult, error)
	// SubjectOf returns the account's reference for an entity, whether or not it holds data about it.
	SubjectOf(ctx context.Context, caller check.Caller, e entity.Entity) (string, error)
	// Begin starts a request that is processed in the background.
	Begin(ctx context.Context, caller check.Caller, kind privacy.Kind, whose privacy.Selector) (*privacy.Request, error)
	// Request returns such a request, or privacy.ErrUnknownRequest.
	Request(ctx context.Context, caller check.Caller, id string) (*privacy.Request, error)
	// Download returns the part of a finished export that follows a check, or the first part. Error:
	// privacy.ErrNoExport.
	Download(ctx context.Context, caller check.Caller, id, after string) (json.RawMessage, error)
}

// private authenticates the caller and calls f if the caller's plan includes the privacy endpoints.
func (s *Server) private(c *fiber.Ctx, f func(context.Context, check.Caller) error) error {
	return s.keyed(c, func(work context.Context, caller check.Caller) error {
		if !caller.Plan.Privacy {
			return &check.PlanError{Plan: caller.Plan.Name, Feature: "privacy requests"}
		}
		return s.shared(s.privacy, caller, func() error { return f(work, caller) })
	})
}

// export serves GET /gdpr/export?subject=sub_... or ?ref=chk_..., and POST /gdpr/export.
func (s *Server) export(c *fiber.Ctx) error {
	return s.private(c, func(work context.Context, caller check.Caller) (err error) {
		args := c.Context().QueryArgs()
		var whose privacy.Selector
		if c.Method() == fiber.MethodPost {
			whose, err = read(c.Request(), decodeSelector)
		} else {
			whose, err = selectorOf(args)
		}
		if err != nil {
			return err
		}
		limit, err := number(args, "limit", 1, maxExported, maxExported)
		if err != nil {
			return err
		}
		page := privacy.Page{Limit: int(limit)}
		if page.After, err = afterOf(args); err != nil {
			return err
		}
		held, err := s.cfg.Privacy.Export(work, caller, whose, page)
		if err == nil && held.Next != nil && !args.Has("limit") && !args.Has("after") {
			return s.inBackground(work, c, caller, privacy.KindExport, whose)
		}
		return s.reply(c, held, err)
	})
}

// afterOf returns the reference after which a page of an export begins; "" if none is given.
func afterOf(args *fasthttp.Args) (string, error) {
	if !args.Has("after") {
		return "", nil
	}
	return once(args, "after", privacy.ValidateRef)
}

// inBackground starts a request that hosts process in the background, and responds with the URL of its state.
func (s *Server) inBackground(work context.Context, c *fiber.Ctx, caller check.Caller, kind privacy.Kind,
	whose privacy.Selector,
) error {
	request, err := s.cfg.Privacy.Begin(work, caller, kind, whose)
	if err != nil {
		return err
	}
	s.answer(c.Context(), fasthttp.StatusAccepted, request)
	c.Context().Response.Header.Set(fasthttp.HeaderLocation, requestsPrefix+request.ID)
	return nil
}

// showRequest serves GET /gdpr/requests/{id} and GET /gdpr/requests/{id}/export.
func (s *Server) showRequest(c *fiber.Ctx) error {
	return s.private(c, func(work context.Context, caller check.Caller) error {
		path := strings.TrimPrefix(string(c.Context().URI().PathOriginal()), requestsPrefix)
		id, isData := strings.CutSuffix(path, requestData)
		if err := privacy.ValidateRequestID(id); err != nil {
			return err
		}
		if !isData {
			request, err := s.cfg.Privacy.Request(work, caller, id)
			return s.reply(c, request, err)
		}
		after, err := afterOf(c.Context().QueryArgs())
		if err != nil {
			return err
		}
		part, err := s.cfg.Privacy.Download(work, caller, id, after)
		return s.reply(c, part, err)
	})
}

// erase serves POST /gdpr/erase.
func (s *Server) erase(c *fiber.Ctx) error {
	return s.private(c, func(work context.Context, caller check.Caller) error {
		whose, err := read(c.Request(), decodeSelector)
		if err != nil {
			return err
		}
		erased, err := s.cfg.Privacy.Erase(work, caller, whose)
		if errors.As(err, new(privacy.LargeError)) {
			return s.inBackground(work, c, caller, privacy.KindErasure, whose)
		}
		return s.reply(c, erased, err)
	})
}

// subject serves POST /gdpr/subject.
func (s *Server) subject(c *fiber.Ctx) error {
	return s.private(c, func(work context.Context, caller check.Caller) error {
		whose, err := read(c.Request(), decodeSelector)
		if err != nil {
			return err
		}
		if whose.Entity == nil {
			return check.NoFieldError{}
		}
		name, err := s.cfg.Privacy.SubjectOf(work, caller, *whose.Entity)
		return s.reply(c, map[string]any{"subject": name, "type": whose.Entity.Type}, err)
	})
}

// selectorOf parses the subject in a query string.
func selectorOf(args *fasthttp.Args) (whose privacy.Selector, err error) {
	for _, t := range entity.Types() {
		if args.Has(string(t)) {
			return whose, &entity.InvalidError{Field: string(t),
				Reason: "must not be part of a URL; send it as JSON with POST " + exportPath}
		}
	}
	if args.Has("subject") == args.Has("ref") {
		return whose, invalidBody("exactly one of subject and ref is required")
	}
	name := "ref"
	if args.Has("subject") {
		name = "subject"
	}
	text, err := once(args, name, nil)
	if err != nil {
		return whose, err
	}
	return privacy.ParseSelector(name, text, "")
}

// once returns a value of the query string, which must be given exactly once and be valid.
func once(args *fasthttp.Args, name string, validate func(field, text string) error) (string, error) {
	values := args.PeekMulti(name)
	if len(values) != 1 {
		return "", &entity.InvalidError{Field: name,
			Reason: fmt.Sprintf("must be given once, not %d times", len(values))}
	}
	if validate == nil {
		return string(values[0]), nil
	}
	return string(values[0]), validate(name, string(values[0]))
}

// decodeSelector reads a subject. A blank field counts as given, and is then invalid. Errors are of type invalidBody or
// *entity.InvalidError.
func decodeSelector(body []byte) (whose privacy.Selector, err error) {
	var b struct {
		values

		Subject *string `json:"subject"`
		Ref     *string `json:"ref"`
	}
	if err := decodeObject(body, &b); err != nil {
		return whose, err
	}
	texts := b.texts()
	texts["subject"], texts["ref"] = b.Subject, b.Ref
	maps.DeleteFunc(texts, func(_ string, text *string) bool { return text == nil })
	if len(texts) != 1 {
		return whose, invalidBody("exactly one of subject, ref, domain, email, phone or iban is required")
	}
	for name, text := range texts {
		whose, err = privacy.ParseSelector(name, *text, b.Region.Country)
	}
	return whose, err
}
