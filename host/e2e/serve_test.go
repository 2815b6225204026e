package e2e

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"assay/host/access/apikey"
	"assay/host/auditlog"
	"assay/host/hosttest"
	"assay/host/installation"
	"assay/host/store/postgres/postgrestest"
	"assay/sdk/client"
)

// TestFirstRun does what a new user does: start a host, check values, stop the host, start it again.
func TestFirstRun(t *testing.T) {
	t.Parallel()
	needPostgres(t)
	// Only its owner can enter a test's directory. When the test runs as root, Postgres uses another directory.
	dir := filepath.Join(t.TempDir(), "data")
	if hosttest.RaceDetector {
		dir = hosttest.DataDir(t) // compiling all layers again takes minutes
	}
	t.Cleanup(func() {
		if location := clusterDir(t, dir); location != dir {
			if err := os.RemoveAll(location); err != nil {
				t.Error(err)
			}
		}
	})
	host := hosttest.StartHost(t, dir, "")
	cases := map[string]struct {
		body, kind, verdict string
	}{
		"a look-alike":               {`{"domain":"paypa1-secure-login.xyz"}`, "domain", "block"},
		"a well-known domain":        {`{"domain":"google.com"}`, "domain", "allow"},
		"a mailbox at a provider":    {`{"email":"jane.doe@gmail.com"}`, "email", "allow"},
		"a valid German IBAN":        {`{"iban":"DE12 5001 0517 0648 4898 90"}`, "iban", "allow"},
		"an IBAN with a wrong digit": {`{"iban":"DE88 3704 0044 0532 0130 00"}`, "iban", "block"},
		"a valid French mobile":      {`{"phone":"06 12 34 56 78","region":{"country":"FR"}}`, "phone", "allow"},
	}
	for name, c := range cases {
		a := hosttest.CheckUntilComplete(host, host.Key, c.body)
		if a.Status != 200 || a.Type != c.kind || a.Verdict != c.verdict {
			t.Errorf("%s: %+v, want a %s with %s", name, a, c.kind, c.verdict)
		}
		if c.verdict == "block" && (len(a.Signals) == 0 || a.Threat == nil) {
			t.Errorf("%s: blocked without a reason or a threat: %+v", name, a)
		}
	}
	host.Stop(t, syscall.SIGTERM)
	if postgresRuns(t, dir) {
		t.Error("Postgres still runs after the host has stopped")
	}

	again := hosttest.StartHost(t, dir, "")
	if again.Key != host.Key {
		t.Errorf("the second start printed the key %s, the first %s", again.Key, host.Key)
	}
	again.Stop(t, syscall.SIGKILL)
	third := hosttest.StartHost(t, dir, "")
	if a := hosttest.Post(http.DefaultClient, third.URL, third.Key, `{"domain":"google.com"}`); a.Status != 200 {
		t.Errorf("after a crash: %+v", a)
	}
	reports := hosttest.OutputJSON[[]auditlog.Report](t, dir, "", "audit", "verify")
	if len(reports) != 2 || !reports[0].OK || !reports[1].OK || reports[0].Records < int64(len(cases)+1) {
		t.Errorf("audit verify: %+v", reports)
	}
}

// TestQuotaAcrossHosts sends 200 checks to two hosts of one database with a key whose quota is 150 checks.
func TestQuotaAcrossHosts(t *testing.T) {
	t.Parallel()
	dir, database := hosttest.DataDir(t), postgrestest.Database(t)
	hosts := []*hosttest.HostProcess{hosttest.StartHost(t, dir, database), hosttest.StartHost(t, dir, database)}
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 200}}
	var answered, exhausted atomic.Int32
	hosttest.WithinOneMonth(func() {
		answered.Store(0)
		exhausted.Store(0)
		issued := hosttest.OutputJSON[apikey.Issued](t, dir, database, "keys", "create", "--plan", "starter")
		var wg sync.WaitGroup
		atOnce := make(chan struct{}, 32) // more could time out on a busy machine
		for i := range 200 {
			atOnce <- struct{}{}
			wg.Go(func() {
				defer func() { <-atOnce }()
				a := hosttest.Post(client, hosts[i%2].URL, issued.Secret, fmt.Sprintf(`{"domain":"example-%d.com"}`, i))
				switch {
				case a.Status == 200:
					answered.Add(1)
				case a.Status == 429 && a.ResetAt != "":
					exhausted.Add(1)
				default:
					t.Errorf("request %d: %+v", i, a)
				}
			})
		}
		wg.Wait()
	})
	if answered.Load() != 150 || exhausted.Load() != 50 {
		t.Errorf("%d answered and %d refused, want 150 and 50", answered.Load(), exhausted.Load())
	}
}

