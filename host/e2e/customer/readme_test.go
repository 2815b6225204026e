package customer

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp/cmpopts"

	"assay/host/hosttest"
	"assay/registry/expect"
)

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
