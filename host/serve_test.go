package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"assay/host/apikey"
	"assay/host/auditlog"
	"assay/host/postgres/postgrestest"
	"assay/host/store"
)

// TestFirstRun is what someone does who has just cloned the repository: start, ask, stop, start again.
func TestFirstRun(t *testing.T) {
	t.Parallel()
	needPostgres(t)
	// Only its owner can enter a test's folder, so that as root Postgres has to live elsewhere.
	dir := filepath.Join(t.TempDir(), "data")
	t.Cleanup(func() {
		if location := clusterDir(t, dir); location != dir {
			if err := os.RemoveAll(location); err != nil {
				t.Error(err)
			}
		}
	})
	host := startHost(t, dir, "")
	cases := map[string]struct {
		body, kind, verdict string
	}{
		"a look-alike":               {`{"domain":"paypa1-secure-login.xyz"}`, "domain", "block"},
		"a well-known domain":        {`{"domain":"google.com"}`, "domain", "allow"},
		"a mailbox at a provider":    {`{"email":"jane.doe@gmail.com"}`, "email", "allow"},
		"a valid German IBAN":        {`{"iban":"DE89 3704 0044 0532 0130 00"}`, "iban", "allow"},
		"an IBAN with a wrong digit": {`{"iban":"DE88 3704 0044 0532 0130 00"}`, "iban", "block"},
		"a valid French mobile":      {`{"phone":"06 12 34 56 78","region":{"country":"FR"}}`, "phone", "allow"},
	}
	for name, c := range cases {
		a := ask(host, host.key, c.body)
		if a.Status != 200 || a.Type != c.kind || a.Verdict != c.verdict {
			t.Errorf("%s: %+v, want a %s with %s", name, a, c.kind, c.verdict)
		}
		if c.verdict == "block" && (len(a.Signals) == 0 || a.Threat == nil) {
			t.Errorf("%s: blocked without a reason or a threat: %+v", name, a)
		}
	}
	host.stop(t, syscall.SIGTERM)
	if postgresRuns(t, dir) {
		t.Error("Postgres runs on after the host has stopped")
	}

	again := startHost(t, dir, "")
	if again.key != host.key {
		t.Errorf("the second start printed the key %s, the first %s", again.key, host.key)
	}
	again.stop(t, syscall.SIGKILL)
	third := startHost(t, dir, "")
	if a := post(http.DefaultClient, third.url, third.key, `{"domain":"google.com"}`); a.Status != 200 {
		t.Errorf("after a crash: %+v", a)
	}
	reports := outputJSON[[]auditlog.Report](t, dir, "", "audit", "verify")
	if len(reports) != 1 || !reports[0].OK || reports[0].Records < int64(len(cases)+1) {
		t.Errorf("audit verify: %+v", reports)
	}
}

// TestQuotaAcrossHosts has two hosts on one database and a key with 150 checks left.
func TestQuotaAcrossHosts(t *testing.T) {
	t.Parallel()
	dir, database := dataDir(t), postgrestest.Database(t)
	hosts := []*hostProcess{startHost(t, dir, database), startHost(t, dir, database)}
	issued := outputJSON[apikey.Issued](t, dir, database, "keys", "create", "--plan", "starter")
	var answered, exhausted atomic.Int32
	var wg sync.WaitGroup
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 200}}
	atOnce := make(chan struct{}, 32) // more would wait for each other longer than a request may take on a busy machine
	for i := range 200 {
		atOnce <- struct{}{}
		wg.Go(func() {
			defer func() { <-atOnce }()
			a := post(client, hosts[i%2].url, issued.Secret, fmt.Sprintf(`{"domain":"example-%d.com"}`, i))
			switch {
			case a.Status == 200:
				answered.Add(1)
			case a.Status == 429 && a.ResetAt != "":
				exhausted.Add(1)
			default:
				t.Errorf("request %d: %+v", i, a)
			}
		})
	}
	wg.Wait()
	if answered.Load() != 150 || exhausted.Load() != 50 {
		t.Errorf("%d answered and %d refused, want 150 and 50", answered.Load(), exhausted.Load())
	}
}

