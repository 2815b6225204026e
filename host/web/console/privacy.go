package console

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"

	"assay/host/access/signin"
	"assay/host/check"
	"assay/host/customer/privacy"
	"assay/host/customer/webhook"
	"assay/host/entity"
)

func (c *Console) showPrivacy(ctx *fiber.Ctx, s *session, v view) error {
	v["Title"], v["Types"] = "Privacy", entity.Types()
	v["Kept"] = map[string]int{"Audit": privacy.AuditMonths, "Payload": privacy.PayloadHours,
		"Events": privacy.EventDays, "Exchange": int(webhook.ExchangeRetention.Hours()), "Graph": privacy.GraphDays,
		"Logs": privacy.LogDays, "Session": int(signin.SessionLife.Hours()), "Export": int(privacy.KeepExport.Hours())}
	p := c.panels(ctx)
	p.shown++ // the forms
	p.read("requests", func(work context.Context) error {
		requests, err := c.cfg.Store.Requests(work, s.caller())
		if errors.Is(err, check.ErrUnauthorized) { // no key works, so no request runs
			return nil
		}
		v["Requests"] = requests
		return err
	})
	return p.render("privacy", s, v)
}

// selectSubject reads the subject of a form: a value, a subject reference or the reference of a check. Values are sent
// only in forms, never in URLs, which end up in logs.
func selectSubject(ctx *fiber.Ctx) (selector privacy.Selector, v view, err error) {
	subject, kind := strings.TrimSpace(field(ctx, "who")), entity.Type(field(ctx, "type"))
	v = view{"Subject": subject, "Type": string(kind)}
	named := string(cmp.Or(kind, entity.Auto))
	switch {
	case kind == "" && strings.HasPrefix(subject, "sub_"):
		named = "subject"
	case kind == "" && strings.HasPrefix(subject, "chk_"):
		named = "ref"
	}
	selector, err = privacy.ParseSelector(named, subject, "")
	return selector, v, err
}

// findSubject shows an account's data about a subject.
func (c *Console) findSubject(ctx *fiber.Ctx, s *session) error {
	export, v, err := c.export(ctx, s, checksPerPage)
	if err != nil {
		return c.showPrivacyError(ctx, s, v, err)
	}
	v["Export"] = export
	return c.showPrivacy(ctx, s, v)
}

func (c *Console) export(ctx *fiber.Ctx, s *session, limit int) (*privacy.Export, view, error) {
	selector, v, err := selectSubject(ctx)
	if err != nil {
		return nil, v, err
	}
	export, err := c.cfg.Store.Export(work(ctx), s.caller(), selector, privacy.Page{Limit: limit})
	return export, v, err
}

// showPrivacyError shows the reason why a request failed. It returns unexpected errors.
func (c *Console) showPrivacyError(ctx *fiber.Ctx, s *session, v view, err error) error {
	var invalid *entity.InvalidError
	switch {
	case errors.As(err, &invalid):
		ctx.Status(fiber.StatusBadRequest)
		v["Errors"] = map[string]string{"who": describe(invalid)}
	case errors.Is(err, privacy.ErrNoExport), errors.Is(err, privacy.ErrUnknownRequest):
		ctx.Status(fiber.StatusNotFound)
		v["Error"] = "This export was deleted."
	case errors.Is(err, privacy.ErrUnknownSubject):
		ctx.Status(fiber.StatusNotFound)
		v["Errors"] = map[string]string{"who": "Your account has no data for this value or reference."}
	default:
		return err
	}
	return c.showPrivacy(ctx, s, v)
}

// exportSubject sends all of an account's data about a subject as a file, or has it exported in the background.
func (c *Console) exportSubject(ctx *fiber.Ctx, s *session) error {
	export, v, err := c.export(ctx, s, privacy.AtOnce)
	if err != nil {
		return c.showPrivacyError(ctx, s, v, err)
	}
	if export.Next != nil {
		return c.beginRequest(ctx, s, privacy.KindExport)
	}
	file, err := json.MarshalIndent(export, "", "  ")
	if err != nil {
		return err
	}
	ctx.Attachment("subject.json") // also sets the content type
	return ctx.Send(append(file, '\n'))
}

// beginRequest makes a request in the background and shows it.
func (c *Console) beginRequest(ctx *fiber.Ctx, s *session, kind privacy.Kind) error {
	selector, v, err := selectSubject(ctx)
	if err == nil {
		v["Begun"], err = c.cfg.Store.Begin(work(ctx), s.caller(), kind, selector)
	}
	if err != nil {
		return c.showPrivacyError(ctx, s, v, err)
	}
	return c.showPrivacy(ctx, s, view{"Begun": v["Begun"]})
}

// downloadExport sends an export that was made in the background: a JSON array of its parts, of which only one is in
// memory at a time.
func (c *Console) downloadExport(ctx *fiber.Ctx, s *session) error {
	id, caller := field(ctx, "id"), s.caller()
	if err := privacy.ValidateRequestID(id); err != nil {
		return c.showPrivacyError(ctx, s, view{}, err)
	}
	part, err := c.cfg.Store.Download(work(ctx), caller, id, "")
	if err != nil {
		return c.showPrivacyError(ctx, s, view{}, err)
	}
	ctx.Attachment("subject.json")
	conn := ctx.Context().Conn()
	next := func(after string) (json.RawMessage, error) {
		_ = conn.SetWriteDeadline(time.Now().Add(pageTimeout)) // for each part, not for all of them
		reading, cancel := pageContext()
		defer cancel()
		return c.cfg.Store.Download(reading, caller, id, after)
	}
	ctx.Context().SetBodyStreamWriter(func(w *bufio.Writer) {
		for start := "["; err == nil; start = "," {
			var place struct{ Next *string }
			if err = json.Unmarshal(part, &place); err == nil {
				_, err = fmt.Fprintf(w, "%s%s", start, part)
			}
			if err == nil && place.Next == nil {
				_, _ = w.WriteString("]\n") // w keeps the error, and its owner flushes it
				return
			}
			if err == nil {
				part, err = next(*place.Next)
			}
		}
		c.cfg.Logger.Error("an export was sent in part", "request", id, "error", err) // the file is not valid JSON
	})
	return nil
}

// eraseSubject asks for confirmation first, and erases the subject once the form confirms it.
func (c *Console) eraseSubject(ctx *fiber.Ctx, s *session) error {
	if field(ctx, "sure") != "yes" {
		export, v, err := c.export(ctx, s, 1)
		if err != nil {
			return c.showPrivacyError(ctx, s, v, err)
		}
		v["Confirm"] = export
		return c.showPrivacy(ctx, s, v)
	}
	selector, v, err := selectSubject(ctx)
	if err != nil {
		return c.showPrivacyError(ctx, s, v, err)
	}
	c.cfg.Logger.Info("an erasure was requested in the dashboard", "account", s.caller().Account)
	erased, err := c.cfg.Store.Erase(work(ctx), s.caller(), selector)
	if errors.As(err, new(privacy.LargeError)) {
		return c.beginRequest(ctx, s, privacy.KindErasure)
	}
	if err != nil {
		return c.showPrivacyError(ctx, s, v, err)
	}
	return c.showPrivacy(ctx, s, view{"Erased": erased})
}
