package api

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"assay/host/check"
	"assay/host/entity"
	"assay/host/store"
	"assay/host/store/postgres/postgrestest"
	"assay/host/store/storetest"
	"assay/registry/expect"
)

// TestRequestsAreCountedOnce sends requests to two hosts on one database. Answers get lost, hosts are replaced, and
// some requests arrive at both at once. All answers to a request are the same, and it is counted once. ASSAY_REPEATS
// sets how many.
func TestRequestsAreCountedOnce(t *testing.T) {
	t.Parallel()
	requests, replacements := 300, 1
	if text := os.Getenv("ASSAY_REPEATS"); text != "" {
		requests = expect.Value(strconv.Atoi(text))(t)
		replacements = max(replacements, requests/5000)
	}
	url := postgrestest.Database(t)
	direct := storetest.Close(t, expect.Value(store.Open(t.Context(), storeConfig(url)))(t))
	account := expect.Value(direct.CreateAccount(t.Context(), storetest.Plan(t, "pro", 1<<30)))(t)
	_, key := storetest.NewKey(t, direct, account)
	c := &repeatingClient{key: key.Secret, http: &http.Client{Timeout: 20 * time.Second,
		Transport: &http.Transport{MaxIdleConnsPerHost: 32}}}
	t.Cleanup(c.http.CloseIdleConnections)
	for i := range c.hosts {
		c.hosts[i].Store(startRepeatHost(t, url))
	}

	refs := make([][]string, requests)
	var next, answered atomic.Int64
	var clients sync.WaitGroup
	for range 16 {
		clients.Go(func() {
			for n := int(next.Add(1)) - 1; n < requests && !t.Failed(); n = int(next.Add(1)) - 1 {
				answer, err := c.request(t.Context(), n)
				expect.That(t, err == nil, "request %d: %v", n, err)
				for _, m := range reference.FindAllSubmatch(answer, -1) {
					refs[n] = append(refs[n], string(m[1]))
				}
				answered.Add(1)
			}
		})
	}
	for i := range replacements {
		expect.Until(t, "requests to be answered", func() bool {
			return t.Failed() || answered.Load() >= int64((i+1)*requests/(replacements+1))
		})
		h := c.hosts[i%2].Swap(startRepeatHost(t, url)) // cut off: what the database has received goes on
		h.proxy.Set(nil, true)
		h.stop(t)
	}
	clients.Wait()

	conn := storetest.Session(t, url)
	recorded := map[string]int{}
	rows := expect.Value(conn.Query(t.Context(), "SELECT ref FROM audit_records WHERE kind = 'check'"))(t)
	for _, ref := range expect.Value(pgx.CollectRows(rows, pgx.RowTo[string]))(t) {
		recorded[ref]++
	}
	want := 0
	for n, answer := range refs {
		want += checksOf(n)
		expect.Equal(t, fmt.Sprint("checks in the answer to request ", n), len(answer), checksOf(n))
		for _, ref := range answer {
			expect.Equal(t, fmt.Sprintf("records of check %s of request %d", ref, n), recorded[ref], 1)
			recorded[ref] = 0
		}
	}
	expect.Equal(t, "recorded checks", len(recorded), want)
	expect.Equal(t, "counted checks", storetest.Value[int](t, conn, "SELECT sum(used)::int FROM quota_usage"), want)
	t.Logf("%d requests with %d checks: %d attempts, %d answers lost, %d replayed, %d refused or in doubt, %d hosts "+
		"replaced", requests, want, c.attempts.Load(), c.lost.Load(), c.replayed.Load(), c.failed.Load(), replacements)
	expect.Equal(t, "no answer was lost or replayed", c.lost.Load() == 0 || c.replayed.Load() == 0, false)
}

var reference = regexp.MustCompile(`"ref":"(chk_[^"]+)"`)

// checksOf returns how many checks request n has: every tenth is a batch.
func checksOf(n int) int {
	if n%10 == 3 {
		return 3
	}
	return 1
}

// repeatingClient sends each request until it is answered.
type repeatingClient struct {
	key   string
	http  *http.Client
	hosts [2]atomic.Pointer[repeatHost]

	attempts, lost, replayed, failed atomic.Int64
}

// request sends request n and returns its answer. Every twentieth is sent twice at the same time.
func (c *repeatingClient) request(ctx context.Context, n int) ([]byte, error) {
	path, body := "/api/check", fmt.Sprintf(`{"domain":"shop-%d.example"}`, n)
	if checksOf(n) > 1 {
		path = batchPath
		body = fmt.Sprintf(`{"checks":[%s,{},{"email":"jo@shop-%d.example"},{"phone":"+4915123%06d"}]}`, body, n, n)
	}
	if n%20 != 0 {
		return c.untilAnswered(ctx, path, body, n)
	}
	var answers [2][]byte
	var errs [2]error
	var both sync.WaitGroup
	for i := range answers {
		both.Go(func() { answers[i], errs[i] = c.untilAnswered(ctx, path, body, n) })
	}
	both.Wait()
	if err := errors.Join(errs[:]...); err != nil || !bytes.Equal(answers[0], answers[1]) {
		return nil, fmt.Errorf("two answers: %s and %s, %w", answers[0], answers[1], err)
	}
	return answers[0], nil
}