// TestKillUnderLoad kills hosts while they answer checks. Clients send what was not answered again, to the next host
// and with the same Idempotency-Key: each request is answered, recorded and counted exactly once.
func TestKillUnderLoad(t *testing.T) {
	t.Parallel()
	const callers = 16
	kills := 8
	if hosttest.RaceDetector {
		kills = 5
	}
	dir, database := hosttest.DataDir(t), postgrestest.Database(t)
	b := hosttest.OpenStore(t, dir, database)
	issued, err := installation.IssueKey(t.Context(), b.Store, installation.Unlimited(), "test")
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	answered := map[string]bool{}
	next := make([]int, callers) // the number of each caller's request
	for round := range kills + 1 {
		host := hosttest.StartHost(t, dir, database)
		var wg sync.WaitGroup
		var count atomic.Int32
		enough := make(chan struct{})
		goal := 1 + rand.Int32N(400)
		assay := client.New(host.URL, issued.Secret)
		assay.Attempts, assay.HTTP.Transport = 1, &http.Transport{MaxIdleConnsPerHost: callers}
		assay.AttemptTimeout, assay.Timeout = time.Minute, time.Minute // a busy host is not a killed one
		for c := range callers {
			wg.Go(func() {
				for !t.Failed() {
					var refused *client.Error
					value := client.Request{Email: fmt.Sprintf("caller%d.%d@example.com", c, next[c])}
					result, err := assay.Check(t.Context(), value, client.IdempotencyKey(value.Email))
					switch {
					case err == nil:
					case errors.As(err, &refused) && refused.Status >= http.StatusInternalServerError:
						continue // busy, or its outcome is unknown
					case errors.As(err, &refused):
						t.Errorf("under load: %v", err)
						return
					default: // the host is killed
						return
					}
					mu.Lock()
					answered[result.Ref] = true
					mu.Unlock()
					next[c]++
					if round == kills { // only what the killed hosts left
						return
					}
					if count.Add(1) == goal {
						close(enough)
					}
				}
			})
		}
		ended := make(chan struct{})
		go func() {
			wg.Wait()
			close(ended)
		}()
		select {
		case <-enough:
			host.Stop(t, syscall.SIGKILL)
			<-ended
		case <-ended: // all is answered, or a request failed
		}
	}
	reports := hosttest.OutputJSON[[]auditlog.Report](t, dir, database, "audit", "verify")
	if len(reports) != 2 || !reports[0].OK || !reports[1].OK {
		t.Fatalf("audit verify: %+v", reports)
	}
	requests := 0
	for _, n := range next {
		requests += n
	}
	recorded, used := hosttest.RecordedRefs(t, database)
	for ref, times := range recorded {
		if !answered[ref] || times != 1 {
			t.Errorf("%s is recorded %d times; answered: %v", ref, times, answered[ref])
		}
	}
	if used != requests || len(recorded) != requests || len(answered) != requests {
		t.Errorf("%d requests, %d answers, %d recorded, %d counted", requests, len(answered), len(recorded), used)
	}
}

// postgresRuns reports whether the private Postgres of a data directory is running.
func postgresRuns(t *testing.T, dir string) bool {
	t.Helper()
	_, err := os.Stat(filepath.Join(clusterDir(t, dir), "postgres", "postmaster.pid"))
	return err == nil
}

// clusterDir returns the directory of the private Postgres of a data directory.
func clusterDir(t *testing.T, dir string) string {
	t.Helper()
	location, err := os.ReadFile(filepath.Join(dir, "postgres.location"))
	if errors.Is(err, fs.ErrNotExist) {
		return dir
	}
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(location))
}

func needPostgres(t *testing.T) { postgrestest.Database(t) }

// TestPages sends requests to a host that no browser would send.
func TestPages(t *testing.T) {
	t.Parallel()
	host := hosttest.StartHost(t, hosttest.DataDir(t), postgrestest.Database(t), "--dns=off", "--test-checkout",
		"--public-url=https://assay.example")
	b := newBuyer(t, host)
	for name, test := range map[string]struct {
		method, path, cookie string
		status               int
		header               map[string]string
	}{
		"a cookie of 8 KiB": {"GET", "/", strings.Repeat("x", 8<<10), 431, nil},
		"a page": {"GET", "/signin", "", 200, map[string]string{"Cache-Control": "no-store",
			"Referrer-Policy": "no-referrer", "X-Content-Type-Options": "nosniff",
			"Strict-Transport-Security": "max-age=31536000"}},
		"an unknown page":       {"GET", "/nothing", "", 404, map[string]string{"Cache-Control": "no-store"}},
		"GET instead of POST":   {"GET", "/subscribe", "", 405, map[string]string{"Allow": "POST"}},
		"the provider's events": {"POST", "/api/billing/stripe", "", 404, nil}, // no Stripe key is set
		"a form from elsewhere": {"POST", "/signin", "", 403, nil},
	} {
		request, err := http.NewRequestWithContext(t.Context(), test.method, host.URL+test.path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		if test.cookie != "" {
			request.Header.Set("Cookie", "assay_session="+test.cookie)
		}
		request.Header.Set("Sec-Fetch-Site", "cross-site")
		response, err := b.client.Do(request)
		status, _ := b.read(response, err)
		if status != test.status {
			t.Errorf("%s: status %d, want %d", name, status, test.status)
		}
		for field, want := range test.header {
			if got := response.Header.Get(field); got != want {
				t.Errorf("%s: %s is %q, want %q", name, field, got, want)
			}
		}
	}
	// The number of checkouts is limited by client.
	statuses := map[int]int{}
	for range 15 {
		response, err := b.client.PostForm(host.URL+"/subscribe", url.Values{"plan": {"starter"}})
		status, _ := b.read(response, err)
		statuses[status]++
	}
	if fmt.Sprint(statuses) != "map[303:10 429:5]" {
		t.Errorf("statuses of 15 checkouts from one client: %v", statuses)
	}
	host.Stop(t, syscall.SIGTERM)
}
