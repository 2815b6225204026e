package operation

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"

	"assay/host/access/apikey"
	"assay/host/auditlog"
	"assay/host/cli"
	"assay/host/hosttest"
	"assay/host/store/postgres"
	"assay/host/store/postgres/postgrestest"
	"assay/host/store/storetest"
	"assay/registry/expect"
)

// readiness returns the answer of a host's /readyz.
func readinessOf(t *testing.T, h *hosttest.HostProcess) string {
	t.Helper()
	response := expect.Value(http.Get(h.Admin + "/readyz"))(t)
	defer response.Body.Close()
	return fmt.Sprint(response.StatusCode, " ", string(expect.Value(io.ReadAll(response.Body))(t)))
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
	if a := hosttest.PostOnce(http.DefaultClient, h.URL, key, `{"domain":"google.com"}`); a.Status != 503 {
		t.Errorf("a check after the loss: %+v", a)
	}
	shown := cli.AcceptedLosses{}
	expect.Until(t, "the loss to be stored", func() bool {
		shown = hosttest.OutputJSON[cli.AcceptedLosses](t, dir, database, "audit", "accept-loss")
		return len(shown.Losses) > 0
	})
	if found := shown.Losses[0]; len(shown.Losses) != 1 || !slices.Equal(found.Refs, refs) || found.Survived == 0 {
		t.Errorf("lost are %q, found %+v", refs, shown.Losses)
	}
	hosttest.WantRefusal(t, "a reason of two lines", dir, database, nil,
		[]string{"audit", "accept-loss", "--reason", "a\nb"},
		"--reason: the reason is not one line")
	text := hosttest.Output(t, dir, database, "audit", "accept-loss", "--reason", "The standby was two seconds behind.")
	if !strings.Contains(text, refs[0]) || !strings.Contains(text, "The loss is accepted by record") {
		t.Errorf("accept-loss printed %q", text)
	}
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

// A standby that is promoted before it has everything that was answered is found out by the host at once.
func TestFailoverThatLosesAnswers(t *testing.T) {
	t.Parallel()
	hosttest.NeedPostgres(t)
	primary, standby := newPostgres(t), newPostgres(t)
	primary.open(t)
	hba := expect.Value(os.OpenFile(filepath.Join(primary.data(t), "pg_hba.conf"), os.O_APPEND|os.O_WRONLY, 0))(t)
	_, err := hba.WriteString("\nhost replication all 127.0.0.1/32 scram-sha-256\n")
	expect.NoError(t, errors.Join(err, hba.Close()))
	primary.close(t)
	standby.open(t)
	standby.close(t)
	expect.NoError(t, os.RemoveAll(standby.data(t)))
	from, to := hosttest.ClusterDir(t, primary.dir), hosttest.ClusterDir(t, standby.dir)
	if out, err := exec.Command("cp", "-a", from+"/.", to).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	primary.open(t)
	conf := expect.Value(os.OpenFile(filepath.Join(standby.data(t), "postgresql.auto.conf"), os.O_APPEND|os.O_WRONLY,
		0))(t)
	_, err = fmt.Fprintf(conf, "primary_conninfo = '%s'\n", primary.cluster.URL())
	expect.NoError(t, errors.Join(err, conf.Close(),
		os.WriteFile(filepath.Join(standby.data(t), "standby.signal"), nil, 0o644)))
	standby.open(t)

	both := expect.Value(url.Parse(primary.cluster.URL()))(t)
	both.Host += "," + expect.Value(url.Parse(standby.cluster.URL()))(t).Host
	query := both.Query()
	query.Set("target_session_attrs", "read-write")
	both.RawQuery = query.Encode()
	dir := hosttest.DataDir(t)
	host := hosttest.StartHost(t, dir, both.String())
	key := hosttest.OutputJSON[apikey.Issued](t, dir, both.String(), "keys", "create", "--plan", "pro").Secret
	kept := checksOf(t, host, key, 3)
	before, after := primary.session(t), standby.session(t)
	position := storetest.Value[string](t, before, "SELECT pg_current_wal_lsn()::text")
	expect.Until(t, "the standby to have the checks", func() bool {
		return storetest.Value[bool](t, after, "SELECT pg_last_wal_replay_lsn() >= $1::pg_lsn", position)
	})
	storetest.Exec(t, after, "ALTER SYSTEM SET primary_conninfo = ''", "SELECT pg_reload_conf()")
	expect.Until(t, "the standby to stop streaming", func() bool {
		return storetest.Value[int](t, after, "SELECT count(*) FROM pg_stat_wal_receiver") == 0
	})
	lost := checksOf(t, host, key, 3)
	primary.close(t)
	storetest.Exec(t, after, "SELECT pg_promote()")

	wantLoss(t, host, key, dir, both.String(), lost)
	recorded, _ := hosttest.RecordedRefs(t, standby.cluster.URL())
	for i, refs := range [][]string{kept, lost} {
		for _, ref := range refs {
			expect.Equal(t, "records of "+ref, recorded[ref], 1-i)
		}
	}
}

// An older copy of the database is found out by a host that starts.
func TestOlderCopyOfTheDatabase(t *testing.T) {
	t.Parallel()
	hosttest.NeedPostgres(t)
	dir, database := hosttest.DataDir(t), postgrestest.Database(t)
	host := hosttest.StartHost(t, dir, database)
	key := hosttest.OutputJSON[apikey.Issued](t, dir, database, "keys", "create", "--plan", "pro").Secret
	checksOf(t, host, key, 2)
	host.Stop(t, syscall.SIGTERM)
	at := expect.Value(url.Parse(database))(t)
	name := strings.TrimPrefix(at.Path, "/")
	at.Path = "/postgres"
	admin := storetest.Session(t, at.String())
	storetest.Exec(t, admin, fmt.Sprintf("CREATE DATABASE %s_older TEMPLATE %[1]s", name))
	t.Cleanup(func() {
		_, err := admin.Exec(context.Background(), fmt.Sprintf("DROP DATABASE %s_older WITH (FORCE)", name))
		expect.NoError(t, err)
	})
	host = hosttest.StartHost(t, dir, database)
	lost := checksOf(t, host, key, 2)
	expect.Until(t, "the host to write what it answered", func() bool {
		text, _ := os.ReadFile(filepath.Join(dir, "answered"))
		return strings.Contains(string(text), lost[1])
	})
	host.Stop(t, syscall.SIGKILL)
	at.Path = "/" + name + "_older"
	host = hosttest.StartHost(t, dir, at.String())
	wantLoss(t, host, key, dir, at.String(), lost)
}

// ownPostgres is a Postgres of the test's own.
type ownPostgres struct {
	dir     string
	cluster *postgres.Cluster
}

func newPostgres(t *testing.T) *ownPostgres {
	t.Helper()
	dir := expect.Value(os.MkdirTemp("", "assay-server-"))(t)
	expect.NoError(t, os.Chmod(dir, 0o711)) // Postgres may run as another user
	s := &ownPostgres{dir: dir}
	t.Cleanup(func() {
		if s.cluster != nil {
			_ = s.cluster.Close(t.Context())
		}
		if location := hosttest.ClusterDir(t, dir); location != dir {
			_ = os.RemoveAll(location)
		}
		_ = os.RemoveAll(dir)
	})
	return s
}

func (s *ownPostgres) open(t *testing.T) {
	t.Helper()
	s.cluster = expect.Value(postgres.Open(t.Context(), postgres.Config{Dir: s.dir, Offline: true}))(t)
}

func (s *ownPostgres) close(t *testing.T) {
	t.Helper()
	expect.NoError(t, s.cluster.Close(t.Context()))
	s.cluster = nil
}

// data is the data directory of Postgres.
func (s *ownPostgres) data(t *testing.T) string {
	return filepath.Join(hosttest.ClusterDir(t, s.dir), "postgres")
}

func (s *ownPostgres) session(t *testing.T) *pgx.Conn { return storetest.Session(t, s.cluster.URL()) }
