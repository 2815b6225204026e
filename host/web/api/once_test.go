package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"assay/host/access/apikey"
	"assay/host/check"
	"assay/host/store/storetest"
	"assay/registry/expect"
)

// onceChecker is a checker with a ledger that keeps answers.
type onceChecker struct {
	checker
	mu      sync.Mutex
	kept    map[string]*check.Once // by account and key
	behind  int                    // so many look-ups find nothing
	failing error                  // of look-ups
}

func (c *onceChecker) Kept(_ context.Context, account string, once *check.Once) ([]byte, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	found := c.kept[account+" "+once.Key]
	if c.behind--; c.failing != nil || found == nil || c.behind >= 0 {
		return nil, c.failing
	}
	if !bytes.Equal(found.Request, once.Request) {
		return nil, check.ErrOtherRequest
	}
	return found.Answer, nil
}

func (c *onceChecker) Complete(_ context.Context, account string, once *check.Once) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.kept[account+" "+once.Key] = once
	return nil
}

// record keeps an answer, unless there is one.
func (c *onceChecker) record(account string, once *check.Once, answers []check.Answer) error {
	if once == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.kept[account+" "+once.Key] != nil {
		return check.ErrAnswered
	}
	if c.kept == nil {
		c.kept = map[string]*check.Once{}
	}
	once.Answer = once.Render(answers)
	c.kept[account+" "+once.Key] = once
	return nil
}

func (c *onceChecker) Check(ctx context.Context, req check.Request) (*check.Decision, error) {
	d, err := c.checker.Check(ctx, req)
	if err == nil {
		err = c.record(req.Caller.Account, req.Once, []check.Answer{{Decision: d}})
	}
	return d, err
}

func (c *onceChecker) CheckBatch(ctx context.Context, caller check.Caller, items []check.Item, once *check.Once) (
	[]check.Answer, error) {
	answers, err := c.checker.CheckBatch(ctx, caller, items, nil)
	if err == nil {
		err = c.record(caller.Account, once, answers)
	}
	return answers, err
}

func startOnce(t *testing.T, c *onceChecker) *site {
	t.Helper()
	return start(t, Config{Checker: c, Answers: c})
}

func (s *site) sendOnce(t *testing.T, path, body, key string) reply {
	t.Helper()
	return s.ask(t, goodKey, "POST "+path, body, "Content-Type", "application/json", "Idempotency-Key", key)
}

const batchBody = `{"checks":[{"domain":"example.com"},{"email":7},{"iban":"DE89"}]}`

// A key belongs to one account and one request.
func TestKeyOfAnotherRequest(t *testing.T) {
	t.Parallel()
	c := &onceChecker{}
	s := startOnce(t, c)
	const both = `{"domain":"example.com","checks":[{"domain":"example.com"}]}` // valid on both paths
	s.sendOnce(t, "/api/check", both, "k").is(t, "the first request", 200)
	for name, request := range map[string][2]string{
		"another value": {"/api/check", exampleBody}, "the same value, written differently": {"/api/check", both + " "},
		"another path": {batchPath, both},
	} {
		r := s.sendOnce(t, request[0], request[1], "k")
		r.is(t, name, 409, check.ErrOtherRequest.Error())
		expect.Equal(t, name+": ref", r.failure(t).Ref, "")
	}
	s.sendOnce(t, "/api/check", `{"domain":`, "k").is(t, "an invalid body", 400)
	s.ask(t, freeKey, "POST /api/check", both, onceHeader, "k").is(t, "another account", 403)
	expect.Equal(t, "checks made", len(c.requests()), 2)
}

func TestInvalidIdempotencyKeys(t *testing.T) {
	t.Parallel()
	c := &onceChecker{}
	s := startOnce(t, c)
	const characters = "Idempotency-Key: must have 1 to 255 printable ASCII characters"
	for name, lines := range map[string][]string{"empty": {""}, "a tab": {"a\tb"}, "no ASCII": {"clé"},
		"too long": {strings.Repeat("k", 256)}, "twice": {"k", "l"}} {
		want := map[int]string{1: characters, 2: "Idempotency-Key: must not occur more than once"}[len(lines)]
		for path, body := range map[string]string{"/api/check": exampleBody, batchPath: batchBody} {
			var headers []string
			for _, line := range lines {
				headers = append(headers, onceHeader, line)
			}
			s.ask(t, goodKey, "POST "+path, body, headers...).is(t, name+path, 400, `"error":"`+want+`"`)
		}
	}
	expect.Equal(t, "checks made", len(c.requests()), 0)
	for _, key := range []string{strings.Repeat("k", 255), `"8e03978e-40d5" ~!@#`} {
		s.sendOnce(t, "/api/check", exampleBody, key).is(t, key, 200)
	}
	// Endpoints that record nothing for an account have no keys.
	s.send(t, "POST", "/api/check-public", exampleBody, onceHeader, "").is(t, "without a key", 200)
}

