package api

import (
	"regexp"
	"slices"
	"strings"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"

	"assay/host/access/apikey"
)

// noKey is the scope of endpoints that take no key. With it, a handler that asks for the caller refuses every key.
const noKey apikey.Scope = ""

// route is an endpoint with the scope that a key needs. Its path is the one in openapi.json.
type route struct {
	method, path string
	scope        apikey.Scope
	handle       fiber.Handler
}

// routes is the table of all endpoints.
func (s *Server) routes() []route {
	const get, post, remove = fiber.MethodGet, fiber.MethodPost, fiber.MethodDelete
	return []route{
		{post, "/api/check", apikey.ScopeCheck, s.check},
		{post, batchPath, apikey.ScopeBatch, s.checkBatch},
		{post, "/api/check-public", noKey, s.checkPublic},
		{post, feedbackPath, apikey.ScopeFeedback, s.giveFeedback},
		{remove, feedbackPath, apikey.ScopeFeedback, s.revokeFeedback},
		{post, overridesPath, apikey.ScopeOverrides, s.addOverride},
		{get, overridesPath, apikey.ScopeOverrides, s.listOverrides},
		{remove, overridesPath, apikey.ScopeOverrides, s.removeOverride},
		{post, providerPath, noKey, s.providerEvent},
		{get, "/api/events", apikey.ScopeEvents, s.listEvents},
		{get, exportPath, apikey.ScopePrivacy, s.export},
		{post, exportPath, apikey.ScopePrivacy, s.export},
		{post, erasePath, apikey.ScopePrivacy, s.erase},
		{post, subjectPath, apikey.ScopePrivacy, s.subject},
		{post, explainPath, apikey.ScopePrivacy, s.explain},
		{get, reviewPath, apikey.ScopePrivacy, s.showReview},
		{post, reviewPath, apikey.ScopePrivacy, s.askReview},
		{get, requestsPrefix + "{id}", apikey.ScopePrivacy, s.showRequest},
		{get, requestsPrefix + "{id}" + requestData, apikey.ScopePrivacy, s.showRequest},
		{post, searchPath, apikey.ScopeEvents, s.searchChecks},
		{get, exportChecksPath, apikey.ScopeEvents, s.exportChecks},
		{get, usagePath, apikey.ScopeEvents, s.showUsage},
		{get, checkRefPath, apikey.ScopeEvents, s.showCheck},
		{get, receiptsPrefix + "{ref}", apikey.ScopeEvents, s.showReceipt},
		{get, checkpointPath, noKey, s.checkpoint},
		{get, auditPrefix + "{chain}/{path}", noKey, s.chainFile},
		{get, "/openapi.json", noKey, s.openAPI},
		{get, "/healthz", noKey, s.health},
		{get, "/readyz", noKey, s.ready},
	}
}

// placeholder is a part of a path that differs between requests. The placeholder {path} also matches slashes.
var placeholder = regexp.MustCompile(`{(\w+)}`)

// route registers the endpoints. GET includes HEAD.
func (s *Server) route() {
	s.allow, s.patterns = map[string]string{}, map[string]*regexp.Regexp{}
	for _, r := range s.routes() {
		methods := []string{r.method}
		if r.method == fiber.MethodGet {
			methods = append(methods, fiber.MethodHead)
		}
		for _, m := range methods {
			s.app.Add(m, placeholder.ReplaceAllString(strings.Replace(r.path, "{path}", "*", 1), ":$1"),
				scoped(r.scope, r.handle))
		}
		if known := s.allow[r.path]; known != "" {
			methods = append(methods, strings.Split(known, ", ")...)
		}
		slices.Sort(methods)
		s.allow[r.path] = strings.Join(methods, ", ")
		if strings.Contains(r.path, "{") {
			expression := strings.Replace(r.path, "{path}", ".*", 1)
			s.patterns[r.path] = regexp.MustCompile("^" + placeholder.ReplaceAllString(expression, "[^/]+") + "$")
		}
	}
}

// knownPath returns the endpoint of the request's path as the documentation writes it, or "" if there is none.
func (s *Server) knownPath(ctx *fasthttp.RequestCtx) string {
	path := string(ctx.URI().PathOriginal())
	if s.allow[path] != "" && !strings.Contains(path, "{") {
		return path
	}
	for known, pattern := range s.patterns {
		if pattern.MatchString(path) {
			return known
		}
	}
	return ""
}
