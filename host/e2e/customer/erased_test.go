package customer

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"assay/host/check"
	"assay/host/hosttest"
	"assay/host/installation"
	"assay/host/store/postgres"
	"assay/host/store/postgres/postgrestest"
	"assay/host/store/storetest"
	"assay/registry/expect"
)

// showRecycle is repeated until it says off: a reload takes a moment.
const showRecycle = "SHOW wal_recycle"

// cleaning are the statements of docs/privacy.md that remove what erased rows leave in the database's files.
var cleaning = []string{
	"DELETE FROM pg_statistic", "VACUUM (FULL, ANALYZE)", "VACUUM FULL pg_statistic",
	"ALTER SYSTEM SET wal_recycle = off", "SELECT pg_reload_conf()", showRecycle, "CHECKPOINT",
	`DO $$ BEGIN
  FOR i IN 1 .. (SELECT count(*) FROM pg_ls_waldir()) LOOP
    PERFORM pg_logical_emit_message(false, 'erase', ''), pg_switch_wal();
  END LOOP;
END $$`,
	"CHECKPOINT", "ALTER SYSTEM RESET wal_recycle", "SELECT pg_reload_conf()",
}

// TestErasedMeansErased erases a person and a domain after everything that stores data about a subject. Then nothing of
// them is in a dump, nor in the files of database and host, once the statements of docs/privacy.md have run.
func TestErasedMeansErased(t *testing.T) {
	t.Parallel()
	hosttest.NeedPostgres(t)
	hosttest.NeedClients(t)
	clusterAt := t.TempDir()
	for at := clusterAt; at != os.TempDir() && at != "/"; at = filepath.Dir(at) {
		_ = os.Chmod(at, 0o711) // Postgres may run as another user
	}
	cluster := expect.Value(postgres.Open(t.Context(), postgres.Config{Dir: clusterAt, Offline: true}))(t)
	files := postgrestest.ClusterDir(clusterAt)
	t.Cleanup(func() {
		_ = cluster.Close(context.Background())
		_ = os.RemoveAll(files)
	})
	data := hosttest.DataDir(t)
	host := hosttest.StartHost(t, data, cluster.URL(), hosttest.AllowLoopback, "--dns=off", "--rdap-url=off")
	key := leaveTraces(t, host, data, cluster.URL())
	conn := expect.Value(pgx.Connect(t.Context(), cluster.URL()))(t)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	traces := tracesOf(t, conn)
	// The checkpoint keeps two segments with traces under new names.
	storetest.Exec(t, conn, "ANALYZE", "SELECT pg_switch_wal()", "VACUUM FULL", "SELECT pg_switch_wal()", "CHECKPOINT")
	before := search(t, traces, files)
	for what := range traces { // texts are stored encrypted
		expect.That(t, len(before[what]) != 0 || strings.HasPrefix(what, "text "),
			"the search proves nothing: before the erasure, it does not find the %s", what)
	}
	for _, who := range []string{aboutJane, aboutCompany} {
		status, erased := hosttest.Ask(t, host, key, "POST", "/gdpr/erase", who)
		expect.Must(t, status == 200 && erased["erased"] != 0.0, "erasure: %d %v", status, erased)
	}
	hosttest.Has(t, hosttest.Output(t, data, cluster.URL(), "audit", "verify"), "erased in 2 erasures)")
	dump := expect.Value(exec.Command("pg_dump", "--dbname="+cluster.URL()).Output())(t)
	for what, trace := range traces {
		expect.That(t, !contains(dump, trace), "the dump contains the %s", what)
	}
	host.Stop(t, syscall.SIGTERM)
	expect.That(t, strings.Contains(hosttest.ReadText(t, "../../../docs/privacy.md"),
		strings.Join(cleaning, ";\n")+";\n"), "docs/privacy.md does not have these statements: %q", cleaning)
	for _, statement := range cleaning {
		storetest.Exec(t, conn, statement)
		if statement == showRecycle {
			expect.Until(t, "the setting is in force", func() bool {
				return storetest.Value[string](t, conn, showRecycle) == "off"
			})
		}
	}
	for what, found := range search(t, traces, files) {
		expect.That(t, len(found) == 0, "the database's files contain the %s: %v", what, found)
	}
	for what, found := range search(t, traces, data) {
		expect.That(t, len(found) == 0 || strings.HasPrefix(what, "reference "), // logs keep references for 30 days
			"the host's files contain the %s: %v", what, found)
	}
}

const (
	janeMail     = "jane.q.roe@mailbox-example.net"
	company      = "erasable-shop-example.net"
	aboutJane    = `{"email":"` + janeMail + `"}`
	aboutCompany = `{"domain":"` + company + `"}`
	secretNote   = "she called us about a parcel"
)

