package api

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"

	"assay/host/access/admission"
	"assay/host/access/apikey"
	"assay/host/check"
	"assay/host/entity"
	"assay/registry/expect"
)

func loadDocument(t *testing.T) (*openapi3.T, routers.Router) {
	t.Helper()
	doc := expect.Value(openapi3.NewLoader().LoadFromData(document))(t)
	// Examples are validated against their schemas too.
	expect.NoError(t, doc.Validate(t.Context(), openapi3.EnableExamplesValidation()))
	return doc, expect.Value(gorillamux.NewRouter(doc))(t)
}

// TestDocumentedSizes compares the sizes of requests in the documents with the code.
func TestDocumentedSizes(t *testing.T) {
	t.Parallel()
	contract := string(expect.Value(os.ReadFile("../../../docs/contract.md"))(t))
	for _, c := range []struct{ page, text string }{
		{contract, fmt.Sprintf("| body | %d KiB; %d KiB for a batch |", maxBody>>10, maxBatchBody>>10)},
		{contract, fmt.Sprintf("| request line and headers | %d KiB, %d headers |", maxHead>>10, maxHeaders)},
		{string(document), fmt.Sprintf("A body has at most %d KiB and", maxBody>>10)},
		{string(document), fmt.Sprintf("together have at most %d KiB and at most %d headers", maxHead>>10, maxHeaders)},
		{string(document), fmt.Sprintf("The body exceeds %d KiB, or %d KiB for a batch.", maxBody>>10,
			maxBatchBody>>10)},
		{string(document), fmt.Sprintf("line and headers exceed %d KiB or %d headers", maxHead>>10, maxHeaders)},
	} {
		expect.That(t, strings.Contains(c.page, c.text), "a document lacks %q", c.text)
	}
	doc, _ := loadDocument(t)
	for schema, list := range map[string]string{"BatchRequest": "checks", "BatchResult": "results"} {
		var none uint64
		most := cmp.Or(doc.Components.Schemas[schema].Value.Properties[list].Value.MaxItems, &none)
		expect.Equal(t, "openapi.json: maxItems of "+schema, *most, check.MaxBatch)
	}
}

// endpoint is a documented operation that needs a key, with a request that succeeds. Bad and unknown take the place of
// its path or, if it has one, of its body: the document forbids the one, and the other names nothing that exists.
type endpoint struct{ method, path, body, bad, unknown string }

func endpoints() []endpoint {
	const known, unknown = "?ref=" + knownRef, "?ref=" + unknownRef
	const report = `{"ref":"` + knownRef + `","label":"fraud"}`
	const blocking = `{"action":"block","domain":"example.com","reason":"x","expires_at":"2026-03-01T00:00:00Z"}`
	const person, two = `{"email":"a@example.com"}`, `{"email":"a@example.com","phone":"112233"}`
	const explained = `{"ref":"` + knownRef + `","email":"a@example.com"}`
	const asked = `{"ref":"` + knownRef + `","reason":"x"}`
	const nobody, badRef = `{"ref":"` + unknownRef + `"}`, `{"ref":"x"}`
	another := func(body string) string { return strings.Replace(body, knownRef, unknownRef, 1) }
	return []endpoint{
		{"POST", "/api/check", exampleBody, `{}`, ""},
		{"POST", batchPath, batchBody, `{"checks":[]}`, ""},
		{"GET", "/api/events?after=1&limit=100", "", "/api/events?after=-1", ""},
		{"POST", feedbackPath, report, strings.Replace(report, "fraud", "spam", 1), another(report)},
		{"DELETE", feedbackPath + known, "", feedbackPath + "?ref=x", feedbackPath + unknown},
		{"POST", overridesPath, blocking, `{"action":"block"}`, ""},
		{"GET", overridesPath, "", "", ""},
		{"DELETE", overridesPath + "?id=" + knownOverride, "", overridesPath + "?id=x",
			overridesPath + "?id=" + unknownOverride},
		{"POST", searchPath, `{"verdict":"block"}`, `{"verdict":"BLOCK"}`, ""},
		{"GET", exportChecksPath + "?format=json", "", exportChecksPath + "?format=xml", ""},
		{"GET", usagePath, "", usagePath + "?month=May", ""},
		{"GET", checksPrefix + knownRef, "", checksPrefix + "chk_x", checksPrefix + unknownRef},
		{"GET", receiptsPrefix + knownRef, "", receiptsPrefix + "chk_x", receiptsPrefix + unknownRef},
		{"GET", exportPath + known, "", exportPath + "?ref=chk_%25", exportPath + unknown},
		{"POST", exportPath, person, two, nobody},
		{"POST", erasePath, person, two, nobody},
		{"POST", subjectPath, person, two, ""},
		{"GET", requestsPrefix + knownRequest, "", requestsPrefix + "req_x", requestsPrefix + unknownRequest},
		{"GET", requestsPrefix + knownRequest + requestData, "", requestsPrefix + "req_x" + requestData,
			requestsPrefix + unknownRequest + requestData},
		{"POST", explainPath, explained, badRef, another(explained)},
		{"GET", reviewPath + known, "", reviewPath + "?ref=x", reviewPath + unknown},
		{"POST", reviewPath, asked, badRef, another(asked)},
	}
}

