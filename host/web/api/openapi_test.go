package api

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"
	"github.com/google/go-cmp/cmp"

	"assay/host/access/admission"
	"assay/host/access/apikey"
	"assay/host/entity"
	"assay/host/store/storetest"
	"assay/sdk"
)

func loadDocument(t *testing.T) (*openapi3.T, routers.Router) {
	t.Helper()
	doc := storetest.Must(openapi3.NewLoader().LoadFromData(document))(t)
	// Examples are validated against their schemas too.
	storetest.NoError(t, doc.Validate(t.Context(), openapi3.EnableExamplesValidation()))
	router := storetest.Must(gorillamux.NewRouter(doc))(t)
	return doc, router
}

func TestEveryRouteIsDocumented(t *testing.T) {
	t.Parallel()
	doc, _ := loadDocument(t)
	var documented, routed []string
	for path, item := range doc.Paths.Map() {
		for method := range item.Operations() {
			documented = append(documented, method+" "+path)
		}
	}
	s, places := New(Config{}), strings.NewReplacer(":ref", "{ref}", ":id", "{id}",
		":chain", "{chain}", "*", "{path}")
	for _, r := range s.app.GetRoutes() {
		if r.Method != http.MethodHead { // registered with GET
			routed = append(routed, r.Method+" "+places.Replace(r.Path))
		}
	}
	slices.Sort(documented)
	slices.Sort(routed)
	storetest.NoDiff(t, "only documented (-), only routed (+):\n", documented, routed)
	storetest.Expect(t, "paths with an Allow", len(slices.Sorted(maps.Keys(s.allow))), doc.Paths.Len())
}

func TestEveryThreatIsDocumented(t *testing.T) {
	t.Parallel()
	doc, _ := loadDocument(t)
	var want []any
	for _, threat := range sdk.Threats() {
		want = append(want, string(threat))
	}
	if diff := cmp.Diff(want, doc.Components.Schemas["Threat"].Value.Enum); diff != "" {
		t.Errorf("threats of layers (-), documented threats (+):\n%s", diff)
	}
}

// conversation is a request and the expected response.
type conversation struct {
	site         *site
	method, path string
	body         string
	headers      []string
	status       int
	valid        bool // whether the document allows the request
	raw          bool // send body as the whole request
}

