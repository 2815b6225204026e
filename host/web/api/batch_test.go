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

func TestLargestBatch(t *testing.T) {
	t.Parallel()
	s := start(t, Config{})
	item := `{"domain":"` + strings.Repeat("a", 1000) + `.com"}`
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
