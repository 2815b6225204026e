package operation

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"assay/host/access/apikey"
	"assay/host/auditlog"
	"assay/host/cli"
	"assay/host/hosttest"
	"assay/host/store/postgres/postgrestest"
	"assay/host/store/storetest"
	"assay/registry"
	"assay/registry/expect"
)

// guideCommands returns the code blocks of a section of docs/operations.md.
func guideCommands(t *testing.T, section string) []string {
	t.Helper()
	_, text, found := strings.Cut(hosttest.ReadText(t, "../../../docs/operations.md"), "\n## "+section+"\n")
	text, _, _ = strings.Cut(text, "\n## ")
	blocks := regexp.MustCompile("(?s)\n```\n(.*?)```\n").FindAllStringSubmatch(text, -1)
	expect.Must(t, found && len(blocks) != 0, "docs/operations.md has no commands under %q", section)
	var commands []string
	for _, b := range blocks {
		commands = append(commands, b[1])
	}
	return commands
}

// runGuide runs commands of the guide in a shell, which must succeed. It returns what they print.
func runGuide(t *testing.T, commands, dir, database string, variables ...string) string {
	t.Helper()
	bin := t.TempDir()
	expect.NoError(t, os.Symlink(hosttest.Program(t), filepath.Join(bin, "assay")))
	cmd := exec.CommandContext(t.Context(), "sh", "-eu", "-c", commands)
	cmd.Env = hosttest.Command(t.Context(), dir, database).Env
	cmd.Env = append(append(cmd.Env, variables...), "PATH="+bin+":"+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	expect.Must(t, err == nil, "%s\n%v\n%s", commands, err, out)
	return string(out)
}

// TestBackupAndRestore backs up a host under load, destroys it, and restores it elsewhere, as docs/operations.md says.
func TestBackupAndRestore(t *testing.T) {
	t.Parallel()
	hosttest.NeedPostgres(t)
	hosttest.NeedClients(t)
	dir, database, host := hosttest.NewHost(t, hosttest.AllowLoopback)
	issued := hosttest.OutputJSON[apikey.Issued](t, dir, database, "keys", "create", "--plan", "pro")
	var restored atomic.Bool
	receiver, calls := hosttest.Receive(t, func(hosttest.Call) int {
		if restored.Load() {
			return http.StatusOK
		}
		return http.StatusServiceUnavailable
	})
	hosttest.Output(t, dir, database, "webhooks", "set", issued.Account, "--url", receiver)
	change := func(weight float64) {
		base := hosttest.OutputJSON[registry.LineupRevision](t, dir, database, "lineup", "show").Lineup
		hosttest.Output(t, dir, database, "lineup", "set", hosttest.WriteJSON(t,
			hosttest.Variant(base, weight)), "--force", "--reason", "a test")
	}
	change(3.5)
	const jane = `{"email":"jane.roe@mailbox-example.net"}`
	erased := hosttest.CheckUntilComplete(host, issued.Secret, jane)
	kept := hosttest.CheckUntilComplete(host, issued.Secret, `{"domain":"kept-example.net"}`)
	for path, body := range map[string]string{"/gdpr/erase": `{"ref":"` + erased.Ref + `"}`,
		"/api/feedback": `{"ref":"` + kept.Ref + `","label":"fraud","note":"told us so"}`} {
		status, _ := hosttest.Ask(t, host, issued.Secret, "POST", path, body)
		expect.Equal(t, path, status, http.StatusOK)
	}
	verifyPublicTree(t, host.URL, dir, database)
	verifyReceipts(t, host, issued.Secret, dir, database)

	// Checks go on during the backup, so that some of their events are due.
	loaded, stop := make(chan struct{}), make(chan struct{})
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		pause := time.NewTicker(50 * time.Millisecond)
		defer pause.Stop()
		for n := range 1000 { // the plan's quota is 1,500
			hosttest.Post(http.DefaultClient, host.URL, issued.Secret, hosttest.BlockedDomain)
			if n == 2 {
				close(loaded)
			}
			select {
			case <-stop:
				return
			case <-pause.C:
			}
		}
	}()
	<-loaded
	secrets, backup := filepath.Join(t.TempDir(), "secrets"), filepath.Join(t.TempDir(), "backup")
	for _, commands := range guideCommands(t, "Back up") {
		runGuide(t, commands, dir, database, "SECRETS="+secrets, "BACKUP="+backup)
	}
	close(stop)
	<-answered
	change(3.5)
	lost := hosttest.CheckUntilComplete(host, issued.Secret, `{"domain":"lost-example.net"}`)
	host.Stop(t, syscall.SIGTERM) // which signs a last checkpoint
	for len(calls) > 0 {
		<-calls
	}

	// Restore into the private Postgres of a new data directory.
	later := filepath.Join(t.TempDir(), "checkpoints")
	expect.NoError(t, os.Rename(filepath.Join(dir, "checkpoints"), later))
	dir = filepath.Join(t.TempDir(), "data")
	t.Cleanup(func() {
		if location := postgrestest.ClusterDir(dir); location != dir {
			expect.NoError(t, os.RemoveAll(location))
		}
	})
	for _, commands := range guideCommands(t, "Restore") {
		hosttest.Has(t, runGuide(t, commands, dir, "", "SECRETS="+secrets, "BACKUP="+backup), "Audit chain 0 is valid")
	}
	expect.Equal(t, "what Postgres's user may do in the data directory",
		expect.Value(os.Stat(dir))(t).Mode().Perm(), os.FileMode(0o711))
	hosttest.LinkShared(t, dir, "layers", "compiled")
	var newest []string
	for _, file := range expect.Value(auditlog.CheckpointDir(later).Files())(t) {
		newest = append(newest, "--checkpoints="+file)
	}
	hosttest.WantRefusal(t, "verifying against later checkpoints", dir, "", nil,
		append([]string{"audit", "verify"}, newest...), "or an older backup was restored")
	before := hosttest.OutputJSON[[]auditlog.Report](t, dir, "", "audit", "verify")[0]
	dueEvents := func() []string {
		return strings.Fields(hosttest.Output(t, dir, "", "database", "exec", "--", "psql", "-Atc",
			"SELECT ref FROM webhook_events WHERE state = 'pending' ORDER BY ref"))
	}
	due := dueEvents()
	expect.That(t, len(due) != 0, "no webhook event was due when the backup was made")

	restored.Store(true)
	host = hosttest.StartHost(t, dir, "", hosttest.AllowLoopback)
	var sent []string
	for range due {
		sent = append(sent, hosttest.Next(t, calls).Ref())
	}
	slices.Sort(sent)
	expect.NoDiff(t, "events that were due and events sent", due, sent)
	expect.Until(t, "the host to record what it sent", func() bool { return len(dueEvents()) == 0 })
	expect.Equal(t, "the revision in force",
		hosttest.OutputJSON[registry.LineupRevision](t, dir, "", "lineup", "show").Revision, 2)
	a := hosttest.CheckUntilComplete(host, issued.Secret, `{"domain":"google.com"}`)
	expect.That(t, a.Status == http.StatusOK, "a check with a key of the backup: %+v", a)
	for path, want := range map[string]string{"?ref=" + kept.Ref: "200 1", "?ref=" + erased.Ref: "200 0",
		"?ref=" + lost.Ref: "404 <nil>"} {
		status, got := hosttest.Ask(t, host, issued.Secret, "GET", "/gdpr/export"+path, "")
		expect.Equal(t, path, fmt.Sprint(status, " ", got["total"]), want)
	}
	status, held := hosttest.Ask(t, host, issued.Secret, "POST", "/gdpr/export", jane)
	expect.That(t, status == http.StatusOK && held["total"] == 0.0 && held["graph"] == nil,
		"export of the erased person: %d %v", status, held)
	host.Stop(t, syscall.SIGTERM)
	after := hosttest.OutputJSON[[]auditlog.Report](t, dir, "", "audit", "verify")[0]
	expect.That(t, after.OK && after.Records > before.Records && after.Erasures == 1 &&
		after.Checkpoints > before.Checkpoints, "the chain was %+v, and is %+v", before, after)
	select {
	case c := <-calls:
		t.Errorf("event %s was sent again", c.Ref())
	default:
	}
}

// readinessOf returns the answer of a host's /readyz.
func readinessOf(t *testing.T, h *hosttest.HostProcess) string {
	t.Helper()
	response, text := fetch(t, http.DefaultClient, h.Admin+"/readyz")
	return fmt.Sprint(response.StatusCode, " ", text)
}

// wantLoss waits until a host is not ready because of a loss, which names the references, and accepts it.
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

// An older copy of the database is found out by a host that starts, and by one that runs.
func TestOlderCopyOfTheDatabase(t *testing.T) {
	t.Parallel()
	cases := map[string]bool{"a host that starts": false, "a host that runs": true}
	expect.Each(t, cases, func(t *testing.T, runs bool) {
		dir, database, host := hosttest.NewHost(t)
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
			expect.Value(admin.Exec(context.Background(), fmt.Sprintf("DROP DATABASE %s_newer WITH (FORCE)", db)))(t)
		})
		if !runs {
			host = hosttest.StartHost(t, dir, database)
		}
		wantLoss(t, host, key, dir, database, lost)
		recorded := hosttest.RecordedRefs(t, database)
		for i, refs := range [][]string{kept, lost} {
			for _, ref := range refs {
				expect.Equal(t, "records of "+ref, recorded[ref], 1-i)
			}
		}
	})
}
