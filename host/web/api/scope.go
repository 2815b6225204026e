package api

import (
	"fmt"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"

	"assay/host/access/apikey"
	"assay/host/web/refusal"
)

// scoped records the scope that a key needs for h, before h authenticates the caller.
func scoped(scope apikey.Scope, h fiber.Handler) fiber.Handler {
	return func(c *fiber.Ctx) error {
		current(c.Context()).scope = scope
		return h(c)
	}
}

// permit returns the reason why a valid key may not be used for a request, or nil. The address is checked first, so
// that a stolen key used elsewhere does not reveal its scopes.
func (s *Server) permit(ctx *fasthttp.RequestCtx, limits apikey.Limits) error {
	if limits.Networks != nil {
		if client := s.address(ctx); !limits.Admits(client) {
			from := "without an IP address"
			if client.IsValid() {
				from = "from " + client.String()
			}
			return forbidden(refusal.Address, "the key's allow list does not permit requests %s", from)
		}
	}
	scope := current(ctx).scope
	switch {
	case scope == noKey:
		return forbidden(refusal.Scope, "the endpoint takes no key")
	case limits.Test && !(apikey.Limits{Test: true}).Permits(scope):
		return forbidden(refusal.Scope, "a test key can only check; the endpoint needs a key with the scope %s", scope)
	case !limits.Permits(scope):
		return forbidden(refusal.Scope, "the key does not have the scope %s, which the endpoint needs; it has %s",
			scope, apikey.JoinScopes(limits.Scopes))
	}
	return nil
}

func forbidden(code, format string, args ...any) error {
	return refuse(fasthttp.StatusForbidden, code, fmt.Sprintf(format, args...))
}
