// Package postgrestest gives the tests of other packages real, empty databases.
//
//	func TestMain(m *testing.M) {
//		postgrestest.Prepare(migrations.Run)
//		os.Exit(postgrestest.Main(m))
//	}
//
//	func TestStore(t *testing.T) {
//		url := postgrestest.Database(t)
//		...
//	}
//
// The server is started by the first Database of the process, so tests that need none do not wait for one. Where there
// is no Postgres, Database skips the test. ASSAY_TEST_DATABASE_URL names a server to use instead of starting one; its
// role must be allowed to create databases.
//
// A test that checks for leaked goroutines calls Database first and passes goleak.IgnoreCurrent: the server's run on.
package postgrestest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"assay/host/postgres"

	"github.com/jackc/pgx/v5"
)

// Bounds of what is done outside any test's own context.
const (
	startBound   = 2 * time.Minute
	prepareBound = 2 * time.Minute
	stopBound    = time.Minute
	adminBound   = 30 * time.Second // one CREATE or DROP DATABASE
)

// server is the Postgres of this test process.
type server struct {
	mu       sync.Mutex
	serving  bool // Main runs
	prepare  func(ctx context.Context, url string) error
	begun    bool  // the first Database has come; what follows is its outcome
	failed   error // why there are no databases
	url      string
	template string // what databases are copies of
	cluster  *postgres.Cluster
	dir      string
	watcher  *exec.Cmd
	watched  io.WriteCloser
}

// shared is the process's: go test gives each package one process, and TestMain nothing to hand to its tests.
var shared server

// Main runs the package's tests and stops the server that they used. It returns the process's exit code.
func Main(m *testing.M) int {
	shared.mu.Lock()
	shared.serving = true
	shared.mu.Unlock()
	code := m.Run()
	if err := shared.stop(); err != nil {
		fmt.Fprintln(os.Stderr, "postgrestest:", err)
		code = max(code, 1)
	}
	return code
}

// Prepare has fn fill a database, with a schema say, that each Database is then a copy of. fn runs once in the process,
// at the first Database, and must leave no connection open. Call Prepare before that, and once.
func Prepare(fn func(ctx context.Context, url string) error) {
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.begun || shared.prepare != nil {
		panic("postgrestest: Prepare called twice, or after Database")
	}
	shared.prepare = fn
}

// Database returns the URL of a database of this test's own, empty or as Prepare left it, and drops it when the test
// and its subtests have ended. It skips the test where there is no Postgres. Tests may call it in parallel, and
// repeatedly.
func Database(t testing.TB) string {
	t.Helper()
	base, template, err := shared.begin()
	if errors.Is(err, postgres.ErrNotInstalled) {
		t.Skipf("this test needs Postgres: %v", err)
	}
	if err != nil {
		t.Fatalf("starting the tests' Postgres: %v", err)
	}
	name := newName("test")
	if err := create(base, name, template); err != nil {
		t.Fatalf("creating the test's database: %v", err)
	}
	t.Cleanup(func() {
		if err := drop(base, name); err != nil {
			t.Errorf("dropping the test's database: %v", err)
		}
	})
	return named(base, name)
}

// begin returns the server's address and the name of the template, starting the one and filling the other at first.
func (s *server) begin() (base, template string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.serving {
		return "", "", errors.New("the package has no TestMain that calls postgrestest.Main")
	}
	if !s.begun {
		s.begun = true
		s.failed = s.start()
		if s.failed == nil {
			s.failed = s.fill()
		}
	}
	return s.url, s.template, s.failed
}

// start finds the server's address, starting one in a temporary folder unless the environment names one.
func (s *server) start() error {
	if s.url = os.Getenv("ASSAY_TEST_DATABASE_URL"); s.url != "" {
		if at, err := url.Parse(s.url); err != nil || at.Host == "" {
			return errors.New("ASSAY_TEST_DATABASE_URL is not of the form postgres://user:password@host:port/database")
		}
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), startBound)
	defer cancel()
	var err error
	if s.dir, err = os.MkdirTemp("", "assay-postgrestest-"); err != nil {
		return err
	}
	// MkdirTemp's 0700 would keep out the user that Postgres runs as when the tests are root's.
	if err := os.Chmod(s.dir, 0o711); err != nil {
		return err
	}
	if err := s.watch(); err != nil {
		return err
	}
	if s.cluster, err = postgres.Open(ctx, postgres.Config{Dir: s.dir, Offline: true}); err != nil {
		return err
	}
	s.url = s.cluster.URL()
	return nil
}

