package customer

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"assay.example/client"
	"assay/host/check"
	"assay/host/customer/privacy"
	"assay/host/entity"
	"assay/host/hosttest"
	"assay/host/store/storetest"
	"assay/registry/expect"
	"assay/sdk/receipt"
)

// busy matches what a client prints when a host on a busy machine refuses a check or answers too late for the client.
var busy = regexp.MustCompile("nothing was counted, try again|deadline exceeded|TimeoutError")

// untilAccepted runs a program, again while a host is too busy for it.
func untilAccepted(run func() ([]byte, error)) (out []byte, err error) {
	hosttest.UntilAccepted(func() int {
		if out, err = run(); busy.Match(out) {
			return http.StatusServiceUnavailable
		}
		return http.StatusOK
	})
	return out, err
}

// testExamples runs the clients of examples/.
func testExamples(t *testing.T, s *service) {
	key := s.account(t, "pro").Secret
	type testCase struct {
		command []string
		want    string
	}
	expect.Each(t, map[string]testCase{
		"curl: a legitimate domain": {[]string{"sh", "../../../examples/client-curl/check.sh", "google.com"},
			"allow\n"},
		"curl: a look-alike": {[]string{"sh", "../../../examples/client-curl/check.sh", "paypa1-secure-login.xyz"},
			"block\n"},
		"curl: JSON in the value": {[]string{"sh", "-c",
			`! sh ../../../examples/client-curl/check.sh '","domain":"google.com'`}, "a domain has neither"},
		"go: a legitimate mailbox": {[]string{"go", "run", "../../../examples/client-go", "jane.doe@gmail.com"},
			"welcome\n"},
		"go: a mailbox at a look-alike": {
			[]string{"go", "run", "../../../examples/client-go", "jane@paypa1-secure-login.xyz"}, "rejected"},
		"python: a payment": {[]string{"python3", "../../../examples/client-python/payment.py", "payment-17",
			"DE89 3704 0044 0532 0130 00"}, "hold: review"}, // an IBAN that many documents show
		"typescript: a batch": {
			[]string{"npm", "run", "-s", "check", "--prefix", "../../../examples/client-typescript", "--",
				"domain=paypa1-secure-login.xyz", "email=nobody"},
			"block paypa1-secure-login.xyz",
		},
	}, func(t *testing.T, c testCase) {
		needs(t, c.command[0], "see examples/README.md")
		if c.command[0] == "npm" {
			typeScriptClient(t, "../../../examples/client-typescript")
		}
		out, err := untilAccepted(func() ([]byte, error) {
			cmd := exec.CommandContext(t.Context(), c.command[0], c.command[1:]...)
			cmd.Env = append(cmd.Environ(), "ASSAY_URL="+s.URL, "ASSAY_KEY="+key,
				"PYTHONPATH=../../../sdk/python", "PYTHONDONTWRITEBYTECODE=1")
			return cmd.CombinedOutput()
		})
		expect.That(t, err == nil && strings.HasPrefix(string(out), c.want), "%v, %q, want %q", err, out, c.want)
	})
}

// testClients runs the clients over a relay that loses the first answer to each request, which they send again. The
// account has so many checks of one value that their export and erasure run in the background.
func testClients(t *testing.T, s *service) {
	var clients atomic.Int32
	expect.Each(t, map[string]func(t *testing.T, url, key string){
		"go": goClient,
		"python": testProgram("install Debian's python3", "python3", "-m", "unittest", "discover",
			"../../../sdk/python/tests", "-t", "../../../sdk/python"),
		"typescript": func(t *testing.T, url, key string) {
			typeScriptClient(t, "../../../sdk/typescript")
			test := testProgram("install Debian's nodejs", "node", "--test",
				"../../../sdk/typescript/test/assay.test.mjs")
			test(t, url, key)
		},
	}, func(t *testing.T, run func(t *testing.T, url, key string)) {
		const earlier = privacy.AtOnce
		key := s.account(t, "pro").Secret
		month := time.Now().UTC().Month()
		s.record(t, key, "paypa1-secure-login.xyz", earlier)
		relay := &losingRelay{to: s.URL, from: fmt.Sprint("198.51.100.", clients.Add(1)), attempts: map[string]int{}}
		server := httptest.NewServer(relay)
		defer server.Close()
		run(t, server.URL, key)
		relay.mu.Lock()
		defer relay.mu.Unlock()
		for _, operation := range customerOperations(t) {
			expect.That(t, slices.ContainsFunc(slices.Collect(maps.Keys(relay.attempts)), operation.MatchString),
				"the client made no request like %s", operation)
		}
		for request, n := range relay.attempts {
			expect.That(t, n >= 2, "%d attempts of %s", n, request)
		}
		status, usage := hosttest.Ask(t, s.HostProcess, key, "GET", "/api/usage", "")
		ended := month != time.Now().UTC().Month()                             // and with it the quota
		if status != http.StatusOK || usage["used"] != earlier+2.0 && !ended { // a public check is not counted
			t.Errorf("status %d, %v checks, want %d, one by itself and one in a batch", status, usage["used"], earlier)
		}
		status, held := hosttest.Ask(t, s.HostProcess, key, "POST", "/gdpr/export",
			`{"domain":"paypa1-secure-login.xyz"}`)
		expect.That(t, status == http.StatusOK && held["total"] == 0.0, "status %d, %v checks after the erasure",
			status, held["total"])
	})
}