// TestEveryResponseIsAsDocumented provokes every documented response and validates it against the document.
func TestEveryResponseIsAsDocumented(t *testing.T) {
	t.Parallel()
	doc, router := loadDocument(t)
	s := start(t, Config{Version: "1.2.3"})
	hasty := start(t, Config{ReadTimeout: 100 * time.Millisecond})
	broken := start(t, Config{
		Ready:   func() error { return errors.New(secret) },
		Public:  brokenPublic{&public{}},
		Checker: newHolding(),
	})
	busy := start(t, Config{Public: &public{limit: 0}})
	billed := start(t, Config{ProviderEvent: func(_ context.Context, body []byte, signature string) error {
		if signature != "good" || len(body) <= maxBody {
			return &entity.InvalidError{Field: "Stripe-Signature", Reason: "is wrong"}
		}
		return nil
	}})
	limited := start(t, Config{Keys: limitedKeys{goodKey: {Scopes: []apikey.Scope{"another"}}, freeKey: nil}})
	auth := func(key string) []string { return []string{"Authorization", "Bearer " + key} }
	repeating := startOnce(t, &onceChecker{})
	once := func(key string) []string { return append(auth(goodKey), onceHeader, key) }
	full := start(t, Config{Door: closedDoor{}, MaxPrivacy: 1, EventSlots: admission.NewShares(1)})
	fast := start(t, Config{Rates: exceeded{}})
	crowd := start(t, Config{Rates: busyNetwork{}})
	for _, slots := range []*admission.Shares{full.privacy, full.events} {
		if _, err := slots.Take("another"); err != nil {
			t.Fatal(err)
		}
	}

	const domain, iban = `{"domain":"example.com"}`, `{"iban":"DE89 3704 0044 0532 0130 00","region":{"country":"DE"}}`
	large := strings.Repeat(" ", maxBody+1)
	long := []string{"X-Long", strings.Repeat("x", maxHead)}
	unfinished := func(path string) string {
		return "POST " + path +
			" HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n"
	}

	const check, public, batch = "/api/check", "/api/check-public", batchPath
	const export, known = exportPath, "?ref=" + knownRef
	const report = `{"ref":"` + knownRef + `","label":"fraud"}`
	const overridden = "?id=" + knownOverride
	const blocking = `{"action":"block","domain":"example.com","reason":"x","expires_at":"2026-03-01T00:00:00Z"}`
	const two = `{"checks":[{"domain":"example.com"},{"email":7}]}`
	conversations := []conversation{
		{s, "POST", check, domain, auth(goodKey), 200, true, false},
		{s, "POST", check, iban, auth(goodKey), 200, true, false},
		{s, "POST", check, `{"email":"a@example.com","phone":"112233","x":[1]}`, auth(goodKey), 200, true, false},
		{s, "POST", check, `{}`, auth(goodKey), 400, false, false},
		{s, "POST", check, `{"domain":1}`, auth(goodKey), 400, false, false},
		{s, "POST", check, `{"domain":"a.com","region":{"country":1}}`, auth(goodKey), 400, false, false},
		{s, "POST", check, `[]`, auth(goodKey), 400, false, false},
		{s, "POST", check, domain, nil, 401, true, false},
		{s, "POST", check, domain, auth("key-unknown"), 401, true, false},
		{s, "POST", check, iban, auth(freeKey), 403, true, false},
		{limited, "POST", check, domain, auth(goodKey), 403, true, false},
		{limited, "POST", check, domain, auth(freeKey), 401, true, false},
		{hasty, "POST", check, unfinished(check), nil, 408, false, true},
		{s, "POST", check, large, auth(goodKey), 413, false, false},
		{s, "POST", check, domain, append(auth(goodKey), "Content-Type", "text/plain"), 415, false, false},
		{s, "POST", check, domain, auth(usedKey), 429, true, false},
		{s, "POST", check, domain, append(auth(goodKey), long...), 431, true, false},
		{s, "POST", check, domain, auth(failKey), 500, true, false},
		{s, "POST", check, domain, auth(panicKey), 500, true, false},
		{s, "POST", check, domain, auth(downKey), 500, true, false},
		{s, "POST", check, domain, auth(busyKey), 503, true, false},
		{full, "POST", check, domain, auth(goodKey), 503, true, false},
		{repeating, "POST", check, domain, once("k"), 200, true, false},
		{repeating, "POST", check, domain, once("k"), 200, true, false},
		{repeating, "POST", check, iban, once("k"), 409, true, false},
		{repeating, "POST", check, domain, once(strings.Repeat("k", 256)), 400, false, false},
		{repeating, "POST", batch, two, once("k2"), 200, true, false},
		{repeating, "POST", batch, two, once("k2"), 200, true, false},
		{repeating, "POST", batch, two, once("k"), 409, true, false},
		{s, "POST", batch, two, auth(goodKey), 200, true, false},
		{s, "POST", batch, `{"checks":[]}`, auth(goodKey), 400, false, false},
		{s, "POST", batch, two, nil, 401, true, false},
		{s, "POST", batch, two, auth(freeKey), 403, true, false},
		{hasty, "POST", batch, unfinished(batch), nil, 408, false, true},
		{s, "POST", batch, strings.Repeat(" ", maxBatchBody+1), auth(goodKey), 413, false, false},
		{s, "POST", batch, two, append(auth(goodKey), "Content-Type", "text/plain"), 415, false, false},
		{s, "POST", batch, two, auth(usedKey), 429, true, false},
		{s, "POST", batch, two, append(auth(goodKey), long...), 431, true, false},
		{s, "POST", batch, two, auth(failKey), 500, true, false},
		{full, "POST", batch, two, auth(goodKey), 503, true, false},
		{s, "POST", public, domain, nil, 200, true, false},
		{s, "POST", public, `{"email":"a@example.com"}`, nil, 400, false, false},
		{hasty, "POST", public, unfinished(public), nil, 408, false, true},
		{s, "POST", public, large, nil, 413, false, false},
		{s, "POST", public, domain, []string{"Content-Encoding", "gzip"}, 415, true, false},
		{busy, "POST", public, domain, nil, 429, true, false},
		{s, "POST", public, domain, long, 431, true, false},
		{broken, "POST", public, domain, nil, 500, true, false},
		{full, "POST", public, domain, nil, 503, true, false},
		{billed, "POST", providerPath, `{"x":"` + large + `"}`, []string{"Stripe-Signature", "good"}, 200, true, false},
		{billed, "POST", providerPath, `{}`, []string{"Stripe-Signature", "bad"}, 400, true, false},
		{s, "POST", providerPath, `{}`, []string{"Stripe-Signature", "good"}, 404, true, false},
		{s, "GET", "/api/events?after=1&limit=100", "", auth(goodKey), 200, true, false},
		{s, "GET", "/api/events?after=-1", "", auth(goodKey), 400, false, false},
		{s, "GET", "/api/events", "", nil, 401, true, false},
		{limited, "GET", "/api/events", "", auth(goodKey), 403, true, false},
		{s, "GET", "/api/events", "", append(auth(goodKey), long...), 431, true, false},
		{s, "GET", "/api/events", "", auth(failKey), 500, true, false},
		{full, "GET", "/api/events", "", auth(goodKey), 503, true, false},
		{s, "POST", feedbackPath, report, auth(goodKey), 200, true, false},
		{s, "POST", feedbackPath, `{"ref":"` + knownRef + `","label":"spam"}`, auth(goodKey), 400, false, false},
		{s, "POST", feedbackPath, report, nil, 401, true, false},
		{limited, "POST", feedbackPath, report, auth(goodKey), 403, true, false},
		{s, "POST", feedbackPath, `{"ref":"` + unknownRef + `","label":"fraud"}`, auth(goodKey), 404, true, false},
		{hasty, "POST", feedbackPath, unfinished(feedbackPath), nil, 408, false, true},
		{s, "POST", feedbackPath, large, auth(goodKey), 413, false, false},
		{s, "POST", feedbackPath, report, append(auth(goodKey), "Content-Type", "text/plain"), 415, false, false},
		{s, "POST", feedbackPath, report, append(auth(goodKey), long...), 431, true, false},
		{s, "POST", feedbackPath, report, auth(failKey), 500, true, false},
		{full, "POST", feedbackPath, report, auth(goodKey), 503, true, false},
		{s, "DELETE", feedbackPath + known, "", auth(goodKey), 200, true, false},
		{s, "DELETE", feedbackPath + "?ref=x", "", auth(goodKey), 400, false, false},
		{s, "DELETE", feedbackPath + known, "", nil, 401, true, false},
		{limited, "DELETE", feedbackPath + known, "", auth(goodKey), 403, true, false},
		{s, "DELETE", feedbackPath + "?ref=" + unknownRef, "", auth(goodKey), 404, true, false},
		{s, "DELETE", feedbackPath + known, "", append(auth(goodKey), long...), 431, true, false},
		{s, "DELETE", feedbackPath + known, "", auth(failKey), 500, true, false},
		{full, "DELETE", feedbackPath + known, "", auth(goodKey), 503, true, false},
		{s, "POST", overridesPath, blocking, auth(goodKey), 200, true, false},
		{s, "POST", overridesPath, `{"action":"block"}`, auth(goodKey), 400, false, false},
		{s, "POST", overridesPath, blocking, nil, 401, true, false},
		{limited, "POST", overridesPath, blocking, auth(goodKey), 403, true, false},
		{hasty, "POST", overridesPath, unfinished(overridesPath), nil, 408, false, true},
		{s, "POST", overridesPath, large, auth(goodKey), 413, false, false},
		{s, "POST", overridesPath, blocking, append(auth(goodKey), "Content-Type", "text/plain"), 415, false, false},
		{s, "POST", overridesPath, blocking, append(auth(goodKey), long...), 431, true, false},
		{s, "POST", overridesPath, blocking, auth(failKey), 500, true, false},
		{full, "POST", overridesPath, blocking, auth(goodKey), 503, true, false},
		{s, "GET", overridesPath, "", auth(goodKey), 200, true, false},
		{s, "GET", overridesPath, "", nil, 401, true, false},
		{limited, "GET", overridesPath, "", auth(goodKey), 403, true, false},
		{s, "GET", overridesPath, "", append(auth(goodKey), long...), 431, true, false},
		{s, "GET", overridesPath, "", auth(failKey), 500, true, false},
		{full, "GET", overridesPath, "", auth(goodKey), 503, true, false},
		{s, "DELETE", overridesPath + overridden, "", auth(goodKey), 200, true, false},
		{s, "DELETE", overridesPath + "?id=x", "", auth(goodKey), 400, false, false},
		{s, "DELETE", overridesPath + overridden, "", nil, 401, true, false},
		{limited, "DELETE", overridesPath + overridden, "", auth(goodKey), 403, true, false},
		{s, "DELETE", overridesPath + "?id=" + unknownOverride, "", auth(goodKey), 404, true, false},
		{s, "DELETE", overridesPath + overridden, "", append(auth(goodKey), long...), 431, true, false},
		{s, "DELETE", overridesPath + overridden, "", auth(failKey), 500, true, false},
		{full, "DELETE", overridesPath + overridden, "", auth(goodKey), 503, true, false},
		{s, "GET", export + known, "", auth(goodKey), 200, true, false},
		{s, "GET", export + "?subject=" + knownSubject + "&limit=1&after=" + knownRef, "", auth(goodKey), 200, true,
			false},
		{s, "GET", export + "?ref=chk_%25", "", auth(goodKey), 400, false, false},
		{s, "GET", export + known, "", nil, 401, true, false},
		{s, "GET", export + known, "", auth(freeKey), 403, true, false},
		{s, "GET", export + "?ref=" + unknownRef, "", auth(goodKey), 404, true, false},
		{s, "GET", export + known, "", append(auth(goodKey), long...), 431, true, false},
		{s, "GET", export + known, "", auth(failKey), 500, true, false},
		{full, "GET", export + known, "", auth(goodKey), 503, true, false},
		{fast, "POST", check, domain, auth(goodKey), 429, true, false},
		{fast, "POST", batch, two, auth(goodKey), 429, true, false},
		{fast, "GET", "/api/events", "", auth(goodKey), 429, true, false},
		{fast, "POST", feedbackPath, report, auth(goodKey), 429, true, false},
		{fast, "DELETE", feedbackPath + known, "", auth(goodKey), 429, true, false},
		{fast, "POST", overridesPath, blocking, auth(goodKey), 429, true, false},
		{fast, "GET", overridesPath, "", auth(goodKey), 429, true, false},
		{fast, "DELETE", overridesPath + overridden, "", auth(goodKey), 429, true, false},
		{fast, "GET", export + known, "", auth(goodKey), 429, true, false},
		{s, "POST", searchPath, `{"verdict":"block"}`, auth(goodKey), 200, true, false},
		{s, "POST", searchPath, `{"verdict":"BLOCK"}`, auth(goodKey), 400, false, false},
		{s, "POST", searchPath, `{}`, nil, 401, true, false},
		{s, "GET", checksPrefix + knownRef, "", auth(goodKey), 200, true, false},
		{s, "GET", checksPrefix + "chk_x", "", auth(goodKey), 400, false, false},
		{s, "GET", checksPrefix + knownRef, "", nil, 401, true, false},
		{s, "GET", checksPrefix + unknownRef, "", auth(goodKey), 404, true, false},
		{limited, "POST", searchPath, `{}`, auth(goodKey), 403, true, false},
		{limited, "GET", checksPrefix + knownRef, "", auth(goodKey), 403, true, false},
		{fast, "GET", checksPrefix + knownRef, "", auth(goodKey), 429, true, false},
		{fast, "GET", reviewPath + known, "", auth(goodKey), 429, true, false},
		{s, "GET", checksPrefix + knownRef, "", append(auth(goodKey), long...), 431, true, false},
		{s, "GET", checksPrefix + knownRef, "", auth(failKey), 500, true, false},
		{full, "GET", checksPrefix + knownRef, "", auth(goodKey), 503, true, false},
		{s, "POST", check, `{"domain":"example.com","receipt":true}`, auth(goodKey), 200, true, false},
		{s, "GET", receiptsPrefix + knownRef, "", auth(goodKey), 200, true, false},
		{s, "GET", receiptsPrefix + "chk_x", "", auth(goodKey), 400, false, false},
		{s, "GET", receiptsPrefix + knownRef, "", nil, 401, true, false},
		{limited, "GET", receiptsPrefix + knownRef, "", auth(goodKey), 403, true, false},
		{s, "GET", receiptsPrefix + unknownRef, "", auth(goodKey), 404, true, false},
		{fast, "GET", receiptsPrefix + knownRef, "", auth(goodKey), 429, true, false},
		{s, "GET", receiptsPrefix + knownRef, "", append(auth(goodKey), long...), 431, true, false},
		{s, "GET", receiptsPrefix + knownRef, "", auth(failKey), 500, true, false},
		{full, "GET", receiptsPrefix + knownRef, "", auth(goodKey), 503, true, false},
		{s, "GET", reviewPath + known, "", auth(goodKey), 200, true, false},
		{s, "GET", reviewPath + "?ref=x", "", auth(goodKey), 400, false, false},
		{s, "GET", reviewPath + known, "", nil, 401, true, false},
		{s, "GET", reviewPath + known, "", auth(freeKey), 403, true, false},
		{s, "GET", reviewPath + "?ref=" + unknownRef, "", auth(goodKey), 404, true, false},
		{s, "GET", reviewPath + known, "", append(auth(goodKey), long...), 431, true, false},
		{s, "GET", reviewPath + known, "", auth(failKey), 500, true, false},
		{full, "GET", reviewPath + known, "", auth(goodKey), 503, true, false},
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
	}
	for _, path := range []string{exportPath, erasePath, subjectPath} {
		conversations = append(conversations,
			conversation{s, "POST", path, `{"email":"a@example.com"}`, auth(goodKey), 200, true, false},
			conversation{s, "POST", path, `{"email":"a@example.com","phone":"112233"}`, auth(goodKey), 400, false,
				false},
			conversation{s, "POST", path, `{"email":"a@example.com"}`, nil, 401, true, false},
			conversation{s, "POST", path, `{"email":"a@example.com"}`, auth(freeKey), 403, true, false},
			conversation{hasty, "POST", path, unfinished(path), nil, 408, false, true},
			conversation{s, "POST", path, large, auth(goodKey), 413, false, false},
			conversation{s, "POST", path, `{"email":"a@example.com"}`,
				append(auth(goodKey), "Content-Type", "text/plain"), 415, false, false},
			conversation{s, "POST", path, `{"email":"a@example.com"}`, append(auth(goodKey), long...), 431, true,
				false},
			conversation{s, "POST", path, `{"email":"a@example.com"}`, auth(failKey), 500, true, false},
			conversation{fast, "POST", path, `{"email":"a@example.com"}`, auth(goodKey), 429, true, false},
			conversation{full, "POST", path, `{"email":"a@example.com"}`, auth(goodKey), 503, true, false})
		if path != subjectPath {
			conversations = append(conversations, conversation{s, "POST", path, `{"ref":"` + unknownRef + `"}`,
				auth(goodKey), 404, true, false})
		}
	}
	about := `{"ref":"` + largeRef + `"}`
	conversations = append(conversations,
		conversation{s, "GET", export + "?ref=" + largeRef, "", auth(goodKey), 202, true, false},
		conversation{s, "POST", export, about, auth(goodKey), 202, true, false},
		conversation{s, "POST", erasePath, about, auth(goodKey), 202, true, false})
	for _, data := range []string{"", requestData} {
		path := requestsPrefix + knownRequest + data
		conversations = append(conversations,
			conversation{s, "GET", path, "", auth(goodKey), 200, true, false},
			conversation{s, "GET", requestsPrefix + "req_x" + data, "", auth(goodKey), 400, false, false},
			conversation{s, "GET", path, "", nil, 401, true, false},
			conversation{s, "GET", path, "", auth(freeKey), 403, true, false},
			conversation{s, "GET", requestsPrefix + unknownRequest + data, "", auth(goodKey), 404, true, false},
			conversation{fast, "GET", path, "", auth(goodKey), 429, true, false},
			conversation{s, "GET", path, "", append(auth(goodKey), long...), 431, true, false},
			conversation{s, "GET", path, "", auth(failKey), 500, true, false},
			conversation{full, "GET", path, "", auth(goodKey), 503, true, false})
	}
	for path, body := range map[string]string{
		searchPath: `{}`, explainPath: `{"ref":"` + knownRef + `","email":"a@example.com"}`,
		reviewPath: `{"ref":"` + knownRef + `","reason":"x"}`,
	} {
		conversations = append(conversations,
			conversation{hasty, "POST", path, unfinished(path), nil, 408, false, true},
			conversation{s, "POST", path, large, auth(goodKey), 413, false, false},
			conversation{s, "POST", path, body, append(auth(goodKey), "Content-Type", "text/plain"), 415, false, false},
			conversation{s, "POST", path, body, append(auth(goodKey), long...), 431, true, false},
			conversation{fast, "POST", path, body, auth(goodKey), 429, true, false},
			conversation{s, "POST", path, body, auth(failKey), 500, true, false},
			conversation{full, "POST", path, body, auth(goodKey), 503, true, false})
		if path == searchPath {
			continue
		}
		conversations = append(conversations,
			conversation{s, "POST", path, body, auth(goodKey), 200, true, false},
			conversation{s, "POST", path, `{"ref":"x"}`, auth(goodKey), 400, false, false},
			conversation{s, "POST", path, body, nil, 401, true, false},
			conversation{s, "POST", path, body, auth(freeKey), 403, true, false},
			conversation{s, "POST", path, strings.Replace(body, knownRef, unknownRef, 1), auth(goodKey), 404, true,
				false})
	}
	for path, invalid := range map[string]string{
		exportChecksPath + "?format=json": exportChecksPath + "?format=xml", usagePath: usagePath + "?month=May",
	} {
		conversations = append(conversations,
			conversation{s, "GET", path, "", auth(goodKey), 200, true, false},
			conversation{s, "GET", invalid, "", auth(goodKey), 400, false, false},
			conversation{s, "GET", path, "", nil, 401, true, false},
			conversation{limited, "GET", path, "", auth(goodKey), 403, true, false},
			conversation{fast, "GET", path, "", auth(goodKey), 429, true, false},
			conversation{s, "GET", path, "", append(auth(goodKey), long...), 431, true, false},
			conversation{s, "GET", path, "", auth(failKey), 500, true, false},
			conversation{full, "GET", path, "", auth(goodKey), 503, true, false})
	}
	conversations = append(conversations,
		conversation{s, "GET", exportChecksPath + "?format=csv", "", auth(goodKey), 200, true, false})
	seen := map[string]bool{}
	for _, c := range conversations {
		r, err := c.validate(t, router, nil)
		if err != nil {
			t.Errorf("%s %s, status %d: %v", c.method, c.path, r.status, err)
		}
		if r.status != c.status {
			t.Errorf("%s %s: status %d, want %d: %s", c.method, c.path, r.status, c.status, r.body)
		}
		r.wellBehaved(t)
		path, _, _ := strings.Cut(c.path, "?")
		if path != searchPath && path != exportChecksPath && strings.HasPrefix(path, checksPrefix) {
			path = checkRefPath
		}
		if strings.HasPrefix(path, receiptsPrefix) {
			path = receiptPath
		}
		if id, ok := strings.CutPrefix(path, requestsPrefix); ok {
			path = requestPath + strings.TrimLeft(id, "req_0123456789ABCDEFGHJKMNPQRSTVWXYZx")
		}
		if path != checkpointPath && strings.HasPrefix(path, auditPrefix) {
			path = auditFilePath
		}
		operation := doc.Paths.Value(path).GetOperation(c.method)
		which := http.StatusText(r.status)
		if operation.Responses.Status(r.status) == nil {
			which = "default"
		}
		seen[c.method+" "+path+" "+which] = true
	}
	for path, item := range doc.Paths.Map() {
		for method, operation := range item.Operations() {
			for status := range operation.Responses.Map() {
				which := "default"
				for code := 200; code < 600; code++ {
					if status != "default" && operation.Responses.Status(code) == operation.Responses.Value(status) {
						which = http.StatusText(code)
					}
				}
				if !seen[method+" "+path+" "+which] {
					t.Errorf("%s %s: no request provokes the documented response %s", method, path,
						status)
				}
			}
		}
	}

	// Validation must reject responses that were tampered with.
	for name, tamper := range map[string]func(*reply){
		"a score as text":   func(r *reply) { r.body = strings.Replace(r.body, "94", `"94"`, 1) },
		"a score above 100": func(r *reply) { r.body = strings.Replace(r.body, "94", "194", 1) },
		"another verdict":   func(r *reply) { r.body = strings.Replace(r.body, "block", "BLOCK", 1) },
		"signals as null": func(r *reply) {
			r.body = strings.Replace(r.body, `["first","second"]`, "null", 1)
		},
		"a time without millis":      func(r *reply) { r.body = strings.Replace(r.body, ".123Z", "Z", 1) },
		"no ref":                     func(r *reply) { r.body = strings.Replace(r.body, `"ref"`, `"reference"`, 1) },
		"an undocumented status":     func(r *reply) { r.status = 418 },
		"a different media type":     func(r *reply) { r.header.Set("Content-Type", "text/plain") },
		"a body of another endpoint": func(r *reply) { r.body = `{"status":"ok"}` },
	} {
		if _, err := conversations[0].validate(t, router, tamper); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}

// brokenPublic fails to count.
type brokenPublic struct{ *public }

func (brokenPublic) Take(context.Context, netip.Prefix) (time.Time, bool, error) {
	return time.Time{}, false, errors.New(secret)
}

// validate sends the request and validates request and response against the document. tamper, if not nil, changes the
// response first.
func (c conversation) validate(t *testing.T, router routers.Router, tamper func(*reply)) (reply, error) {
	t.Helper()
	headers := c.headers
	if !slices.Contains(headers, "Content-Type") && c.body != "" {
		headers = append(slices.Clone(headers), "Content-Type", "application/json")
	}
	var r reply
	if c.raw {
		r = c.sendRaw(t)
	} else {
		r = c.site.send(t, c.method, c.path, c.body, headers...)
	}
	if tamper != nil {
		r.header = r.header.Clone()
		tamper(&r)
	}
	req := storetest.Must(http.NewRequestWithContext(t.Context(), c.method, c.path, strings.NewReader(c.body)))(t)
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Add(headers[i], headers[i+1])
	}
	route, params, err := router.FindRoute(req)
	if err != nil {
		return r, err
	}
	if err := namesField(r); err != nil {
		return r, err
	}
	input := &openapi3filter.RequestValidationInput{Request: req, Route: route, PathParams: params,
		Options: &openapi3filter.Options{
			IncludeResponseStatus: true,
			AuthenticationFunc:    openapi3filter.NoopAuthenticationFunc,
		}}
	switch err := openapi3filter.ValidateRequest(t.Context(), input); {
	case c.valid && err != nil:
		return r, err
	case !c.valid && err == nil:
		return r, errors.New("the document allows this request")
	}
	return r, openapi3filter.ValidateResponse(t.Context(), &openapi3filter.ResponseValidationInput{
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

// sendRaw writes c.body as the whole request and reads one response.
func (c conversation) sendRaw(t *testing.T) reply {
	t.Helper()
	conn := storetest.Must(net.Dial("tcp", c.site.addr))(t)
	defer func() { _ = conn.Close() }()
	if _, err := io.WriteString(conn, c.body); err != nil {
		t.Fatal(err)
	}
	resp := storetest.Must(http.ReadResponse(bufio.NewReader(conn), nil))(t)
	return readReply(t, resp)
}
