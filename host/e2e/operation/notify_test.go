package operation

import (
	"net"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"assay/host/hosttest"
	"assay/host/store/postgres/postgrestest"
	"assay/registry/expect"
)

// systemd starts what depends on a host once the host is ready, and gives it the time that it needs to stop.
func TestNotify(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(t.TempDir(), "notify")
	manager := expect.Value(net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"}))(t)
	defer manager.Close()
	cmd := hosttest.Command(t.Context(), hosttest.DataDir(t), postgrestest.Database(t), "--drain=20ms")
	cmd.Env = append(cmd.Env, "NOTIFY_SOCKET="+socket)
	host := hosttest.RunHost(t, cmd)
	wantMessage(t, manager, "READY=1")
	host.Stop(t, syscall.SIGTERM)
	wantMessage(t, manager, "STOPPING=1", "EXTEND_TIMEOUT_USEC=40020000")
}

func wantMessage(t *testing.T, manager *net.UnixConn, lines ...string) {
	t.Helper()
	expect.NoError(t, manager.SetReadDeadline(time.Now().Add(time.Minute)))
	message := make([]byte, 1024)
	n, err := manager.Read(message)
	if want := strings.Join(lines, "\n"); err != nil || string(message[:n]) != want {
		t.Errorf("the service manager was told %q, %v, want %q", message[:n], err, want)
	}
}
