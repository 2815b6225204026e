package customer

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	"assay/host/auditlog"
	"assay/host/hosttest"
	"assay/host/installation"
	"assay/host/store/postgres/postgrestest"
)

// TestErasure erases a person's checks through a running host. Afterwards, neither an export nor the log contains any
// of their data, and `audit verify` distinguishes the erased records from a blanked one.
func TestErasure(t *testing.T) {
	t.Parallel()
	dir, database := hosttest.DataDir(t), postgrestest.Database(t)
	host := hosttest.StartHost(t, dir, database, "--dns=off", "--rdap-url=off")
	b := hosttest.OpenStore(t, dir, database)
	issued, err := installation.IssueKey(t.Context(), b.Store, installation.Unlimited(), "test")
	if err != nil {
		t.Fatal(err)
	}
	key := issued.Secret
	const jane = "jane.roe@mailbox-example.net"
	first, second := hosttest.CheckOnce(host, key, `{"email":"`+jane+`"}`),
		hosttest.CheckOnce(host, key, `{"email":"Jane.Roe@mailbox-example.net"}`)
	other := hosttest.CheckOnce(host, key, `{"email":"john.roe@mailbox-example.net"}`)
	if first.Status != 200 || second.Status != 200 || other.Status != 200 {
		t.Fatalf("checks: %+v %+v %+v", first, second, other)
	}
	about := `{"ref":"` + first.Ref + `","email":"` + jane + `"}`
	status, why := hosttest.Ask(t, host, key, "POST", "/gdpr/explain", about)
	if status != 200 || why["decided_by"] == nil || fmt.Sprint(why["decided_by"]) != fmt.Sprint(why["today"]) {
		t.Errorf("explanation: %d %v", status, why)
	}
	_, found := hosttest.Ask(t, host, key, "POST", "/api/checks/search", `{"email":"`+jane+`"}`)
	if list, _ := found["checks"].([]any); len(list) != 2 {
		t.Errorf("found %v", found)
	}
	status, held := hosttest.Ask(t, host, key, "GET", "/gdpr/export?ref="+second.Ref, "")
	if status != 200 || held["total"] != 2.0 {
		t.Fatalf("export: %d %v", status, held)
	}
	subject := fmt.Sprint(held["subject"])
	_, named := hosttest.Ask(t, host, key, "POST", "/gdpr/subject", `{"email":"`+jane+`"}`)
	if named["subject"] != subject {
		t.Errorf("the subject is %v by value and %s by reference", named, subject)
	}
	for again := range 2 {
		status, erased := hosttest.Ask(t, host, key, "POST", "/gdpr/erase", `{"ref":"`+first.Ref+`"}`)
		if want := []float64{2, 0}[again]; status != 200 || erased["erased"] != want {
			t.Errorf("erasure %d: %d %v", again+1, status, erased)
		}
	}
	if status, why := hosttest.Ask(t, host, key, "POST", "/gdpr/explain", about); status != 404 {
		t.Errorf("explanation after the erasure: %d %v", status, why)
	}
	if status, held := hosttest.Ask(t, host, key, "GET", "/gdpr/export?subject="+subject, ""); status != 200 ||
		held["total"] != 0.0 || held["graph"] != nil {
		t.Errorf("export after the erasure: %d %v", status, held)
	}
	if status, held := hosttest.Ask(t, host, key, "POST", "/gdpr/export",
		`{"email":"john.roe@mailbox-example.net"}`); status != 200 || held["total"] != 1.0 {
		t.Errorf("export of another person: %d %v", status, held)
	}
	reports := hosttest.OutputJSON[[]auditlog.Report](t, dir, database, "audit", "verify")
	if r := reports[0]; !r.OK || r.Erased != 3 || r.Erasures != 1 { // two checks, and the record of the export
		t.Errorf("audit verify: %+v", r)
	}
	if text := hosttest.Output(t, dir, database, "audit", "verify"); !strings.Contains(text,
		"(3 erased in 1 erasures)") {
		t.Errorf("audit verify printed %s", text)
	}

	db, err := pgx.Connect(t.Context(), database)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close(t.Context())
	if _, err := db.Exec(t.Context(), `
		UPDATE audit_records SET nonce = NULL, pseudonym = NULL, kind = 'erased', at = NULL, ref = NULL,
			account_id = '', key_id = '', type = '', score = 0, verdict = '', revision = 0
		WHERE ref = $1`, other.Ref); err != nil {
		t.Fatal(err)
	}
	out, err := hosttest.Command(t.Context(), dir, database, "audit", "verify").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "no later erasure names it") {
		t.Errorf("audit verify of a blanked record: %v, %s", err, out)
	}
	var log []byte
	hosttest.Eventually(t, "the log shows the erasure", func() bool {
		log, _ = os.ReadFile(filepath.Join(dir, "logs", "assay.log"))
		return strings.Contains(string(log), "/gdpr/erase")
	})
	for _, secret := range []string{"roe@", subject, "sub_"} {
		if strings.Contains(strings.ToLower(string(log)), secret) {
			t.Errorf("the log contains %s", secret)
		}
	}
}

// TestFloodOfExports has one account export in a loop, on many connections. All erasures of another account must
// succeed meanwhile.
func TestFloodOfExports(t *testing.T) {
	t.Parallel()
	const connections, erasures = 16, 60
	dir, database := hosttest.DataDir(t), postgrestest.Database(t)
	host := hosttest.StartHost(t, dir, database, "--dns=off", "--rdap-url=off")
	b := hosttest.OpenStore(t, dir, database)
	keys := make([]string, 2)
	for i := range keys {
		issued, err := installation.IssueKey(t.Context(), b.Store, installation.Unlimited(), "test")
		if err != nil {
			t.Fatal(err)
		}
		keys[i] = issued.Secret
	}
	const body = `{"email":"jane.roe@mailbox-example.net"}`
	if a := hosttest.CheckOnce(host, keys[0], body); a.Status != 200 {
		t.Fatalf("%+v", a)
	}
	ctx, stop := context.WithCancel(t.Context())
	var flood sync.WaitGroup
	var exported, refused atomic.Int64
	for range connections {
		flood.Go(func() {
			for ctx.Err() == nil {
				switch status, answer := hosttest.AskOnce(t, host, keys[0], "POST", "/gdpr/export", body); status {
				case 200:
					exported.Add(1)
				case 503:
					refused.Add(1)
				default:
					t.Errorf("an export: %d %v", status, answer)
					return
				}
			}
		})
	}
	hosttest.Repeat(func() bool { return exported.Load() > 0 })
	failed := 0
	for range erasures {
		if status, answer := hosttest.AskOnce(t, host, keys[1], "POST", "/gdpr/erase", body); status != 200 {
			failed++
			t.Logf("an erasure: %d %v", status, answer)
		}
	}
	stop()
	flood.Wait()
	if failed > 0 {
		t.Errorf("%d of %d erasures failed during %d exports (%d more were refused)", failed, erasures,
			exported.Load(), refused.Load())
	}
}
