package api

import (
	"context"
	"fmt"
	"strings"

	"github.com/gofiber/fiber/v2"

	"assay/host/check"
	"assay/host/customer/override"
	"assay/host/entity"
)

const overridesPath = "/api/overrides"

// Overrides keeps the verdicts that an account sets in advance. Errors: *entity.InvalidError, check.ErrUnauthorized,
// override.TooManyError and override.ErrUnknown.
type Overrides interface {
	AddOverride(ctx context.Context, c check.Caller, w override.Wanted) (*override.Listed, error)
	// Overrides lists an account's overrides, newest first.
	Overrides(ctx context.Context, account string) ([]override.Listed, error)
	RemoveOverride(ctx context.Context, c check.Caller, id string) error
}

// addOverride serves POST /api/overrides.
func (s *Server) addOverride(c *fiber.Ctx) error {
	wanted := func() (override.Wanted, error) { return read(c.Request(), decodeOverride) }
	add := func(work context.Context, caller check.Caller, w override.Wanted) (*override.Listed, error) {
		added, err := s.cfg.Overrides.AddOverride(work, caller, w)
		if err == nil {
			added.Account = "" // the caller's
		}
		return added, err
	}
	return s.keyed(c, inSlot(s, c, wanted, add))
}

// listOverrides serves GET /api/overrides.
func (s *Server) listOverrides(c *fiber.Ctx) error {
	return s.keyed(c, func(work context.Context, caller check.Caller) error {
		return s.shared(s.events, caller, func() error {
			if err := s.confirm(work, caller); err != nil {
				return err
			}
			list, err := s.cfg.Overrides.Overrides(work, caller.Account)
			for i := range list {
				list[i].Account = ""
			}
			return s.reply(c, map[string][]override.Listed{"overrides": list}, err)
		})
	})
}

// removeOverride serves DELETE /api/overrides?id=ovr_...
func (s *Server) removeOverride(c *fiber.Ctx) error {
	id := func() (string, error) {
		validate := func(_, id string) error { return override.ValidateID(id) }
		return once(c.Context().QueryArgs(), "id", validate)
	}
	remove := func(work context.Context, caller check.Caller, id string) (map[string]any, error) {
		return map[string]any{"id": id, "removed": true}, s.cfg.Overrides.RemoveOverride(work, caller, id)
	}
	return s.keyed(c, inSlot(s, c, id, remove))
}

// decodeOverride reads an override. Errors are of type invalidBody or *entity.InvalidError.
func decodeOverride(body []byte) (w override.Wanted, err error) {
	var b struct {
		values

		Range       *string `json:"number_range"`
		Registrable *string `json:"registrable_domain"`
		Bank        *string `json:"bank"`

		Action    string `json:"action"`
		Reason    string `json:"reason"`
		Author    string `json:"author"`
		ExpiresAt string `json:"expires_at"`
	}
	if err := decodeObject(body, &b, strict); err != nil {
		return w, err
	}
	texts := b.texts()
	texts["number_range"], texts["registrable_domain"], texts["bank"] = b.Range, b.Registrable, b.Bank
	var kinds []string
	for _, kind := range override.Kinds() {
		kinds = append(kinds, string(kind))
		text := texts[string(kind)]
		if text == nil {
			continue
		}
		if w.Target.Kind != "" {
			return w, invalidBody(fmt.Sprintf("only one of %s and %s can be given", w.Target.Kind, kind))
		}
		if w.Target, err = override.ParseTarget(kind, *text, b.Region.Country); err != nil {
			return w, err
		}
	}
	if w.Target.Kind == "" {
		return w, invalidBody("one of " + strings.Join(kinds, ", ") + " is required")
	}
	if w.Action, w.Reason, w.Author = check.Verdict(b.Action), b.Reason, b.Author; w.Action == "" {
		return w, &entity.InvalidError{Field: "action", Reason: "is required: block or allow"}
	}
	w.ExpiresAt, err = override.ParseExpiry(b.ExpiresAt)
	return w, err
}