// leaveTraces does all that stores data about a subject, and returns the key.
func leaveTraces(t *testing.T, host *hosttest.HostProcess, data, database string) string {
	t.Helper()
	b := hosttest.OpenStore(t, data, database)
	issued := expect.Value(installation.IssueKey(t.Context(), b.Store, installation.Unlimited(), "test"))(t)
	receiver, calls := hosttest.Receive(t, func(hosttest.Call) int { return 200 })
	expect.Value(b.Store.SetEndpoint(t.Context(), issued.Account, receiver))(t)
	call := func(path, body string) map[string]any {
		t.Helper()
		status, answer := hosttest.Ask(t, host, issued.Secret, "POST", path, body)
		expect.Must(t, status == 200 || status == 201, "%s: %d %v", path, status, answer)
		return answer
	}
	call("/api/overrides", `{"action":"block","reason":"`+secretNote+`","email":"`+janeMail+
		`","expires_at":"`+time.Now().UTC().AddDate(0, 0, 7).Format(check.TimeFormat)+`"}`)
	var blocked map[string]any
	expect.Until(t, "the override, which hosts read each second", func() bool {
		blocked = call("/api/check", aboutJane)
		return blocked["verdict"] == "block"
	})
	hosttest.Next(t, calls)
	call("/api/check", `{"domain":"`+company+`","email":"`+janeMail+`"}`) // a link in the graph
	call("/api/check/batch", `{"checks":[`+aboutJane+`,`+aboutCompany+`,{"phone":"+4915123456789"}]}`)
	hosttest.Next(t, calls)
	status, _ := hosttest.Send(t, host, issued.Secret, "POST", "/api/check", aboutJane, "Idempotency-Key", "once-jane")
	expect.Equal(t, "status with an Idempotency-Key", status, 200)
	ref := fmt.Sprint(blocked["ref"])
	call("/api/feedback", `{"ref":"`+ref+`","label":"fraud","note":"`+secretNote+`","email":"`+janeMail+`"}`)
	call("/gdpr/review", `{"ref":"`+ref+`","reason":"`+secretNote+`"}`)
	call("/gdpr/explain", `{"ref":"`+ref+`","email":"`+janeMail+`"}`)
	call("/gdpr/export", aboutJane)
	call("/api/checks/search", aboutJane)
	expect.NoError(t, b.Store.CatchUp(t.Context()))
	return issued.Secret
}

// tracesOf returns what could lead to the subjects: their values, texts, names and random numbers.
func tracesOf(t *testing.T, conn *pgx.Conn) map[string][]byte {
	t.Helper()
	traces := map[string][]byte{"text value": []byte(janeMail), "text domain": []byte(company),
		"text note": []byte(secretNote)}
	rows := expect.Value(conn.Query(t.Context(), `
		SELECT 'pseudonym ' || seq, pseudonym FROM audit_records WHERE kind = 'check' AND type IN ('email', 'domain')
		UNION ALL SELECT 'nonce ' || seq, nonce FROM audit_records WHERE kind = 'check' AND type IN ('email', 'domain')
		UNION ALL SELECT 'reference ' || seq, convert_to(ref, 'UTF8') FROM audit_records
			WHERE kind = 'check' AND type IN ('email', 'domain')
		UNION ALL SELECT 'node of ' || kind, node FROM graph_sightings WHERE kind IN ('email', 'domain')`))(t)
	var what string
	var trace []byte
	expect.Value(pgx.ForEachRow(rows, []any{&what, &trace}, func() error {
		traces[what] = bytes.Clone(trace)
		return nil
	}))(t)
	expect.Must(t, len(traces) >= 15, "only %d traces", len(traces))
	return traces
}

// search returns the files below a folder that contain each trace, as bytes or in hexadecimal.
func search(t *testing.T, traces map[string][]byte, below string) map[string][]string {
	t.Helper()
	found := map[string][]string{}
	err := filepath.WalkDir(below, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && (entry.Name() == "layers" || entry.Name() == "compiled") { // which are older than the checks
			return fs.SkipDir
		}
		var content []byte
		if err == nil && entry.Type().IsRegular() {
			content, err = os.ReadFile(path)
		}
		for what, trace := range traces {
			if contains(content, trace) {
				found[what] = append(found[what], strings.TrimPrefix(path, below))
			}
		}
		if errors.Is(err, fs.ErrNotExist) { // it was deleted meanwhile
			return nil
		}
		return err
	})
	expect.NoError(t, err)
	return found
}

func contains(content, trace []byte) bool {
	return bytes.Contains(content, trace) || bytes.Contains(content, []byte(hex.EncodeToString(trace)))
}
