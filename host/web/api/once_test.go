package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
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

// startOnce starts a server that keeps answers.
func startOnce(t *testing.T, c *onceChecker) *site {
	t.Helper()
	return start(t, Config{Checker: c, Answers: c})
}

// sendOnce sends a request with an idempotency key.
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
	if r := s.sendOnce(t, "/api/check", both, "k"); r.status != 200 {
		t.Fatalf("status %d: %s", r.status, r.body)
	}
	for name, request := range map[string][2]string{
		"another value": {"/api/check", exampleBody}, "the same value, written differently": {"/api/check", both + " "},
		"another path": {batchPath, both},
	} {
		r := s.sendOnce(t, request[0], request[1], "k")
		r.wellBehaved(t)
		if got := r.failure(t); r.status != 409 || got.Error != check.ErrOtherRequest.Error() || got.Ref != "" {
			t.Errorf("%s: %d, %s", name, r.status, r.body)
		}
	}
	s.sendOnce(t, "/api/check", `{"domain":`, "k").is(t, "an invalid body", 400)
	r := s.ask(t, freeKey, "POST /api/check", both, "Idempotency-Key", "k")
	r.is(t, "another account", 403)
	expect.Equal(t, "checks made", len(c.requests()), 2)
}

func TestInvalidIdempotencyKeys(t *testing.T) {
	t.Parallel()
	c := &onceChecker{}
	s := startOnce(t, c)
	const characters = "Idempotency-Key: must have 1 to 255 printable ASCII characters"
	for name, test := range map[string]struct {
		lines []string
		want  string
	}{
		"empty":    {[]string{""}, characters},
		"too long": {[]string{strings.Repeat("k", 256)}, characters},
		"a tab":    {[]string{"a\tb"}, characters},
		"no ASCII": {[]string{"clé"}, characters},
		"twice":    {[]string{"k", "l"}, "Idempotency-Key: must not occur more than once"},
	} {
		for _, path := range []string{"/api/check", batchPath} {
			headers := []string{"Authorization", "Bearer " + goodKey}
			for _, line := range test.lines {
				headers = append(headers, "Idempotency-Key", line)
			}
			r := s.send(t, "POST", path, map[string]string{"/api/check": exampleBody, batchPath: batchBody}[path],
				headers...)
			r.wellBehaved(t)
			expect.That(t, r.status == 400 && r.failure(t).Error == test.want, "%s, %s: %d, %s", name, path, r.status,
				r.body)
		}
	}
	expect.Equal(t, "checks made", len(c.requests()), 0)
	for _, key := range []string{strings.Repeat("k", 255), `"8e03978e-40d5" ~!@#`} {
		s.sendOnce(t, "/api/check", exampleBody, key).is(t, key, 200)
	}
	// Endpoints that record nothing for an account have no keys.
	s.send(t, "POST", "/api/check-public", exampleBody, "Idempotency-Key", "").is(t, "without a key", 200)
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

// A kept answer is given before the quota and the plan are looked at.
func TestReplayNeedsNoQuota(t *testing.T) {
	t.Parallel()
	c := &onceChecker{kept: map[string]*check.Once{}}
	for path, body := range map[string]string{"/api/check": exampleBody, batchPath: batchBody} {
		for _, account := range []string{usedKey, freeKey} {
			c.kept[account+" "+path] = &check.Once{Request: []byte(path + "\n" + body), Answer: []byte(`{"kept":1}`)}
		}
	}
	s := startOnce(t, c)
	for path, body := range map[string]string{"/api/check": exampleBody, batchPath: batchBody} {
		for _, account := range []string{usedKey, freeKey} {
			r := s.ask(t, account, "POST "+path, body, "Idempotency-Key", path)
			expect.That(t, r.status == 200 && r.body == `{"kept":1}`, "%s, %s: %d, %s", account, path, r.status, r.body)
		}
	}
	expect.Equal(t, "checks made", len(c.requests()), 0)
	if log := s.log.String(); strings.Count(log, `"replayed":true`) != 4 {
		t.Errorf("the log does not say that answers were replayed:\n%s", log)
	}
}

// TestTwinOfTheLastCheck checks that a request whose twin has just used the last check of the quota gets its answer.
func TestTwinOfTheLastCheck(t *testing.T) {
	t.Parallel()
	for path, body := range map[string]string{"/api/check": exampleBody, batchPath: batchBody} {
		c := &onceChecker{kept: map[string]*check.Once{usedKey + " k": {Request: []byte(path + "\n" + body),
			Answer: []byte(`{"kept":1}`)}}, behind: 1}
		r := startOnce(t, c).ask(t, usedKey, "POST "+path, body, "Idempotency-Key", "k")
		expect.That(t, r.status == 200 && r.body == `{"kept":1}`, "%s: %d, %s", path, r.status, r.body)
	}
}

// changingReceipts cannot read the first receipt, and issues another one each time.
type changingReceipts struct{ asked atomic.Int32 }

func (c *changingReceipts) Receipt(context.Context, check.Caller, string, bool) (json.RawMessage, bool, error) {
	n := c.asked.Add(1)
	if n == 1 {
		return nil, false, errors.New(secret)
	}
	return json.RawMessage(fmt.Sprintf(`{"issued":%d}`, n)), false, nil
}

// TestReceiptIsReplayed checks that a receipt is part of the answer that is kept.
func TestReceiptIsReplayed(t *testing.T) {
	t.Parallel()
	c := &onceChecker{}
	s := start(t, Config{Checker: c, Answers: c, Receipts: &changingReceipts{}})
	const body = `{"domain":"example.com","receipt":true}`
	s.sendOnce(t, "/api/check", body, "k").is(t, "whose receipt cannot be read", 503)
	first := s.sendOnce(t, "/api/check", body, "k")
	first.is(t, "again", 200, `,"receipt":{"issued":2}}`)
	again := s.sendOnce(t, "/api/check", body, "k")
	expect.That(t, again.body == first.body && again.header.Get(replayedHeader) == "true", "got %s, want %s",
		again.body, first.body)
	expect.Equal(t, "checks made", len(c.requests()), 1)
}

// The answer of another host appears while a check is scored. If it is gone again, the request is scored again, but not
// without end.
func TestAnswerThatAppears(t *testing.T) {
	t.Parallel()
	kept := func() map[string]*check.Once {
		return map[string]*check.Once{goodKey + " k": {Request: []byte("/api/check\n" + exampleBody),
			Answer: []byte("{}")}}
	}
	for name, test := range map[string]struct {
		behind, status, checks int
		replayed               string
	}{
		"at once":                  {0, 200, 0, "true"},
		"while the check runs":     {1, 200, 1, "true"},
		"later":                    {2, 200, 2, "true"},
		"and is never to be found": {3, 503, 3, ""},
	} {
		c := &onceChecker{kept: kept(), behind: test.behind}
		s := startOnce(t, c)
		r := s.sendOnce(t, "/api/check", exampleBody, "k")
		if n := len(c.requests()); r.status != test.status || n != test.checks ||
			r.header.Get("Idempotent-Replayed") != test.replayed {
			t.Errorf("%s: %d after %d checks, %v: %s", name, r.status, n, r.header, r.body)
		}
	}
}

// A kept answer is found although the quota is known to be used up since.
func TestAnswerKeptBeforeTheQuotaWasSpent(t *testing.T) {
	t.Parallel()
	c := &onceChecker{kept: map[string]*check.Once{spentKey + " k": {Request: []byte("/api/check\n" + exampleBody),
		Answer: []byte("{}")}}}
	s := startOnce(t, c)
	s.ask(t, spentKey, "POST /api/check", exampleBody, onceHeader, "k").is(t, "the kept answer", 200, "{}")
	s.ask(t, spentKey, "POST /api/check", exampleBody).is(t, "a new check", 429, codeQuota)
}

// Without a look-up, nothing is checked: the request may have been counted before.
func TestLookUpOfAnswersFails(t *testing.T) {
	t.Parallel()
	down := &check.UnavailableError{Part: "database", Err: errors.New(secret)}
	for status, err := range map[int]error{503: down, 500: errors.New(secret)} {
		c := &onceChecker{failing: err}
		s := startOnce(t, c)
		r := s.sendOnce(t, "/api/check", exampleBody, "k")
		r.wellBehaved(t)
		n := len(c.requests())
		expect.That(t, r.status == status && n == 0, "%v: %d after %d checks: %s", err, r.status, n, r.body)
		s.check(t, exampleBody).is(t, "without a key", 200)
	}
}

// One account's look-ups leave slots for others.
func TestLookUpsOfAnswersAreShared(t *testing.T) {
	t.Parallel()
	s := startOnce(t, &onceChecker{})
	for range maxKeptLookups / 2 {
		expect.Value(s.keptLookups.Take(goodKey))(t)
	}
	s.sendOnce(t, "/api/check", exampleBody, "k").is(t, "the account with half of the slots", 503)
	r := s.ask(t, usedKey, "POST /api/check", exampleBody, "Idempotency-Key", "k")
	expect.Equal(t, "another account", r.status, 429)
}

// Test keys have no part in the answers of the account's other keys. A replay is a use of a key that the ledger does
// not note.
func TestReplaysByKey(t *testing.T) {
	t.Parallel()
	used := make(chan string, 9)
	c := &onceChecker{}
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