// watchScript ends the Postgres of the data directory $1 when its standard input ends without a line: the test process
// is gone, by a timeout or kill -9, and stop was never called.
const watchScript = `trap '' INT TERM HUP QUIT
read -r line && exit 0
home=$(cat "$1/postgres.location" 2>/dev/null) || home=$1
pid=$(head -n 1 "$home/postgres/postmaster.pid" 2>/dev/null) && kill -INT "$pid"
for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
	[ -e "$home/postgres/postmaster.pid" ] || break
	sleep 1
done
rm -rf "$home" "$1"`

// watch starts what tidies up after this process should it be killed.
func (s *server) watch() (err error) {
	s.watcher = exec.Command("/bin/sh", "-c", watchScript, "postgrestest-watch", s.dir)
	if s.watched, err = s.watcher.StdinPipe(); err != nil {
		return err
	}
	if err := s.watcher.Start(); err != nil {
		return fmt.Errorf("starting the watcher: %w", err)
	}
	return nil
}

// fill makes the template.
func (s *server) fill() error {
	s.template = "template0"
	if s.prepare == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), prepareBound)
	defer cancel()
	name := newName("template")
	if err := create(s.url, name, s.template); err != nil {
		return fmt.Errorf("creating the template: %w", err)
	}
	s.template = name
	if err := s.prepare(ctx, named(s.url, name)); err != nil {
		return fmt.Errorf("preparing the template: %w", err)
	}
	// A connection that fn left open would make every copy fail.
	return admin(s.url, fmt.Sprintf("ALTER DATABASE %s ALLOW_CONNECTIONS false", name),
		fmt.Sprintf("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '%s'", name))
}

// stop ends what start began.
func (s *server) stop() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.serving = false
	ctx, cancel := context.WithTimeout(context.Background(), stopBound)
	defer cancel()
	var errs []error
	if s.cluster != nil {
		errs = append(errs, s.cluster.Close(ctx))
	} else if s.template != "" && s.template != "template0" {
		// The server is someone else's, and outlives this process.
		errs = append(errs, drop(s.url, s.template))
	}
	if s.dir != "" {
		home, err := os.ReadFile(filepath.Join(s.dir, "postgres.location"))
		if err == nil {
			errs = append(errs, os.RemoveAll(strings.TrimSpace(string(home))))
		}
		errs = append(errs, os.RemoveAll(s.dir))
	}
	if s.watcher != nil && s.watcher.Process != nil {
		_, err := io.WriteString(s.watched, "done\n")
		errs = append(errs, err, s.watcher.Wait())
	}
	return errors.Join(errs...)
}

// newName makes up a database name, which needs no quoting.
func newName(prefix string) string { return "assay_" + prefix + "_" + strings.ToLower(rand.Text()) }

// named returns the address of another database of the same server.
func named(base, database string) string {
	at, err := url.Parse(base)
	if err != nil {
		panic("postgrestest: address changed under us: " + err.Error())
	}
	at.Path = "/" + database
	return at.String()
}

// create makes a database as a copy of the template.
func create(base, name, template string) error {
	return admin(base, fmt.Sprintf("CREATE DATABASE %s TEMPLATE %s", name, template))
}

// drop removes a database, whoever is still connected to it.
func drop(base, name string) error {
	return admin(base, fmt.Sprintf("DROP DATABASE %s WITH (FORCE)", name))
}

// admin runs statements one by one on a connection of its own to the server's first database.
func admin(base string, statements ...string) error {
	ctx, cancel := context.WithTimeout(context.Background(), adminBound)
	defer cancel()
	conn, err := pgx.Connect(ctx, base)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	for _, statement := range statements {
		if _, err := conn.Exec(ctx, statement); err != nil {
			return fmt.Errorf("%s: %w", statement, err)
		}
	}
	return nil
}
