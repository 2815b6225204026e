package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"assay/host/check"
	"assay/host/customer/privacy"
	"assay/host/customer/webhook"
	"assay/host/entity"
	"assay/registry/expect"
)

const (
	knownSubject   = "sub_3f0c1f9a5de2b1c67e04b4a3b7d9e8f1a2b3c4d5e6f708192a3b4c5d6e7f8091"
	unknownRef     = "chk_01KF0HBGZ0Q8WJ3V5N7T9R2M4X"
	largeRef       = "chk_01KF0HBGZ0Q8WJ3V5N7T9R2M5A" // its subject has more checks than are erased at once
	unknownRequest = "req_01KF0HBGZ0Q8WJ3V5N7T9R2M4R"
	knownRequest   = "req_01KF0HBGZ0Q8WJ3V5N7T9R2M4Q"
)

// archive has the check knownRef of knownSubject, and records its calls.
type archive struct{ calls }

func (a *archive) call(what string, c check.Caller, whose privacy.Selector) error {
	named := whose.Subject + whose.Ref
	if whose.Entity != nil {
		named = string(whose.Entity.Type) + " " + whose.Entity.Value
	}
	if err := a.add(c.Account, "%s %s", what, named); err != nil || whose.Ref != unknownRef {
		return err
	}
	return fmt.Errorf("exporting: %w", privacy.ErrUnknownSubject)
}

func (a *archive) Export(_ context.Context, c check.Caller, whose privacy.Selector, page privacy.Page) (*privacy.Export,
	error) {
	if err := a.call(fmt.Sprint("export ", page.After, " ", page.Limit), c, whose); err != nil {
		return nil, err
	}
	next := new(knownRef)
	if whose.Ref != largeRef && page.After == "" && page.Limit == maxExported {
		next = nil
	}
	at := privacy.Time{Time: atCheck.In(time.FixedZone("", 3600))}
	return &privacy.Export{
		Subject: new(knownSubject), Type: new("email"), Total: 2, Next: next,
		Checks: []privacy.Check{
			{Ref: knownRef, Timestamp: stamp(atCheck), Type: "email", Score: 78, Verdict: "block", Key: "key_1",
				Webhook: &privacy.Event{
					Event: "check.blocked", Sequence: 3, State: "failed", Attempts: 4, Timestamp: at, SettledAt: &at,
					Body: []byte(`{"data":{}}`)},
				Feedback: &privacy.Feedback{Label: "fraud", Timestamp: at}},
			{Ref: unknownRef, Timestamp: stamp(atCheck), Type: "email", Score: 3, Verdict: "allow", Key: "key_1"},
		},
		Graph:    &privacy.Sightings{Checks: 2, Blocked: 1, FirstSeen: at, LastSeen: at, Links: 2},
		Erasures: []privacy.Erasure{},
		Overrides: []privacy.Override{{ID: knownOverride, Action: "block", Kind: "email", Reason: "fraud ring",
			Author: "key_1", CreatedAt: at, ExpiresAt: at}},
	}, nil
}

func (a *archive) Erase(_ context.Context, c check.Caller, whose privacy.Selector) (*privacy.ErasureResult, error) {
	if err := a.call("erase", c, whose); err != nil {
		return nil, err
	}
	if whose.Ref == largeRef {
		return nil, fmt.Errorf("erasing: %w", privacy.LargeError{})
	}
	return &privacy.ErasureResult{Checks: 2, Events: 1, Sightings: 1, Links: 2, Erasures: []privacy.Erasure{
		{Ref: "erasure_01KF0HBGZ0Q8WJ3V5N7T9R2M4C", Timestamp: stamp(atCheck), Checks: 2},
	}}, nil
}

func (a *archive) SubjectOf(_ context.Context, c check.Caller, e entity.Entity) (string, error) {
	return knownSubject, a.call("name", c, privacy.Selector{Entity: &e})
}

func (a *archive) Begin(_ context.Context, c check.Caller, kind privacy.Kind, whose privacy.Selector) (
	*privacy.Request, error) {
	if err := a.call(fmt.Sprint("begin ", kind), c, whose); err != nil {
		return nil, err
	}
	return privacy.NewRequest(privacy.Request{ID: knownRequest, Kind: kind, State: privacy.StateRunning, Total: 50_000,
		CreatedAt: privacy.Time{Time: atCheck}}), nil
}

func (a *archive) Request(_ context.Context, c check.Caller, id string) (*privacy.Request, error) {
	switch {
	case c.Account == failKey:
		return nil, errors.New(secret)
	case id != knownRequest:
		return nil, fmt.Errorf("reading: %w", privacy.ErrUnknownRequest)
	}
	at := privacy.Time{Time: atCheck}
	return privacy.NewRequest(privacy.Request{ID: id, Kind: privacy.KindExport, State: privacy.StateDone, Total: 50_000,
		Done: 50_000, CreatedAt: at, SettledAt: &at}), nil
}

