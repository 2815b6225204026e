package outage

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
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

	"github.com/jackc/pgx/v5"

	"assay/host/hosttest"
	"assay/host/installation"
	"assay/host/store/postgres"
	"assay/host/store/storetest"
	"assay/registry/expect"
)

// The longest times in an outage of the database. A busy machine lengthens them, so tests accept more.
const (
	longestRefusal  = time.Second
	longestRecovery = 2 * time.Second
)

// TestOutages takes the database away in every way that is known, under a light load: every check is answered or
// refused with 503 within a second, and is answered again within two seconds of the database's return. /readyz names
// the reason meanwhile. Nothing answered is lost.
func TestOutages(t *testing.T) {
	t.Parallel()
	o := newOutages(t)
	others := []string{"GET /api/events", "POST /gdpr/subject", "POST /signin", "POST /api/feedback",
		"DELETE /api/feedback?ref=" + someRef, "POST /gdpr/export", "POST /gdpr/erase"}
	for _, state := range []struct {
		name         string
		enter, leave func(t *testing.T)
		reason       string   // of the database, in the answer of /readyz
		refused      []string // further requests that get 503
		doubt        bool     // checks whose statement was sent may get 500 with their reference
	}{
		{"stopped", o.stop, o.start, "does not respond", others, true},
		{"standby", o.demote, o.promote, "is a standby", nil, true},
		{"read-only", o.readOnly(true), o.readOnly(false), "is read-only", nil, false},
		{"full", o.disk.fill, o.disk.free, "is out of space", nil, false},
		{"crashed", o.crash, o.recovered, "", nil, true},
		{"frozen", o.signal(syscall.SIGSTOP), o.signal(syscall.SIGCONT), "does not respond", nil, true},
		{"slow", o.delay(700 * time.Millisecond), o.delay(0), "does not respond", nil, true},
		{"cut silently", o.silence(true), o.silence(false), "does not respond", nil, true},
	} {
		t.Run(state.name, func(t *testing.T) { // one after the other
			o.untilServing(t)
			stop := o.load(t)
			state.enter(t)
			entered := time.Now()
			if state.reason != "" {
				o.untilRefused(t, state.reason)
				for _, request := range state.refused {
					if status, after := o.send(t, request); status != 503 || after == "" {
						t.Errorf("%s: status %d, Retry-After %q; want 503", request, status, after)
					}
				}
			}
			state.leave(t)
			left := time.Now()
			o.untilServing(t)
			recovery := time.Since(left)
			slowest, counts := o.judge(t, stop(), state.doubt)
			t.Logf("outage of %v: %v, the slowest refusal after %v, back after %v",
				left.Sub(entered).Round(time.Millisecond), counts, slowest.Round(time.Millisecond),
				recovery.Round(time.Millisecond))
			if slowest > tolerated(longestRefusal) || recovery > tolerated(longestRecovery) {
				t.Errorf("the slowest refusal came after %v, service after %v", slowest, recovery)
			}
		})
	}
	o.verify(t)
}

// tolerated returns the time that tests accept for d: so long that only a host that waits for something exceeds it.
func tolerated(d time.Duration) time.Duration { return 60 * d }

// judge checks the answers of the load. It returns the time of the slowest refusal and the number of answers by status.
func (o *outages) judge(t *testing.T, answers []timedAnswer, doubt bool) (
	slowest time.Duration, counts map[int]int) {
	counts = map[int]int{}
	for _, a := range answers {
		counts[a.status]++
		switch {
		case a.status == 200:
		case a.status == 503 && a.retryAfter != "":
			slowest = max(slowest, a.took)
		case a.status == 500 && a.ref != "" && doubt && counts[500] <= loadCallers:
		case a.status == 500 && a.ref != "" && strings.Contains(hosttest.Logged(o.data, a.ref),
			hosttest.AwaitingOutcome): // a busy disk
		default:
			t.Errorf("a check got %d after %v: %s", a.status, a.took, a.text)
		}
	}
	return slowest, counts
}

// outages is a Postgres of the test's own, and a host that reaches it through a proxy.
type outages struct {
	dir, direct string
	cluster     *postgres.Cluster
	proxy       *storetest.Proxy
	disk        *disk
	host        *hosttest.HostProcess
	data        string // the host's data directory
	key         string

	mu       sync.Mutex
	answered map[string]bool // references of answered checks
}

func newOutages(t *testing.T) *outages {
	t.Helper()
	hosttest.NeedPostgres(t)
	dir := expect.Value(os.MkdirTemp("", "assay-outages-"))(t)
	if err := os.Chmod(dir, 0o711); err != nil { // Postgres may run as another user
		t.Fatal(err)
	}
	o := &outages{dir: dir, answered: map[string]bool{}}
	t.Cleanup(func() {
		_ = o.cluster.Close(context.Background())
		if location := hosttest.ClusterDir(t, dir); location != dir {
			_ = os.RemoveAll(location)
		}
		_ = os.RemoveAll(dir)
	})
	o.start(t)
	o.disk = newDisk(t, o)
	at := expect.Value(url.Parse(o.cluster.URL()))(t)
	at.Path = "/" + o.disk.database
	o.direct = at.String()
	o.proxy = storetest.NewProxy(t, o.direct)
	o.data = hosttest.DataDir(t)
	o.host = hosttest.StartHost(t, o.data, o.proxy.URL)
	issued, err := installation.IssueKey(t.Context(), hosttest.OpenStore(t, o.data, o.direct).Store,
		installation.Unlimited(), "test")
	expect.NoError(t, err)
	o.key = issued.Secret
	return o
}

