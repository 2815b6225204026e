package customer

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"assay/host/access/apikey"
	"assay/host/check"
	"assay/host/entity"
	"assay/host/hosttest"
	"assay/registry/expect"
)

// service is a host as customers see it.
type service struct {
	*hosttest.HostProcess
	dir, database string
	stripe        *stripeServer
}

// TestService has the tests that share a host. Names of clauses begin with the sections of docs/contract.md.
func TestService(t *testing.T) {
	t.Parallel()
	stripe := &stripeServer{plan: "starter"}
	server := httptest.NewServer(stripe)
	t.Cleanup(server.Close)
	dir, database, host := hosttest.NewHost(t, hosttest.AllowLoopback, "--trusted-proxies=127.0.0.0/8",
		"--stripe-key=sk_test_1", "--stripe-webhook-secret="+stripeSecret, "--stripe-url="+server.URL, "--stripe-tax",
		"--links=terms=https://a.example/terms,imprint=https://a.example/imprint")
	s := &service{host, dir, database, stripe}
	// The first call of a layer is its slowest.
	hosttest.CheckUntilComplete(host, s.account(t, "pro").Secret, `{"email":"jane@paypa1-secure-login.xyz"}`)
	expect.Each(t, map[string]func(*testing.T, *service){
		"1 and 2.2 each type is scored and answered with the fields of a result":   testResult,
		"2.1 the first of domain, email, phone, iban is scored, others are linked": testFields,
		"2.1 one of the four fields is required":                                   testNoField,
		"2.1 the region is EU by default":                                          testRegion,
		"2.2 an allowed entity has no dominant threat":                             testAllowed,
		"2.3, 5.6 and 6 events of block and review, signed with the secret":        testEvents,
		"2.4 and 4.3 the record has a pseudonym, and is exported and erased":       testRecord,
		"3 an event is sent again after 1 s and 4 s":                               testRetries,
		"3 and 5.4 a key that is missing, malformed or revoked gets 401":           testKeys,
		"4.1 and 4.4 every check counts once, also in a batch of up to 100":        testCounting,
		"4.2 without a key, domains alone, ten an hour from an address":            testPublic,
		"7 errors are JSON, with a code":                                           testErrors,
		"8 Free: 50 checks a month, one by one":                                    testQuota("free", 50, 1),
		"8 Free: 50 checks a month, eight at once":                                 testQuota("free", 50, 8),
		"8 Starter: 150 checks a month, eight at once":                             testQuota("starter", 150, 8),
		"8 Pro: 1,500 checks a month, a hundred in a call":                         testQuotaOfBatches,
		"8 plans cover types, batches, webhooks and privacy":                       testPlans,
		"bodies": testBodies, "clients": testClients, "installed clients": testInstalledClients,
		"examples": testExamples, "receivers": testReceivers, "Stripe": testStripe,
	}, func(t *testing.T, test func(*testing.T, *service)) { test(t, s) })
}

// account returns a key of a new account on a plan.
func (s *service) account(t *testing.T, plan string) apikey.Issued {
	t.Helper()
	return hosttest.OutputJSON[apikey.Issued](t, s.dir, s.database, "keys", "create", "--plan", plan)
}

// refused sends a request that must be refused, and returns the error.
func (s *service) refused(t *testing.T, status int, key, path, body string) map[string]any {
	t.Helper()
	got, answer := hosttest.Ask(t, s.HostProcess, key, "POST", path, body)
	text, _ := answer["error"].(string)
	expect.Must(t, got == status && text != "", "%s %s: status %d, want %d: %v", path, body, got, status, answer)
	return answer
}

// values have one value of each type.
var values = map[entity.Type]string{entity.Domain: "paypa1-secure-login.xyz", entity.Email: "jane@example.com",
	entity.Phone: "+1 202-456-1111", entity.IBAN: "DE89 3704 0044 0532 0130 00"}

func body(typ entity.Type) string { return fmt.Sprintf(`{%q:%q}`, typ, values[typ]) }

