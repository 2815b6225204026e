package api

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"assay/host/check"
	"assay/registry/expect"
)

// TestInvalidRequests checks that errors name the field and the reason, and that nothing is done.
func TestInvalidRequests(t *testing.T) {
	t.Parallel()
	d, a, f, v := &decisions{}, &archive{}, &reports{}, &verdicts{}
	s := start(t, Config{Decisions: d, Explainer: d, Privacy: a, Feedback: f, Overrides: v})
	const (
		search, explain, review = "POST " + searchPath, "POST " + explainPath, "POST " + reviewPath
		export, erase, subject  = "GET " + exportPath, "POST " + erasePath, "POST " + subjectPath
		checks, events, usage   = "GET " + exportChecksPath, "GET /api/events", "GET " + usagePath
		batch, report, override = "POST " + batchPath, "POST " + feedbackPath, "POST " + overridesPath

		about      = `{"ref":"` + knownRef + `"`
		labelled   = about + `,"label":"fraud"`
		first      = "after: must be the next of the page before"
		page       = "limit: must be a whole number from 1 to 1000"
		badRef     = "ref: must be the reference of a check, chk_ and 26 characters"
		badAfter   = "after: must be the reference of a check, chk_ and 26 characters"
		badSubject = "subject: must be sub_ and 64 lowercase hexadecimal digits"
		which      = "exactly one of subject and ref is required"
		one        = "exactly one of subject, ref, domain, email, phone or iban is required"
		value      = "one of domain, email, phone or iban is required"
		atMostOne  = "at most one of domain, email, phone or iban can be given: the one that was scored"
		sequence   = "after: must be given once, as a whole number from 0 to 9007199254740991"
		hundred    = "limit: must be given once, as a whole number from 1 to 100"
		month      = "month: must be a month such as 2026-01"

		rest  = `"action":"block","reason":"a","expires_at":"2026-03-01T00:00:00Z"}`
		whole = `{"domain":"example.com",` + rest
	)
	many := func(n int) string {
		return `{"checks":[` + strings.TrimSuffix(strings.Repeat(`{"domain":"a.com"},`, n), ",") + `]}`
	}
	required := fmt.Sprintf("checks is required: an array of 1 to %d requests", check.MaxBatch)
	tooMany := fmt.Sprintf("checks contains more than %d requests", check.MaxBatch)
	but := func(old, changed string) string { return strings.Replace(whole, old, changed, 1) }
	for _, test := range []struct{ request, body, want string }{
		{search, `[]`, "the body must be a JSON object, not an array"},
		{search, `{"verdict":"BLOCK"}`, "verdict: must be allow, review or block"},
		{search, `{"type":"url"}`, "type: must be domain, email, phone or iban"},
		{search, `{"type":"iban","email":"a@example.com"}`, "type: must be that of the value, email"},
		{search, `{"email":"a@example.com","domain":"example.com"}`, atMostOne},
		{search, `{"email":""}`, "email: is empty"},
		{search, `{"key":"key\u0000"}`, "key: must be the id of an API key"},
		{search, `{"key":"` + strings.Repeat("k", 65) + `"}`, "key: must be the id of an API key"},
		{search, `{"from":"yesterday"}`, "from: must be a time such as 2026-01-15T10:30:00Z"},
		{search, `{"limit":0}`, page}, {search, `{"limit":1001}`, page}, {search, `{"limit":"5"}`, page},
		{search, `{"after":"x"}`, first}, {search, `{"after":"` + knownRef + `"}`, first},
		{search, `{"after":"2026-01-15T10:30:00.123Z_chk_%"}`, first},
		{"GET /api/checks/chk_x", "", badRef}, {"GET /api/checks/%25", "", badRef},
		{explain, `{}`, badRef}, {explain, about + `}`, value},
		{explain, about + `,"email":"a@example.com","iban":"x"}`, atMostOne},
		{review, about + `}`, "reason: is required"}, {review, about + `,"reason":" \n"}`, "reason: is required"},
		{review, about + `,"reason":"a\u0000"}`, "reason: contains control characters"},
		{review, about + `,"reason":"` + strings.Repeat("x", 2001) + `"}`, "reason: is longer than 2000 bytes"},
		{"GET /gdpr/review", "", "ref: must be given once, not 0 times"}, {"GET /gdpr/review?ref=x", "", badRef},

		{export, "", which}, {export + "?subject=" + knownSubject + "&ref=" + knownRef, "", which},
		{export + "?subject=", "", badSubject},
		{export + "?subject=" + knownSubject[:60] + "%00%0a%0d%7f", "", badSubject},
		{export + "?subject=" + knownSubject + "&subject=" + knownSubject, "",
			"subject: must be given once, not 2 times"},
		{export + "?ref=chk_8ZZZZZZZZZZZZZZZZZZZZZZZZZ", "", badRef},
		{export + "?email=a@example.com", "",
			"email: must not be part of a URL; send it as JSON with POST /gdpr/export"},
		{export + "?ref=" + knownRef + "&limit=0", "", "limit: must be given once, as a whole number from 1 to 1000"},
		{export + "?ref=" + knownRef + "&after=", "", badAfter}, {"POST /gdpr/export?after=x", about + `}`, badAfter},
		{export + "?ref=" + knownRef + "&after=" + knownRef + "&after=" + knownRef, "",
			"after: must be given once, not 2 times"},
		{erase, ``, "the body is empty; a JSON object is expected"},
		{erase, `{}`, one}, {erase, `{"ref":null}`, one},
		{erase, `{"email":"a@example.com","email":"b@example.com"}`, "a name occurs twice in one object, near byte 24"},
		{erase, `{"ref":"` + knownRef + `\u0000"}`, badRef},
		{erase, `{"email":" "}`, "email: is empty"},
		{erase, `{"email":"a\u0000@example.com"}`, "email: contains the control character U+0000"},
		{erase, `{"phone":"0151 23456789","region":{"country":"Germany"}}`, "region.country: "},
		{subject, about + `}`, value}, {subject, `{"domain":"*.example.com"}`, "domain: "},

		{usage + "?month=11", "", month}, {usage + "?month=2026-13", "", month},
		{usage + "?month=2026-01&month=2026-02", "", "month: must be given once at most"},
		{checks + "?format=xml", "", "format: must be csv or json"},
		{checks + "?format=csv&from=1", "", "from: must be a time such as 2026-01-15T10:30:00Z"},
		{checks + "?format=csv&key=%ff", "", "key: must be UTF-8"},
		{checks + "?format=csv&key=%00", "", "key: must be the id of an API key"},
		{events + "?after=", "", sequence}, {events + "?after=-1", "", sequence}, {events + "?after=x", "", sequence},
		{events + "?after=1.0", "", sequence}, {events + "?after=%2B1", "", sequence},
		{events + "?after=1&after=2", "", sequence}, {events + "?after=9007199254740992", "", sequence},
		{events + "?after=18446744073709551616", "", sequence},
		{events + "?limit=0", "", hundred}, {events + "?limit=101", "", hundred}, {events + "?limit=1&limit=1", "",
			hundred},

		{report, `{"label":"fraud"}`, badRef}, {report, about + `}`, `label: must be "fraud" or "legitimate"`},
		{report, labelled + `,"label":"fraud"}`, "a name occurs twice in one object, near byte 55"},
		{report, labelled + `,"note":7}`, "note: must be a string, not a number"},
		{report, labelled + `,"domain":"a b"}`, "domain: contains a space"},
		{report, labelled + `,"domain":"a.com","email":"b@a.com"}`, atMostOne},

		{override, `{` + rest, "one of domain, email, phone, iban, number_range, registrable_domain, bank is required"},
		{override, `{"domain":"example.com","bank":"DE37040044",` + rest, "only one of domain and bank can be given"},
		{override, `{"domain":7,` + rest, "domain: must be a string, not a number"},
		{override, `{"domain":"example",` + rest, "domain: has no dot"},
		{override, `{"bank":"DE12",` + rest, "bank: must be DE and the 8 characters"},
		{override, `{"phone":"123456","region":{"country":"XX"},` + rest, "region.country: "},
		{override, but(`"action":"block",`, ""), "action: is required"}, {override, but("block", "review"),
			"action: must be"},
		{override, but(`,"expires_at":"2026-03-01T00:00:00Z"`, ""), "expires_at: is required"},
		{override, but("2026-03-01T00:00:00Z", "tomorrow"), "expires_at: must be a time"},
		{override, but(`"a"`, `"full"`), "the account has 1000 overrides"},

		{batch, `{"domain":"a.com"}`, required}, {batch, `{"checks":[]}`, required},
		{batch, `{"checks":{"domain":"a.com"}}`, "checks must be an array, not an object"},
		{batch, `[{"domain":"a.com"}]`, "the body must be a JSON object, not an array"},
		{batch, many(check.MaxBatch + 1), tooMany}, {batch, many(5000), tooMany},
		{batch, `{"checks":[{"domain":"a.com"}`, "the body is not valid JSON in UTF-8, near byte 29"},
		{batch, `{"checks":[{"domain":"a.com","domain":"b.com"}]}`, "a name occurs twice in one object, near byte 28"},
		{batch, `{"checks":[{"domain":"a.com"}],"checks":[]}`, "a name occurs twice in one object, near byte 30"},
		{batch, many(1) + "{}", "the body must be one JSON object, with nothing after it"},
	} {
		s.rejects(t, test.request, test.body, test.want)
	}
	expect.Equal(t, "what was done", len(d.seen)+len(a.seen)+len(f.seen)+len(v.seen)+len(s.checker.requests()), 0)
}

// The contract's table of errors has the codes of the document, whose schema every error in the tests obeys.
func TestErrorCodesAreDocumented(t *testing.T) {
	t.Parallel()
	doc, _ := loadDocument(t)
	var codes, told []string
	for _, code := range doc.Components.Schemas["Error"].Value.Properties["code"].Value.Enum {
		codes = append(codes, code.(string))
	}
	contract := string(expect.Value(os.ReadFile("../../../docs/contract.md"))(t))
	for _, row := range regexp.MustCompile(`(?m)^\| [45]\d\d[^|]*\| ([^|]+) \|`).FindAllStringSubmatch(contract, -1) {
		told = append(told, strings.Split(strings.ReplaceAll(row[1], "`", ""), ", ")...)
	}
	slices.Sort(codes)
	slices.Sort(told)
	expect.NoDiff(t, "codes of the document and of the contract", codes, told)
}
