package api

import (
	"context"
	"log/slog"
	"testing"

	"github.com/valyala/fasthttp"

	"assay/host/check"
	"assay/host/telemetry"
)

// BenchmarkRequest measures what the server adds to a check, without a network.
func BenchmarkRequest(b *testing.B) { benchmarkRequest(b, Config{}, 200) }

// BenchmarkRefusal measures a request with a key that makes too many.
func BenchmarkRefusal(b *testing.B) { benchmarkRequest(b, Config{Rates: exceeded{}}, 429) }

func benchmarkRequest(b *testing.B, cfg Config, status int) {
	cfg.Checker, cfg.Keys, cfg.Public = &nothing{}, keys{}, &public{}
	cfg.Answered = telemetry.NewMetrics().RequestAnswered
	cfg.Logger = slog.New(slog.DiscardHandler)
	s := New(cfg)
	var ctx fasthttp.RequestCtx
	var request fasthttp.Request
	request.Header.SetMethod("POST")
	request.SetRequestURI("/api/check")
	request.Header.SetHost("x")
	request.Header.SetContentType("application/json")
	request.Header.Set("Authorization", "Bearer "+goodKey)
	request.SetBodyString(exampleBody)
	ctx.Init(&request, nil, nil)
	for b.Loop() {
		ctx.Response.Reset()
		s.serve(&ctx)
	}
	if ctx.Response.StatusCode() != status {
		b.Fatalf("status %d: %s", ctx.Response.StatusCode(), ctx.Response.Body())
	}
}

// nothing is a checker that always finds the same.
type nothing struct{ checker }

func (*nothing) Check(_ context.Context, req check.Request) (*check.Decision, error) {
	return &check.Decision{Ref: knownRef, Type: req.Fields[0].Type, Query: req.Fields[0].Value, At: atCheck}, nil
}