// check makes a check that must be answered.
func (s *service) check(t *testing.T, key, body string) hosttest.Answer {
	t.Helper()
	a := hosttest.CheckOnce(s.HostProcess, key, body)
	expect.Must(t, a.Status == 200, "%s: %+v", body, a)
	return a
}

// result is a check's answer with exactly the fields of section 2.2.
type result struct {
	Score     json.Number     `json:"score"`
	Verdict   string          `json:"verdict"`
	Signals   []string        `json:"signals"`
	Threat    *string         `json:"dominant_threat"`
	Type      string          `json:"type"`
	Query     string          `json:"query"`
	Timestamp string          `json:"timestamp"`
	Ref       string          `json:"ref"`
	Warnings  []check.Warning `json:"warnings"`
}

// result makes a check that must be answered, and reads its fields.
func (s *service) result(t *testing.T, key, body string) (r result) {
	t.Helper()
	status, text := hosttest.Send(t, s.HostProcess, key, "POST", "/api/check", body, "Content-Type", "application/json")
	expect.Must(t, status == 200, "%s: status %d, %s", body, status, text)
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.DisallowUnknownFields()
	expect.NoError(t, decoder.Decode(&r))
	return r
}

func testResult(t *testing.T, s *service) {
	key, seen := s.account(t, "pro").Secret, map[string]bool{}
	for typ, value := range values {
		r := s.result(t, key, body(typ))
		score := expect.Value(strconv.Atoi(r.Score.String()))(t)
		expect.That(t, score >= 0 && score <= 100 && r.Verdict == string(check.Bands{Review: 40,
			Block: 70}.Verdict(score)) && r.Type == string(typ) && r.Query == value && !seen[r.Ref] && r.Ref != "" &&
			r.Signals != nil, "%s: %+v", typ, r)
		expect.Value(time.Parse("2006-01-02T15:04:05.000Z", r.Timestamp))(t)
		seen[r.Ref] = true
	}
}

func testFields(t *testing.T, s *service) {
	key := s.account(t, "pro").Secret
	// Others check values of their own, because these become linked.
	const two = `"iban":"FR1420041010050500013M02606","phone":"+442072193000"`
	all := `{` + two + `,"email":"a@a.example.net","domain":"a.example.net"}`
	expect.Equal(t, "scored of all", s.result(t, key, all).Type, "domain")
	expect.Equal(t, "scored of two", s.result(t, key, "{"+two+"}").Type, "phone")
	r := s.result(t, key, `{"domain":"example.com","email":null,"phone":"12","iban":" ","domian":"x"}`)
	expect.NoDiff(t, "warnings", []string{"domian", "phone"}, []string{r.Warnings[0].Field, r.Warnings[1].Field})
	r = s.result(t, key, `{"email":"jane@example.com","region":null}`)
	expect.Equal(t, "warnings of a valid request", len(r.Warnings), 0)
}

func testNoField(t *testing.T, s *service) {
	key := s.account(t, "free").Secret
	for _, body := range []string{`{}`, `{"domain":null}`, `{"email":" "}`, `{"region":{"country":"DE"}}`} {
		answer := s.refused(t, 400, key, "/api/check", body)
		for _, name := range entity.Types() {
			expect.That(t, strings.Contains(answer["error"].(string), string(name)), "%s: %v", body, answer)
		}
		expect.Equal(t, "code", answer["code"].(string), "no_field")
	}
}

func testRegion(t *testing.T, s *service) {
	key := s.account(t, "starter").Secret
	for country, number := range map[string]string{"DE": "030 901820", "uk": "020 7219 3000"} {
		r := s.result(t, key, fmt.Sprintf(`{"phone":%q,"region":{"country":%q}}`, number, country))
		expect.Equal(t, "verdict in "+country, r.Verdict, "allow")
	}
	const without, with = `{"domain":"example.com"}`, `{"domain":"example.com","region":{"country":"EU"}}`
	expect.Equal(t, "score without a region", s.result(t, key, without).Score, s.result(t, key, with).Score)
	expect.Equal(t, "field", s.refused(t, 400, key, "/api/check",
		`{"domain":"example.com","region":{"country":"Utopia"}}`)["field"].(string), "region.country")
}

