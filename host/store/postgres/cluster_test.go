//go:build linux || darwin

package postgres

import (
	"context"
	"errors"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"

	"assay/registry/expect"
)

// TestOrdinaryUser runs TestReopenKeepsData as another user, too.
func TestReopenKeepsData(t *testing.T) {
	t.Parallel()
	// A missing data directory below a link is created and resolved.
	parent := dataDir(t)
	link := filepath.Join(parent, "link")
	expect.NoError(t, os.Symlink(parent, link))
	// pg_ctl starts Postgres through a shell, which must not interpret the folder's name.
	const name = "it's $HOME `x` \"and\" $(y)"
	dir := filepath.Join(link, "data", name)
	var stages []string
	c := mustOpen(t, Config{Dir: dir, Progress: func(stage string) { stages = append(stages, stage) }})
	t.Cleanup(func() { mustBeGone(t, c.data) })
	expect.Equal(t, "the cluster's folder", c.data, filepath.Join(parent, "data", name, "postgres"))
	expect.NoDiff(t, "stages", []string{StageCreating, StageStarting}, stages)
	pid := mustRun(t, c)
	group, err := syscall.Getpgid(pid)
	expect.That(t, err == nil && group == pid,
		"Postgres is in process group %d (%v), want its own: a terminal's Ctrl-C must not reach it", group, err)
	for setting, want := range map[string]string{
		"listen_addresses": "127.0.0.1", "unix_socket_directories": "", "fsync": "on", "synchronous_commit": "on",
		"full_page_writes": "on", "checkpoint_timeout": "15min", "max_connections": "100", "shared_buffers": "128MB",
		"jit": "off", "TimeZone": "UTC",
		"server_encoding": "UTF8", "data_checksums": "on", "autovacuum": "on",
		"password_encryption": "scram-sha-256", "log_rotation_size": "10MB", "log_min_error_statement": "panic",
	} {
		expect.Equal(t, setting, ask(t, c.URL(), "SELECT current_setting('"+setting+"')"), want)
	}
	expect.Equal(t, "the collation",
		ask(t, c.URL(), "SELECT datcollate FROM pg_database WHERE datname = current_database()"), "C")
	info, err := os.Stat(c.path("json"))
	expect.That(t, err == nil && info.Mode() == 0o600, "postgres.json: %v, %v; its owner alone may read it", info, err)
	names, _ := filepath.Glob(filepath.Join(c.dir, "postgres.new-*"))
	expect.That(t, names == nil, "creating the cluster left %v, which contained the password", names)
	ask(t, c.URL(), "CREATE TABLE kept AS SELECT 'committed' AS text")
	first := c.URL()
	mustClose(t, c)
	mustBeGone(t, c.data)
	mustClose(t, c) // a second time does nothing

	again := mustOpen(t, Config{Dir: dir})
	expect.Equal(t, "the table after reopening", ask(t, again.URL(), "SELECT text FROM kept"), "committed")
	expect.That(t, again.URL() == first || taken(c.port),
		"the address changed from %s to %s, although the port is free", first, again.URL())
}

func TestPasswordIsRequired(t *testing.T) {
	t.Parallel()
	c := mustOpen(t, Config{Dir: existing(t)})
	address := expect.Value(url.Parse(c.URL()))(t)
	for name, credentials := range map[string]*url.Userinfo{
		"another password": url.UserPassword(User, "guess"),
		"another role":     url.UserPassword("postgres", c.record.Password),
	} {
		address.User = credentials
		if conn, err := pgx.Connect(t.Context(), address.String()); !rejected(err) {
			t.Errorf("%s: connecting: %v, want an error of class 28", name, err)
			if err == nil {
				_ = conn.Close(t.Context())
			}
		}
	}

	// Without postgres.json the password is unknown.
	mustClose(t, c)
	expect.NoError(t, os.Remove(c.path("json")))
	_, err := Open(patience(t), Config{Dir: c.dir, Offline: true})
	expect.ErrorText(t, "opening without postgres.json", err, "restore that file")
	// A wrong password fails immediately, and Postgres does not keep running.
	expect.NoError(t, (record{Password: "guess"}).write(c.path("json")))
	_, err = Open(patience(t), Config{Dir: c.dir, Offline: true})
	expect.That(t, rejected(err), "opening with another password: %v, want an error of class 28", err)
	mustBeGone(t, c.data)
}

