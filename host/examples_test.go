package main

import (
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"assay/host/apikey"
	"assay/host/postgres/postgrestest"
	"assay/sdk/client"
)

// busy matches what a client prints when a host on a busy machine refuses a check or answers too late for the client.
var busy = regexp.MustCompile("nothing was counted, try again|deadline exceeded|TimeoutError")

// TestExamples runs the clients of examples/ against a real host.
func TestExamples(t *testing.T) {
	t.Parallel()
	dir, database := dataDir(t), postgrestest.Database(t)
	host := startHost(t, dir, database)
	key := outputJSON[apikey.Issued](t, dir, database, "keys", "create", "--plan", "pro").Secret
	// The first call of a layer is its slowest.
	checkUntilComplete(host, key, `{"email":"jane@paypa1-secure-login.xyz"}`)
	for name, c := range map[string]struct {
		command []string
		want    string
	}{
		"curl: a legitimate domain": {[]string{"sh", "../examples/client-curl/check.sh", "google.com"}, "allow\n"},
		"curl: a look-alike": {[]string{"sh", "../examples/client-curl/check.sh", "paypa1-secure-login.xyz"},
			"block\n"},
		"go: a legitimate mailbox": {[]string{"go", "run", "../examples/client-go", "jane.doe@gmail.com"}, "welcome\n"},
		"go: a mailbox at a look-alike": {
			[]string{"go", "run", "../examples/client-go", "jane@paypa1-secure-login.xyz"}, "rejected"},
		"typescript: a batch": {
			[]string{"npm", "run", "-s", "check", "--prefix", "../examples/client-typescript", "--",
				"domain=paypa1-secure-login.xyz", "email=nobody"},
			"block paypa1-secure-login.xyz",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if c.command[0] == "npm" {
				typeScriptClient(t, "../examples/client-typescript")
			}
			var out []byte
			var err error
			untilAccepted(func() int {
				cmd := exec.CommandContext(t.Context(), c.command[0], c.command[1:]...)
				cmd.Env = append(cmd.Environ(), "ASSAY_URL="+host.url, "ASSAY_KEY="+key)
				if out, err = cmd.CombinedOutput(); busy.Match(out) {
					return http.StatusServiceUnavailable
				}
				return http.StatusOK
			})
			if err != nil || !strings.HasPrefix(string(out), c.want) {
				t.Errorf("%v, %q, want %q", err, out, c.want)
			}
		})
	}
}

// TestClients runs the official clients against a real host, over a relay that loses the first answer to each request:
// they send it again with the same Idempotency-Key, and it is counted once.
func TestClients(t *testing.T) {
	t.Parallel()
	dir, database := dataDir(t), postgrestest.Database(t)
	host := startHost(t, dir, database)
	for name, run := range map[string]func(t *testing.T, url, key string){
		"go": goClient,
		"python": testProgram("install Debian's python3", "python3", "-m", "unittest", "discover",
			"../sdk/python/tests", "-t", "../sdk/python"),
		"typescript": func(t *testing.T, url, key string) {
			typeScriptClient(t, "../sdk/typescript")
			test := testProgram("install Debian's nodejs", "node", "--test", "../sdk/typescript/test/assay.test.mjs")
			test(t, url, key)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			key := outputJSON[apikey.Issued](t, dir, database, "keys", "create", "--plan", "pro").Secret
			relay := &losingRelay{to: host.url, attempts: map[string]int{}}
			server := httptest.NewServer(relay)
			defer server.Close()
			run(t, server.URL, key)
			relay.mu.Lock()
			defer relay.mu.Unlock()
			if len(relay.attempts) != 4 {
				t.Errorf("%d keys for 4 calls: %v", len(relay.attempts), relay.attempts)
			}
			for key, n := range relay.attempts {
				if key == "" || n < 2 {
					t.Errorf("%d attempts with the key %q", n, key)
				}
			}
			status, held := callPrivacy(t, host, key, "POST", "/gdpr/export", `{"domain":"lost-answers.example"}`)
			if status != http.StatusOK || held["total"] != 2.0 {
				t.Errorf("status %d, %v checks, want 2: one by itself, one in a batch", status, held["total"])
			}
		})
	}
}

