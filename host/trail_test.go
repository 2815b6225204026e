package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"assay/host/postgres/postgrestest"
	"assay/registry"
)

// private asks one of the privacy endpoints.
func private(t *testing.T, host *hostProcess, key, method, path, body string) (status int, answer map[string]any) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, host.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+key)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err == nil {
		err = json.Unmarshal(text, &answer)
	}
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return response.StatusCode, answer
}

// TestErasure erases through a running host what it has checked: nothing of it can be exported, the log holds nothing
// of it, and `audit verify` tells the records that were erased rightly from one that was blanked.
func TestErasure(t *testing.T) {
	t.Parallel()
	dir, database := dataDir(t), postgrestest.Database(t)
	host := startHost(t, dir, database, "--dns=off", "--rdap-url=off")
	b := openStore(t, dir, database)
	issued, err := issueKey(t.Context(), b.store, "", unlimited(), "test")
	if err != nil {
		t.Fatal(err)
	}
	key := issued.Secret
	const jane = "jane.roe@mailbox-example.net"
	first, second := once(host, key, `{"email":"`+jane+`"}`),
		once(host, key, `{"email":"Jane.Roe@mailbox-example.net"}`)
	other := once(host, key, `{"email":"john.roe@mailbox-example.net"}`)
	if first.Status != 200 || second.Status != 200 || other.Status != 200 {
		t.Fatalf("checks: %+v %+v %+v", first, second, other)
	}
	status, held := private(t, host, key, "GET", "/gdpr/export?ref="+second.Ref, "")
	if status != 200 || held["total"] != 2.0 {
		t.Fatalf("export: %d %v", status, held)
	}
	subject := fmt.Sprint(held["subject"])
	if _, named := private(t, host, key, "POST", "/gdpr/subject", `{"email":"`+jane+`"}`); named["subject"] != subject {
		t.Errorf("the subject is %v by value and %s by check", named, subject)
	}
	for again := range 2 {
		status, erased := private(t, host, key, "POST", "/gdpr/erase", `{"ref":"`+first.Ref+`"}`)
		if want := []float64{2, 0}[again]; status != 200 || erased["erased"] != want {
			t.Errorf("erasing, time %d: %d %v", again, status, erased)
		}
	}
	if status, held := private(t, host, key, "GET", "/gdpr/export?subject="+subject, ""); status != 200 ||
		held["total"] != 0.0 || held["graph"] != nil {
		t.Errorf("exporting what is erased: %d %v", status, held)
	}
	if status, held := private(t, host, key, "POST", "/gdpr/export",
		`{"email":"john.roe@mailbox-example.net"}`); status != 200 || held["total"] != 1.0 {
		t.Errorf("exporting another: %d %v", status, held)
	}
	reports := outputJSON[[]chainReport](t, dir, database, "audit", "verify")
	if r := reports[0]; !r.OK || r.Erased != 3 || r.Erasures != 1 { // two checks, and the record of the export
		t.Errorf("audit verify: %+v", r)
	}
	if text := output(t, dir, database, "audit", "verify"); !strings.Contains(text, "(3 erased by 1 erasures)") {
		t.Errorf("audit verify says %s", text)
	}

	db, err := pgx.Connect(t.Context(), database)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close(t.Context())
	if _, err := db.Exec(t.Context(), `UPDATE audit_records SET nonce = NULL, pseudonym = NULL, kind = 'erased', at = NULL, ref = NULL, account_id = '',
		key_id = '', type = '', score = 0, verdict = '', revision = 0 WHERE ref = $1`, other.Ref); err != nil {
		t.Fatal(err)
	}
	out, err := command(t.Context(), dir, database, "audit", "verify").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "no erasure behind it names it") {
		t.Errorf("audit verify of a blanked record: %v, %s", err, out)
	}
	log, err := os.ReadFile(filepath.Join(dir, "logs", "assay.log"))
	if err != nil || !strings.Contains(string(log), "/gdpr/erase") {
		t.Errorf("the log tells of no erasure: %v", err)
	}
	for _, secret := range []string{"roe@", subject, "sub_"} {
		if strings.Contains(strings.ToLower(string(log)), secret) {
			t.Errorf("the log holds %s", secret)
		}
	}
}

// Records that stand where the chain has none would be listed and exported like others: they do not verify, even
// without checkpoints.
func TestRecordsBesideTheChain(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ tamper, reason string }{
		"behind the head": {`INSERT INTO audit_records (chain, seq, recorded_at, at, kind, ref, account_id, nonce, leaf, hash)
			SELECT chain, 5, recorded_at, at, kind, 'chk_forged', account_id, nonce, leaf, hash FROM audit_records WHERE seq = 4`, "breaks at record 5: the record does not match its leaf"},
		"of a chain without a head": {`INSERT INTO audit_records (chain, seq, recorded_at, at, kind, ref, account_id, nonce, leaf, hash)
			SELECT 7, 1, recorded_at, at, kind, 'chk_forged', account_id, nonce, leaf, hash FROM audit_records WHERE seq = 4`, "audit chain 7 breaks at record 1"},
		"behind a head set back": {`UPDATE audit_heads SET (seq, hash) = (SELECT seq, hash FROM audit_records WHERE seq = 2)`, "the chain's head says record 2"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			database := postgrestest.Database(t)
			m, _ := agedTrail(t, database)
			if _, err := connect(t, database).Exec(t.Context(), test.tamper); err != nil {
				t.Fatal(err)
			}
			reports, broken, err := verifyTrail(t.Context(), m.store, newSigner(m.keys), nil)
			if err != nil || broken == nil || !strings.Contains(broken.Error(), test.reason) {
				t.Errorf("%v, %v; want %q", broken, err, test.reason)
			}
			if n := len(reports); reports[n-1].OK {
				t.Errorf("reports %+v", reports)
			}
		})
	}
}

// Which weights decided a check follows from the trail: a lineup that was altered since it came into force does not
// verify.
func TestAlteredLineupIsTold(t *testing.T) {
	t.Parallel()
	database := postgrestest.Database(t)
	m, _ := agedTrail(t, database)
	lineup := registry.LineupDocument{
		Note: "<tried> \xff", Bias: math.Copysign(0, -1), Bands: registry.Bands{Review: 40, Block: 70},
		Layers: []registry.LineupLayer{{Layer: "probe@1.0.0", Weight: 1e-7, Config: map[string]string{"b": "\u2028",
			"a": "é"}}},
	}
	for range 2 {
		if _, err := m.store.ActivateLineup(t.Context(), lineup, registry.OriginOperator, ""); err != nil {
			t.Fatal(err)
		}
	}
	db := connect(t, database)
	for _, test := range []struct{ tamper, reason string }{
		{"SELECT", ""},
		{"UPDATE lineup_revisions SET document = jsonb_set(document, '{bias}', '-4.5') WHERE revision = 2",
			"record 6: lineup revision 2 is stored otherwise"},
		{"UPDATE lineup_revisions SET document = '[]' WHERE revision = 1",
			"record 5: lineup revision 1 is stored otherwise"},
		{"DELETE FROM lineup_activations; DELETE FROM lineup_revisions",
			"record 5: lineup revision 1 is stored otherwise"},
	} {
		if _, err := db.Exec(t.Context(), test.tamper); err != nil {
			t.Fatal(err)
		}
		_, broken, err := verifyTrail(t.Context(), m.store, newSigner(m.keys), nil)
		if err != nil || (test.reason == "") != (broken == nil) || broken != nil &&
			!strings.Contains(broken.Error(), test.reason) {
			t.Errorf("%s: %v, %v; want %q", test.tamper, broken, err, test.reason)
		}
	}
}
