package postgrestest

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"assay/host/store/postgres"
	"assay/registry/fault"
)

// Bounds of starting the server, which includes waiting for others that do, and of stopping it.
const (
	startBound = 4 * time.Minute
	stopBound  = 2 * time.Minute
)

// place returns the folder of the server, and its settings. The server is in memory if there is room, because creating
// and dropping databases is slow on a disk. It does not wait for the disk: only a crash of the machine could lose data,
// and then the cluster is made again. Benchmarks use the disk, as hosts do.
func place() (dir string, settings map[string]string) {
	name := fmt.Sprintf("assay-postgrestest-%d", os.Getuid())
	settings = map[string]string{"max_connections": "1000", "max_wal_size": "'256MB'"}
	bench := flag.Lookup("test.bench")
	if os.Getenv("ASSAY_TEST_DISK") != "" || bench != nil && bench.Value.String() != "" {
		return filepath.Join(os.TempDir(), name+"-disk"), settings
	}
	settings["fsync"], settings["full_page_writes"] = "off", "off"
	const memory, room = "/dev/shm", 2 << 30
	var free syscall.Statfs_t
	if os.Getenv("TMPDIR") == "" && syscall.Statfs(memory, &free) == nil && free.Bavail*uint64(free.Bsize) > room {
		return filepath.Join(memory, name), settings
	}
	return filepath.Join(os.TempDir(), name), settings
}

// shared is this process's use of the server that all test processes of a user share.
type shared struct {
	dir     string
	using   *os.File // locked (shared) by each test process
	cluster *postgres.Cluster
	watcher *exec.Cmd
	watched io.WriteCloser
}

// join starts the server, or joins it if it runs. Its folder remains, because creating a cluster takes longest.
func join() (s *shared, err error) {
	dir, settings := place()
	// If the tests run as root, the user that Postgres runs as must be able to enter.
	if err := errors.Join(os.MkdirAll(dir, 0o711), os.Chmod(dir, 0o711)); err != nil {
		return nil, err
	}
	starting, err := Lock(filepath.Join(dir, "tests.start"), syscall.LOCK_EX)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, starting.Close()) }()
	users := filepath.Join(dir, "tests.users")
	other, err := Lock(users, syscall.LOCK_EX|syscall.LOCK_NB)
	alone := err == nil
	switch {
	case alone:
		err = other.Close()
	case errors.Is(err, syscall.EWOULDBLOCK):
		err = nil
	}
	if err == nil && alone && crashed(dir) {
		err = remove(dir)
	}
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), startBound)
	defer cancel()
	s = &shared{dir: dir}
	if s.using, err = Lock(users, syscall.LOCK_SH); err != nil {
		return nil, err
	}
	if err := s.watch(dir); err != nil {
		return nil, err
	}
	s.cluster, err = postgres.Open(ctx, postgres.Config{Dir: dir, Offline: true})
	if err != nil && alone && !errors.Is(err, postgres.ErrNotInstalled) { // such as one of an older Postgres
		err = remove(dir)
		if err == nil {
			s.cluster, err = postgres.Open(ctx, postgres.Config{Dir: dir, Offline: true})
		}
	}
	if err == nil && alone {
		err = s.tidy(ctx, settings)
	}
	if err != nil {
		return nil, errors.Join(err, s.leave())
	}
	return s, nil
}

// Lock opens a file and locks it (how is of flock(2)). The lock ends when the file is closed, or with the process.
func Lock(path string, how int) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	for err = syscall.EINTR; errors.Is(err, syscall.EINTR); {
		err = syscall.Flock(int(file.Fd()), how)
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// ClusterDir returns the folder that holds the private Postgres of a data directory.
func ClusterDir(dir string) string {
	if elsewhere, err := os.ReadFile(filepath.Join(dir, "postgres.location")); err == nil {
		return strings.TrimSpace(string(elsewhere))
	}
	return dir
}

// crashed reports whether the cluster's Postgres ended without being stopped, such as when the machine crashed.
func crashed(dir string) bool {
	text, err := os.ReadFile(filepath.Join(ClusterDir(dir), "postgres", "postmaster.pid"))
	if err != nil {
		return false
	}
	line, _, _ := strings.Cut(string(text), "\n")
	pid, err := strconv.Atoi(line)
	return err != nil || errors.Is(syscall.Kill(pid, 0), syscall.ESRCH)
}

// remove removes the cluster of dir.
func remove(dir string) error {
	err := os.RemoveAll(filepath.Join(ClusterDir(dir), "postgres"))
	for _, name := range []string{"postgres.json", "postgres.location"} {
		if gone := os.Remove(filepath.Join(dir, name)); !errors.Is(gone, fs.ErrNotExist) {
			err = errors.Join(err, gone)
		}
	}
	return err
}

// template reports whether a template is ready, which means that nobody can connect: copying it requires that.
func (s *shared) template(name string) (ready bool, err error) {
	err = onServer(s.cluster.URL(), func(ctx context.Context, conn *pgx.Conn) error {
		return conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1 AND NOT datallowconn)",
			name).Scan(&ready)
	})
	return ready, err
}

