package api

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"assay/registry/expect"
)

// eventLog has 5 events of the account goodKey. The odd ones are delivered, so their payload is deleted.
type eventLog struct{}

func (eventLog) After(_ context.Context, account string, after int64, limit int) ([]Event, error) {
	if account == failKey {
		return nil, errors.New(secret)
	}
	var events []Event
	for n := after + 1; account == goodKey && n <= 5 && len(events) < limit; n++ {
		e := Event{Sequence: n, State: "delivered", Attempts: 1, Name: "check.blocked", At: atCheck, Type: "domain",
			Score: 94, Ref: fmt.Sprint("chk_", n)}
		if n%2 == 0 {
			e.State, e.Attempts, e.Name = "failed", 4, "check.review"
			e.Body = fmt.Appendf(nil, `{"event":"check.review","timestamp":"x","data":{"query":"<é>",`+
				`"type":"domain","verdict":"REVIEW","score":94,"signals":[],"ref":"chk_%d"}}`, n)
		}
		events = append(events, e)
	}
	return events, nil
}

func TestEvents(t *testing.T) {
	t.Parallel()
	s := start(t, Config{})
	one := func(n int) string {
		if n%2 == 0 {
			return fmt.Sprintf(`{"sequence":%d,"state":"failed","attempts":4,"event":"check.review",`+
				`"timestamp":"2026-01-15T10:30:00.123Z","data":{"query":"\u003cé\u003e","type":"domain",`+
				`"verdict":"REVIEW","score":94,"signals":[],"ref":"chk_%d"}}`, n, n)
		}
		return fmt.Sprintf(`{"sequence":%d,"state":"delivered","attempts":1,"event":"check.blocked",`+
			`"timestamp":"2026-01-15T10:30:00.123Z",`+
			`"data":{"type":"domain","verdict":"BLOCK","score":94,"ref":"chk_%d"}}`, n, n)
	}
	for query, want := range map[string]string{
		"": `{"events":[` + one(1) + "," + one(2) + "," + one(3) + "," + one(4) + "," + one(5) +
			`],"next":5,"more":false}`,
		"?after=1&limit=2":        `{"events":[` + one(2) + "," + one(3) + `],"next":3,"more":true}`,
		"?after=3&limit=2":        `{"events":[` + one(4) + "," + one(5) + `],"next":5,"more":false}`,
		"?after=5":                `{"events":[],"next":5,"more":false}`,
		"?after=9007199254740991": `{"events":[],"next":9007199254740991,"more":false}`,
	} {
		r := s.ask(t, goodKey, "GET /api/events"+query, "")
		diff := cmp.Diff(want, r.body)
		expect.That(t, r.status == 200 && diff == "", "%s: %d (-want +got):\n%s", query, r.status, diff)
	}
	r := s.ask(t, freeKey, "GET /api/events", "")
	expect.That(t, r.body == `{"events":[],"next":0,"more":false}`, "another account: %s", r.body)
}

// auditFiles has the files of chain 3. The chain 9 fails.
type auditFiles struct{}

func (auditFiles) AuditFile(_ context.Context, chain int, path string) ([]byte, bool, error) {
	switch {
	case chain == 9:
		return nil, false, errors.New(secret)
	case chain != 3:
		return nil, false, nil
	case path == "checkpoint":
		return []byte("the checkpoint\n"), false, nil
	case path == "tile/0/x001/067":
		return []byte{0, 1, 2}, true, nil
	case path == "tile/0/000.p/8":
		return []byte{3}, false, nil
	}
	return nil, false, nil
}

func TestAuditFiles(t *testing.T) {
	t.Parallel()
	s := start(t, Config{})
	const text, hashes = "text/plain; charset=utf-8", "application/octet-stream"
	for path, want := range map[string]struct {
		status         int
		body, kind     string
		cached, absent bool
	}{
		"/audit/checkpoint?chain=3":        {200, "the checkpoint\n", text, false, false},
		"/audit/3/checkpoint":              {200, "the checkpoint\n", text, false, false},
		"/audit/3/tile/0/x001/067":         {200, "\x00\x01\x02", hashes, true, false},
		"/audit/3/tile/0/000.p/8":          {200, "\x03", hashes, false, false},
		"/audit/checkpoint":                {status: 404},
		"/audit/checkpoint?chain=-1":       {status: 400},
		"/audit/checkpoint?chain=x":        {status: 400},
		"/audit/03/checkpoint":             {status: 404},
		"/audit/4294967299/checkpoint":     {status: 404},
		"/audit/3/tile/0/001":              {status: 404},
		"/audit/3/../3/checkpoint":         {status: 404},
		"/audit/3/tile%2f0/x001/067":       {status: 404},
		"/audit/3":                         {status: 404},
		"/audit/9/checkpoint":              {status: 500},
		"/audit/9/tile/entries/000?a=b&c=": {status: 500},
	} {
		r := s.send(t, "GET", path, "")
		expect.That(t, r.status == want.status && (want.status != 200 || r.body == want.body), "%s: %d %q", path,
			r.status, r.body)
		if want.status != 200 {
			continue
		}
		cache := r.header.Get("Cache-Control")
		expect.That(t, r.header.Get("Content-Type") == want.kind && strings.Contains(cache, "immutable") == want.cached,
			"%s: %v", path, r.header)
	}
	r := s.send(t, "POST", "/audit/3/checkpoint", "")
	expect.That(t, r.status == 405 && r.header.Get("Allow") == "GET, HEAD", "POST: %d, %v", r.status, r.header)
}