// Errors are not kept: the same request with the same key is tried again.
func TestErrorsAreNotKept(t *testing.T) {
	t.Parallel()
	for _, key := range []string{freeKey, usedKey, busyKey, lateKey, failKey, panicKey} {
		c := &onceChecker{}
		s := startOnce(t, c)
		for range 2 {
			s.ask(t, key, "POST /api/check", exampleBody, "Idempotency-Key", "k")
		}
		n := len(c.requests())
		expect.That(t, n == 2 && len(c.kept) == 0, "%s: %d checks, %d answers", key, n, len(c.kept))
	}
}

// A receipt is part of the answer that is kept. The first one cannot be read, and each later one is another.
func TestReceiptIsReplayed(t *testing.T) {
	t.Parallel()
	c, n := &onceChecker{}, 0
	s := start(t, Config{Checker: c, Answers: c, Receipts: receiptFunc(func() (json.RawMessage, bool, error) {
		if n++; n == 1 {
			return nil, false, errors.New(secret)
		}
		return json.RawMessage(fmt.Sprintf(`{"issued":%d}`, n)), false, nil
	})})
	const body = `{"domain":"example.com","receipt":true}`
	s.sendOnce(t, "/api/check", body, "k").is(t, "whose receipt cannot be read", 503,
		"the check is counted once, send the same request again")
	first := s.sendOnce(t, "/api/check", body, "k")
	first.is(t, "again", 200, `,"receipt":{"issued":2}}`)
	again := s.sendOnce(t, "/api/check", body, "k")
	expect.That(t, again.body == first.body && again.header.Get(replayedHeader) == "true", "got %s, want %s",
		again.body, first.body)
	expect.Equal(t, "checks made", len(c.requests()), 1)
}

// Test keys have no part in the answers of the account's other keys. A replay is a use of a key.
func TestReplaysByKey(t *testing.T) {
	t.Parallel()
	used, c := make(chan string, 9), &onceChecker{}
	keys := limitedKeys{"live": {}, "other": {}, "test": &apikey.Limits{Test: true}}
	s := start(t, Config{Checker: c, Answers: c, Keys: keys, Used: func(c check.Caller) { used <- c.Key }})
	send := func(key, once string) reply {
		return s.ask(t, key, "POST /api/check", exampleBody, "Idempotency-Key", once)
	}
	first := send("live", "k")
	if again := send("other", "k"); again.status != 200 || again.body != first.body {
		t.Errorf("another key of the account: %d, %s, want %s", again.status, again.body, first.body)
	}
	for range 2 {
		r := send("test", "k")
		expect.That(t, r.status == 200 && r.body != first.body, "a test key: %d, %s", r.status, r.body)
	}
	for _, want := range []string{"other", "test", "test"} {
		expect.Equal(t, "key that was used", storetest.Receive(t, "a use", used), want)
	}
	send("test", "").is(t, "a test key with an invalid idempotency key", 400)
	expect.Equal(t, "answers kept", len(c.kept), 1)
}

// A kept answer comes before the quota and the plan, also if it appears while the request is scored, by another host or
// a twin. If it is gone again, the request is scored again, but not without end. If looking it up fails, nothing is
// checked: the request may have been counted before.
func TestKeptAnswers(t *testing.T) {
	t.Parallel()
	type testCase struct {
		account                string
		behind, status, checks int
		failing                error
	}
	down := &check.UnavailableError{Part: "database", Err: errors.New(secret)}
	expect.Each(t, map[string]testCase{
		"at once":                                {goodKey, 0, 200, 0, nil},
		"while the check runs":                   {goodKey, 1, 200, 1, nil},
		"later":                                  {goodKey, 2, 200, 2, nil},
		"and is never to be found":               {goodKey, 3, 503, 3, nil},
		"without the plan":                       {freeKey, 0, 200, 0, nil},
		"with a quota that is spent":             {usedKey, 0, 200, 0, nil},
		"with a quota that is known to be spent": {spentKey, 0, 200, 0, nil},
		"of a twin that used the last check":     {usedKey, 1, 200, 1, nil},
		"without a database":                     {goodKey, 0, 503, 0, down},
		"with another error":                     {goodKey, 0, 500, 0, errors.New(secret)},
	}, func(t *testing.T, test testCase) {
		const one = `{"checks":[` + exampleBody + `]}`
		for path, body := range map[string]string{"/api/check": exampleBody, batchPath: one} {
			c := &onceChecker{behind: test.behind, failing: test.failing, kept: map[string]*check.Once{
				test.account + " k": {Request: []byte(path + "\n" + body), Answer: []byte(`{"kept":1}`)}}}
			s := startOnce(t, c)
			r := s.ask(t, test.account, "POST "+path, body, onceHeader, "k")
			replayed := test.status == 200
			expect.That(t, r.status == test.status && len(c.requests()) == test.checks &&
				(r.body == `{"kept":1}`) == replayed && (r.header.Get(replayedHeader) == "true") == replayed &&
				strings.Contains(s.log.String(), `"replayed":true`) == replayed, "%s: %d after %d checks, %v: %s\n%s",
				path, r.status, len(c.requests()), r.header, r.body, s.log.String())
			if test.failing != nil {
				s.check(t, exampleBody).is(t, "without a key", 200)
			}
		}
	})
}