// keptTemplates is how many templates of several processes remain when the tests of another version run.
const keptTemplates = 3

// tidy sets the server's settings, and drops the databases of processes that were killed and old templates.
func (s *shared) tidy(ctx context.Context, settings map[string]string) (err error) {
	conn, err := pgx.Connect(ctx, s.cluster.URL())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()
	rows, err := conn.Query(ctx, `SELECT datname FROM pg_database WHERE starts_with(datname, 'assay_') AND oid NOT IN
		(SELECT oid FROM pg_database WHERE starts_with(datname, $1) ORDER BY oid DESC LIMIT $2)`,
		keptPrefix, keptTemplates)
	if err != nil {
		return err
	}
	left, err := pgx.CollectRows(rows, pgx.RowTo[string])
	for _, name := range left {
		err = errors.Join(err, drop([]string{s.cluster.URL()}, name))
	}
	if err != nil {
		return err
	}
	for name, value := range settings {
		if _, err := conn.Exec(ctx, fmt.Sprintf("ALTER SYSTEM SET %s = %s", name, value)); err != nil {
			return err
		}
	}
	var connections string
	err = conn.QueryRow(ctx, "SHOW max_connections").Scan(&connections)
	if err != nil || connections == settings["max_connections"] {
		return err
	}
	// It is a new cluster, whose settings take effect with another start.
	if err := errors.Join(conn.Close(ctx), s.cluster.Close(ctx)); err != nil {
		return err
	}
	s.cluster, err = postgres.Open(ctx, postgres.Config{Dir: s.dir, Offline: true})
	return err
}

// watchEnv makes a test binary watch over the process that started it, which uses the cluster of the folder it names.
const watchEnv = "ASSAY_POSTGRESTEST_WATCH"

// watch starts a process that stops the server if this process was killed and was its last user.
func (s *shared) watch(dir string) (err error) {
	s.watcher = exec.Command(os.Args[0])
	s.watcher.Env = append(os.Environ(), watchEnv+"="+dir)
	if s.watched, err = s.watcher.StdinPipe(); err != nil {
		return err
	}
	return fault.Wrap(s.watcher.Start(), "starting the watcher")
}

// watch waits until standard input ends. If nothing was written to it, the process at the other end was killed.
func watch(dir string) (code int) {
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	if word, err := io.ReadAll(os.Stdin); err == nil && len(word) > 0 {
		return 0
	}
	ctx, cancel := context.WithTimeout(context.Background(), startBound)
	defer cancel()
	cluster, err := postgres.Open(ctx, postgres.Config{Dir: dir, Offline: true, Existing: true})
	if err == nil {
		err = cluster.Close(ctx)
	}
	if err != nil && !errors.Is(err, postgres.ErrNone) {
		return 1
	}
	return 0
}

// leave ends this process's use of the server.
func (s *shared) leave() error {
	ctx, cancel := context.WithTimeout(context.Background(), stopBound)
	defer cancel()
	var errs []error
	if s.cluster != nil {
		errs = append(errs, s.cluster.Close(ctx))
	}
	_, err := io.WriteString(s.watched, "done")
	return errors.Join(append(errs, err, s.watched.Close(), s.watcher.Wait(), s.using.Close())...)
}

// idle holds open connections that nobody uses, by address.
type idle struct {
	mu    sync.Mutex
	conns map[string][]*pgx.Conn
}

var kept = idle{conns: map[string][]*pgx.Conn{}}

// take removes a connection from those that are idle. It returns nil if there is none.
func (i *idle) take(base string) (conn *pgx.Conn) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if n := len(i.conns[base]); n > 0 {
		conn, i.conns[base] = i.conns[base][n-1], i.conns[base][:n-1]
	}
	return conn
}

func (i *idle) add(base string, conn *pgx.Conn) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.conns[base] = append(i.conns[base], conn)
}

func (i *idle) close() {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, conn := range slices.Concat(slices.Collect(maps.Values(i.conns))...) {
		_ = conn.Close(context.Background())
	}
}
