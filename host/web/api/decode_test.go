package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"assay/host/check"
	"assay/host/entity"
	"assay/registry/expect"
)

func TestDecode(t *testing.T) {
	t.Parallel()
	type testCase struct{ body, want string }
	expect.Each(t, map[string]testCase{
		"white space around": {" \t\r\n{ \"domain\" : \"example.com\" } \n", "domain=example.com"},
		"fields in the order of types": {`{"iban":"i","phone":"p","email":"e","domain":"d"}`,
			"domain=d email=e phone=p iban=i"},
		"empty region":                {`{"domain":"d","region":{}}`, "domain=d"},
		"region with unknown members": {`{"domain":"d","region":{"x":[{"country":1}],"country":"DE"}}`, "domain=d DE"},
		"escaped name and value":      {`{"\u0064omain":"\u00fc\ud83d\ude00\/"}`, "domain=ü😀/"},
		"unknown members":             {`{"x":1,"domain":"d","y":{"domain":[null,true]},"z":[]}`, "domain=d"},
		"names are case-sensitive":    {`{"Domain":"a","DOMAIN":"b","domain ":"c"}`, ""},
		"empty":                       {`{"domain":"","email":" ","phone":"\t\n","iban":"\u00a0\u3000"}`, ""},
		"white space is kept":         {`{"domain":" d "}`, "domain= d "},
		"depth 8":                     {`{"x":[[[[[[[]]]]]]],"domain":"d"}`, "domain=d"},
		"64 members":                  {members(63), "domain=d"},
		"control character elsewhere": {`{"x":"\u0000","domain":"d"}`, "domain=d"},
		"huge number elsewhere":       {`{"x":1e99999,"domain":"d"}`, "domain=d"},
	}, func(t *testing.T, test testCase) {
		q := expect.Value(decode([]byte(test.body)))(t)
		got := strings.Join(append(fieldsOf(check.Request{Fields: q.fields}), q.country), " ")
		expect.Equal(t, "fields and country", strings.TrimSuffix(got, " "), test.want)
	})
}

// members returns a document with a domain and n unknown members.
func members(n int) string {
	var b strings.Builder
	b.WriteString(`{"domain":"d"`)
	for i := range n {
		fmt.Fprintf(&b, `,"m%d":%d`, i, i)
	}
	return b.String() + "}"
}

// malformed lists documents that must get a 400.
var malformed = []string{
	// empty or truncated, accepted by lenient readers, or with trailing data
	"", "\n", `{`, `{"domain":"a.com`, `{"domain":"a.com","x":-`, `{"domain":"a.com",}`, `{'domain':'a.com'}`,
	`{domain:"a.com"}`, `{"domain":"a.com"/**/}`, `{"domain":"a.com"]`, `{"domain":"a.com","x":[1,]}`,
	`{"domain":"a.com","x":01}`, `{"domain":"a.com","x":NaN}`, `{"domain":"a.com","x":TRUE}`,
	`{"domain":"a.com"}{}`, `{"domain":"a.com"} x`, "{\"domain\":\"a.com\"}\x00",
	// not an object
	`[]`, `[{"domain":"a.com"}]`, `"domain"`, `1`, `null`, `true`,
	// duplicate names
	`{"domain":"good.com","domain":"evil.com"}`, `{"domain":"good.com","\u0064omain":"evil.com"}`,
	`{"domain":"a.com","x":{"y":1,"y":2}}`, `{"domain":"a.com","region":{"country":"DE","country":"FR"}}`,
	// beyond the limits
	`{"domain":"a.com","x":[[[[[[[[]]]]]]]]}`, strings.Repeat(`{"domain":`, 1000), strings.Repeat("[", maxBody),
	members(64),
	// invalid UTF-8, unpaired surrogates, malformed strings
	"{\"domain\":\"\xff.com\"}", "{\"domain\":\"\xed\xa0\x80.com\"}", "{\"domain\":\"a.com\",\"x\":\"\xff\"}",
	"{\"x\xff\":1,\"domain\":\"a.com\"}", `{"domain":"\ud800.com"}`, `{"domain":"a.com","x":"\ud800"}`,
	"\xef\xbb\xbf{\"domain\":\"a.com\"}", "{\u00a0\"domain\":\"a.com\"}",
	`{"domain":"\x61.com"}`, `{"domain":"\u0"}`, "{\"domain\":\"a\n.com\"}", "{\"dom\x01ain\":\"a.com\"}",
}

