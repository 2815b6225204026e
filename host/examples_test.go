package main

import (
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"assay/host/apikey"
	"assay/host/postgres/postgrestest"
)

// busy matches what a client prints when a host on a busy machine refuses a check or answers too late for the client.
var busy = regexp.MustCompile("nothing was counted, try again|deadline exceeded|TimeoutError")

// TestExamples runs the clients of examples/ against a real host.
func TestExamples(t *testing.T) {
	t.Parallel()
	dir, database := dataDir(t), postgrestest.Database(t)
	host := startHost(t, dir, database)
	key := outputJSON[apikey.Issued](t, dir, database, "keys", "create", "--plan", "pro").Secret
	// The first call of a layer is its slowest.
	checkUntilComplete(host, key, `{"email":"jane@paypa1-secure-login.xyz"}`)
	for name, c := range map[string]struct {
		command []string
		want    string
	}{
		"curl: a legitimate domain": {[]string{"sh", "../examples/client-curl/check.sh", "google.com"}, "allow\n"},
		"curl: a look-alike": {[]string{"sh", "../examples/client-curl/check.sh", "paypa1-secure-login.xyz"},
			"block\n"},
		"go: a legitimate mailbox": {[]string{"go", "run", "../examples/client-go", "jane.doe@gmail.com"}, "welcome\n"},
		"go: a mailbox at a look-alike": {
			[]string{"go", "run", "../examples/client-go", "jane@paypa1-secure-login.xyz"}, "rejected"},
		"typescript: a batch": {
			[]string{"npm", "run", "-s", "check", "--prefix", "../examples/client-typescript", "--",
				"domain=paypa1-secure-login.xyz", "email=nobody"},
			"block paypa1-secure-login.xyz",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := os.Stat("../examples/client-typescript/node_modules"); c.command[0] == "npm" && err != nil {
				t.Skip("TypeScript is not installed: npm ci --prefix examples/client-typescript --ignore-scripts")
			}
			var out []byte
			var err error
			untilAccepted(func() int {
				cmd := exec.CommandContext(t.Context(), c.command[0], c.command[1:]...)
				cmd.Env = append(cmd.Environ(), "ASSAY_URL="+host.url, "ASSAY_KEY="+key)
				if out, err = cmd.CombinedOutput(); busy.Match(out) {
					return http.StatusServiceUnavailable
				}
				return http.StatusOK
			})
			if err != nil || !strings.HasPrefix(string(out), c.want) {
				t.Errorf("%v, %q, want %q", err, out, c.want)
			}
		})
	}
}
