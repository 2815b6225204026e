package api

import (
	"cmp"
	"context"
	"strconv"
	"strings"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"

	"assay/host/entity"
	"assay/host/internal/internet"
	"assay/host/web/refusal"
)

const (
	checkpointPath = "/audit/checkpoint"
	auditPrefix    = "/audit/"
)

// AuditLog has the public files of the audit log: checkpoints and hashes of each chain's Merkle tree, no records.
type AuditLog interface {
	// AuditFile returns the file with a path of C2SP tlog-tiles, and whether it never changes. The content is nil if
	// there is none.
	AuditFile(ctx context.Context, chain int, path string) (content []byte, constant bool, err error)
}

var errNoAuditFile = refuse(fasthttp.StatusNotFound, refusal.NotFound,
	"the audit log has no such chain, checkpoint or tile")

// checkpoint serves GET /audit/checkpoint.
func (s *Server) checkpoint(c *fiber.Ctx) error {
	text, err := parameter(c.Context().QueryArgs(), "chain")
	chain, ok := parseChain(cmp.Or(text, "0"))
	if err == nil && !ok {
		err = &entity.InvalidError{Field: "chain", Reason: "must be the number of an audit chain, from 0 on"}
	}
	if err != nil {
		return err
	}
	return s.auditFile(c, chain, "checkpoint")
}

// chainFile serves GET /audit/{chain}/{path}: the paths of C2SP tlog-tiles below a prefix for each chain.
func (s *Server) chainFile(c *fiber.Ctx) error {
	rest := strings.TrimPrefix(string(c.Context().URI().PathOriginal()), auditPrefix)
	number, path, _ := strings.Cut(rest, "/")
	chain, ok := parseChain(number)
	if !ok {
		return errNoAuditFile
	}
	return s.auditFile(c, chain, path)
}

// parseChain parses the number of a chain, which has only one valid spelling.
func parseChain(text string) (chain int, ok bool) {
	n, err := strconv.ParseInt(text, 10, 32)
	return int(n), err == nil && n >= 0 && strconv.FormatInt(n, 10) == text
}

func (s *Server) auditFile(c *fiber.Ctx, chain int, path string) error {
	client := s.Client(c.Context())
	if err := s.cfg.Rates.TakeNetwork(client); err != nil {
		return err
	}
	work, cancel := s.work()
	defer cancel()
	var content []byte
	var constant bool
	err := s.lookUp(work, internet.Network(client).String(), func(work context.Context) (err error) {
		content, constant, err = s.cfg.AuditLog.AuditFile(work, chain, path)
		return err
	})
	if err != nil {
		return err
	}
	if content == nil {
		return errNoAuditFile
	}
	r := &c.Context().Response
	r.Header.SetContentType("application/octet-stream")
	if path == "checkpoint" || path == "keys" {
		r.Header.SetContentType("text/plain; charset=utf-8")
	}
	r.Header.Set("Cache-Control", "no-cache")
	if constant {
		r.Header.Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	r.SetBodyRaw(content)
	return nil
}