func TestMalformedBodies(t *testing.T) {
	t.Parallel()
	s := start(t, Config{})
	for _, body := range malformed {
		r := s.check(t, body)
		r.is(t, body[:min(len(body), 100)], 400, `{"error":"`)
		expect.That(t, len(r.body) <= 200, "a long answer to %.100q: %s", body, r.body)
	}
	got := s.checker.requests()
	expect.That(t, len(got) == 0, "%d malformed requests were checked: %v", len(got), got)
}

func TestFieldErrorsNameTheField(t *testing.T) {
	t.Parallel()
	s := start(t, Config{})
	const four = "domain, email, phone or iban"
	type testCase struct{ body, text string }
	expect.Each(t, map[string]testCase{
		"true":   {`{"email":true}`, "email: must be a string, not a boolean"},
		"null":   {`{"phone":null}`, four},
		"object": {`{"domain":{}}`, "domain: must be a string, not an object"},
		"region as a string": {`{"domain":"a.com","region":"DE"}`,
			`region: must be an object such as {"country":"DE"}, not a string`},
		"region as an array": {`{"domain":"a.com","region":[]}`, "not an array"},
		"a misspelt field":   {`{"domian":"a.com"}`, `required; domian is unknown and was ignored: is it domain?`},
		"C0":                 {`{"email":"a\r\nBcc: b@c.d"}`, "email: must not contain control characters"},
		"DEL":                {`{"phone":"1\u007f"}`, "phone: must not contain control characters"},
		"C1":                 {`{"iban":"DE\u0085x"}`, "iban: must not contain control characters"},
		"too deep":           {`{"x":[[[[[[[[]]]]]]]]}`, "more than 8 levels deep"},
		"too many":           {members(64), "more than 64 members"},
	}, func(t *testing.T, test testCase) {
		r := s.check(t, test.body)
		r.is(t, "answer", 400)
		expect.That(t, strings.Contains(r.failure(t).Error, test.text), "%s, want %q", r.body, test.text)
	})
}

// Unknown fields, and invalid ones after the field that is scored, are left out with a warning.
func TestWarnings(t *testing.T) {
	t.Parallel()
	s := start(t, Config{})
	type testCase struct {
		body     string
		warnings []check.Warning
	}
	expect.Each(t, map[string]testCase{
		"none":          {`{"domain":"a.com","email":"a@b.com","region":{"country":"DE"},"receipt":false}`, nil},
		"nulls":         {`{"domain":"a.com","email":null,"region":{"country":null},"receipt":null}`, nil},
		"a null region": {`{"domain":"a.com","region":null}`, nil},
		"misspelt, in another case, unlike any": {
			`{"domain":"a.com","emial":"x","Phone":"1","colour":{"a":1},"n":null}`,
			[]check.Warning{{Field: "Phone", Message: "Phone is unknown and was ignored: is it phone?"},
				{Field: "colour", Message: "colour is unknown and was ignored"},
				{Field: "emial", Message: "emial is unknown and was ignored: is it email?"}}},
		"in the region": {`{"domain":"a.com","region":{"contry":"DE"}}`, []check.Warning{{Field: "region.contry",
			Message: "region.contry is unknown and was ignored: is it country?"}}},
		"a number, a control character": {`{"domain":"a.com","email":5,"iban":"D\u0000"}`,
			[]check.Warning{{Field: "email", Message: "email: must be a string, not a number"},
				{Field: "iban", Message: "iban: must not contain control characters"}}},
		"a long name": {`{"domain":"a.com","` + strings.Repeat("ä", 99) + `":1}`, []check.Warning{{
			Field: strings.Repeat("ä", 32), Message: strings.Repeat("ä", 32) + " is unknown and was ignored"}}},
	}, func(t *testing.T, test testCase) {
		r := s.check(t, test.body)
		r.is(t, "answer", 200)
		var got result
		expect.NoError(t, json.Unmarshal([]byte(r.body), &got))
		expect.NoDiff(t, "warnings", test.warnings, got.Warnings)
		expect.Equal(t, "has warnings", strings.Contains(r.body, `"warnings"`), test.warnings != nil)
		r = s.ask(t, goodKey, "POST "+batchPath, `{"checks":[`+test.body+`]}`)
		expect.Equal(t, "a batch has warnings", strings.Contains(r.body, `"warnings"`), test.warnings != nil)
	})
}

