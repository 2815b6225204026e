package operation

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"assay/host/access/apikey"
	"assay/host/auditlog"
	"assay/host/cli"
	"assay/host/hosttest"
	"assay/host/store/postgres/postgrestest"
	"assay/host/store/storetest"
	"assay/registry/expect"
)

// readinessOf returns the answer of a host's /readyz.
func readinessOf(t *testing.T, h *hosttest.HostProcess) string {
	t.Helper()
	response, text := fetch(t, http.DefaultClient, h.Admin+"/readyz")
	return fmt.Sprint(response.StatusCode, " ", text)
}

// wantLoss waits until a host is not ready because of a loss, and tries what an operator does: the loss must name the
// references, and the host answers once it is accepted.
func wantLoss(t *testing.T, h *hosttest.HostProcess, key, dir, database string, refs []string) {
	t.Helper()
	state := ""
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the last answer of /readyz: %s", state)
		}
	})
	expect.Until(t, "/readyz to say that records are lost", func() bool {
		state = readinessOf(t, h)
		return strings.HasPrefix(state, "503") && strings.Contains(state, `"part":"audit"`)
	})
	a := hosttest.PostOnce(http.DefaultClient, h.URL, key, `{"domain":"google.com"}`)
	expect.That(t, a.Status == 503, "a check after the loss: %+v", a)
	shown := cli.AcceptedLosses{}
	expect.Until(t, "the loss to be stored", func() bool {
		shown = hosttest.OutputJSON[cli.AcceptedLosses](t, dir, database, "audit", "accept-loss")
		return len(shown.Losses) > 0
	})
	if found := shown.Losses[0]; len(shown.Losses) != 1 || !slices.Equal(found.Refs, refs) || found.Survived == 0 {
		t.Errorf("lost are %q, found %+v", refs, shown.Losses)
	}
	hosttest.WantRefusal(t, "a reason of two lines", dir, database, nil,
		[]string{"audit", "accept-loss", "--reason", "a\nb"}, "--reason: the reason is not one line")
	text := hosttest.Output(t, dir, database, "audit", "accept-loss", "--reason", "The standby was two seconds behind.")
	hosttest.Has(t, text, refs[0], "The loss is accepted by record")
	expect.Until(t, "the host to answer again", func() bool {
		return strings.HasPrefix(readinessOf(t, h), "200") &&
			hosttest.PostOnce(http.DefaultClient, h.URL, key, `{"domain":"google.com"}`).Status == http.StatusOK
	})
	expect.Until(t, "the host to sign the log that goes on", func() bool {
		_, note := fetch(t, http.DefaultClient, h.URL+"/audit/checkpoint?chain=0")
		return strings.Contains(note, "/chain/0/after/")
	})
	for _, r := range hosttest.OutputJSON[[]auditlog.Report](t, dir, database, "audit", "verify") {
		expect.Equal(t, fmt.Sprintf("accepted losses of chain %d", r.Chain), r.Losses, 1)
	}
	expect.Equal(t, "what accept-loss prints", hosttest.Output(t, dir, database, "audit", "accept-loss"),
		"No host misses records that it answered for.\n")
}

// checksOf makes checks and returns their references.
func checksOf(t *testing.T, h *hosttest.HostProcess, key string, n int) (refs []string) {
	t.Helper()
	for range n {
		a := hosttest.CheckOnce(h, key, `{"domain":"google.com"}`)
		expect.Equal(t, "the status of a check", a.Status, http.StatusOK)
		refs = append(refs, a.Ref)
	}
	return refs
}

// An older copy of the database is found out by a host that starts, and by one that runs, as when a standby is promoted
// before it has everything that was answered.
func TestOlderCopyOfTheDatabase(t *testing.T) {
	t.Parallel()
	for name, runs := range map[string]bool{"a host that starts": false, "a host that runs": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, database := hosttest.DataDir(t), postgrestest.Database(t)
			host := hosttest.StartHost(t, dir, database)
			key := hosttest.OutputJSON[apikey.Issued](t, dir, database, "keys", "create", "--plan", "pro").Secret
			kept := checksOf(t, host, key, 2)
			host.Stop(t, syscall.SIGTERM)
			at := expect.Value(url.Parse(database))(t)
			db := strings.TrimPrefix(at.Path, "/")
			at.Path = "/postgres"
			admin := storetest.Session(t, at.String())
			storetest.Exec(t, admin, fmt.Sprintf("CREATE DATABASE %s_older TEMPLATE %[1]s", db))
			host = hosttest.StartHost(t, dir, database)
			lost := checksOf(t, host, key, 2)
			if !runs {
				expect.Until(t, "the host to write what it answered", func() bool {
					text, _ := os.ReadFile(filepath.Join(dir, "answered"))
					return strings.Contains(string(text), lost[1])
				})
				host.Stop(t, syscall.SIGKILL)
			}
			storetest.Exec(t, admin, fmt.Sprintf("ALTER DATABASE %s ALLOW_CONNECTIONS false", db),
				fmt.Sprintf("SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = '%s'", db),
				fmt.Sprintf("ALTER DATABASE %s RENAME TO %[1]s_newer", db),
				fmt.Sprintf("ALTER DATABASE %s_older RENAME TO %[1]s", db))
			t.Cleanup(func() {
				_, err := admin.Exec(context.Background(), fmt.Sprintf("DROP DATABASE %s_newer WITH (FORCE)", db))
				expect.NoError(t, err)
			})
			if !runs {
				host = hosttest.StartHost(t, dir, database)
			}
			wantLoss(t, host, key, dir, database, lost)
			recorded, _ := hosttest.RecordedRefs(t, database)
			for i, refs := range [][]string{kept, lost} {
				for _, ref := range refs {
					expect.Equal(t, "records of "+ref, recorded[ref], 1-i)
				}
			}
		})
	}
}