func (o *outages) start(t *testing.T) {
	cluster := expect.Value(postgres.Open(t.Context(), postgres.Config{Dir: o.dir, Offline: true}))(t)
	o.cluster = cluster
}

func (o *outages) stop(t *testing.T) {
	expect.NoError(t, o.cluster.Close(t.Context()))
}

// folder returns the folder of the cluster.
func (o *outages) folder(t *testing.T) string {
	return filepath.Join(hosttest.ClusterDir(t, o.dir), "postgres")
}

func (o *outages) connect(t *testing.T) *pgx.Conn {
	t.Helper()
	address := o.direct
	if address == "" {
		address = o.cluster.URL()
	}
	conn := expect.Value(pgx.Connect(t.Context(), address))(t)
	return conn
}

func (o *outages) exec(t *testing.T, statements ...string) {
	t.Helper()
	conn := o.connect(t)
	defer func() { _ = conn.Close(t.Context()) }()
	for _, s := range statements {
		if _, err := conn.Exec(t.Context(), s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
}

const loadCallers = 4

// timedAnswer is an answer to a check.
type timedAnswer struct {
	status                int
	ref, retryAfter, text string
	took                  time.Duration
}

// load makes checks of different values until the returned function is called.
func (o *outages) load(t *testing.T) (stop func() []timedAnswer) {
	ctx, cancel := context.WithCancel(t.Context())
	var mu sync.Mutex
	var all []timedAnswer
	var callers sync.WaitGroup
	for range loadCallers {
		callers.Go(func() {
			pause := time.NewTicker(10 * time.Millisecond)
			defer pause.Stop()
			for ctx.Err() == nil {
				a := o.check(t)
				mu.Lock()
				all = append(all, a)
				mu.Unlock()
				<-pause.C
			}
		})
	}
	return func() []timedAnswer {
		cancel()
		callers.Wait()
		return all
	}
}

var numbers atomic.Int64

func (o *outages) check(t *testing.T) (a timedAnswer) {
	body := fmt.Sprintf(`{"domain":"shop-%d.example.com"}`, numbers.Add(1))
	began := time.Now()
	response, text := o.do(t, "POST", "/api/check", body, "Bearer "+o.key)
	a = timedAnswer{status: response.StatusCode, retryAfter: response.Header.Get("Retry-After"), text: text,
		took: time.Since(began)}
	var decoded struct{ Ref string }
	_ = json.Unmarshal([]byte(text), &decoded)
	a.ref = decoded.Ref
	if a.status == 200 {
		o.mu.Lock()
		o.answered[a.ref] = true
		o.mu.Unlock()
	}
	return a
}

// What requests that need the database name. Nothing is known of either.
const (
	someRef     = "chk_01JZZZZZZZZZZZZZZZZZZZZZZZ"
	someSubject = `{"domain":"example.com"}`
)

// send makes a request that needs the database.
func (o *outages) send(t *testing.T, request string) (status int, retryAfter string) {
	method, path, _ := strings.Cut(request, " ")
	body := map[string]string{"/signin": "code=" + o.key, "/api/feedback": `{"ref":"` + someRef + `","label":"fraud"}`,
		"/gdpr/subject": someSubject, "/gdpr/export": someSubject, "/gdpr/erase": someSubject}[path]
	response, _ := o.do(t, method, path, body, "Bearer "+o.key)
	return response.StatusCode, response.Header.Get("Retry-After")
}

func (o *outages) do(t *testing.T, method, path, body, authorization string) (*http.Response, string) {
	request, err := http.NewRequest(method, o.host.URL+path, strings.NewReader(body))
	if err != nil {
		t.Error(err)
		return &http.Response{}, ""
	}
	request.Header.Set("Authorization", authorization)
	request.Header.Set("Content-Type", "application/json")
	if strings.HasPrefix(body, "code=") {
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Errorf("%s %s: %v", method, path, err)
		return &http.Response{}, ""
	}
	defer response.Body.Close()
	text, _ := io.ReadAll(response.Body)
	return response, string(text)
}

// every calls f every few milliseconds until it returns true.
func every(t *testing.T, what string, f func() bool) {
	t.Helper()
	if !hosttest.Repeat(f) {
		t.Errorf("timed out waiting for %s", what)
	}
}

func (o *outages) ready(t *testing.T) (status int, text string) {
	t.Helper()
	response := expect.Value(http.Get(o.host.Admin + "/readyz"))(t)
	defer response.Body.Close()
	body := expect.Value(io.ReadAll(response.Body))(t)
	return response.StatusCode, string(body)
}

func (o *outages) untilServing(t *testing.T) {
	t.Helper()
	every(t, "the host to serve", func() bool {
		status, _ := o.ready(t)
		return status == 200 && o.check(t).status == 200
	})
}

// untilRefused waits until checks are refused and /readyz says why.
func (o *outages) untilRefused(t *testing.T, reason string) {
	t.Helper()
	var status int
	var text string
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the last answer of /readyz: %d %s", status, text)
		}
	})
	every(t, "checks to be refused", func() bool { return o.check(t).status == 503 })
	every(t, "/readyz to name the reason", func() bool {
		status, text = o.ready(t)
		return status == 503 && strings.Contains(text, `"part":"database","reason":"`+reason)
	})
}

// verify checks that every answered check is in the audit log once.
func (o *outages) verify(t *testing.T) {
	recorded, used := hosttest.RecordedRefs(t, o.direct)
	for ref := range o.answered {
		if recorded[ref] != 1 {
			t.Errorf("%s was answered and is in the audit log %d times", ref, recorded[ref])
		}
	}
	if used != len(recorded) {
		t.Errorf("%d checks were counted and %d recorded", used, len(recorded))
	}
}
