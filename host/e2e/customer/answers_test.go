package customer

import (
	"bytes"
	"encoding/json"
	"flag"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp/cmpopts"

	"assay/host/access/apikey"
	"assay/host/hosttest"
	"assay/host/store/postgres/postgrestest"
	"assay/registry/expect"
)

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
	dir, database := hosttest.DataDir(t), postgrestest.Database(t)
	host := hosttest.StartHost(t, dir, database)
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
	data := expect.Value(os.ReadFile(file))(t)
	for dec := json.NewDecoder(bytes.NewReader(data)); dec.More(); {
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