// customerOperations returns patterns of the requests that a client makes: of all documented operations that need a
// key, and the public check. An export by reference is also asked for by POST.
func customerOperations(t *testing.T) (all []*regexp.Regexp) {
	t.Helper()
	var document struct {
		Paths map[string]map[string]struct{ Security []any }
	}
	expect.NoError(t, json.Unmarshal([]byte(hosttest.ReadText(t, "../../web/api/openapi.json")), &document))
	for path, operations := range document.Paths {
		for method, o := range operations {
			if (len(o.Security) > 0 || path == "/api/check-public") && method+path != "get/gdpr/export" {
				path := regexp.MustCompile(`{\w+}`).ReplaceAllString(path, `[^/ ?]+`)
				all = append(all, regexp.MustCompile("^"+strings.ToUpper(method)+" "+path+"[? ]"))
			}
		}
	}
	return all
}

// record adds checks of a domain to an account, as a host does that has made them.
func (s *service) record(t *testing.T, key, domain string, n int) {
	t.Helper()
	b := hosttest.OpenStore(t, s.dir, s.database)
	caller := expect.Value(b.Store.Authenticate(t.Context(), key))(t)
	ledger := storetest.Close(t, expect.Value(b.Store.NewLedger(hosttest.PatientLedger))(t))
	var records []check.Record
	for range n {
		r := storetest.At(storetest.Decided(caller, storetest.Parse(t, entity.Domain, domain), check.Block),
			time.Now().UTC().Truncate(time.Millisecond))
		r.Decision.Revision = 1
		records = append(records, r)
	}
	for call := range slices.Chunk(records, check.MaxBatch) {
		expect.NoError(t, ledger.Append(t.Context(), call...))
	}
}

// typeScriptClient compiles the client for a program in folder, or skips the test if the compiler is missing.
func typeScriptClient(t *testing.T, folder string) {
	t.Helper()
	needs(t, "npm", "install Debian's npm")
	for _, f := range []string{"../../../sdk/typescript", folder} {
		if _, err := os.Stat(filepath.Join(f, "node_modules")); err != nil {
			t.Skipf("TypeScript is not installed: npm ci --prefix %s --ignore-scripts",
				strings.TrimPrefix(f, "../../../"))
		}
	}
	out, err := compiledClient()
	expect.Must(t, err == nil, "%v\n%s", err, out)
}

// compiledClient compiles the client once for all tests, which use it at the same time.
var compiledClient = sync.OnceValues(func() ([]byte, error) {
	return exec.Command("npm", "run", "-s", "build", "--prefix", "../../../sdk/typescript").CombinedOutput()
})

// goClient makes the same calls as the test programs of the other clients.
func goClient(t *testing.T, url, key string) {
	t.Helper()
	assay := client.New(url, key)
	assay.Attempts, assay.AttemptTimeout, assay.Timeout = 100, time.Minute, 3*time.Minute // on a busy machine
	valid, invalid := client.Request{Domain: "paypa1-secure-login.xyz"}, client.Request{Email: "nobody"}
	ctx := t.Context()
	result := expect.Value(assay.Check(ctx, valid))(t)
	expect.Equal(t, "type", result.Type, "domain")
	batch := expect.Value(assay.CheckBatch(ctx, []client.Request{valid, invalid}))(t)
	expect.That(t, batch[0].Ref != "" && batch[0].Error == "" && batch[1].Error != "", "batch: %+v", batch)
	expect.NoError(t, assay.GiveFeedback(ctx, client.Feedback{Ref: result.Ref, Label: "legitimate"}))
	goClientRecords(t, assay, result)
	expect.NoError(t, assay.RevokeFeedback(ctx, result.Ref))
	_, err := assay.Check(ctx, invalid)
	refused := (*client.Error)(nil)
	expect.That(t, errors.As(err, &refused) && refused.Status == http.StatusBadRequest && refused.Field == "email" &&
		strings.HasPrefix(refused.RequestID, "req_"), "error of an invalid check: %#v", err)
	proof := expect.Value(assay.Receipt(ctx, result.Ref))(t)
	expect.That(t, strings.Contains(string(proof), result.Ref), "receipt: %s", proof)
	expect.NoError(t, expect.ErrorOf(receipt.Parse(proof)))
	explained := expect.Value(assay.Explain(ctx, result.Ref, valid))(t)
	expect.That(t, explained.Score == result.Score && len(explained.Text) != 0 && explained.DecidedBy != nil &&
		len(explained.DecidedBy.Reasons) != 0 && explained.Today.Verdict == client.Block, "explanation: %+v", explained)
	asked := expect.Value(assay.AskReview(ctx, client.ReviewRequest{Ref: result.Ref, Reason: "Our shop.",
		Request: valid}))(t)
	expect.That(t, asked.State == "asked" && asked.Value != nil, "asking for a review: %+v", asked)
	expect.Equal(t, "reason", expect.Value(assay.Review(ctx, result.Ref))(t).Reason, "Our shop.")
	var export struct {
		Checks []struct{ Ref string }
		Total  int
	}
	expect.NoError(t, json.Unmarshal(expect.Value(assay.Export(ctx, client.Subject{Domain: valid.Domain}))(t), &export))
	expect.That(t, export.Total == 1002 && len(export.Checks) == 1002, "export: %d of %d checks", len(export.Checks),
		export.Total)
	expect.NoError(t, assay.Erase(ctx, client.Subject{Ref: result.Ref}))
}