// FuzzDecode checks that encoding/json reads every accepted body alike.
func FuzzDecode(f *testing.F) {
	for _, body := range malformed {
		f.Add([]byte(body))
	}
	f.Add([]byte(`{"iban":"i","phone":"p","email":"e","domain":"d","region":{"country":"DE"},"x":[1,{"y":null}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		q, err := decode(body)
		if err != nil {
			expect.Must(t, errors.As(err, new(*entity.InvalidError)) || errors.As(err, new(invalidBody)),
				"%q: unexpected kind of error %T: %v", body, err, err)
			expect.Must(t, len(err.Error()) <= 160, "%q: long error %q", body, err)
			return
		}
		expect.Must(t, utf8.Valid(body), "%q is not UTF-8", body)
		var lenient map[string]any
		err = json.Unmarshal(body, &lenient)
		expect.Must(t, err == nil, "%q: encoding/json rejects it: %v", body, err)
		given := map[entity.Type]string{}
		for _, f := range q.fields {
			given[f.Type] = f.Value
		}
		for _, typ := range entity.Types() {
			want, _ := lenient[string(typ)].(string)
			warned := func(w check.Warning) bool { return w.Field == string(typ) }
			if strings.TrimSpace(want) == "" || slices.ContainsFunc(q.warnings, warned) {
				want = ""
			}
			expect.Must(t, given[typ] == want && !strings.ContainsFunc(want, isControl), "%q: %s is %q, want %q", body,
				typ, given[typ], want)
		}
		region, _ := lenient["region"].(map[string]any)
		want, _ := region["country"].(string)
		expect.Must(t, q.country == want, "%q: country is %q, want %q", body, q.country, want)
	})
}

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
		{search, `{"until":"0001-01-01T00:00:00+01:00"}`, "until: must be a time such as 2026-01-15T10:30:00Z"},
		{search, `{"after":"0000-01-01T00:00:00.000Z_` + knownRef + `"}`, first},
		{search, `{"limit":0}`, page}, {search, `{"limit":1001}`, page}, {search, `{"limit":"5"}`, page},
		{search, `{"after":"x"}`, first}, {search, `{"after":"` + knownRef + `"}`, first},
		{search, `{"after":"2026-01-15T10:30:00.123Z_chk_%"}`, first},
		{"GET /api/checks/chk_x", "", badRef}, {"GET /api/checks/%25", "", badRef},
		{explain, `{}`, badRef}, {explain, about + `}`, value},
		{explain, about + `,"email":"a@example.com","iban":"x"}`, atMostOne},
		{review, about + `}`, "reason: is required"}, {review, about + `,"reason":" \n"}`, "reason: is required"},
		{review, about + `,"reason":"a\u0000"}`, "reason: contains control characters"},
		{review, about + `,"reason":"` + strings.Repeat("x", 2001) + `"}`, "reason: is longer than 2000 bytes"},
		{review, about + `,"reason":"x","contact":"` + strings.Repeat("x", 201) + `"}`,
			"contact: is longer than 200 bytes"},
		{review, about + `,"reason":"x","email":"jane"}`, "email: "},
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
		{checks + "?format=csv&verdct=block", "", "verdct: is unknown: is it verdict?"},
		{"POST /api/checks/search", `{"emial":"a@b.com"}`, "emial: is unknown"},
		{"POST /api/checks/search", `{"phone":"030 901820","region":{"contry":"FR"}}`, "region.contry: is unknown"},
		{override, `{"domain":"example.com","until":"2026-03-01T00:00:00Z",` + rest, "until: is unknown"},
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
		{batch, `{"checks":{"domain":"a.com"}}`, "checks: must be an array, not an object"},
		{batch, `{"checks":[{"phone":"0301"}],"region":{"country":"DE"}}`, "region: belongs in each request of checks"},
		{batch, `[{"domain":"a.com"}]`, "the body must be a JSON object, not an array"},
		{batch, many(check.MaxBatch + 1), tooMany}, {batch, many(5000), tooMany},
		{batch, `{"checks":[{"domain":"a.com"}`, "the body is not valid JSON in UTF-8, near byte 29"},
		{batch, `{"checks":[{"domain":"a.com","domain":"b.com"}]}`, "a name occurs twice in one object, near byte 28"},
		{batch, `{"checks":[{"domain":"a.com"}],"checks":[]}`, "a name occurs twice in one object, near byte 30"},
		{batch, many(1) + "{}", "the body must be one JSON object, with nothing after it"},
	} {
		r := s.ask(t, goodKey, test.request, test.body, "Content-Type", "application/json")
		r.is(t, test.request+" "+test.body, 400)
		got := r.failure(t).Error
		expect.That(t, strings.HasPrefix(got, test.want), "%s %s: %q, want %q", test.request, test.body, got, test.want)
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