func TestLastProcessStopsPostgres(t *testing.T) {
	t.Parallel()
	dir := existing(t)
	for name, othersFirst := range map[string]bool{
		"the process that started it leaves first": false, "the process that joined leaves first": true} {
		// The cases run one after the other because they share a cluster.
		t.Run(name, func(t *testing.T) {
			c := mustOpen(t, Config{Dir: dir})
			pid := mustRun(t, c)
			other := openElsewhere(t, dir)
			expect.Equal(t, "the address in the other process", other.url, c.URL())
			same := mustOpen(t, Config{Dir: dir}) // a second use in the same process counts, too
			if othersFirst {
				other.close(t)
				mustClose(t, same)
			} else {
				mustClose(t, c)
				mustClose(t, same)
			}
			expect.Equal(t, "the process of Postgres", mustRun(t, c), pid)
			expect.Equal(t, "the query", ask(t, other.url, "SELECT 'alive'"), "alive")
			if othersFirst {
				mustClose(t, c)
			} else {
				other.close(t)
			}
			mustBeGone(t, c.data)
		})
	}
}

func TestAdoptsAfterKill(t *testing.T) {
	t.Parallel()
	dir := existing(t)
	other := openElsewhere(t, dir)
	before, _, err := running(filepath.Join(dir, "postgres"))
	expect.Must(t, err == nil && before != 0, "Postgres does not run: %v", err)
	other.kill()
	c := mustOpen(t, Config{Dir: dir})
	expect.Equal(t, "the process of Postgres", mustRun(t, c), before)
	expect.Equal(t, "its address", c.URL(), other.url)
	mustClose(t, c)
	mustBeGone(t, c.data)
}

func TestPostgresKilledWhileInUse(t *testing.T) {
	t.Parallel()
	dir := existing(t)
	first := mustOpen(t, Config{Dir: dir})
	ask(t, first.URL(), "CREATE TABLE kept AS SELECT 'committed' AS text")
	idle := expect.Value(pgx.Connect(t.Context(), first.URL()))(t)
	defer func() { _ = idle.Close(context.Background()) }()
	// One of its processes does not notice, and keeps the shared memory attached.
	slow := int(idle.PgConn().PID())
	expect.NoError(t, syscall.Kill(slow, syscall.SIGSTOP))
	defer func() { _ = syscall.Kill(slow, syscall.SIGCONT) }()
	killPostmaster(t, first)

	// A process in another container cannot see Postgres, and must not conclude that it has ended.
	r := expect.Value(readRecord(first.path("json")))(t)
	here := r.Machine
	r.Machine = "another container"
	expect.NoError(t, r.write(first.path("json")))
	expect.ErrorText(t, "opening a cluster in use by another container",
		expect.ErrorOf(Open(patience(t), Config{Dir: dir, Offline: true})), "another machine or container")
	r.Machine = here
	expect.NoError(t, r.write(first.path("json")))

	bounded := patience(t)
	var waiting sync.WaitGroup
	defer waiting.Wait()
	waiting.Go(func() {
		err := poll(bounded, func() (bool, error) {
			output, err := os.ReadFile(first.path("log"))
			return strings.Contains(string(output), "pre-existing shared memory block"), err
		})
		expect.That(t, err == nil, "Postgres did not report the remaining process: %v", err)
		_ = syscall.Kill(slow, syscall.SIGCONT)
	})
	c := mustOpen(t, Config{Dir: dir})
	expect.That(t, c.URL() == first.URL() || taken(first.port), "Postgres restarted at %s, want %s", c.URL(),
		first.URL())
	expect.Equal(t, "the table after the crash", ask(t, c.URL(), "SELECT text FROM kept"), "committed")
}

func TestStalePidFile(t *testing.T) {
	t.Parallel()
	dir := existing(t)
	c := mustOpen(t, Config{Dir: dir})
	mustClose(t, c)
	// The program runs as the same user, because Postgres itself ignores the processes of other users.
	stranger := c.account.command(t.Context(), "/bin/cat")
	stdin := expect.Value(stranger.StdinPipe())(t)
	expect.NoError(t, stranger.Start())
	defer func() { _, _ = stdin.Close(), stranger.Wait() }()
	ended := exec.Command("/bin/cat")
	expect.NoError(t, ended.Run())
	rest := "\n" + c.data + "\n1700000000\n" + strconv.Itoa(c.port) + "\n\n127.0.0.1\n  1 1\nready   \n"
	for name, text := range map[string]string{
		"the number of another program": strconv.Itoa(stranger.Process.Pid) + rest,
		"the number of no program":      strconv.Itoa(ended.Process.Pid) + rest,
		"empty after a crash":           "",
	} {
		t.Run(name, func(t *testing.T) {
			expect.NoError(t, errors.Join(os.WriteFile(pidFile(c.data), []byte(text), 0o600),
				c.account.chown(pidFile(c.data))))
			again := mustOpen(t, Config{Dir: dir})
			mustRun(t, again)
			mustClose(t, again)
			expect.That(t, stranger.ProcessState == nil && syscall.Kill(stranger.Process.Pid, 0) == nil,
				"the other program was killed")
		})
	}

	// Another program has taken the port meanwhile.
	first := mustOpen(t, Config{Dir: dir})
	port := first.port
	mustClose(t, first)
	if listener, err := net.Listen("tcp4", "127.0.0.1:"+strconv.Itoa(port)); err == nil { // else it is taken already
		defer func() { _ = listener.Close() }()
	}
	second := mustOpen(t, Config{Dir: dir})
	expect.That(t, second.port != port, "Postgres reports the port %d, on which another program listens", port)
	ask(t, second.URL(), "SELECT 'alive'")
}

