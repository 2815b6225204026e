package customer

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"assay/host/access/apikey"
	"assay/host/hosttest"
	"assay/host/store/postgres/postgrestest"
)

// TestReadmeAnswer compares the README's example response with a host's.
func TestReadmeAnswer(t *testing.T) {
	t.Parallel()
	command, rest, _ := strings.Cut(hosttest.ReadText(t, "../../../README.md"), " | jq\n")
	_, body, _ := strings.Cut(command, " -d '")
	body, _, _ = strings.Cut(body, "'")
	var want hosttest.Answer
	if err := json.NewDecoder(strings.NewReader(rest)).Decode(&want); err != nil {
		t.Fatalf("README.md shows no response to %q: %v", body, err)
	}
	want.Status = http.StatusOK
	dir, database := hosttest.DataDir(t), postgrestest.Database(t)
	host := hosttest.StartHost(t, dir, database)
	got := hosttest.CheckUntilComplete(host, hosttest.OutputJSON[apikey.Issued](t, dir, database, "keys",
		"create").Secret, body)
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(hosttest.Answer{}, "Ref")); diff != "" {
		t.Errorf("README.md shows an outdated answer to %s (-README +host):\n%s", body, diff)
	}
}
