// Package outage stops hosts under load, and fails the layers of one customer.
package outage

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"assay/host/access/apikey"
	"assay/host/hosttest"
	"assay/host/installation"
	"assay/host/internal/terminal"
	"assay/host/store/postgres/postgrestest"
	"assay/registry"
	"assay/registry/expect"
)

// A host that is told to stop serves on, and says that it is not ready. A second signal stops it at once. systemd,
// which starts what depends on a host once that is ready, is told how long the stop may take.
func TestDrain(t *testing.T) {
	t.Parallel()
	dir, database := hosttest.DataDir(t), postgrestest.Database(t)
	socket := filepath.Join(t.TempDir(), "notify")
	manager := expect.Value(net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"}))(t)
	defer manager.Close()
	wantMessage := func(want string) {
		t.Helper()
		expect.NoError(t, manager.SetReadDeadline(time.Now().Add(time.Minute)))
		message := make([]byte, 1024)
		n := expect.Value(manager.Read(message))(t)
		expect.Equal(t, "the service manager was told", string(message[:n]), want)
	}
	cmd := hosttest.Command(context.WithoutCancel(t.Context()), dir, database, "--drain=10m")
	cmd.Env = append(cmd.Env, "NOTIFY_SOCKET="+socket)
	host := hosttest.RunHost(t, cmd)
	wantMessage("READY=1")
	issued := hosttest.OutputJSON[apikey.Issued](t, dir, database, "keys", "create", "--plan", "pro")
	open := &http.Client{Transport: &http.Transport{MaxConnsPerHost: 1}}
	defer open.CloseIdleConnections()
	a := hosttest.Post(open, host.URL, issued.Secret, hosttest.FleetBody)
	expect.Must(t, a.Status == 200, "before the signal: %+v", a)
	expect.NoError(t, host.Cmd.Process.Signal(syscall.SIGTERM))
	wantMessage("STOPPING=1\nEXTEND_TIMEOUT_USEC=670000000")
	expect.Until(t, "the host not to be ready", func() bool {
		response := expect.Value(http.Get(host.URL + "/readyz"))(t)
		expect.NoError(t, response.Body.Close())
		return response.StatusCode == http.StatusServiceUnavailable
	})
	for name, client := range map[string]*http.Client{
		"an open connection": open,
		"a new connection":   {Transport: &http.Transport{DisableKeepAlives: true}},
	} {
		a := hosttest.Post(client, host.URL, issued.Secret, hosttest.FleetBody)
		expect.That(t, a.Status == 200, "on %s of a draining host: %+v", name, a)
	}
	host.Stop(t, syscall.SIGTERM)
	log := hosttest.ReadText(t, filepath.Join(dir, "logs", "assay.log"))
	for _, phase := range []string{"draining: not ready, still serving", "stopping: no longer accepting", `"stopped"`} {
		_, after, found := strings.Cut(log, phase)
		expect.Must(t, found, "the log lacks %q, or has it too early:\n%s", phase, log)
		log = after
	}
}

func TestDrainSetting(t *testing.T) {
	t.Parallel()
	tty := expect.Value(os.OpenFile("/dev/ptmx", os.O_RDWR, 0))(t)
	defer tty.Close()
	null := expect.Value(os.OpenFile(os.DevNull, os.O_WRONLY, 0))(t)
	defer null.Close()
	second, negative, hour := time.Second, -time.Second, time.Hour
	for name, test := range map[string]struct {
		set  *time.Duration
		err  io.Writer
		want time.Duration
	}{
		"in a terminal":          {nil, tty, 0},
		"set in a terminal":      {&second, tty, time.Second},
		"as a service":           {nil, io.Discard, 5 * time.Second},
		"with its output hidden": {nil, null, 5 * time.Second},
	} {
		cfg := &installation.Config{Drain: test.set}
		expect.Equal(t, name, cfg.DrainTime(&terminal.Terminal{Err: test.err}), test.want)
	}
	for _, bad := range []*time.Duration{&negative, &hour} {
		expect.ErrorText(t, bad.String(), (&installation.Config{Drain: bad}).ValidateDrain(), "ASSAY_DRAIN")
	}
}

// The values of one account, of its batches, or of anybody without a key make four layers fail all the time. Another
// account's answers are those of a quiet host, and no check is refused for a layer.
func TestOneCustomersFailuresStayTheirs(t *testing.T) {
	t.Parallel()
	dir, database := hosttest.DataDir(t), postgrestest.Database(t)
	cmd := hosttest.Command(context.WithoutCancel(t.Context()), dir, database)
	cmd.Env = append(cmd.Env, "ASSAY_TRUSTED_PROXIES=127.0.0.1")
	host := hosttest.RunHost(t, cmd)
	store := hosttest.OpenStore(t, dir, database).Store
	layers := hosttest.PublishFailingLayers(t, dir, store)
	issue := func(name string) string {
		return expect.Value(installation.IssueKey(t.Context(), store, installation.Unlimited(), name))(t).Secret
	}
	attacker := issue("attacker")
	failing := func(i int) string { return fmt.Sprintf(hosttest.FailingValue, i) }
	var failed atomic.Int64
	send := func(path, body string, i int) {
		status, text := hosttest.SendOnce(t, host, attacker, http.MethodPost, path, body, "X-Forwarded-For",
			fmt.Sprintf("198.51.%d.%d", i%200, i/200%200))
		if status == http.StatusOK && hosttest.DegradedText(text) {
			failed.Add(1)
		}
	}
	attack := func(i int) {
		send("/api/check", failing(i), i)
		send("/api/check/batch", `{"checks":[`+failing(i)+`,`+failing(-i)+`]}`, i)
		send("/api/check-public", failing(i), i)
	}
	for _, required := range []bool{false, true} {
		l := hosttest.OutputJSON[registry.LineupRevision](t, dir, database, "lineup", "show").Lineup
		if !required {
			l.Layers = append(l.Layers, layers...)
		}
		for i := range layers {
			l.Layers[len(l.Layers)-1-i].Required = required
		}
		hosttest.Output(t, dir, database, "lineup", "set", hosttest.WriteJSON(t, l), "--force", "--reason", "a test")
		expect.Until(t, "the layers to fail", func() bool {
			a := hosttest.CheckOnce(host, attacker, failing(0))
			return strings.Count(strings.Join(a.Signals, "\n"), "layer failed") == len(layers) &&
				(a.Verdict != "allow" || !required)
		})
		ask := func(account string, check func(i int, a hosttest.Answer)) {
			key := issue(account)
			for i := range 20 {
				var a hosttest.Answer
				expect.Until(t, "an outcome that is known", func() bool { // it is not if a commit takes seconds
					a = hosttest.CheckOnce(host, key, fmt.Sprintf(`{"domain":"blumen-hartmann%d.de"}`, i))
					return a.Status != http.StatusInternalServerError
				})
				a.Ref = ""
				check(i, a)
			}
		}
		var quiet [20]hosttest.Answer
		ask("quiet", func(i int, a hosttest.Answer) { quiet[i] = a })
		failed.Store(0)
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		for worker := range 2 {
			running.Go(func() {
				for i := worker; ctx.Err() == nil; i += 2 {
					attack(i)
				}
			})
		}
		ask("victim", func(i int, a hosttest.Answer) {
			expect.That(t, a.Status == http.StatusOK && !a.Degraded(), "required %v: %+v", required, a)
			expect.NoDiff(t, fmt.Sprint("required ", required, ", check ", i), quiet[i], a)
		})
		expect.Until(t, "answers about failures", func() bool { return failed.Load() >= 10 })
		stop()
		running.Wait()
	}
	page := hosttest.Get(t, host.Admin+"/metrics", "")
	expect.That(t, !strings.Contains(page, `assay_refusals_total{reason="layer"}`), "checks were refused for a layer")
}

func TestMain(m *testing.M) { os.Exit(hosttest.Main(m)) }
