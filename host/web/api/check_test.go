package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"assay/host/access/admission"
	"assay/host/check"
	"assay/host/web/refusal"
	"assay/registry/expect"
)

func TestResultMatchesTheContract(t *testing.T) {
	t.Parallel()
	r := start(t, Config{}).check(t, `{"domain":"paypa1-secure-login.xyz"}`)
	r.wellBehaved(t)
	ref := r.body[strings.Index(r.body, "chk_"):]
	ref = ref[:strings.Index(ref, `"`)]
	want := `{"score":94,"verdict":"block","signals":["first","second"],"dominant_threat":"phishing","type":"domain",` +
		`"query":"paypa1-secure-login.xyz","timestamp":"2026-01-15T10:30:00.123Z","ref":"` + ref + `"}`
	expect.NoDiff(t, "difference", want, r.body)
	expect.Equal(t, "Cache-Control", r.header.Get("Cache-Control"), "no-store")
	got := newResult(&check.Decision{})
	expect.That(t, got.Signals != nil && got.Threat == nil, "signals %v, threat %v; want an empty list and null",
		got.Signals, got.Threat)
}

func TestContentType(t *testing.T) {
	t.Parallel()
	s := start(t, Config{})
	const body = `{"domain":"example.com"}`
	type testCase struct {
		headers []string
		status  int
	}
	expect.Each(t, map[string]testCase{
		"no Content-Type":         {nil, 200},
		"form, as curl -d sends":  {[]string{"Content-Type", "application/x-www-form-urlencoded"}, 200},
		"text/plain":              {[]string{"Content-Type", "text/plain"}, 415},
		"malformed type":          {[]string{"Content-Type", "application/json;;="}, 415},
		"utf-16":                  {[]string{"Content-Type", "application/json; charset=utf-16"}, 415},
		"upper case":              {[]string{"Content-Type", "APPLICATION/JSON"}, 200},
		"charset utf-8":           {[]string{"Content-Type", `application/json; charset="UTF-8"`}, 200},
		"gzip":                    {[]string{"Content-Encoding", "gzip"}, 415},
		"identity":                {[]string{"Content-Encoding", "identity"}, 415},
		"second of two encodings": {[]string{"Content-Encoding", "", "Content-Encoding", "gzip"}, 415},
		"two Content-Types":       {[]string{"Content-Type", "application/json", "Content-Type", "text/plain"}, 400},
	}, func(t *testing.T, test testCase) {
		r := s.send(t, http.MethodPost, "/api/check", body, append(test.headers, "Authorization", "Bearer "+
			goodKey)...)
		r.wellBehaved(t)
		expect.That(t, r.status == test.status, "status %d, want %d: %s", r.status, test.status, r.body)
	})
}

// Only a plausible key in a single header is looked up.
func TestAuthorization(t *testing.T) {
	t.Parallel()
	all, some := start(t, Config{Keys: keyFunc(func(context.Context, string) (check.Caller, error) {
		return check.Caller{}, nil
	})}), start(t, Config{})
	want := failure{Code: refusal.Unauthorized, Error: "the API key is missing, malformed, revoked or cancelled"}
	type testCase struct {
		site   *site
		lines  []string
		path   string
		body   string
		status int
	}
	of := func(status int, lines ...string) testCase { return testCase{all, lines, "", exampleBody, status} }
	expect.Each(t, map[string]testCase{
		"plain":                  of(200, "Bearer key_0-9.~+/="),
		"longest":                of(200, "Bearer "+strings.Repeat("k", 256)),
		"lower case":             of(200, "bearer k"),
		"upper case, two spaces": of(200, "BEARER  k"),
		"none":                   of(401),
		"scheme and space":       of(401, "Bearer "),
		"key only":               of(401, "k"),
		"basic":                  of(401, "Basic k"),
		"two the same":           of(401, "Bearer k", "Bearer k"),
		"a list":                 of(401, "Bearer k, Bearer k"),
		"tab":                    of(401, "Bearer a\tb"),
		"not ASCII":              of(401, "Bearer ké"),
		"not UTF-8":              of(401, "Bearer k\xff"),
		"too long":               of(401, "Bearer "+strings.Repeat("k", 257)),
		"unknown":                {some, []string{"Bearer key-unknown"}, "", exampleBody, 401},
		"in the query": {some, nil, "?key=" + goodKey + "&authorization=Bearer+" + goodKey, exampleBody,
			401},
		"good key, invalid body":  {some, []string{"Bearer " + goodKey}, "", "{", 400},
		"wrong key, invalid body": {some, []string{"Bearer key-unknown"}, "", "{", 401},
	}, func(t *testing.T, test testCase) {
		var headers []string
		for _, line := range test.lines {
			headers = append(headers, "Authorization", line)
		}
		r := test.site.send(t, http.MethodPost, "/api/check"+test.path, test.body, headers...)
		r.is(t, "answer", test.status)
		if r.status == http.StatusUnauthorized {
			expect.NoDiff(t, "difference", want, r.failure(t))
		}
	})
}

