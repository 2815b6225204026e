package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"assay/host/auditlog"
	"assay/host/postgres/postgrestest"
	"assay/registry"
)

// TestLineupUnderLoad changes weights while a host answers: no check fails, every answer is that of one revision whole,
// and a lineup that cannot be loaded changes nothing.
func TestLineupUnderLoad(t *testing.T) {
	t.Parallel()
	dir, database := dataDir(t), postgrestest.Database(t)
	host := startHost(t, dir, database)
	issued, err := issueKey(t.Context(), openStore(t, dir, database).store, "", unlimited(), "test")
	if err != nil {
		t.Fatal(err)
	}
	key := issued.Secret
	first := outputJSON[registry.LineupRevision](t, dir, database, "lineup", "show")
	body := `{"iban":"DE88370400440532013000"}` // the iban layer alone has something to say: 100
	before := ask(host, key, body)

	stop, load := make(chan struct{}), sync.WaitGroup{}
	var mu sync.Mutex
	scores := map[int]int{}
	for range 4 {
		load.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				a := post(http.DefaultClient, host.url, key, body)
				if a.Status != http.StatusOK {
					t.Errorf("under load: %+v", a)
				}
				if a.degraded() {
					continue
				}
				mu.Lock()
				scores[a.Score]++
				mu.Unlock()
			}
		})
	}
	lighter := first.Lineup
	lighter.Layers = append([]registry.LineupLayer(nil), first.Lineup.Layers...)
	for i := range lighter.Layers {
		lighter.Layers[i].Weight = 3.5
	}
	file := writeJSON(t, lighter)
	if diff := output(t, dir, database, "lineup", "diff", file); !strings.Contains(diff, "iban: weight") {
		t.Errorf("lineup diff:\n%s", diff)
	}
	second := outputJSON[map[string]int64](t, dir, database, "lineup", "set", file, "--note", "a test")["revision"]
	after := waitForScore(t, host, key, body, func(a answer) bool { return a.Score != before.Score })
	if after.Verdict != "allow" || before.Verdict != "block" {
		t.Errorf("the verdict went from %s (%d) to %s (%d)", before.Verdict, before.Score, after.Verdict, after.Score)
	}

	unknown := lighter
	unknown.Layers = []registry.LineupLayer{{Layer: "nobody@1.0.0", Weight: 1}}
	for name, bad := range map[string]string{
		"an unpublished layer": writeJSON(t, unknown),
		"not JSON":             writeFile(t, "lineup.json", []byte("{")),
	} {
		cmd := command(t.Context(), dir, database, "lineup", "set", bad)
		if out, err := cmd.CombinedOutput(); err == nil {
			t.Errorf("%s was accepted: %s", name, out)
		}
	}
	if now := outputJSON[registry.LineupRevision](t, dir, database, "lineup", "show"); now.Revision != second {
		t.Errorf("revision %d is in force, not %d", now.Revision, second)
	}

	output(t, dir, database, "lineup", "rollback", fmt.Sprint(first.Revision))
	waitForScore(t, host, key, body, func(a answer) bool { return a.Score == before.Score })
	close(stop)
	load.Wait()
	for score, n := range scores {
		if score != before.Score && score != after.Score {
			t.Errorf("%d answers scored %d, which is neither revision's", n, score)
		}
	}
	if reports := outputJSON[[]auditlog.Report](t, dir, database, "audit", "verify"); !reports[0].OK {
		t.Errorf("audit verify: %+v", reports)
	}
}

// TestPluginIsPublishedOnce pushes a plugin, and then other code under the same version.
func TestPluginIsPublishedOnce(t *testing.T) {
	t.Parallel()
	dir, database := dataDir(t), postgrestest.Database(t)
	plugin := filepath.Join(t.TempDir(), "iban.wasm")
	built := outputJSON[map[string]string](t, dir, database, "plugin", "build", filepath.Join("..", "plugins", "iban"),
		"-o", plugin)
	for range 2 {
		if pushed := outputJSON[map[string]string](t, dir, database, "plugin", "push",
			plugin); pushed["digest"] != built["digest"] {
			t.Errorf("pushed %v, built %v", pushed, built)
		}
	}
	wasm, err := os.ReadFile(plugin)
	if err != nil {
		t.Fatal(err)
	}
	other := writeFile(t, "other.wasm", append(wasm, 0, 2, 1, 'x')) // one more custom section, of another name
	cmd := command(t.Context(), dir, database, "plugin", "push", other)
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "raise the version") {
		t.Errorf("other code under the same version: %v\n%s", err, out)
	}
}

// waitForScore asks until the answer is as wanted: a swap takes effect as soon as the host has heard of it.
func waitForScore(t *testing.T, host *hostProcess, key, body string, wanted func(answer) bool) answer {
	t.Helper()
	var last answer
	for range 20_000 {
		if last = ask(host, key, body); last.Status == http.StatusOK && wanted(last) {
			return last
		}
	}
	t.Fatalf("the lineup was not swapped: %+v", last)
	return last
}

func writeJSON(t *testing.T, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return writeFile(t, "lineup.json", data)
}

func writeFile(t *testing.T, name string, data []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