func testAllowed(t *testing.T, s *service) {
	r := s.result(t, s.account(t, "free").Secret, `{"domain":"wikipedia.org"}`)
	expect.That(t, r.Verdict == "allow" && r.Threat == nil, "%+v", r)
}

func testEvents(t *testing.T, s *service) {
	issued := s.account(t, "starter")
	url, calls := hosttest.Receive(t, func(hosttest.Call) int { return 204 })
	secret := hosttest.OutputJSON[struct{ Secret string }](t, s.dir, s.database, "webhooks", "set", issued.Account,
		"--url", url).Secret
	s.check(t, issued.Secret, `{"domain":"wikipedia.org"}`) // has no event, so the next one is the first
	for i, value := range []string{values[entity.Domain], "jane.doe@gmial.com"} {
		field := []entity.Type{entity.Domain, entity.Email}[i]
		a := s.check(t, issued.Secret, fmt.Sprintf(`{%q:%q}`, field, value))
		call := hosttest.Next(t, calls)
		mac := hmac.New(sha256.New, []byte(secret))
		mac.Write(call.Body)
		for header, want := range map[string]string{
			"X-Service-Event":     a.Event(),
			"X-Service-Signature": "sha256=" + hex.EncodeToString(mac.Sum(nil)),
			"X-Service-Sequence":  fmt.Sprint(i + 1),
			"Content-Type":        "application/json",
		} {
			expect.Equal(t, header, call.Header.Get(header), want)
		}
		want := regexp.QuoteMeta(fmt.Sprintf(`","data":{"query":%q,"type":%q,"verdict":%q,"score":%d,`, value, field,
			strings.ToUpper(a.Verdict), a.Score)) +
			`"signals":\[("[^:\s"]+:[^:\s"]+:[^:\s"]+",?)+\],"ref":"` + a.Ref + `"}}$`
		expect.That(t, regexp.MustCompile(want).Match(call.Body), "event %s of %+v", call.Body, a)
	}
}

func testRetries(t *testing.T, s *service) {
	issued := s.account(t, "starter")
	url, calls := hosttest.Receive(t, func(c hosttest.Call) int {
		return map[bool]int{true: 200, false: 500}[c.Header.Get("X-Service-Attempt") == "3"]
	})
	hosttest.Output(t, s.dir, s.database, "webhooks", "set", issued.Account, "--url", url)
	s.check(t, issued.Secret, body(entity.Domain))
	hosttest.Next(t, calls)
	for i, pause := range []time.Duration{time.Second, 4 * time.Second} {
		since := time.Now()
		expect.Equal(t, "attempt", hosttest.Next(t, calls).Header.Get("X-Service-Attempt"), fmt.Sprint(i+2))
		took := time.Since(since) // the delivery and the test do not begin at the same time
		expect.That(t, took >= pause*9/10, "attempt %d came after %v", i+2, took)
	}
}

func testRecord(t *testing.T, s *service) {
	key := s.account(t, "pro").Secret
	const person = `{"email":"erika.muster@example.com"}`
	r := s.result(t, key, person)
	ask := func(method, path, body string) map[string]any {
		status, answer := hosttest.Ask(t, s.HostProcess, key, method, path, body)
		expect.Must(t, status == 200, "%s %s: %d %v", method, path, status, answer)
		return answer
	}
	answer := ask("POST", "/gdpr/export", person)
	record := answer["checks"].([]any)[0].(map[string]any)
	expect.That(t, record["ref"] == r.Ref && record["type"] == "email" && record["verdict"] == r.Verdict &&
		record["timestamp"] == r.Timestamp, "record %v of %+v", record, r)
	subject, _ := answer["subject"].(string)
	expect.That(t, strings.HasPrefix(subject, "sub_") && !strings.Contains(fmt.Sprint(answer), "erika"), "export %v",
		answer)
	same := ask("GET", "/gdpr/export?subject="+subject, "")
	expect.Equal(t, "export by reference", fmt.Sprint(same["checks"]), fmt.Sprint(answer["checks"]))
	ask("POST", "/gdpr/erase", person)
	answer = ask("POST", "/gdpr/export", `{"ref":"`+r.Ref+`"}`)
	expect.That(t, fmt.Sprint(answer["total"]) == "0" && answer["subject"] == nil, "after the erasure: %v", answer)
}