// conversation is a request and the expected response.
type conversation struct {
	site               *site
	method, path, body string
	headers            []string
	status             int
	valid              bool // whether the document allows the request
	raw                bool // send body as the whole request
}

// unfinished is a request whose body does not arrive.
func unfinished(hasty *site, path string) conversation {
	const head = " HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n"
	return conversation{hasty, "POST", path, "POST " + path + head, nil, 408, false, true}
}

func auth(key string, headers ...string) []string {
	return append([]string{"Authorization", "Bearer " + key}, headers...)
}

// ofEndpoints returns what every endpoint with a key answers.
func ofEndpoints(t *testing.T, s, hasty *site, long []string) (all []conversation) {
	t.Helper()
	full := start(t, Config{Door: closedDoor{}, MaxPrivacy: 1, MaxEvents: 1, Downloads: admission.NewShares(1)})
	for _, slots := range []*admission.Shares{full.privacy, full.events, full.cfg.Downloads} {
		expect.Value(slots.Take("another"))(t)
	}
	limited := start(t, Config{Keys: limitedKeys{goodKey: {Scopes: []apikey.Scope{"another"}}, freeKey: nil}})
	fast := start(t, Config{Rates: exceeded{}})
	for _, e := range endpoints() {
		request := conversation{s, e.method, e.path, e.body, auth(goodKey), 200, true, false}
		add := func(s *site, status int, headers []string) {
			c := request
			c.site, c.status, c.headers, c.valid = s, status, headers, status != 415
			all = append(all, c)
		}
		instead := func(with string, status int, valid bool) {
			c := request
			if c.status, c.valid = status, valid; e.body == "" {
				c.path = with
			} else {
				c.body = with
			}
			all = append(all, c)
		}
		all = append(all, request)
		if e.bad != "" {
			instead(e.bad, 400, false)
		}
		if e.unknown != "" {
			instead(e.unknown, 404, true)
		}
		if e.method == "POST" {
			instead(strings.Repeat(" ", maxBatchBody+1), 413, false)
			add(s, 415, auth(goodKey, "Content-Type", "text/plain"))
			all = append(all, unfinished(hasty, e.path))
		}
		if strings.HasPrefix(e.path, "/gdpr/") {
			instead(e.bad, 403, false)
			all[len(all)-1].headers = auth(freeKey) // the plan's error comes before one of the request
		}
		add(s, 401, nil)
		add(limited, 401, auth(freeKey))
		add(limited, 403, auth(goodKey))
		tooFast := 429
		if e.path == "/api/check" || e.path == batchPath {
			tooFast = 503
		}
		add(fast, tooFast, auth(goodKey))
		add(s, 431, auth(goodKey, long...))
		add(s, 500, auth(failKey))
		add(full, 503, auth(goodKey))
	}
	return all
}

