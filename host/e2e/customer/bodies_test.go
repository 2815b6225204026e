package customer

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/google/go-cmp/cmp/cmpopts"

	"assay/host/access/apikey"
	"assay/host/hosttest"
	"assay/registry/expect"
)

var (
	bodies   = flag.Int("bodies", 1_500, "bodies that are made from the schemas")
	bodySeed = flag.Uint64("body-seed", 1, "seed of these bodies")
)

// bodyMaker makes bodies of requests from the schemas of the API: right ones, and those that are wrong in some place.
type bodyMaker struct {
	*rand.Rand
	schemas openapi3.Schemas
	refs    []string // of checks that were answered
}

// texts are what strings begin as, whatever their schema.
var texts = []string{"", "0", "00", "+", "+00", "(0)", "+49 30 1234567", "0151 23456789", "+1-800-FLOWERS", "112",
	"tel:+49301234;ext=5", "DE89 3704 0044 0532 0130 00", "DE00", "XX", "DE37040044", "GB33BUKB20201555555555",
	"example.com", "https://a.example:99999/x?y#z", "xn--", "xn--a.com", "*.com", "co.uk", "a.", ".", "[::1]",
	"münchen.de", "jane.doe+tag@example.com", "@", `"a b"@example.com`, "a@b@c.com", "chk_01KF0HBGZ0Q8WJ3V5N7T9R2M4C",
	"sub_" + strings.Repeat("0", 64), "key_1", "2026-12-31T00:00:00Z", "9999-12-31T23:59:59.999999999+23:59",
	"0000-01-01T00:00:00Z", "DE", "eu", "block", "allow", "fraud", "phone", "auto", "\x00", "\u2028", "\ufeff", "😀",
	"％", "＋４９", "\u202e", strings.Repeat("a", 64) + ".com", strings.Repeat("9", 400), strings.Repeat("ß", 600)}

func oneOf[T any](r *rand.Rand, list []T) T { return list[r.IntN(len(list))] }

// text returns a text, sometimes with a part of another in it or without a part of its own.
func (m *bodyMaker) text() string {
	text := oneOf(m.Rand, texts)
	for m.IntN(3) == 0 {
		at, other := m.IntN(len(text)+1), oneOf(m.Rand, texts)
		text = text[:at] + other[:min(len(other), m.IntN(8))] + text[min(len(text), at+m.IntN(4)):]
	}
	return text
}

// value returns a value of a schema, or now and then something else.
func (m *bodyMaker) value(name string, s *openapi3.Schema) any {
	if m.IntN(12) == 0 {
		return oneOf(m.Rand, []any{nil, true, 0, -1, 1e308, m.text(), []any{}, []any{m.text()}, map[string]any{},
			map[string]any{"country": m.text()}, json.RawMessage(strings.Repeat("[", 200) + strings.Repeat("]", 200))})
	}
	switch {
	case len(s.Enum) > 0:
		return oneOf(m.Rand, s.Enum)
	case s.Type.Is("object"):
		object := map[string]any{}
		for _, member := range slices.Sorted(maps.Keys(s.Properties)) {
			required := slices.Contains(s.Required, member)
			if m.IntN(10) < 3 || required && m.IntN(10) < 9 {
				object[member] = m.value(member, s.Properties[member].Value)
			}
		}
		return object
	case s.Type.Is("array"):
		list := make([]any, m.IntN(5))
		for i := range list {
			list[i] = m.value("", m.schemas["CheckRequest"].Value)
		}
		return list
	case s.Type.Is("boolean"):
		return m.IntN(2) == 0
	case s.Type.Is("integer"):
		return m.IntN(200) - 50
	case s.Format == "date-time" && m.IntN(2) == 0:
		return time.Now().Add(time.Duration(m.Int64N(int64(400 * 24 * time.Hour)))).UTC().Format(time.RFC3339)
	case name == "ref" && len(m.refs) > 0 && m.IntN(4) > 0:
		return oneOf(m.Rand, m.refs)
	}
	return m.text()
}

// body returns a body as it is sent.
func (m *bodyMaker) body(s *openapi3.Schema) string {
	body, err := json.Marshal(m.value("", s))
	if err != nil {
		panic(err)
	}
	if len(body) > 0 && m.IntN(20) == 0 {
		body[m.IntN(len(body))] = byte(m.IntN(256))
	}
	return string(body)
}

// testBodies sends bodies made from the schemas to every endpoint of a host. None is answered with 500. A million of
// them: go test ./host/e2e/customer -run TestService/bodies -bodies 1000000 -timeout 2h.
func testBodies(t *testing.T, s *service) {
	issued := s.account(t, "pro")
	hosttest.Output(t, s.dir, s.database, "accounts", "quota", issued.Account, "--checks", "2000000000")
	document := expect.Value(openapi3.NewLoader().LoadFromData([]byte(hosttest.Get(t, s.URL+"/openapi.json", ""))))(t)
	var paths []string
	schemas := map[string]*openapi3.Schema{}
	for path, item := range document.Paths.Map() {
		if item.Post != nil && item.Post.RequestBody != nil {
			paths = append(paths, path)
			schemas[path] = item.Post.RequestBody.Value.Content.Get("application/json").Schema.Value
		}
	}
	slices.Sort(paths)
	const workers = 4
	var working sync.WaitGroup
	for worker := range uint64(workers) {
		working.Go(func() {
			m := &bodyMaker{Rand: rand.New(rand.NewPCG(*bodySeed, worker)), schemas: document.Components.Schemas}
			for n := range *bodies / workers {
				path := paths[n%len(paths)]
				body := m.body(schemas[path])
				status, text := hosttest.Send(t, s.HostProcess, issued.Secret, "POST", path, body, "Content-Type",
					"application/json", "X-Forwarded-For", fmt.Sprintf("10.%d.%d.%d", m.IntN(256), m.IntN(256),
						m.IntN(256)))
				expect.That(t, status < 500, "%s %q: %d %s", path, body, status, text)
				var answer struct{ Ref string }
				if status == 200 && json.Unmarshal([]byte(text), &answer) == nil &&
					strings.HasPrefix(answer.Ref, "chk_") {
					m.refs = append(m.refs[max(0, len(m.refs)-100):], answer.Ref)
				}
			}
		})
	}
	working.Wait()
}