// goClientRecords looks at a check with the feedback legitimate, and at what else the account has.
func goClientRecords(t *testing.T, assay *client.Client, result client.Result) {
	t.Helper()
	ctx, found := t.Context(), 0
	for check, err := range assay.Search(ctx, client.Query{Verdict: client.Block, From: result.Timestamp}) {
		expect.NoError(t, err)
		if check.Ref == result.Ref && check.Score == result.Score {
			found++
		}
	}
	shown := expect.Value(assay.RecordedCheck(ctx, result.Ref))(t)
	expect.That(t, found == 1 && shown.Type == "domain" && shown.Feedback != nil &&
		shown.Feedback.Label == "legitimate", "found %d times, check: %+v", found, shown)
	for event, err := range assay.Events(ctx, 0) {
		t.Errorf("an account without an endpoint has the event %+v, %v", event, err)
	}
	table := expect.Value(assay.ExportChecks(ctx, "csv", client.Query{From: result.Timestamp}))(t)
	expect.That(t, strings.Contains(string(table), result.Ref), "table: %s", table)
	used := expect.Value(assay.Usage(ctx, result.Timestamp.UTC().Format("2006-01")))(t)
	expect.That(t, used.Quota == 1500 && used.Used >= 2 && len(used.Counts) != 0, "usage: %+v", used)
	override := expect.Value(assay.SetOverride(ctx, client.OverrideRequest{Action: client.Allow, Reason: "Our shop.",
		RegistrableDomain: "example.net", ExpiresAt: time.Now().Add(time.Hour)}))(t)
	all := expect.Value(assay.Overrides(ctx))(t)
	expect.That(t, len(all) == 1 && all[0].ID == override.ID && all[0].Kind == override.Kind, "%+v; %+v", override, all)
	expect.NoError(t, assay.RemoveOverride(ctx, override.ID))
	expect.Equal(t, "score without a key", expect.Value(assay.CheckPublic(ctx, result.Query))(t).Score, result.Score)
	subject := expect.Value(assay.SubjectRef(ctx, client.Subject{Domain: result.Query}))(t)
	expect.That(t, strings.HasPrefix(subject, "sub_"), "subject %q", subject)
}

// testProgram returns a client's own test program, which calls the host that ASSAY_URL names besides.
func testProgram(install string, command ...string) func(t *testing.T, url, key string) {
	return func(t *testing.T, url, key string) {
		t.Helper()
		needs(t, command[0], install)
		runProgram(t, []string{"ASSAY_URL=" + url, "ASSAY_KEY=" + key, "PYTHONDONTWRITEBYTECODE=1"}, command...)
	}
}

// needs skips a test that runs a program which is not installed.
func needs(t *testing.T, program, install string) {
	t.Helper()
	if _, err := exec.LookPath(program); err != nil {
		t.Skipf("this test needs %s (%s): %v", program, install, err)
	}
}

// runProgram runs a program, which must succeed.
func runProgram(t *testing.T, environment []string, command ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), command[0], command[1:]...)
	cmd.Env = append(cmd.Environ(), environment...)
	out, err := cmd.CombinedOutput()
	expect.Must(t, err == nil, "%v\n%s", err, out)
}

// losingRelay passes requests to a host. It waits for the first answer to each request and then closes the client's
// connection without it. Requests with different keys are different.
type losingRelay struct {
	to   string
	from string // the client's address, which has checks without a key of its own

	mu       sync.Mutex
	attempts map[string]int // by method, path and Idempotency-Key
}

func (l *losingRelay) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	forwarded, err := http.NewRequestWithContext(r.Context(), r.Method, l.to+r.RequestURI, r.Body)
	if err != nil {
		panic(err)
	}
	forwarded.Header, forwarded.ContentLength = r.Header.Clone(), r.ContentLength
	forwarded.Header.Set("X-Forwarded-For", l.from)
	response, err := http.DefaultClient.Do(forwarded)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	l.mu.Lock()
	request := r.Method + " " + r.RequestURI + " " + r.Header.Get("Idempotency-Key")
	l.attempts[request]++
	first := l.attempts[request] == 1
	l.mu.Unlock()
	if first || err != nil {
		panic(http.ErrAbortHandler)
	}
	maps.Copy(w.Header(), response.Header)
	w.WriteHeader(response.StatusCode)
	_, _ = w.Write(body)
}