func (a *archive) Download(ctx context.Context, c check.Caller, id, after string) (json.RawMessage, error) {
	if _, err := a.Request(ctx, c, id); err != nil {
		return nil, err
	}
	if after == unknownRef {
		return nil, fmt.Errorf("downloading: %w", privacy.ErrNoExport)
	}
	part, err := a.Export(ctx, c, privacy.Selector{Subject: knownSubject}, privacy.Page{After: after})
	if err != nil {
		return nil, err
	}
	return encode(part), nil
}

func TestPrivacyRequests(t *testing.T) {
	t.Parallel()
	a := &archive{}
	s := start(t, Config{Privacy: a})
	s.converse(t, &a.calls, []dialog{
		{"GET /gdpr/export?subject=" + knownSubject, "", "export  1000 " + knownSubject,
			`{"subject":"` + knownSubject + `","type":"email","total":2,"checks":[` +
				`{"ref":"` + knownRef + `","timestamp":"2026-01-15T10:30:00.123Z","type":"email",` +
				`"score":78,"verdict":"block","key":"key_1",` +
				`"webhook":{"event":"check.blocked","sequence":3,"state":"failed","attempts":4,` +
				`"timestamp":"2026-01-15T10:30:00.123Z","next_attempt_at":null,` +
				`"settled_at":"2026-01-15T10:30:00.123Z","body":{"data":{}}},` +
				`"feedback":{"label":"fraud","note":null,"timestamp":"2026-01-15T10:30:00.123Z"},"review":null},` +
				`{"ref":"` + unknownRef +
				`","timestamp":"2026-01-15T10:30:00.123Z","type":"email","score":3,"verdict":"allow",` +
				`"key":"key_1","webhook":null,"feedback":null,"review":null}],` +
				`"next":null,"graph":{"checks":2,"blocked":1,"reviewed":0,` +
				`"first_seen":"2026-01-15T10:30:00.123Z","last_seen":"2026-01-15T10:30:00.123Z",` +
				`"links":2},"erasures":[],"overrides":[{"id":"` + knownOverride + `","action":"block","kind":"email",` +
				`"reason":"fraud ring","author":"key_1","created_at":"2026-01-15T10:30:00.123Z",` +
				`"expires_at":"2026-01-15T10:30:00.123Z"}]}`},
		{"GET /gdpr/export?ref=" + knownRef + "&limit=7&after=" + unknownRef, "", "export " + unknownRef + " 7 " +
			knownRef, ""},
		{"POST /gdpr/export?limit=7", `{"email":"Jane@Example.com"}`, "export  7 email jane@example.com", ""},
		{"POST /gdpr/erase", `{"subject":"` + knownSubject + `"}`, "erase " + knownSubject,
			`{"subject":null,"erased":2,"webhook_events":1,"graph_sightings":1,"graph_links":2,"overrides":0,` +
				`"erasures":[{"ref":"erasure_01KF0HBGZ0Q8WJ3V5N7T9R2M4C",` +
				`"timestamp":"2026-01-15T10:30:00.123Z","checks":2}]}`},
		{"POST /gdpr/erase", `{"ref":"` + knownRef + `","why":"asked to"}`, "erase " + knownRef, ""},
		{"POST /gdpr/erase", `{"phone":"0151 23456789","region":{"country":"DE"}}`, "erase phone +4915123456789", ""},
		{"POST /gdpr/erase", `{"iban":"DE89 3704 0044 0532 0130 00"}`, "erase iban DE89370400440532013000", ""},
		{"POST /gdpr/subject", `{"domain":"EXAMPLE.com."}`, "name domain example.com", `{"subject":"` + knownSubject +
			`","type":"domain"}`},
	}, "jane", "sub_", "limit=", "de89")
	made := len(a.seen)
	s.ask(t, freeKey, "POST /gdpr/erase", `{"ref":"`+knownRef+`"}`).is(t, "another plan", 403,
		"the free plan does not include privacy requests")
	expect.Equal(t, "calls after those of the last dialog", len(a.seen), made)
}

