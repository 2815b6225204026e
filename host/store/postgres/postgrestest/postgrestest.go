// Package postgrestest provides real databases to the tests of other packages. The function passed to Prepare fills
// them.
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
// The first call of Database starts the server, which all test processes of a user share: the last one that ends stops
// it. It does not wait for the disk, unless ASSAY_TEST_DISK is set or benchmarks run: a test of durability needs a
// server of its own. It is in memory if there is room and TMPDIR is not set. Without Postgres on the machine, Database
// skips the test.
// ASSAY_TEST_DATABASE_URL names a server to use instead; its role must be allowed to create databases.
// ASSAY_TEST_CITUS_URL names a database on the coordinator of a Citus cluster to use instead: its workers get the same
// databases. Prepare may distribute the tables of the template over them.
//
// A test that checks for leaked goroutines must call Database first and use goleak.IgnoreCurrent, because the
// goroutines of the server keep running.
package postgrestest

import (
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"assay/host/store/postgres"
)

// Time limits for work that has no test's context.
const (
	dayMargin  = time.Minute     // longer than most tests
	adminBound = 2 * time.Minute // a CREATE or DROP DATABASE
)

// server is the Postgres that this test process uses.
type server struct {
	mu       sync.Mutex
	serving  bool // Main is running
	prepare  func(ctx context.Context, url string) error
	content  func() (string, error) // see PrepareOnce; nil: the template is this process's own
	begun    bool                   // Database was called; the fields below are the outcome
	failed   error                  // why there are no databases
	nodes    []string               // addresses of the servers with the databases; tests connect to the first
	template string                 // the database that others are copied from
	shared   *shared                // nil: the environment names a server
}

// databases is global because TestMain cannot pass values to tests. go test runs each package in its own process.
var databases server

// Main runs the package's tests, leaves their server and returns the exit code.
func Main(m *testing.M) int {
	if dir := os.Getenv(watchEnv); dir != "" {
		return watch(dir)
	}
	databases.mu.Lock()
	databases.serving = true
	databases.mu.Unlock()
	if err := keepBusy(); err != nil {
		fmt.Fprintln(os.Stderr, "postgrestest: setting -parallel:", err)
		return 1
	}
	code := m.Run()
	if err := databases.stop(); err != nil {
		fmt.Fprintln(os.Stderr, "postgrestest:", err)
		code = max(code, 1)
	}
	return code
}

// keepBusy lets twice as many tests run at a time as there are processors, unless the command line says how many: tests
// with a database wait for the server half of the time.
func keepBusy() error {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if given {
		return nil
	}
	return flag.Set("test.parallel", strconv.Itoa(2*runtime.GOMAXPROCS(0)))
}

// Prepare sets a function that fills the template of all databases, for example with a schema. fn runs once, in the
// first call of Database, and must leave no connection open. Prepare must be called at most once, and before Database.
func Prepare(fn func(ctx context.Context, url string) error) { PrepareOnce(nil, fn) }

// PrepareOnce is Prepare for slow functions: fn runs once for all test processes with the same content. content returns
// lower-case letters and digits that identify the template that fn makes; it is called before fn.
func PrepareOnce(content func() (string, error), fn func(ctx context.Context, url string) error) {
	databases.mu.Lock()
	defer databases.mu.Unlock()
	if databases.begun || databases.prepare != nil {
		panic("postgrestest: Prepare called twice, or after Database")
	}
	databases.prepare, databases.content = fn, content
}

// Database creates a database, empty or as Prepare left it, returns its URL, and drops it after the test and its
// subtests. It skips the test if there is no Postgres. Tests may call it repeatedly and in parallel. Just before
// midnight, UTC, it waits for the next day, so that counts by day or month do not restart during the test.
func Database(t testing.TB) string {
	t.Helper()
	return database(t, func(template string) string { return template })
}

// Empty is Database without the content that Prepare added to the template.
func Empty(t testing.TB) string {
	t.Helper()
	return database(t, func(string) string { return "template0" })
}

