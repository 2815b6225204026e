package api

import (
	"bytes"
	"crypto/tls"
	"errors"
	"net"
	"strconv"
	"strings"
	"time"

	"assay/host/web/refusal"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"
)

// headReceived is called after a request's head and before its body. It cannot refuse the request. If serve will refuse
// it, headReceived makes sure that fasthttp neither waits for a body nor reads the following bytes as another request.
func headReceived(h *fasthttp.RequestHeader) fasthttp.RequestConfig {
	switch {
	case vetHead(h) != nil:
		h.SetContentLength(0)
		h.Del(fasthttp.HeaderExpect)
	case h.ContentLength() > bodyLimit(h):
		// Without this, fasthttp would respond 100 Continue to a body that it then refuses.
		h.Del(fasthttp.HeaderExpect)
	}
	return fasthttp.RequestConfig{MaxRequestBodySize: bodyLimit(h)}
}

// bodyLimit returns the maximum size of a request's body in bytes.
func bodyLimit(h *fasthttp.RequestHeader) int {
	path := h.RequestURI()
	if _, rest, absolute := bytes.Cut(path, []byte("://")); absolute && path[0] != '/' {
		path = rest[max(0, bytes.IndexByte(rest, '/')):]
	}
	path, _, _ = bytes.Cut(path, []byte("?"))
	switch string(path) {
	case batchPath:
		return maxBatchBody
	case providerPath:
		return maxEvent
	}
	return maxBody
}

// vetHead returns a refusal for a head that fasthttp accepts but that a proxy in front may have interpreted
// differently, which would allow request smuggling (RFC 9112 sections 2 to 6 and 11.2). The connection must be closed
// after a refusal.
func vetHead(h *fasthttp.RequestHeader) error {
	if p := h.Protocol(); string(p) != "HTTP/1.1" && string(p) != "HTTP/1.0" {
		return errVersion
	}
	if target := string(h.RequestURI()); !strings.HasPrefix(target, "/") { // the absolute form names the host too
		if _, rest, ok := strings.Cut(target, "://"); ok {
			if end := strings.IndexAny(rest, "/?#"); end >= 0 {
				rest = rest[:end]
			}
			if !isHost(rest) {
				return errMalformed
			}
		}
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
		if !ok || !isToken(name) { // a folded line starts with a space, so its name is not a token
			return errMalformed
		}
		value = bytes.Trim(value, " ")
		switch len(name) {
		case len("Host"):
			if bytes.EqualFold(name, []byte("Host")) && !isHost(string(value)) {
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

// isHost reports whether value can be a host with or without a port (RFC 9110 section 7.2).
func isHost(value string) bool {
	if strings.ContainsAny(value, "@/\\?# \t\"<>%,;") {
		return false
	}
	name, port, hasPort := strings.Cut(value, ":")
	if strings.HasPrefix(value, "[") {
		var ok bool
		if name, port, ok = strings.Cut(value, "]"); !ok {
			return false
		}
		name = name[1:]
		if port, hasPort = strings.CutPrefix(port, ":"); !hasPort && port != "" {
			return false
		}
	}
	if !hasPort || port == "" { // a port may be left out after its colon
		return !strings.ContainsAny(name, "[]")
	}
	n, err := strconv.ParseUint(port, 10, 16)
	return err == nil && n > 0 && !strings.ContainsAny(name, "[]")
}

// isToken reports whether name is a token, as header names must be (RFC 9110 section 5.6.2).
func isToken(name []byte) bool {
	for _, b := range name {
		letterOrDigit := 'a' <= b && b <= 'z' || 'A' <= b && b <= 'Z' || '0' <= b && b <= '9'
		if !letterOrDigit && strings.IndexByte("!#$%&'*+-.^_`|~", b) < 0 {
			return false
		}
	}
	return len(name) > 0
}

// methodOf returns the request's method, or "" if HTTP does not define it.
func methodOf(ctx *fasthttp.RequestCtx) string {
	for _, m := range fiber.DefaultMethods {
		if string(ctx.Method()) == m {
			return m
		}
	}
	return ""
}

// refuseUnread responds to a request that could not be read completely. The text of err quotes the request, so it is
// neither sent nor logged.
func (s *Server) refuseUnread(ctx *fasthttp.RequestCtx, err error) {
	x := s.begin(ctx)
	if len(ctx.Request.Header.RawHeaders()) > 0 {
		x.route = s.knownPath(ctx)
	} else {
		x.method = "" // fasthttp reports GET for a head that it could not read
	}
	c, _ := ctx.Conn().(*conn)
	switch {
	case errors.Is(err, fasthttp.ErrBodyTooLarge):
		s.refuse(ctx, tooLarge(bodyLimit(&ctx.Request.Header)))
	case errors.As(err, new(*fasthttp.ErrSmallBuffer)):
		s.refuse(ctx, errHeadTooLarge)
	case c != nil && c.slow: // fasthttp does not always wrap the deadline's error
		s.fail(ctx, errSlow)
	default:
		s.refuse(ctx, errMalformed)
	}
	s.finish(ctx, x)
}

// refuse responds with err and closes the connection after the client has had a chance to read the response.
func (s *Server) refuse(ctx *fasthttp.RequestCtx, err error) {
	s.fail(ctx, err)
	ctx.SetConnectionClose()
	if c, ok := ctx.Conn().(*conn); ok {
		c.linger.Store(true)
	}
}

// maxExcess is how many connections beyond the limit may wait for a refusal.
const maxExcess = 64

// refuseConnection refuses a connection beyond the limit without reading its request. It runs in the accept loop, so it
// must not block: the response fits into the buffer of a new socket. TLS needs a handshake first, for which a few
// connections wait; further ones are closed.
func (s *Server) refuseConnection(c net.Conn) {
	s.refused.Add(1)
	s.overflow.Do(func() {
		_, open, _ := s.Load() // fewer than the limit if one network has used up its share
		s.cfg.Logger.Warn("refusing connections", "open", open, "limit", s.cfg.MaxConnections)
	})
	refuse := func(c net.Conn) error {
		return writeRefusal(c, "503 Service Unavailable", "Retry-After: 1\r\n", refusal.Connections,
			"too many connections are open")
	}
	if s.cfg.TLS == nil {
		_ = refuse(c)
		_ = c.Close()
		return
	}
	release, err := s.excess.Take(peerNetwork(c.RemoteAddr()))
	if err != nil {
		_ = c.Close()
		return
	}
	go func() {
		defer release()
		defer func() { _ = c.Close() }()
		encrypted := tls.Server(c, s.cfg.TLS)
		if c.SetDeadline(time.Now().Add(lingerTime)) == nil && encrypted.Handshake() == nil &&
			refuse(encrypted) == nil {
			drain(encrypted)
		}
	}()
}