// typeScriptClient compiles the client for a program in folder, or skips the test if the compiler is missing.
func typeScriptClient(t *testing.T, folder string) {
	t.Helper()
	for _, f := range []string{"../sdk/typescript", folder} {
		if _, err := os.Stat(filepath.Join(f, "node_modules")); err != nil {
			t.Skipf("TypeScript is not installed: npm ci --prefix %s --ignore-scripts", strings.TrimPrefix(f, "../"))
		}
	}
	if out, err := compiledClient(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// compiledClient compiles the client once for all tests, which use it at the same time.
var compiledClient = sync.OnceValues(func() ([]byte, error) {
	return exec.Command("npm", "run", "-s", "build", "--prefix", "../sdk/typescript").CombinedOutput()
})

// goClient makes the same four calls as the test programs of the other clients.
func goClient(t *testing.T, url, key string) {
	t.Helper()
	assay := client.New(url, key)
	valid, invalid := client.Request{Domain: "lost-answers.example"}, client.Request{Email: "nobody"}
	result, err := assay.Check(t.Context(), valid)
	if err != nil || result.Type != "domain" {
		t.Fatalf("check: %+v, %v", result, err)
	}
	batch, err := assay.CheckBatch(t.Context(), []client.Request{valid, invalid})
	if err != nil || batch[0].Ref == "" || batch[0].Error != "" || batch[1].Error == "" {
		t.Errorf("batch: %+v, %v", batch, err)
	}
	if err := assay.GiveFeedback(t.Context(), client.Feedback{Ref: result.Ref, Label: "legitimate"}); err != nil {
		t.Errorf("feedback: %v", err)
	}
	_, err = assay.Check(t.Context(), invalid)
	if refused := (*client.Error)(nil); !errors.As(err, &refused) || refused.Status != http.StatusBadRequest ||
		refused.Field != "email" || !strings.HasPrefix(refused.RequestID, "req_") {
		t.Errorf("error of an invalid check: %#v", err)
	}
}

// testProgram returns a client's own test program, which calls the host that ASSAY_URL names besides.
func testProgram(install string, command ...string) func(t *testing.T, url, key string) {
	return func(t *testing.T, url, key string) {
		t.Helper()
		if _, err := exec.LookPath(command[0]); err != nil {
			t.Skipf("this test needs %s (%s): %v", command[0], install, err)
		}
		cmd := exec.CommandContext(t.Context(), command[0], command[1:]...)
		cmd.Env = append(cmd.Environ(), "ASSAY_URL="+url, "ASSAY_KEY="+key, "PYTHONDONTWRITEBYTECODE=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
}

// losingRelay passes requests to a host. It waits for the first answer to each Idempotency-Key and then closes the
// client's connection without it.
type losingRelay struct {
	to string

	mu       sync.Mutex
	attempts map[string]int // by Idempotency-Key
}

func (l *losingRelay) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	forwarded, err := http.NewRequestWithContext(r.Context(), r.Method, l.to+r.URL.Path, r.Body)
	if err != nil {
		panic(err)
	}
	forwarded.Header, forwarded.ContentLength = r.Header.Clone(), r.ContentLength
	response, err := http.DefaultClient.Do(forwarded)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	l.mu.Lock()
	l.attempts[r.Header.Get("Idempotency-Key")]++
	first := l.attempts[r.Header.Get("Idempotency-Key")] == 1
	l.mu.Unlock()
	if first || err != nil {
		panic(http.ErrAbortHandler)
	}
	maps.Copy(w.Header(), response.Header)
	w.WriteHeader(response.StatusCode)
	_, _ = w.Write(body)
}