func database(t testing.TB, from func(template string) string) string {
	t.Helper()
	nodes, template, err := databases.begin()
	if errors.Is(err, postgres.ErrNotInstalled) {
		t.Skipf("this test needs Postgres: %v", err)
	}
	if err != nil {
		t.Fatalf("starting the tests' Postgres: %v", err)
	}
	now := time.Now().UTC()
	if left := now.Truncate(24 * time.Hour).Add(24 * time.Hour).Sub(now); left < dayMargin {
		<-time.After(left) // counts by day or month restart
	}
	name := newName("test")
	if err := create(nodes, name, from(template)); err != nil {
		t.Fatalf("creating the test's database: %v", err)
	}
	t.Cleanup(func() {
		if err := drop(nodes, name); err != nil {
			t.Errorf("dropping the test's database: %v", err)
		}
	})
	return named(nodes[0], name)
}

// begin returns the servers' addresses and the template's name. The first call starts the server and fills the
// template.
func (s *server) begin() (nodes []string, template string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.serving {
		return nil, "", errors.New("the package has no TestMain that calls postgrestest.Main")
	}
	if !s.begun {
		s.begun = true
		s.failed = s.start()
		if s.failed == nil {
			s.failed = s.fill()
		}
	}
	return s.nodes, s.template, s.failed
}

// start sets the servers' addresses.
func (s *server) start() (err error) {
	for _, variable := range []string{"ASSAY_TEST_CITUS_URL", "ASSAY_TEST_DATABASE_URL"} {
		base := os.Getenv(variable)
		if base == "" {
			continue
		}
		if at, err := url.Parse(base); err != nil || at.Host == "" {
			return fmt.Errorf("%s is not of the form postgres://user:password@host:port/database", variable)
		}
		s.nodes = []string{base}
		if variable == "ASSAY_TEST_CITUS_URL" {
			s.nodes, err = citusNodes(base)
		}
		return err
	}
	if s.shared, err = join(); err != nil {
		return err
	}
	s.nodes = []string{s.shared.cluster.URL()}
	return nil
}

// fill creates the template and prepares it, unless another process has.
func (s *server) fill() (err error) {
	s.template = "template0"
	if s.prepare == nil {
		return nil
	}
	if s.content == nil || s.shared == nil {
		return s.fillNew(newName("template"))
	}
	content, err := s.content()
	if err != nil {
		return err
	}
	filling, err := Lock(filepath.Join(s.shared.dir, "tests.template"), syscall.LOCK_EX)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, filling.Close()) }()
	name := keptPrefix + content
	switch ready, err := s.shared.template(name); {
	case err != nil:
		return err
	case ready:
		s.template = name
		return nil
	}
	if err := admin(s.nodes[0], fmt.Sprintf("DROP DATABASE IF EXISTS %s WITH (FORCE)", name)); err != nil {
		return err
	}
	return s.fillNew(name)
}

// fillNew creates the template and prepares it.
func (s *server) fillNew(name string) error {
	if err := create(s.nodes, name, s.template); err != nil {
		return fmt.Errorf("creating the template: %w", err)
	}
	s.template = name
	if err := joinNodes(s.nodes, name); err != nil {
		return fmt.Errorf("joining the template's nodes: %w", err)
	}
	// This may compile, which takes any time on a busy machine; go test's own limit ends a hang.
	if err := s.prepare(context.Background(), named(s.nodes[0], name)); err != nil {
		return fmt.Errorf("preparing the template: %w", err)
	}
	// A connection left open by fn would make every copy fail.
	return onAll(s.nodes, fmt.Sprintf("ALTER DATABASE %s ALLOW_CONNECTIONS false", name),
		fmt.Sprintf("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '%s'", name))
}

// stop drops the template, and leaves the shared server.
func (s *server) stop() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.serving = false
	var errs []error
	if s.template != "" && s.template != "template0" && !strings.HasPrefix(s.template, keptPrefix) {
		errs = append(errs, drop(s.nodes, s.template))
	}
	kept.close()
	if s.shared != nil {
		errs = append(errs, s.shared.leave())
	}
	return errors.Join(errs...)
}