// TestKillUnderLoad kills the host again and again while it answers, and then counts.
func TestKillUnderLoad(t *testing.T) {
	t.Parallel()
	const callers = 16
	kills := 20
	if raceDetector {
		kills = 5
	}
	dir, database := dataDir(t), postgrestest.Database(t)
	b := openStore(t, dir, database)
	issued, err := issueKey(t.Context(), b.store, "", unlimited(), "test")
	if err != nil {
		t.Fatal(err)
	}
	key := issued.Secret
	var mu sync.Mutex
	answered := map[string]bool{}
	for range kills {
		host := startHost(t, dir, database)
		var wg sync.WaitGroup
		var count atomic.Int32
		enough := make(chan struct{})
		goal := 1 + rand.Int32N(400)
		client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: callers}}
		for c := range callers {
			wg.Go(func() {
				for i := 0; ; i++ {
					a := post(client, host.url, key, fmt.Sprintf(`{"email":"caller%d.%d@example.com"}`, c, i))
					if a.Status == 0 {
						return
					}
					if a.Status != 200 {
						t.Errorf("under load: %+v", a)
						return
					}
					mu.Lock()
					answered[a.Ref] = true
					mu.Unlock()
					if count.Add(1) == goal {
						close(enough)
					}
				}
			})
		}
		<-enough
		host.stop(t, syscall.SIGKILL)
		wg.Wait()
	}
	reports := outputJSON[[]auditlog.Report](t, dir, database, "audit", "verify")
	if len(reports) != 1 || !reports[0].OK {
		t.Fatalf("audit verify: %+v", reports)
	}
	recorded, used := recordedRefs(t, b.store)
	for ref := range answered {
		if recorded[ref] != 1 {
			t.Errorf("%s was answered and is in the chain %d times", ref, recorded[ref])
		}
	}
	if used != len(recorded) || used < len(answered) || used > len(answered)+kills*callers {
		t.Errorf("%d counted, %d recorded, %d answered: want as many recorded as counted, and at most %d more than answered",
			used, len(recorded), len(answered), kills*callers)
	}
}

// postgresRuns says whether the private Postgres of a data directory runs.
func postgresRuns(t *testing.T, dir string) bool {
	t.Helper()
	_, err := os.Stat(filepath.Join(clusterDir(t, dir), "postgres", "postmaster.pid"))
	return err == nil
}

// clusterDir is the folder that holds the private Postgres of a data directory.
func clusterDir(t *testing.T, dir string) string {
	t.Helper()
	location, err := os.ReadFile(filepath.Join(dir, "postgres.location"))
	if errors.Is(err, fs.ErrNotExist) {
		return dir
	}
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(location))
}

func needPostgres(t *testing.T) { postgrestest.Database(t) }

// openStore opens a database as a host with that data directory would.
func openStore(t testing.TB, dir, database string) *backend {
	t.Helper()
	b, err := openBackend(t.Context(), &Config{DataDir: dir, DatabaseURL: database},
		&terminal{out: t.Output(), err: t.Output()}, quietLog(&terminal{err: t.Output()}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

// recordedRefs counts the chain's check records by reference, and what the quota counted.
func recordedRefs(t *testing.T, s *store.Store) (refs map[string]int, used int) {
	t.Helper()
	heads, err := s.Heads(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	refs = map[string]int{}
	for row, err := range s.AuditRows(t.Context(), 0, 0, heads[0].Seq) {
		if err != nil {
			t.Fatal(err)
		}
		if row.Record.Kind == "check" {
			refs[row.Record.Ref]++
		}
	}
	keys, err := s.Keys(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range keys {
		used += k.Used
	}
	return refs, used
}
