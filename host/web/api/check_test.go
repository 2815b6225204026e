package api

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"assay/host/access/admission"
	"assay/host/check"
	"assay/registry/expect"
)

func TestResultMatchesTheContract(t *testing.T) {
	t.Parallel()
	s := start(t, Config{})
	r := s.check(t, `{"domain":"paypa1-secure-login.xyz"}`)
	r.wellBehaved(t)
	ref := r.body[strings.Index(r.body, "chk_"):]
	ref = ref[:strings.Index(ref, `"`)]
	want := `{"score":94,"verdict":"block","signals":["first","second"],"dominant_threat":"phishing","type":"domain",` +
		`"query":"paypa1-secure-login.xyz","timestamp":"2026-01-15T10:30:00.123Z","ref":"` + ref + `"}`
	expect.NoDiff(t, "difference", want, r.body)
	expect.Equal(t, "Cache-Control", r.header.Get("Cache-Control"), "no-store")
}

func TestResultWithoutSignalsOrThreat(t *testing.T) {
	t.Parallel()
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

func TestBodySize(t *testing.T) {
	t.Parallel()
	s := start(t, Config{})
	pad := func(size int) string {
		const body = `{"domain":"example.com"}`
		return body + strings.Repeat(" ", size-len(body))
	}
	type testCase struct {
		size, status int
	}
	expect.Each(t, map[string]testCase{
		"at the limit":    {maxBody, 200},
		"above the limit": {maxBody + 1, 413},
	}, func(t *testing.T, test testCase) {
		s.check(t, pad(test.size)).is(t, "answer", test.status)
	})
	t.Run("an oversize body takes precedence over a missing key", func(t *testing.T) {
		t.Parallel()
		s.send(t, http.MethodPost, "/api/check", pad(maxBody+1)).is(t, "answer", 413)
	})
}

func TestAuthorization(t *testing.T) {
	t.Parallel()
	s := start(t, Config{})
	unauthorized := failure{Code: codeUnauthorized, Error: "the API key is missing, malformed, revoked or cancelled"}
	type testCase struct {
		headers []string
		path    string
		body    string
		status  int
	}
	expect.Each(t, map[string]testCase{
		"none":             {status: 401},
		"scheme and space": {headers: []string{"Authorization", "Bearer "}, status: 401},
		"key only":         {headers: []string{"Authorization", goodKey}, status: 401},
		"lower case":       {headers: []string{"Authorization", "bearer " + goodKey}, status: 200},
		"upper case":       {headers: []string{"Authorization", "BEARER " + goodKey}, status: 200},
		"two spaces":       {headers: []string{"Authorization", "Bearer  " + goodKey}, status: 200},
		"basic":            {headers: []string{"Authorization", "Basic " + goodKey}, status: 401},
		"two the same": {headers: []string{"Authorization", "Bearer " + goodKey, "Authorization",
			"Bearer " + goodKey}, status: 401},
		"a list": {headers: []string{"Authorization", "Bearer " + goodKey + ", Bearer " + goodKey},
			status: 401},
		"overlong": {headers: []string{"Authorization", "Bearer " + strings.Repeat("k", 300)},
			status: 401},
		"unknown":                 {headers: []string{"Authorization", "Bearer key-unknown"}, status: 401},
		"in the query":            {path: "?key=" + goodKey + "&authorization=Bearer+" + goodKey, status: 401},
		"good key, invalid body":  {headers: []string{"Authorization", "Bearer " + goodKey}, body: "{", status: 400},
		"wrong key, invalid body": {headers: []string{"Authorization", "Bearer key-unknown"}, body: "{", status: 401},
	}, func(t *testing.T, test testCase) {
		body := test.body
		if body == "" {
			body = `{"domain":"example.com"}`
		}
		r := s.send(t, http.MethodPost, "/api/check"+test.path, body, test.headers...)
		r.wellBehaved(t)
		expect.Must(t, r.status == test.status, "status %d, want %d: %s", r.status, test.status, r.body)
		if r.status == http.StatusUnauthorized {
			expect.NoDiff(t, "difference", unauthorized, r.failure(t))
		}
	})
}

// credulous accepts every key.
type credulous struct{}

func (credulous) Authenticate(context.Context, string) (check.Caller, error) {
	return check.Caller{}, nil
}

func TestImplausibleKeysAreNotLookedUp(t *testing.T) {
	t.Parallel()
	s := start(t, Config{Keys: credulous{}})
	for name, test := range map[string]struct {
		key    string
		status int
	}{
		"plain":     {"key_0-9.~+/=", 200},
		"longest":   {strings.Repeat("k", 256), 200},
		"none":      {"", 401},
		"space":     {"a b", 401},
		"tab":       {"a\tb", 401},
		"not ASCII": {"ké", 401},
		"not UTF-8": {"k\xff", 401},
		"too long":  {strings.Repeat("k", 257), 401},
	} {
		s.ask(t, test.key, "POST /api/check", exampleBody).is(t, name, test.status)
	}
	expect.Equal(t, "bytes of a panic logged", len(newPanic(strings.Repeat("x", 1000)).text), 256)
}

func TestErrorsOfACheck(t *testing.T) {
	t.Parallel()
	s := start(t, Config{})
	const internal = "an internal error occurred; quote the ref when you contact support"
	type testCase struct {
		key        string
		status     int
		body       failure
		anyRef     bool
		retryAfter string
	}
	expect.Each(t, map[string]testCase{
		"plan": {key: freeKey, status: 403,
			body: failure{Code: codePlan,
				Error: "the free plan does not cover iban checks, only domain and email"}},
		"quota": {key: usedKey, status: 429, retryAfter: "1431000", body: failure{Code: codeQuota,
			Error:   "the monthly quota of 50 checks is used up; it resets on 2026-02-01",
			ResetAt: "2026-02-01T00:00:00.000Z"}},
		"overloaded": {key: busyKey, status: 503, retryAfter: "1", body: failure{Code: codeBusy,
			Error: admission.ErrBusy.Error()}},
		"failure":   {key: failKey, status: 500, body: failure{Code: codeInternal, Error: internal, Ref: knownRef}},
		"key store": {key: downKey, status: 500, anyRef: true, body: failure{Code: codeInternal, Error: internal}},
		"panic":     {key: panicKey, status: 500, anyRef: true, body: failure{Code: codeInternal, Error: internal}},
	}, func(t *testing.T, test testCase) {
		r := s.ask(t, test.key, "POST /api/check", `{"iban":"DE89370400440532013000"}`)
		r.wellBehaved(t)
		got := r.failure(t)
		if test.anyRef {
			expect.That(t, strings.HasPrefix(got.Ref, "chk_"), "ref is %q", got.Ref)
			expect.Equal(t, "the log has the ref", strings.Contains(s.log.String(), got.Ref), true)
			got.Ref = ""
		}
		expect.Equal(t, "status", r.status, test.status)
		expect.NoDiff(t, "difference", test.body, got)
		expect.Equal(t, "Retry-After", r.header.Get("Retry-After"), test.retryAfter)
	})
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