func (c *repeatingClient) untilAnswered(ctx context.Context, path, body string, n int) (answer []byte, err error) {
	for until := time.Now().Add(patience); time.Now().Before(until); {
		got, forget, err := c.attempt(ctx, path, body, n)
		switch {
		case err != nil:
			return nil, err
		case got == nil:
			<-time.After(rand.N(50 * time.Millisecond))
			continue
		case answer != nil && !bytes.Equal(answer, got):
			return nil, fmt.Errorf("two answers: %s and %s", answer, got)
		}
		if answer = got; !forget {
			return answer, nil
		}
	}
	return nil, errors.New("there was no answer")
}

// attempt sends a request to one of the hosts. It returns nil without an answer, and loses one answer in twenty.
func (c *repeatingClient) attempt(ctx context.Context, path, body string, n int) (
	answer []byte, forget bool, err error) {
	c.attempts.Add(1)
	if rand.IntN(20) == 0 {
		c.lost.Add(1)
		if forget = rand.IntN(2) == 0; !forget {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, rand.N(20*time.Millisecond))
			defer cancel()
		}
	}
	to := "http://" + c.hosts[rand.IntN(2)].Load().addr + path
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to, strings.NewReader(body))
	if err != nil {
		return nil, false, err
	}
	req.Header.Set("Authorization", "Bearer "+c.key)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Idempotency-Key", fmt.Sprintf("request %d", n))
	resp, err := c.http.Do(req)
	if err != nil {
		c.failed.Add(1)
		return nil, false, nil // it may have arrived
	}
	defer resp.Body.Close()
	answer, err = io.ReadAll(resp.Body)
	switch {
	case err != nil, resp.StatusCode >= http.StatusInternalServerError:
		c.failed.Add(1)
		return nil, false, nil
	case resp.StatusCode != http.StatusOK:
		return nil, false, fmt.Errorf("status %d: %s", resp.StatusCode, answer)
	}
	if resp.Header.Get("Idempotent-Replayed") == "true" {
		c.replayed.Add(1)
	}
	return answer, forget, nil
}

// repeatHost is a host within the test's process, with its own connections to the database.
type repeatHost struct {
	addr   string
	proxy  *storetest.Proxy
	server *Server
}

// startRepeatHost starts a host without layers.
func startRepeatHost(t *testing.T, url string) *repeatHost {
	t.Helper()
	h := &repeatHost{proxy: storetest.NewProxy(t, url)}
	s := storetest.Close(t, expect.Value(store.Open(t.Context(), storeConfig(h.proxy.URL)))(t))
	ledger := storetest.Close(t, expect.Value(s.NewLedger(store.LedgerConfig{}))(t))
	t.Cleanup(func() { h.proxy.Set(nil, false) }) // the ledger settles what is in doubt
	live := &check.Live{}
	live.Swap(check.NewLineup(storetest.Revision, nil, check.Bands{Review: 40, Block: 70}, nil))
	checker := &check.Checker{Live: live, Ledger: ledger, Observer: unobserved{}, Now: time.Now, Deadline: time.Minute}
	listener := listen(t)
	h.addr = listener.Addr().String()
	h.server = New(Config{Checker: checker, Keys: s, Answers: ledger, Outage: store.IsOutage})
	served := h.server.serveAside(listener)
	t.Cleanup(func() {
		h.stop(t)
		expect.NoError(t, storetest.Receive(t, "a host to end", served))
	})
	return h
}

// stop stops the server without waiting for its requests.
func (h *repeatHost) stop(t *testing.T) {
	t.Helper()
	_ = h.server.Shutdown(expect.Ended(t))
}

type unobserved struct{}

func (unobserved) LayerRan(entity.Type, check.Outcome, *check.Failure) {}
func (unobserved) CheckDone(*check.Decision, time.Duration)            {}

func TestMain(m *testing.M) {
	storetest.Prepare(func(ctx context.Context, url string) (*store.Store, error) {
		return store.Open(ctx, storeConfig(url))
	})
	os.Exit(postgrestest.Main(m))
}

func storeConfig(url string) store.Config {
	return store.Config{URL: url, DirectURL: url, Keys: storetest.Ring, Logger: storetest.Discard()}
}