func TestNoneIsCreated(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	expect.Error(t, "opening", expect.ErrorOf(Open(t.Context(), Config{Dir: dir, Existing: true})), ErrNone)
	expect.Equal(t, "new files", len(expect.Value(os.ReadDir(dir))(t)), 0)
}

func TestConnectsOnlyToItsOwnPostgres(t *testing.T) {
	t.Parallel()
	c := mustOpen(t, Config{Dir: existing(t)})
	other := mustOpen(t, Config{Dir: existing(t)}) // a copy, with the same password
	wrong := Cluster{data: c.data, port: other.port, record: c.record}
	expect.ErrorText(t, "connecting to the Postgres of another folder", wrong.connect(t.Context()),
		"it serves "+other.data)
}

func TestPasswordIsNotSentInClear(t *testing.T) {
	t.Parallel()
	listener := expect.Value(net.Listen("tcp4", "127.0.0.1:0"))(t)
	defer func() { _ = listener.Close() }()
	received := make(chan []byte, 1)
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			received <- []byte(err.Error())
			return
		}
		defer func() { _ = conn.Close() }()
		_, _ = conn.Read(make([]byte, 1024))
		_, _ = conn.Write([]byte{'R', 0, 0, 0, 8, 0, 0, 0, 3}) // AuthenticationCleartextPassword
		rest, _ := io.ReadAll(conn)
		received <- rest
	}()
	c := Cluster{port: listener.Addr().(*net.TCPAddr).Port, record: record{Password: "SECRET"}}
	expect.That(t, c.connect(t.Context()) != nil, "connect accepted another program on the port")
	got := <-received
	expect.That(t, !strings.Contains(string(got), "SECRET"), "another program on the port received %q", got)
}

func TestOpenStopsWithItsContext(t *testing.T) {
	t.Parallel()
	t.Run("waiting for another process", func(t *testing.T) {
		t.Parallel()
		dir := reachable(t)
		busy := expect.Value(openLock(filepath.Join(dir, "postgres.start")))(t)
		defer busy.release()
		expect.Must(t, expect.Value(busy.try(syscall.LOCK_EX))(t), "the lock is taken")
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var stages []string
		_, err := Open(ctx, Config{Dir: dir, Offline: true, Progress: func(stage string) {
			stages = append(stages, stage)
			cancel()
		}})
		expect.That(t, errors.Is(err, context.Canceled) && slices.Equal(stages, []string{StageWaiting}),
			"Open = %v after the stages %v", err, stages)
	})
	for stage, newDir := range map[string]func(*testing.T) string{StageCreating: dataDir, StageStarting: existing} {
		t.Run(stage, func(t *testing.T) {
			t.Parallel()
			dir := newDir(t)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			_, err := Open(ctx, Config{Dir: dir, Offline: true, Progress: func(s string) {
				if s == stage {
					cancel()
				}
			}})
			expect.Error(t, "Open", err, context.Canceled)
			noProcess(t, dir)
			// The interrupted attempt does not prevent the next one.
			mustRun(t, mustOpen(t, Config{Dir: dir}))
		})
	}
}

// A supervised Postgres that is killed runs again on its port, and committed data is there.
func TestSupervisedPostgresIsStartedAgain(t *testing.T) {
	t.Parallel()
	c := mustOpen(t, Config{Dir: existing(t), Supervise: true})
	ask(t, c.URL(), "CREATE TABLE kept AS SELECT 'committed' AS text")
	killPostmaster(t, c)
	expect.Until(t, "Postgres to run again", func() bool {
		conn, err := pgx.Connect(t.Context(), c.URL())
		if err == nil {
			err = conn.Close(t.Context())
		}
		return err == nil
	})
	expect.Equal(t, "kept data", ask(t, c.URL(), "SELECT text FROM kept"), "committed")
	mustClose(t, c)
	mustBeGone(t, c.data)
}

// A process that closes while it starts Postgres again does not take it from the others.
func TestClosingKeepsARestart(t *testing.T) {
	t.Parallel()
	supervising := mustOpen(t, Config{Dir: existing(t), Supervise: true})
	other := mustOpen(t, Config{Dir: supervising.dir})
	killPostmaster(t, supervising)
	expect.Until(t, "the end of Postgres to be noticed", func() bool { return len(supervising.Problems()) > 0 })
	mustClose(t, supervising)
	expect.Equal(t, "answer", ask(t, other.URL(), "SELECT 'here'"), "here")
	mustClose(t, other)
	mustBeGone(t, other.data)
}