func TestErrorsOfACheck(t *testing.T) {
	t.Parallel()
	s := start(t, Config{})
	internal := failure{Code: refusal.Internal,
		Error: "an internal error occurred; quote the ref when you contact support"}
	for key, test := range map[string]struct {
		status int
		body   failure // an internal error has a ref besides
	}{
		freeKey: {403, failure{Code: refusal.Plan,
			Error: "the free plan does not cover iban checks, only domain and email"}},
		busyKey: {503, failure{Code: refusal.Busy, Error: admission.ErrBusy.Error()}},
		failKey: {500, internal}, downKey: {500, internal}, panicKey: {500, internal},
	} {
		r := s.ask(t, key, "POST /api/check", `{"iban":"DE89370400440532013000"}`)
		r.is(t, key, test.status)
		got := r.failure(t)
		if test.status == 500 {
			expect.That(t, strings.HasPrefix(got.Ref, "chk_") && strings.Contains(s.log.String(), got.Ref) &&
				(key != failKey || got.Ref == knownRef), "%s: ref %q", key, got.Ref)
			got.Ref = ""
		}
		expect.NoDiff(t, key, test.body, got)
	}
	expect.Equal(t, "bytes of a panic logged", len(newPanic(strings.Repeat("x", 1000)).text), 256)
}

// Strings from a request must not share memory with fiber's buffers, which the next request overwrites.
func TestStringsOutliveTheRequest(t *testing.T) {
	t.Parallel()
	s := start(t, Config{})
	client := http.Client{Transport: &http.Transport{}} // uses one connection, and so the same buffers
	defer client.CloseIdleConnections()
	var want, got []string
	for n := range 200 {
		body := fmt.Sprintf(
			`{"region":{"country":"c%06d"},"domain":"d%06d.example","email":"e%06d@example.com"}`, n, n, n)
		req := expect.Value(http.NewRequest(http.MethodPost, "http://"+s.addr+"/api/check", strings.NewReader(body)))(t)
		req.Header.Set("Authorization", "Bearer "+goodKey)
		readReply(t, expect.Value(client.Do(req))(t)).is(t, body, 200, fmt.Sprintf(`"query":"d%06d.example"`, n))
		want = append(want, fmt.Sprintf("%s c%06d [domain=d%06d.example email=e%06d@example.com]", goodKey, n, n, n))
	}
	for _, req := range s.checker.requests() {
		got = append(got, fmt.Sprint(req.Caller.Account, " ", req.Country, " ", fieldsOf(req)))
	}
	expect.NoDiff(t, "difference", want, got)
}

func (s *site) batch(t testing.TB, body string) reply {
	t.Helper()
	return s.ask(t, goodKey, "POST "+batchPath, body, "Content-Type", "application/json")
}

func TestBatch(t *testing.T) {
	t.Parallel()
	s := start(t, Config{})
	r := s.batch(t, `{"x":1,"checks":[
		{"domain":"example.com","region":{"country":"FR"}}, {"email":7}, {}, "domain", {"iban":"DE89","domain":" "},
		{"domain":"a.com","x":[[[[[[[[]]]]]]]]}, {"domain":"a\u0000b.com"}, null
	]}`)
	r.wellBehaved(t)
	expect.Must(t, r.status == 200, "status %d: %s", r.status, r.body)
	var body struct {
		Results []struct{ Type, Query, Ref, Error string }
	}
	expect.NoError(t, json.Unmarshal([]byte(r.body), &body))
	var got []string
	for _, a := range body.Results {
		got = append(got, strings.TrimSpace(fmt.Sprint(a.Type, " ", a.Query, " ", a.Error)))
		expect.That(t, (a.Ref == "") == (a.Error != ""), "ref %q together with error %q", a.Ref, a.Error)
	}
	want := []string{
		"domain example.com",
		"email: must be a string, not a number",
		"one of domain, email, phone or iban is required",
		"the request must be a JSON object, not a string",
		"iban DE89",
		"the request is nested more than 8 levels deep",
		"domain: must not contain control characters",
		"the request must be a JSON object, not null",
	}
	expect.NoDiff(t, "difference", want, got)
	seen := s.checker.requests()
	expect.That(t, len(seen) == 2 && seen[0].Country == "FR" && seen[0].Caller.Account == goodKey, "checked %+v", seen)
}

func TestLargestBatch(t *testing.T) {
	t.Parallel()
	s, item := start(t, Config{}), `{"domain":"`+strings.Repeat("a", 1000)+`.com"}`
	r := s.batch(t, `{"checks":[`+strings.TrimSuffix(strings.Repeat(item+",", check.MaxBatch), ",")+`]}`)
	expect.That(t, r.status == 200 && len(s.checker.requests()) == check.MaxBatch, "status %d, %d requests: %.200s",
		r.status, len(s.checker.requests()), r.body)
	// Only a batch has the larger limit.
	blanks := strings.Repeat(" ", maxBatchBody)
	s.check(t, exampleBody+blanks[:maxBody-len(exampleBody)]).is(t, "a single check at the limit", 200)
	exceeds := fmt.Sprintf("the body exceeds %d bytes", maxBody)
	s.check(t, blanks[:maxBody+1]).is(t, "a single check", 413, exceeds)
	s.send(t, "POST", "/api/check", blanks[:maxBody+1]).is(t, "an oversize body without a key", 413, exceeds)
	s.batch(t, blanks+" ").is(t, "a batch", 413, fmt.Sprintf("the body exceeds %d bytes", maxBatchBody))
}