// A subject with many checks is exported and erased in the background. Without limit and after, an export is whole.
func TestLargePrivacyRequests(t *testing.T) {
	t.Parallel()
	const about = `{"ref":"` + largeRef + `"}`
	running := func(kind string) string {
		return `{"id":"` + knownRequest + `","kind":"` + kind + `","state":"running","total":50000,"done":0,` +
			`"created_at":"2026-01-15T10:30:00.123Z","settled_at":null,"expires_at":null}`
	}
	const done = `{"id":"` + knownRequest + `","kind":"export","state":"done","total":50000,"done":50000,` +
		`"created_at":"2026-01-15T10:30:00.123Z","settled_at":"2026-01-15T10:30:00.123Z",` +
		`"expires_at":"2026-01-16T10:30:00.123Z"}`
	s := start(t, Config{Privacy: &archive{}})
	for _, test := range []struct {
		request, body string
		status        int
		want          string
	}{
		{"POST /gdpr/erase", about, 202, running("erasure")},
		{"POST /gdpr/export", about, 202, running("export")},
		{"GET /gdpr/export?ref=" + largeRef, "", 202, running("export")},
		{"GET /gdpr/export?limit=1000&ref=" + largeRef, "", 200, `"next":"` + knownRef + `"`},
		{"GET /gdpr/export?after=" + knownRef + "&ref=" + largeRef, "", 200, `"next":"` + knownRef + `"`},
		{"GET " + requestsPrefix + knownRequest, "", 200, done},
		{"GET " + requestsPrefix + unknownRequest, "", 404, "there is no such privacy request"},
		{"GET " + requestsPrefix + "req_1", "", 400, "id: must be the id of a privacy request"},
		{"GET " + requestsPrefix + knownRequest + "/export", "", 200, `"total":2`},
		{"GET " + requestsPrefix + knownRequest + "/export?after=" + unknownRef, "", 404, "this request has no export"},
		{"GET " + requestsPrefix + knownRequest + "/export?after=x", "", 400, "after: must be the reference"},
	} {
		r := s.ask(t, goodKey, test.request, test.body)
		r.is(t, test.request, test.status, test.want)
		location := r.header.Get("Location")
		expect.That(t, (r.status == 202) == (location == requestsPrefix+knownRequest),
			"%s: %d with the location %q", test.request, r.status, location)
	}
}

// Every body either selects one subject or gets a 400.
func FuzzDecodeSelector(f *testing.F) {
	for _, body := range []string{
		`{"subject":"` + knownSubject + `"}`, `{"ref":"` + knownRef + `"}`, `{"email":"a@example.com"}`,
		`{"phone":"0151 23456789","region":{"country":"DE"}}`,
		`{"iban":"DE89 3704 0044 0532 0130 00"}`, `{"domain":"%","ref":null}`, `{"subject":"sub_\u0000"}`, `{`, ``,
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		whose, err := decodeSelector(body)
		if err != nil {
			status, _ := answerTo(err)
			expect.That(t, status == 400, "%q: status %d, %v", body, status, err)
			return
		}
		given := 0
		for _, is := range []bool{whose.Subject != "", whose.Ref != "", whose.Entity != nil} {
			if is {
				given++
			}
		}
		expect.That(t, given == 1, "%q selects %+v", body, whose)
	})
}

// eventLog has 5 events of the account goodKey. The odd ones are delivered, so their payload is deleted.
type eventLog struct{}

func (eventLog) EventsAfter(_ context.Context, account string, after int64, limit int) ([]webhook.Event, error) {
	if account == failKey {
		return nil, errors.New(secret)
	}
	var events []webhook.Event
	for n := after + 1; account == goodKey && n <= 5 && len(events) < limit; n++ {
		e := webhook.Event{Sequence: n, State: "delivered", Attempts: 1, Name: "check.blocked", OccurredAt: atCheck,
			Type: "domain", Score: 94, Ref: fmt.Sprint("chk_", n)}
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
		r.is(t, query, 200)
		expect.NoDiff(t, query, want, r.body)
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
		status     int
		body, kind string
		cached     bool
	}{
		"/audit/checkpoint?chain=3":         {200, "the checkpoint\n", text, false},
		"/audit/3/checkpoint":               {200, "the checkpoint\n", text, false},
		"/audit/3/tile/0/x001/067":          {200, "\x00\x01\x02", hashes, true},
		"/audit/3/tile/0/000.p/8":           {200, "\x03", hashes, false},
		"/audit/checkpoint?chain=-1":        {status: 400},
		"/audit/checkpoint?chain=x":         {status: 400},
		"/audit/checkpoint?chain=0&chain=3": {status: 400},
		"/audit/9/checkpoint":               {status: 500},
		"/audit/9/tile/entries/000?a=b&c=":  {status: 500},
	} {
		r := s.send(t, "GET", path, "")
		cached := strings.Contains(r.header.Get("Cache-Control"), "immutable")
		expect.That(t, r.status == want.status && (want.status != 200 || r.body == want.body &&
			r.header.Get("Content-Type") == want.kind && cached == want.cached), "%s: %d %q, %v", path, r.status,
			r.body, r.header)
	}
	for _, path := range []string{"checkpoint", "03/checkpoint", "4294967299/checkpoint", "3/tile/0/001", "3",
		"3/../3/checkpoint", "3/tile%2f0/x001/067"} {
		s.send(t, "GET", "/audit/"+path, "").is(t, path, 404)
	}
	r := s.send(t, "POST", "/audit/3/checkpoint", "")
	expect.That(t, r.status == 405 && r.header.Get("Allow") == "GET, HEAD", "POST: %d, %v", r.status, r.header)
}
