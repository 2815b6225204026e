package api

import (
	"bytes"
	"errors"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"
)

// headReceived is called between a request's head and its body. It cannot refuse; so where serve will, it sees to it
// that no body is waited for and that nothing after the head is taken for another request.
func headReceived(h *fasthttp.RequestHeader) fasthttp.RequestConfig {
	switch {
	case vetHead(h) != nil:
		h.SetContentLength(0)
		h.Del(fasthttp.HeaderExpect)
	case h.ContentLength() > bodyLimit(h):
		// Otherwise the client would be told to go on, only to be refused then.
		h.Del(fasthttp.HeaderExpect)
	}
	return fasthttp.RequestConfig{MaxRequestBodySize: bodyLimit(h)}
}

// bodyLimit is how many bytes a request's body may have.
func bodyLimit(h *fasthttp.RequestHeader) int {
	path, _, _ := bytes.Cut(h.RequestURI(), []byte("?"))
	switch string(path) {
	case batchPath:
		return maxBatchBody
	case providerPath:
		return maxEvent
	}
	return maxBody
}

// vetHead finds what fasthttp lets pass and another server on the way may have understood differently (RFC 9112
// sections 2 to 6, on request smuggling 11.2). It returns nil, or a refusal after which the connection must be
// closed.
func vetHead(h *fasthttp.RequestHeader) error {
	if p := string(h.Protocol()); p != "HTTP/1.1" && p != "HTTP/1.0" {
		return errVersion
	}
	var n, length, coding, kind int
	for raw := h.RawHeaders(); len(raw) > 0; n++ {
		line, rest, ok := bytes.Cut(raw, []byte("\r\n"))
		raw = rest
		if !ok || bytes.ContainsAny(line, "\r\n\x00") {
			return errMalformed
		}
		if len(line) == 0 {
			break
		}
		name, value, ok := bytes.Cut(line, []byte(":"))
		if !ok || !isToken(name) { // a folded line begins with a space, which is in no token
			return errMalformed
		}
		value = bytes.Trim(value, " ")
		switch len(name) {
		case len("Host"):
			if bytes.EqualFold(name, []byte("Host")) && bytes.ContainsAny(value, "@/\\?# \t\"<>%,;") {
				return errMalformed
			}
		case len("Content-Type"):
			if bytes.EqualFold(name, []byte("Content-Type")) {
				kind++
			}
		case len("Content-Length"):
			if bytes.EqualFold(name, []byte("Content-Length")) {
				length++
			}
		case len("Transfer-Encoding"):
			if bytes.EqualFold(name, []byte("Transfer-Encoding")) {
				if coding++; !bytes.EqualFold(value, []byte("chunked")) {
					return errMalformed
				}
			}
		}
	}
	switch {
	case n > maxHeaders:
		return errHeadTooLarge
	case length+coding > 1, kind > 1:
		return errMalformed
	}
	return nil
}

// isToken says whether name may be a header's name (RFC 9110 section 5.6.2).
func isToken(name []byte) bool {
	for _, b := range name {
		letterOrDigit := 'a' <= b && b <= 'z' || 'A' <= b && b <= 'Z' || '0' <= b && b <= '9'
		if !letterOrDigit && strings.IndexByte("!#$%&'*+-.^_`|~", b) < 0 {
			return false
		}
	}
	return len(name) > 0
}

func knownMethod(m string) bool { return slices.Contains(fiber.DefaultMethods, m) }

// refuseUnread answers a request that could not be read to its end. The error is not told to anybody: its text quotes
// what was sent.
func (s *Server) refuseUnread(ctx *fasthttp.RequestCtx, err error) {
	x := begin(ctx)
	if len(ctx.Request.Header.RawHeaders()) > 0 {
		x.route = s.knownPath(ctx)
	} else {
		x.method = "" // fasthttp says GET of a head it could not read
	}
	var full *fasthttp.ErrSmallBuffer
	c, _ := ctx.Conn().(*conn)
	switch {
	case errors.Is(err, fasthttp.ErrBodyTooLarge):
		s.refuse(ctx, tooLarge(bodyLimit(&ctx.Request.Header)))
	case errors.As(err, &full):
		s.refuse(ctx, errHeadTooLarge)
	case c != nil && c.slow: // fasthttp's errors do not always wrap this one
		s.fail(ctx, errSlow)
	default:
		s.refuse(ctx, errMalformed)
	}
	s.finish(ctx, x)
}

// refuse answers with err and closes the connection once the client had a chance to read the answer.
func (s *Server) refuse(ctx *fasthttp.RequestCtx, err error) {
	s.fail(ctx, err)
	ctx.SetConnectionClose()
	if c, ok := ctx.Conn().(*conn); ok {
		c.linger.Store(true)
	}
}

// refuseConnection answers a connection beyond the limit, without waiting for its request. It must not block, since
// it runs where connections are accepted: the answer fits any fresh socket's buffer, but a TLS one would first shake
// hands.
func (s *Server) refuseConnection(c net.Conn) {
	now := time.Now().Unix()
	if last := s.overflow.Load(); now-last >= 60 && s.overflow.CompareAndSwap(last, now) {
		s.cfg.Logger.Warn("refusing connections", "limit", s.cfg.MaxConnections)
	}
	defer func() { _ = c.Close() }()
	if _, secure := c.(interface{ Handshake() error }); !secure {
		_, _ = c.Write([]byte(tooManyConnections))
	}
}
