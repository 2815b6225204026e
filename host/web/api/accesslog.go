package api

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/valyala/fasthttp"

	"assay/host/access/apikey"
)

// exchange collects the access log's data about one request. It never contains the checked entity, a key, a query
// string or an address.
type exchange struct {
	id       string // of the request; see requestHeader
	began    time.Time
	method   string       // "other" if HTTP does not define it, "" if it could not be read
	route    string       // the endpoint's path, or ""
	label    string       // of the metrics if route is ""
	scope    apikey.Scope // that a key needs for the endpoint
	account  string       // the caller's, once authenticated
	ref      string       // of the check or of the internal error
	cause    error        // of a 5xx
	timing   *timing      // nil: the client did not ask for it
	shared   bool         // the client's address is that of an untrusted proxy
	test     bool         // the key is a test key, so the answer reveals nothing about the host
	replayed bool         // the answer was kept from an earlier request
}

// exchangeKey is the key of a request's user value that holds its exchange.
type exchangeKey struct{}

func (s *Server) begin(ctx *fasthttp.RequestCtx) *exchange {
	s.underWay.Add(1)
	x := &exchange{id: newRequestID(), began: time.Now(),
		method: cmp.Or(methodOf(ctx), "other")} // the client's text could have any length
	if string(ctx.Request.Header.Peek(timingHeader)) == "1" {
		x.timing = &timing{}
	}
	ctx.SetUserValue(exchangeKey{}, x)
	ctx.Response.Header.Set(requestHeader, x.id) // pages read it
	return x
}

// current returns the exchange of the request, or nil before begin.
func current(ctx *fasthttp.RequestCtx) *exchange {
	x, _ := ctx.UserValue(exchangeKey{}).(*exchange)
	return x
}

// log writes the access log's line for a request.
func (s *Server) log(ctx *fasthttp.RequestCtx, x *exchange, took time.Duration) {
	status := ctx.Response.StatusCode()
	level := slog.LevelInfo
	refused := status == fasthttp.StatusServiceUnavailable && !x.test
	switch {
	case refused:
		level = slog.LevelWarn
	case status == fasthttp.StatusServiceUnavailable:
	case status >= fasthttp.StatusInternalServerError:
		level = slog.LevelError
	}
	if !s.cfg.Logger.Enabled(context.Background(), level) || errors.Is(x.cause, errDraining) {
		return // a drain is announced once, and load balancers ask often
	}
	// Each error with a reference gets a line, because support looks them up.
	if refused && !s.refusals.admit(refusalKind{x.route, refusalReason(x.cause)}) {
		return
	}
	attrs := append(make([]slog.Attr, 0, 11), // room for all
		slog.String("request_id", x.id),
		slog.String("method", x.method),
		slog.String("route", x.route),
		slog.Int("status", status),
		slog.Float64("ms", float64(took.Microseconds())/1000),
	)
	if x.ref != "" {
		attrs = append(attrs, slog.String("ref", x.ref))
	}
	if x.account != "" {
		attrs = append(attrs, slog.String("account", x.account))
	}
	for _, id := range clientIDs {
		if text := ctx.Request.Header.Peek(id.header); id.form.Match(text) {
			attrs = append(attrs, slog.String(id.attr, string(text)))
		}
	}
	if x.replayed {
		attrs = append(attrs, slog.Bool("replayed", true))
	}
	if x.cause != nil {
		cause := x.cause
		if unready, ok := errors.AsType[*notReady](cause); ok {
			cause = unready.err // instead of its text for clients
		}
		attrs = append(attrs, slog.String("error", cause.Error()))
		if p, ok := errors.AsType[*panicked](x.cause); ok {
			attrs = append(attrs, slog.String("stack", string(p.stack)))
		}
	}
	s.cfg.Logger.LogAttrs(context.Background(), level, "request", attrs...)
}