var updateAnswers = flag.Bool("update-answers", false, "rewrite the recorded answers in testdata/answers")

// recorded is a request and the answer that a host must give.
type recorded struct {
	Path   string          `json:"path"`
	Body   string          `json:"body"`
	Status int             `json:"status"`
	Answer json.RawMessage `json:"answer"` // without the fields that differ between runs
}

// TestAnswers sends the requests in testdata/answers to a host and compares its answers with the recorded ones. To
// record the answers again after an intended change: go test ./host/e2e/customer -run TestAnswers -update-answers.
func TestAnswers(t *testing.T) {
	t.Parallel()
	dir, database, host := hosttest.NewHost(t)
	// One account's quota is too small. From three accounts on, the reputation graph would influence scores.
	domains := hosttest.OutputJSON[apikey.Issued](t, dir, database, "keys", "create", "--plan", "pro").Secret
	others := hosttest.OutputJSON[apikey.Issued](t, dir, database, "keys", "create", "--plan", "pro").Secret
	t.Run("README", func(t *testing.T) { testReadmeAnswer(t, host, others) })
	files, err := filepath.Glob("testdata/answers/*.jsonl")
	expect.Must(t, err == nil && len(files) != 0, "no recorded answers: %v", err)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".jsonl"), func(t *testing.T) {
			key := others
			if strings.HasPrefix(filepath.Base(file), "domain") {
				key = domains
			}
			var answers bytes.Buffer
			lines := json.NewEncoder(&answers)
			lines.SetEscapeHTML(false)
			for i, want := range readRecorded(t, file) {
				if hosttest.RaceDetector && !*updateAnswers && i%25 != 0 {
					continue // a host is many times slower under the race detector; the plain run compares all
				}
				var got recorded
				hosttest.Repeat(func() bool {
					got = sendRecorded(t, host, key, want)
					return !isIncomplete(got.Answer) || isIncomplete(want.Answer)
				})
				expect.NoError(t, lines.Encode(got))
				expect.That(t, *updateAnswers || got.Status == want.Status && bytes.Equal(got.Answer, want.Answer),
					"%s %s\n got %d %s\nwant %d %s", want.Path, want.Body, got.Status, got.Answer, want.Status,
					want.Answer)
			}
			if *updateAnswers {
				expect.NoError(t, os.WriteFile(file, answers.Bytes(), 0o644))
			}
		})
	}
}

// isIncomplete reports whether a layer or a lookup exceeded its time, as can happen on a busy machine.
func isIncomplete(answer []byte) bool {
	return hosttest.DegradedText(string(answer)) || bytes.Contains(answer, []byte(": no answer in time"))
}

func readRecorded(t *testing.T, file string) (all []recorded) {
	t.Helper()
	for dec := json.NewDecoder(bytes.NewReader(expect.Value(os.ReadFile(file))(t))); dec.More(); {
		var r recorded
		err := dec.Decode(&r)
		expect.Must(t, err == nil, "%s: %v", file, err)
		all = append(all, r)
	}
	return all
}

// sendRecorded sends a recorded request, again after a refusal, and returns it with the new answer.
func sendRecorded(t *testing.T, host *hosttest.HostProcess, key string, r recorded) recorded {
	t.Helper()
	var body string
	r.Status, body = hosttest.Send(t, host, key, http.MethodPost, r.Path, r.Body, "Content-Type", "application/json")
	var answer any
	err := json.Unmarshal([]byte(body), &answer)
	expect.Must(t, err == nil, "%s %s: %v", r.Path, r.Body, err)
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	expect.NoError(t, enc.Encode(withoutVolatile(answer)))
	r.Answer = bytes.TrimSpace(text.Bytes())
	return r
}

// withoutVolatile removes the fields that differ between runs.
func withoutVolatile(v any) any {
	switch v := v.(type) {
	case map[string]any:
		delete(v, "ref")
		delete(v, "timestamp")
		delete(v, "request_id")
		delete(v, "subject") // a pseudonym, computed with this run's secret
		for k, e := range v {
			v[k] = withoutVolatile(e)
		}
	case []any:
		for i, e := range v {
			v[i] = withoutVolatile(e)
		}
	}
	return v
}

// testReadmeAnswer compares the README's example response with a host's.
func testReadmeAnswer(t *testing.T, host *hosttest.HostProcess, key string) {
	command, rest, _ := strings.Cut(hosttest.ReadText(t, "../../../README.md"), " | jq\n")
	_, body, _ := strings.Cut(command, " -d '")
	body, _, _ = strings.Cut(body, "'")
	var want hosttest.Answer
	err := json.NewDecoder(strings.NewReader(rest)).Decode(&want)
	expect.Must(t, err == nil, "README.md shows no response to %q: %v", body, err)
	want.Status = http.StatusOK
	got := hosttest.CheckUntilComplete(host, key, body)
	expect.NoDiff(t, "README.md and the answer to "+body, want, got, cmpopts.IgnoreFields(hosttest.Answer{}, "Ref"))
}
