package outage

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"assay/host/access/apikey"
	"assay/host/hosttest"
	"assay/host/installation"
	"assay/host/internal/terminal"
	"assay/host/store/postgres/postgrestest"
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
	wantMessage("STOPPING=1\nEXTEND_TIMEOUT_USEC=640000000")
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