func testKeys(t *testing.T, s *service) {
	issued, other := s.account(t, "pro"), s.account(t, "pro").Secret
	send := func(authorization string) (int, string) {
		return hosttest.Send(t, s.HostProcess, "", "POST", "/api/check", body(entity.Domain), "Authorization",
			authorization)
	}
	for name, authorization := range map[string]string{
		"missing": "", "empty": "Bearer ", "another scheme": "Basic " + other,
		"malformed": "Bearer x" + other, "unknown": "Bearer " + other[:len(other)-8] + "AAAAAAAA", "no scheme": other,
	} {
		status, text := send(authorization)
		expect.That(t, status == 401 && strings.Contains(text, `"code":"unauthorized"`), "%s: %d %s", name, status,
			text)
	}
	for _, scheme := range []string{"bearer ", "BEARER  ", "Bearer "} {
		status, text := send(scheme + issued.Secret)
		expect.That(t, status == 200, "%q: %d %s", scheme, status, text)
	}
	hosttest.Output(t, s.dir, s.database, "keys", "revoke", issued.ID)
	s.refused(t, 401, issued.Secret, "/api/check", body(entity.Domain))
}

func batchOf(n int) string {
	return `{"checks":[` + strings.Repeat(body(entity.Domain)+",", n-1) + body(entity.Domain) + `]}`
}

func testCounting(t *testing.T, s *service) {
	hosttest.WithinOneMonth(func() {
		key := s.account(t, "pro").Secret
		for _, typ := range entity.Types() {
			s.check(t, key, body(typ))
		}
		s.check(t, key, `{"domain":"wikipedia.org"}`)
		s.refused(t, 400, key, "/api/check", `{}`)
		s.refused(t, 400, key, "/api/check", `{"domain":"?"}`)
		status, answer := hosttest.Ask(t, s.HostProcess, key, "POST", "/api/check/batch", batchOf(100))
		results, _ := answer["results"].([]any)
		expect.That(t, status == 200 && len(results) == 100, "100 checks: %d, %d results", status, len(results))
		s.refused(t, 400, key, "/api/check/batch", batchOf(101))
		_, usage := hosttest.Ask(t, s.HostProcess, key, "GET", "/api/usage", "")
		expect.Equal(t, "checks used", fmt.Sprint(usage["used"]), "105")
	})
}

func testPublic(t *testing.T, s *service) {
	from := func(address, body string) (int, string) {
		return hosttest.Send(t, s.HostProcess, "", "POST", "/api/check-public", body, "X-Forwarded-For", address,
			"Authorization", "x")
	}
	status, text := from("192.0.2.1", `{"email":"jane@example.com"}`)
	expect.That(t, status == 400 && strings.Contains(text, "domain"), "an address: %d %s", status, text)
	for range 10 {
		status, text = from("192.0.2.1", `{"domain":"example.com"}`)
		expect.Must(t, status == 200, "a domain: %d %s", status, text)
	}
	status, text = from("192.0.2.1", `{"domain":"example.com"}`)
	expect.That(t, status == 429 && strings.Contains(text, `"code":"hourly_limit"`) && strings.Contains(text,
		"reset_at"), "the eleventh check: %d %s", status, text)
	status, text = from("192.0.2.2", `{"domain":"example.com"}`)
	expect.That(t, status == 200, "another address: %d %s", status, text)
}