// TestEveryResponseIsAsDocumented provokes every documented response and validates it against the document.
func TestEveryResponseIsAsDocumented(t *testing.T) {
	t.Parallel()
	doc, router := loadDocument(t)
	s := start(t, Config{Version: "1.2.3"})
	hasty := start(t, Config{ReadTimeout: 100 * time.Millisecond})
	broken := start(t, Config{Ready: func() error { return errors.New(secret) }, Public: brokenPublic{&public{}}})
	busy, full := start(t, Config{Public: &public{limit: 0}}), start(t, Config{Door: closedDoor{}})
	crowd := start(t, Config{Rates: flooded{}})
	billed := start(t, Config{ProviderEvent: func(_ context.Context, body []byte, signature string) error {
		if signature != "good" || len(body) <= maxBody {
			return &entity.InvalidError{Field: "Stripe-Signature", Reason: "is wrong"}
		}
		return nil
	}})
	repeating := startOnce(t, &onceChecker{})
	once := func(key string) []string { return auth(goodKey, onceHeader, key) }

	const domain, iban = `{"domain":"example.com"}`, `{"iban":"DE89 3704 0044 0532 0130 00","region":{"country":"DE"}}`
	const check, public, batch, export = "/api/check", "/api/check-public", batchPath, exportPath
	const two, about = `{"checks":[{"domain":"example.com"},{"email":7}]}`, `{"ref":"` + largeRef + `"}`
	large, long := strings.Repeat(" ", maxBody+1), []string{"X-Long", strings.Repeat("x", maxHead)}
	good := []string{"Stripe-Signature", "good"}
	conversations := append(ofEndpoints(t, s, hasty, long), []conversation{
		{s, "POST", check, iban, auth(goodKey), 200, true, false},
		{s, "POST", check, `{"email":"a@example.com","phone":"112233","x":[1]}`, auth(goodKey), 200, true, false},
		{s, "POST", check, `{"domain":"example.com","receipt":true}`, auth(goodKey), 200, true, false},
		{s, "POST", check, iban, auth(freeKey), 403, true, false},
		{s, "POST", check, domain, auth(usedKey), 429, true, false},
		{repeating, "POST", check, domain, once("k"), 200, true, false},
		{repeating, "POST", check, domain, once("k"), 200, true, false},
		{repeating, "POST", check, iban, once("k"), 409, true, false},
		{repeating, "POST", check, domain, once(strings.Repeat("k", 256)), 400, false, false},
		{repeating, "POST", batch, two, once("k2"), 200, true, false},
		{repeating, "POST", batch, two, once("k2"), 200, true, false},
		{repeating, "POST", batch, two, once("k"), 409, true, false},
		{s, "POST", batch, two, auth(freeKey), 403, true, false},
		{s, "POST", batch, two, auth(usedKey), 429, true, false},
		{s, "POST", public, domain, nil, 200, true, false},
		{s, "POST", public, `{"email":"a@example.com"}`, nil, 400, false, false},
		unfinished(hasty, public),
		{s, "POST", public, large, nil, 413, false, false},
		{s, "POST", public, domain, []string{"Content-Encoding", "gzip"}, 415, true, false},
		{busy, "POST", public, domain, nil, 429, true, false},
		{s, "POST", public, domain, long, 431, true, false},
		{broken, "POST", public, domain, nil, 500, true, false},
		{full, "POST", public, domain, nil, 503, true, false},
		{billed, "POST", providerPath, `{"x":"` + large + `"}`, good, 200, true, false},
		{billed, "POST", providerPath, `{}`, []string{"Stripe-Signature", "bad"}, 400, true, false},
		{s, "POST", providerPath, `{}`, good, 404, true, false},
		{s, "GET", export + "?subject=" + knownSubject + "&limit=1&after=" + knownRef, "", auth(goodKey), 200, true,
			false},
		{s, "GET", export + "?ref=" + largeRef, "", auth(goodKey), 202, true, false},
		{s, "POST", export, about, auth(goodKey), 202, true, false},
		{s, "POST", erasePath, about, auth(goodKey), 202, true, false},
		{s, "GET", exportChecksPath + "?format=csv", "", auth(goodKey), 200, true, false},
		{s, "GET", checkpointPath + "?chain=3", "", nil, 200, true, false},
		{s, "GET", checkpointPath, "", nil, 404, true, false},
		{s, "GET", checkpointPath + "?chain=x", "", nil, 400, false, false},
		{crowd, "GET", checkpointPath, "", nil, 429, true, false},
		{s, "GET", checkpointPath, "", long, 431, true, false},
		{s, "GET", "/audit/3/checkpoint", "", nil, 200, true, false},
		{s, "GET", "/audit/0/checkpoint", "", nil, 404, true, false},
		{crowd, "GET", "/audit/3/checkpoint", "", nil, 429, true, false},
		{s, "GET", "/audit/3/checkpoint", "", long, 431, true, false},
		{s, "GET", "/openapi.json", "", nil, 200, true, false},
		{s, "GET", "/openapi.json", "", long, 431, true, false},
		{s, "GET", "/healthz", "", nil, 200, true, false},
		{s, "GET", "/healthz", large, nil, 413, true, false},
		{s, "GET", "/readyz", "", nil, 200, true, false},
		{broken, "GET", "/readyz", "", nil, 503, true, false},
		{s, "GET", "/readyz", "", long, 431, true, false},
	}...)
	seen := map[string]bool{}
	for _, c := range conversations {
		path, r, err := c.validate(t, router, nil)
		if err != nil {
			t.Errorf("%s %s, status %d: %v", c.method, c.path, r.status, err)
			continue
		}
		r.is(t, c.method+" "+c.path, c.status)
		which := http.StatusText(r.status)
		if doc.Paths.Value(path).GetOperation(c.method).Responses.Status(r.status) == nil {
			which = "default"
		}
		seen[c.method+" "+path+" "+which] = true
	}
	for path, item := range doc.Paths.Map() {
		for method, operation := range item.Operations() {
			for status := range operation.Responses.Map() {
				which := "default"
				if code, err := strconv.Atoi(status); err == nil {
					which = http.StatusText(code)
				}
				expect.That(t, seen[method+" "+path+" "+which], "%s %s: no request provokes the documented response %s",
					method, path, status)
			}
		}
	}

	// Validation must reject responses that were tampered with.
	for name, tamper := range map[string]func(*reply){
		"a score above 100":      func(r *reply) { r.body = strings.Replace(r.body, "94", "194", 1) },
		"no ref":                 func(r *reply) { r.body = strings.Replace(r.body, `"ref"`, `"reference"`, 1) },
		"an undocumented status": func(r *reply) { r.status = 418 },
		"a different media type": func(r *reply) { r.header.Set("Content-Type", "text/plain") },
	} {
		_, _, err := conversations[0].validate(t, router, tamper)
		expect.That(t, err != nil, "%s is accepted", name)
	}
}

