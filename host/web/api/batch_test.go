package api

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"assay/host/check"
	"assay/registry/expect"
)

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

func TestInvalidBatch(t *testing.T) {
	t.Parallel()
	s := start(t, Config{})
	many := func(n int) string {
		return `{"checks":[` + strings.TrimSuffix(strings.Repeat(`{"domain":"a.com"},`, n), ",") + `]}`
	}
	required := fmt.Sprintf("checks is required: an array of 1 to %d requests", check.MaxBatch)
	tooMany := fmt.Sprintf("checks contains more than %d requests", check.MaxBatch)
	for name, test := range map[string]struct{ body, want string }{
		"checks missing": {`{"domain":"a.com"}`, required},
		"no requests":    {`{"checks":[]}`, required},
		"an object":      {`{"checks":{"domain":"a.com"}}`, "checks must be an array, not an object"},
		"an array":       {`[{"domain":"a.com"}]`, "the body must be a JSON object, not an array"},
		"one too many":   {many(check.MaxBatch + 1), tooMany},
		"5000":           {many(5000), tooMany},
		"truncated":      {`{"checks":[{"domain":"a.com"}`, "the body is not valid JSON in UTF-8, near byte 29"},
		"duplicate name in a request": {`{"checks":[{"domain":"a.com","domain":"b.com"}]}`,
			"a name occurs twice in one object, near byte 28"},
		"duplicate checks": {`{"checks":[{"domain":"a.com"}],"checks":[]}`,
			"a name occurs twice in one object, near byte 30"},
		"trailing data": {many(1) + "{}", "the body must be one JSON object, with nothing after it"},
	} {
		expect.Equal(t, name, s.rejects(t, "POST "+batchPath, test.body, test.want), test.want)
	}
	expect.Equal(t, "checked", len(s.checker.requests()), 0)
}

func TestLargestBatch(t *testing.T) {
	t.Parallel()
	s := start(t, Config{})
	item := `{"domain":"` + strings.Repeat("a", 1000) + `.com"}`
	r := s.batch(t, `{"checks":[`+strings.TrimSuffix(strings.Repeat(item+",", check.MaxBatch), ",")+`]}`)
	expect.That(t, r.status == 200 && len(s.checker.requests()) == check.MaxBatch, "status %d, %d requests: %.200s",
		r.status, len(s.checker.requests()), r.body)
	// Only a batch has the larger limit.
	r = s.check(t, strings.Repeat(" ", maxBody+1))
	expect.That(t, r.status == 413 && r.failure(t).Error == fmt.Sprintf("the body exceeds %d bytes", maxBody),
		"a single check: status %d: %s", r.status, r.body)
	r = s.batch(t, strings.Repeat(" ", maxBatchBody+1))
	expect.That(t, r.status == 413 && r.failure(t).Error == fmt.Sprintf("the body exceeds %d bytes", maxBatchBody),
		"a batch: status %d: %s", r.status, r.body)
}
