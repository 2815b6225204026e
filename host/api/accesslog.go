package api

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/valyala/fasthttp"
)

// exchange is what the log tells of one request. It never holds what was asked about, a key, a query string or an
// address.
type exchange struct {
	began   time.Time
	method  string // "other" for one that HTTP does not define, "" when it could not be read
	route   string // an endpoint's path, else ""
	account string // who asked, once known
	ref     string // of the check or of the failure
	cause   error  // of a 5xx
}

// exchangeKey is where a request keeps its exchange.
type exchangeKey struct{}

func begin(ctx *fasthttp.RequestCtx) *exchange {
	x := &exchange{began: time.Now(), method: string(ctx.Method())}
	if !knownMethod(x.method) {
		x.method = "other" // chosen by the client, so of any length
	}
	ctx.SetUserValue(exchangeKey{}, x)
	return x
}

// current returns the exchange of the request, or nil outside of one.
func current(ctx *fasthttp.RequestCtx) *exchange {
	x, _ := ctx.UserValue(exchangeKey{}).(*exchange)
	return x
}

// log writes the one line of a request.
func (s *Server) log(ctx *fasthttp.RequestCtx, x *exchange) {
	status := ctx.Response.StatusCode()
	level := slog.LevelInfo
	switch {
	case status == fasthttp.StatusServiceUnavailable:
		level = slog.LevelWarn
	case status >= fasthttp.StatusInternalServerError:
		level = slog.LevelError
	}
	if !s.cfg.Logger.Enabled(context.Background(), level) {
		return
	}
	attrs := []slog.Attr{
		slog.String("method", x.method),
		slog.String("route", x.route),
		slog.Int("status", status),
		slog.Float64("ms", float64(time.Since(x.began).Microseconds())/1000),
	}
	if x.ref != "" {
		attrs = append(attrs, slog.String("ref", x.ref))
	}
	if x.account != "" {
		attrs = append(attrs, slog.String("account", x.account))
	}
	if x.cause != nil {
		attrs = append(attrs, slog.String("error", causeOf(x.cause).Error()))
		var p *panicked
		if errors.As(x.cause, &p) {
			attrs = append(attrs, slog.String("stack", string(p.stack)))
		}
	}
	s.cfg.Logger.LogAttrs(context.Background(), level, "request", attrs...)
}

// causeOf is the error to log: what lies behind one whose own text is for clients.
func causeOf(err error) error {
	var unready *notReady
	if errors.As(err, &unready) && unready.err != nil {
		return unready.err
	}
	return err
}