// keptPrefix begins the names of templates that serve several processes.
const keptPrefix = "assay_kept_"

// newName returns a random database name that needs no quoting.
func newName(prefix string) string { return "assay_" + prefix + "_" + strings.ToLower(rand.Text()) }

// named returns the address of another database on the server.
func named(base, database string) string {
	at, err := url.Parse(base)
	if err != nil {
		panic("postgrestest: parsing an address that was valid: " + err.Error())
	}
	at.Path = "/" + database
	return at.String()
}

// create creates a database as a copy of the template. A copy of a distributed database on each of its nodes is a
// distributed database: it has the same shards on the same nodes.
func create(nodes []string, name, template string) error {
	for _, base := range nodes {
		if err := onServer(base, func(ctx context.Context, conn *pgx.Conn) error {
			statement := fmt.Sprintf("CREATE DATABASE %s TEMPLATE %s", name, template)
			// Postgres 14 has only this strategy; the default of later ones takes twice as long.
			if version := conn.PgConn().ParameterStatus("server_version"); !strings.HasPrefix(version, "14") {
				statement += " STRATEGY file_copy"
			}
			_, err := conn.Exec(ctx, statement)
			return err
		}); err != nil {
			return err
		}
	}
	return nil
}

// drop drops a database even if connections to it are open.
func drop(nodes []string, name string) error {
	return onAll(nodes, fmt.Sprintf("DROP DATABASE %s WITH (FORCE)", name))
}

func onAll(nodes []string, statements ...string) error {
	for _, base := range nodes {
		if err := admin(base, statements...); err != nil {
			return err
		}
	}
	return nil
}

// citusNodes returns the addresses of a cluster's nodes, the coordinator's first.
func citusNodes(base string) (nodes []string, err error) {
	var hosts []string
	err = onServer(base, func(ctx context.Context, conn *pgx.Conn) error {
		rows, err := conn.Query(ctx,
			"SELECT nodename || ':' || nodeport FROM pg_dist_node WHERE isactive ORDER BY groupid")
		if err == nil {
			hosts, err = pgx.CollectRows(rows, pgx.RowTo[string])
		}
		return err
	})
	if err != nil || len(hosts) < 2 {
		return nil, fmt.Errorf("ASSAY_TEST_CITUS_URL names a database without workers: %w", err)
	}
	at, err := url.Parse(base)
	for _, host := range hosts {
		at.Host = host
		nodes = append(nodes, at.String())
	}
	return nodes, err
}

// joinNodes makes a cluster of the databases of one name on several nodes.
func joinNodes(nodes []string, name string) error {
	if len(nodes) == 1 {
		return nil
	}
	var databases, statements []string
	for i, base := range nodes {
		at, err := url.Parse(named(base, name))
		if err != nil {
			return err
		}
		databases = append(databases, at.String())
		call := "citus_add_node"
		if i == 0 {
			call = "citus_set_coordinator_host"
		}
		statements = append(statements, fmt.Sprintf("SELECT %s('%s', %s)", call, at.Hostname(), at.Port()))
	}
	if err := onAll(databases, "CREATE EXTENSION citus"); err != nil {
		return err
	}
	return admin(databases[0], statements...)
}

// admin runs statements one by one on a new connection.
func admin(base string, statements ...string) error {
	return onServer(base, func(ctx context.Context, conn *pgx.Conn) error {
		for _, statement := range statements {
			if _, err := conn.Exec(ctx, statement); err != nil {
				return fmt.Errorf("%s: %w", statement, err)
			}
		}
		return nil
	})
}

// onServer calls do with a connection that no other call uses meanwhile, and keeps it for later calls.
func onServer(base string, do func(ctx context.Context, conn *pgx.Conn) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), adminBound)
	defer cancel()
	conn := kept.take(base)
	if conn == nil || conn.Ping(ctx) != nil {
		var err error
		if conn, err = pgx.Connect(ctx, base); err != nil {
			return err
		}
	}
	if err := do(ctx, conn); err != nil {
		return errors.Join(err, conn.Close(ctx))
	}
	kept.add(base, conn)
	return nil
}