func testErrors(t *testing.T, s *service) {
	key := s.account(t, "pro").Secret
	for _, test := range []struct {
		method, path, body, code string
		status                   int
	}{
		{"POST", "/api/check", `{`, "invalid_body", 400},
		{"POST", "/api/check", `{"email":5}`, "invalid_field", 400},
		{"GET", "/api/check", ``, "method_not_allowed", 405},
		{"POST", "/api/checks", `{}`, "not_found", 404},
		{"GET", "/nothing", ``, "not_found", 404},
		{"GET", "/api/checks/chk_01KF0HBGZ0Q8WJ3V5N7T9R2M4C", ``, "not_found", 404},
	} {
		status, answer := hosttest.Ask(t, s.HostProcess, key, test.method, test.path, test.body)
		text, _ := answer["error"].(string)
		expect.That(t, status == test.status && text != "" && answer["code"] == test.code, "%s %s %s: %d %v",
			test.method, test.path, test.body, status, answer)
	}
}

// wantSpent compares the answer to a check beyond the quota with the contract.
func wantSpent(t *testing.T, status int, answer map[string]any) {
	t.Helper()
	year, month, _ := time.Now().UTC().Date()
	reset := time.Date(year, month+1, 1, 0, 0, 0, 0, time.UTC)
	text, _ := answer["error"].(string)
	expect.That(t, status == 429 && answer["code"] == "quota_exhausted" && answer["reset_at"] ==
		reset.Format("2006-01-02T15:04:05.000Z") && strings.Contains(text, reset.Format(time.DateOnly)),
		"beyond the quota: %d %v", status, answer)
}

// testQuota returns a test that a plan's quota can be used at once, by callers at the same time.
func testQuota(plan string, quota int64, callers int) func(*testing.T, *service) {
	return func(t *testing.T, s *service) {
		hosttest.WithinOneMonth(func() {
			key := s.account(t, plan).Secret
			var answered atomic.Int64
			var all sync.WaitGroup
			for range callers {
				all.Go(func() {
					for {
						const body = `{"domain":"example.com"}`
						status, answer := hosttest.Ask(t, s.HostProcess, key, "POST", "/api/check", body)
						if status != 200 {
							wantSpent(t, status, answer)
							return
						}
						answered.Add(1)
					}
				})
			}
			all.Wait()
			expect.Equal(t, "answered checks", answered.Load(), quota)
		})
	}
}

func testQuotaOfBatches(t *testing.T, s *service) {
	hosttest.WithinOneMonth(func() {
		key := s.account(t, "pro").Secret
		for n := range 15 {
			status, answer := hosttest.Ask(t, s.HostProcess, key, "POST", "/api/check/batch", batchOf(100))
			expect.Must(t, status == 200, "batch %d: %d %v", n+1, status, answer)
		}
		status, answer := hosttest.Ask(t, s.HostProcess, key, "POST", "/api/check", `{"domain":"example.com"}`)
		wantSpent(t, status, answer)
	})
}

func testPlans(t *testing.T, s *service) {
	covered := map[string][]entity.Type{"free": {entity.Domain, entity.Email}, "starter": entity.Types(),
		"pro": entity.Types()}
	for _, plan := range check.PlanNames() {
		types, key := covered[plan], s.account(t, plan).Secret
		expect.Must(t, types != nil, "the contract does not say what %s covers", plan)
		for _, typ := range entity.Types() {
			if slices.Contains(types, typ) {
				s.check(t, key, body(typ))
				continue
			}
			expect.Equal(t, plan+" "+string(typ), s.refused(t, 403, key, "/api/check", body(typ))["code"].(string),
				"plan_required")
		}
		if plan != "pro" {
			s.refused(t, 403, key, "/api/check/batch", batchOf(1))
			s.refused(t, 403, key, "/gdpr/erase", body(entity.Domain))
		}
	}
}
