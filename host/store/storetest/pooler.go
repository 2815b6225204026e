package storetest

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"assay/registry/expect"
)

// Pooler is a pgbouncer in transaction mode, with two connections for each database. After each transaction it discards
// the connection's session, so that a statement that depends on an earlier one always fails.
type Pooler struct {
	Addr string // host:port, of a proxy that keeps the port while the pooler restarts

	file   string // its settings
	socket string
	cmd    *exec.Cmd
	log    bytes.Buffer
}

// NewPooler starts a pooler for all databases of the server at target. It skips the test if pgbouncer is not installed.
func NewPooler(t testing.TB, target string) *Pooler {
	t.Helper()
	path := expect.Program(t, "pgbouncer", "pgbouncer")
	server := expect.Value(url.Parse(target))(t)
	password, _ := server.User.Password()
	dir := expect.Value(os.MkdirTemp("", "assay-pooler-"))(t) // another user can enter neither t.TempDir nor its parent
	p := &Pooler{file: filepath.Join(dir, "pgbouncer.ini"), socket: filepath.Join(dir, ".s.PGSQL.6432")}
	p.Addr = (&Proxy{network: "unix", target: p.socket}).start(t)
	settings := fmt.Sprintf(`[databases]
* = host=%s port=%s user=%s password=%s
[pgbouncer]
unix_socket_dir = %s
auth_type = any
pool_mode = transaction
default_pool_size = 2
server_reset_query = DISCARD ALL
server_reset_query_always = 1
max_client_conn = 1000
server_login_retry = 1
log_connections = 0
log_disconnections = 0
`, server.Hostname(), server.Port(), server.User.Username(), password, dir)
	expect.NoError(t, os.WriteFile(p.file, []byte(settings), 0o600))
	t.Cleanup(func() {
		p.Kill()
		expect.Error(t, "removing the folder", os.RemoveAll(dir), nil)
		if t.Failed() {
			lines := bytes.SplitAfter(p.log.Bytes(), []byte("\n"))
			lines = lines[max(0, len(lines)-20):]
			t.Logf("pgbouncer, %v, last logged:\n%s", p.cmd.ProcessState, bytes.Join(lines, nil))
		}
	})
	p.start(t, path)
	return p
}

// URL returns the address of target's database through the pooler.
func (p *Pooler) URL(t testing.TB, target string) string {
	t.Helper()
	u := expect.Value(url.Parse(target))(t)
	u.Host = p.Addr
	return u.String()
}

// Restart kills the pooler, with all its connections, and starts it again.
func (p *Pooler) Restart(t testing.TB) {
	t.Helper()
	p.Kill()
	p.start(t, p.cmd.Path)
}

func (p *Pooler) start(t testing.TB, path string) {
	t.Helper()
	p.cmd = exec.Command(path, p.file)
	p.cmd.Stderr = &p.log
	if os.Geteuid() == 0 { // which pgbouncer refuses to run as
		nobody := expect.Value(user.Lookup("nobody"))(t)
		uid, gid := expect.Value(strconv.Atoi(nobody.Uid))(t), expect.Value(strconv.Atoi(nobody.Gid))(t)
		expect.NoError(t, errors.Join(os.Chown(p.file, uid, gid), os.Chown(filepath.Dir(p.file), uid, gid)))
		p.cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
	}
	expect.NoError(t, p.cmd.Start())
	expect.Until(t, "pgbouncer to listen", func() bool {
		conn, err := net.Dial("unix", p.socket)
		if err == nil {
			conn.Close()
		}
		return err == nil
	})
}

// Crashed kills the pooler, and reports whether it had ended by itself.
func (p *Pooler) Crashed() bool {
	p.Kill()
	return p.cmd.ProcessState.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL
}

// Kill kills the pooler, with all its connections.
func (p *Pooler) Kill() {
	if p.cmd.Process == nil {
		return
	}
	_ = p.cmd.Process.Kill() // it may have ended
	_ = p.cmd.Wait()         // it was killed, or crashed
}