type brokenPublic struct{ *public }

func (brokenPublic) Take(context.Context, netip.Prefix) (time.Time, bool, error) {
	return time.Time{}, false, errors.New(secret)
}

// validate sends the request, and validates it and the response, which tamper may change. It returns the path.
func (c conversation) validate(t *testing.T, router routers.Router, tamper func(*reply)) (
	path string, r reply, err error) {
	t.Helper()
	headers := c.headers
	if !slices.Contains(headers, "Content-Type") && c.body != "" {
		headers = append(slices.Clone(headers), "Content-Type", "application/json")
	}
	if c.raw {
		conn := c.site.dial(t)
		expect.Value(io.WriteString(conn, c.body))(t)
		r = readReply(t, expect.Value(http.ReadResponse(bufio.NewReader(conn), nil))(t))
	} else {
		r = c.site.send(t, c.method, c.path, c.body, headers...)
	}
	if tamper != nil {
		r.header = r.header.Clone()
		tamper(&r)
	}
	req := expect.Value(http.NewRequestWithContext(t.Context(), c.method, c.path, strings.NewReader(c.body)))(t)
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Add(headers[i], headers[i+1])
	}
	route, params, err := router.FindRoute(req)
	if err != nil {
		return "", r, err
	}
	path = route.Path
	if err := namesField(r); err != nil {
		return path, r, err
	}
	input := &openapi3filter.RequestValidationInput{Request: req, Route: route, PathParams: params,
		Options: &openapi3filter.Options{
			IncludeResponseStatus: true,
			AuthenticationFunc:    openapi3filter.NoopAuthenticationFunc,
		}}
	switch err := openapi3filter.ValidateRequest(t.Context(), input); {
	case c.valid && err != nil:
		return path, r, err
	case !c.valid && err == nil:
		return path, r, errors.New("the document allows this request")
	}
	return path, r, openapi3filter.ValidateResponse(t.Context(), &openapi3filter.ResponseValidationInput{
		RequestValidationInput: input,
		Status:                 r.status,
		Header:                 r.header,
		Body:                   io.NopCloser(bytes.NewReader([]byte(r.body))),
		Options:                input.Options,
	})
}

// namedField is the beginning of an error about a single field.
var namedField = regexp.MustCompile(`^([A-Za-z][A-Za-z0-9_.-]*): `)

// namesField checks that a 400 whose text begins with a field names it in "field" too, and no other does.
func namesField(r reply) error {
	var failure struct{ Error, Field string }
	if r.status != http.StatusBadRequest {
		return nil
	}
	if err := json.Unmarshal([]byte(r.body), &failure); err != nil {
		return err
	}
	want := ""
	if m := namedField.FindStringSubmatch(failure.Error); m != nil {
		want = m[1]
	}
	if failure.Field != want {
		return fmt.Errorf("the error is about %q, but names %q: %s", want, failure.Field, failure.Error)
	}
	return nil
}
