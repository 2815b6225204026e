package customer

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"assay/host/access/apikey"
	"assay/host/check"
	"assay/host/entity"
	"assay/host/hosttest"
	"assay/host/store/postgres/postgrestest"
	"assay/registry/expect"
)

// service is a host as customers see it.
type service struct {
	*hosttest.HostProcess
	dir, database string
	stripe        *stripeServer
}

// TestService runs the tests that can share a host, because their accounts keep them apart. The names of clauses begin
// with the sections of docs/contract.md. TestAnswers and the tests of host/web/api prove what it says about requests,
// results and errors.
func TestService(t *testing.T) {
	t.Parallel()
	stripe := &stripeServer{plan: "starter"}
	server := httptest.NewServer(stripe)
	t.Cleanup(server.Close)
	dir, database := hosttest.DataDir(t), postgrestest.Database(t)
	host := hosttest.StartHost(t, dir, database, hosttest.AllowLoopback, "--trusted-proxies=127.0.0.0/8",
		"--stripe-key=sk_test_1", "--stripe-webhook-secret="+stripeSecret, "--stripe-url="+server.URL, "--stripe-tax",
		"--links=terms=https://a.example/terms,imprint=https://a.example/imprint")
	s := &service{host, dir, database, stripe}
	// The first call of a layer is its slowest.
	hosttest.CheckUntilComplete(host, s.account(t, "pro").Secret, `{"email":"jane@paypa1-secure-login.xyz"}`)
	for name, test := range map[string]func(*testing.T, *service){
		"2.3, 5.6 and 6 events of block and review, signed with the secret": testEvents,
		"3 and 5.4 a revoked key gets 401":                                  testRevokedKey,
		"4.1 and 4.4 every check counts once, also in a batch":              testCounting,
		"4.2 without a key, domains alone, ten an hour from an address":     testPublic,
		"8 Free: 50 checks a month, eight at once":                          testQuota,
		"8 plans cover types, batches, webhooks and privacy":                testPlans,
		"bodies": testBodies, "clients": testClients, "installed clients": testInstalledClients,
		"examples": testExamples, "receivers": testReceivers, "Stripe": testStripe,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, s)
		})
	}
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

func testRevokedKey(t *testing.T, s *service) {
	issued := s.account(t, "pro")
	s.check(t, issued.Secret, body(entity.Domain))
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

// testQuota uses up a plan's quota by callers at the same time.
func testQuota(t *testing.T, s *service) {
	hosttest.WithinOneMonth(func() {
		key := s.account(t, "free").Secret
		var answered atomic.Int64
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				status, answer := 200, map[string]any(nil)
				for ; status == 200; answered.Add(1) {
					status, answer = hosttest.Ask(t, s.HostProcess, key, "POST", "/api/check", body(entity.Domain))
				}
				answered.Add(-1) // the last one was refused
				year, month, _ := time.Now().UTC().Date()
				reset := time.Date(year, month+1, 1, 0, 0, 0, 0, time.UTC)
				expect.That(t, status == 429 && answer["code"] == "quota_exhausted" && answer["reset_at"] ==
					reset.Format(check.TimeFormat) && strings.Contains(answer["error"].(string),
					reset.Format(time.DateOnly)), "beyond the quota: %d %v", status, answer)
			})
		}
		all.Wait()
		expect.Equal(t, "answered checks", answered.Load(), 50)
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
