package operation

import (
	"fmt"
	"net/http"
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

	"github.com/google/go-cmp/cmp"

	"assay/host/access/apikey"
	"assay/host/auditlog"
	"assay/host/hosttest"
	"assay/host/store/postgres/postgrestest"
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

// TestBackupAndRestore backs up a host under load with the commands of docs/operations.md, destroys the installation,
// and restores it elsewhere with the commands of the guide.
func TestBackupAndRestore(t *testing.T) {
	t.Parallel()
	hosttest.NeedPostgres(t)
	hosttest.NeedClients(t)
	dir, database := hosttest.DataDir(t), postgrestest.Database(t)
	host := hosttest.StartHost(t, dir, database, hosttest.AllowLoopback)
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
		if location := hosttest.ClusterDir(t, dir); location != dir {
			expect.NoError(t, os.RemoveAll(location))
		}
	})
	for _, commands := range guideCommands(t, "Restore") {
		hosttest.Has(t, runGuide(t, commands, dir, "", "SECRETS="+secrets, "BACKUP="+backup), "Audit chain 0 is valid")
	}
	hosttest.LinkShared(t, dir, "layers", "compiled")
	var newest []string
	for _, file := range expect.Value(auditlog.CheckpointDir(later).Files())(t) {
		newest = append(newest, "--checkpoints="+file)
	}
	hosttest.WantRefusal(t, "verifying against later checkpoints", dir, "", nil,
		append([]string{"audit", "verify"}, newest...), "or an older backup was restored")
	before := hosttest.OutputJSON[[]auditlog.Report](t, dir, "", "audit", "verify")[0]
	dueEvents := func() []string {
		return strings.Fields(hosttest.Output(t, dir, "", "database", "exec", "psql", "-Atc",
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
	diff := cmp.Diff(due, sent)
	expect.That(t, diff == "", "events that were due and events sent (-due +sent):\n%s", diff)
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
