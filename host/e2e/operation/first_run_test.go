package operation

import (
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"assay/host/auditlog"
	"assay/host/hosttest"
	"assay/registry/expect"
)

// TestFirstRun does what a new user does: start a host, check values, start it again after a crash, and stop it.
func TestFirstRun(t *testing.T) {
	t.Parallel()
	hosttest.NeedPostgres(t)
	// Only its owner can enter a test's directory. When the test runs as root, Postgres uses another directory.
	dir := filepath.Join(t.TempDir(), "data")
	hosttest.LinkShared(t, dir, "layers", "compiled", "secret") // which the program made in an empty folder
	t.Cleanup(func() {
		if location := hosttest.ClusterDir(t, dir); location != dir {
			if err := os.RemoveAll(location); err != nil {
				t.Error(err)
			}
		}
	})
	host := hosttest.StartHost(t, dir, "")
	cases := map[string]struct {
		body, kind, verdict string
	}{
		"a look-alike":               {`{"domain":"paypa1-secure-login.xyz"}`, "domain", "block"},
		"a well-known domain":        {`{"domain":"google.com"}`, "domain", "allow"},
		"a mailbox at a provider":    {`{"email":"jane.doe@gmail.com"}`, "email", "allow"},
		"a valid German IBAN":        {`{"iban":"DE12 5001 0517 0648 4898 90"}`, "iban", "allow"},
		"an IBAN with a wrong digit": {`{"iban":"DE88 3704 0044 0532 0130 00"}`, "iban", "block"},
		"a valid French mobile":      {`{"phone":"06 12 34 56 78","region":{"country":"FR"}}`, "phone", "allow"},
	}
	for name, c := range cases {
		a := hosttest.CheckUntilComplete(host, host.Key, c.body)
		expect.That(t, a.Status == 200 && a.Type == c.kind && a.Verdict == c.verdict, "%s: %+v, want a %s with %s",
			name, a, c.kind, c.verdict)
		expect.That(t, c.verdict != "block" || len(a.Signals) != 0 && a.Threat != nil,
			"%s: blocked without a reason or a threat: %+v", name, a)
	}
	host.Stop(t, syscall.SIGKILL)
	again := hosttest.StartHost(t, dir, "")
	expect.Equal(t, "the key that the second start printed", again.Key, host.Key)
	a := hosttest.Post(http.DefaultClient, again.URL, again.Key, `{"domain":"google.com"}`)
	expect.That(t, a.Status == 200, "after a crash: %+v", a)
	reports := hosttest.OutputJSON[[]auditlog.Report](t, dir, "", "audit", "verify")
	expect.That(t, len(reports) == 2 && reports[0].OK && reports[1].OK && reports[0].Records >= int64(len(cases)+1),
		"audit verify: %+v", reports)
	again.Stop(t, syscall.SIGTERM)
	_, err := os.Stat(filepath.Join(hosttest.ClusterDir(t, dir), "postgres", "postmaster.pid"))
	expect.Error(t, "the number of Postgres's process after the stop", err, fs.ErrNotExist)
}
